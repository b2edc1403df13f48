//! `[tools.NAME.observe]` and `[tools.NAME.seal]`: how to find out whether a call took effect.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use settled_observers::{Command, Condition, Http, Pointer, Reading, Secret, Shape, Source, Sql, Way, Where};
use toml::Spanned;

use super::Wrong;
use super::place::{Table, member};

/// How to find out whether a call took effect, or to see to it that it never will.
#[derive(Clone, Debug, PartialEq)]
pub struct Observe {
    /// What to ask.
    pub ask: Ask,
    /// How to read the answer.
    pub reading: Reading,
    /// How long one answer may take.
    pub timeout: Duration,
    /// How long a caller waits for it before it is told "unknown".
    pub within: Duration,
    /// The longest wait before the second question; each one doubles it.
    pub every: Duration,
    /// The longest wait between two.
    pub at_most_every: Duration,
    /// How many questions may tell nothing before a person is asked.
    pub checks: u32,
}

/// What to ask.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Another tool of the same server.
    Tool {
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: Shape,
        /// It may be asked although the server does not say that it only reads.
        allow_unannotated: bool,
    },
    /// Something else.
    Way(Way),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ObserveTable {
    tool: Option<Spanned<String>>,
    http: Option<Spanned<String>>,
    sql: Option<Spanned<String>>,
    command: Option<Spanned<Vec<String>>>,
    arguments: Option<Spanned<BTreeMap<String, Value>>>,
    headers: Option<Spanned<BTreeMap<String, String>>>,
    database: Option<Spanned<String>>,
    parameters: Option<Spanned<Vec<Value>>>,
    applied: Option<Spanned<Value>>,
    not_applied: Option<Spanned<Value>>,
    sealed: Option<Spanned<Value>>,
    result: Option<Spanned<String>>,
    allow_unannotated: Option<Spanned<bool>>,
    timeout: Option<Spanned<String>>,
    within: Option<Spanned<String>>,
    every: Option<Spanned<String>>,
    at_most_every: Option<Spanned<String>>,
    checks: Option<Spanned<u32>>,
}

impl ObserveTable {
    /// The tool that it asks, and where that is written.
    pub(super) fn tool(&self) -> Option<(&str, std::ops::Range<usize>)> {
        self.tool.as_ref().map(|tool| (tool.get_ref().as_str(), tool.span()))
    }
}

/// What the table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Observe,
    Seal,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Observe => "observe",
            Role::Seal => "seal",
        }
    }

    fn place(self) -> Where {
        match self {
            Role::Observe => Where::Observation,
            Role::Seal => Where::Seal,
        }
    }

    fn ways(self) -> &'static str {
        match self {
            Role::Observe => "`tool`, `http`, `sql` or `command`",
            // What only reads can't seal anything.
            Role::Seal => "`tool` or `command`",
        }
    }
}

/// `of`: the name of the tool's table.
pub(super) fn check(of: &str, tool: &str, role: Role, spanned: Spanned<ObserveTable>) -> Result<Observe, Wrong> {
    let table = Table::new(format!("{of}.{}", role.name()), spanned.span());
    let mut own = spanned.into_inner();
    if role == Role::Seal {
        let problem = "only reads: tell the tool by `tool` or `command`";
        table.refuse([member("http", &own.http), member("sql", &own.sql)], problem)?;
        let problem = "has no meaning in a seal, which answers `applied` or `sealed`: leave it out";
        table.refuse([member("not_applied", &own.not_applied)], problem)?;
        let problem = "has no meaning in a seal, which is more than a read anyway: leave it out";
        table.refuse([member("allow_unannotated", &own.allow_unannotated)], problem)?;
    } else {
        let problem = "belongs to a `seal` table: leave it out";
        table.refuse([member("sealed", &own.sealed)], problem)?;
    }
    let ask = ask(&table, tool, role, &mut own)?;
    let about = |name: &str| ask.uses(name);
    match role {
        Role::Observe if !about("") => {
            let problem = "asks the same about every call: name what is asked about by a placeholder, such as \
                           `{order_id}` (an argument of the call) or `{$key}`";
            return Err(table.lacks(ask.member(), problem));
        }
        Role::Seal => {
            if let Some(missing) = ["$key", "$attempt", "$scope"].into_iter().find(|name| !about(name)) {
                let problem =
                    format!("does not say `{{{missing}}}`: a seal must name the operation, the attempt and the scope");
                return Err(table.lacks(ask.member(), problem));
            }
        }
        Role::Observe => {}
    }
    let reading = reading(&table, role, &ask, &mut own)?;
    let timeout = table.span("timeout", &own.timeout)?.unwrap_or(Duration::from_secs(10));
    let within = table.span("within", &own.within)?.unwrap_or(Duration::from_secs(30));
    let every = table.span("every", &own.every)?.unwrap_or(Duration::from_secs(1));
    let at_most_every = table.span("at_most_every", &own.at_most_every)?.unwrap_or(Duration::from_secs(600).max(every));
    if let Some(at) = own.at_most_every.as_ref().or(own.every.as_ref())
        && at_most_every < every
    {
        return Err(table.wrong(at.span(), "at_most_every", "must not be shorter than `every`"));
    }
    let checks = table.count("checks", &own.checks)?.unwrap_or(12);
    Ok(Observe { ask, reading, timeout, within, every, at_most_every, checks })
}

impl Ask {
    /// Whether it names this placeholder; of an empty name: any.
    pub(super) fn uses(&self, name: &str) -> bool {
        match self {
            Ask::Tool { arguments, .. } => arguments.uses(name),
            Ask::Way(way) => way.uses(name),
        }
    }

    fn member(&self) -> &'static str {
        match self {
            Ask::Tool { .. } => "tool",
            Ask::Way(Way::Http(_)) => "http",
            Ask::Way(Way::Sql(_)) => "sql",
            Ask::Way(Way::Command(_)) => "command",
        }
    }

    fn source(&self) -> Source {
        match self {
            Ask::Tool { .. } => Source::McpTool,
            Ask::Way(Way::Http(_)) => Source::Http,
            Ask::Way(Way::Sql(_)) => Source::Sql,
            Ask::Way(Way::Command(_)) => Source::Command,
        }
    }
}

fn ask(table: &Table, tool: &str, role: Role, own: &mut ObserveTable) -> Result<Ask, Wrong> {
    let ways = [
        member("tool", &own.tool),
        member("http", &own.http),
        member("sql", &own.sql),
        member("command", &own.command),
    ];
    let mut named = ways.into_iter().filter_map(|(name, place)| Some((name, place?)));
    let Some((way, at)) = named.next() else {
        return Err(
            table.lacks(role.ways().split('`').nth(1).unwrap_or("tool"), format!("is missing: write {}", role.ways()))
        );
    };
    if let Some((other, at)) = named.next() {
        return Err(table.wrong(at, other, format!("can't be written beside `{way}`: ask in one way")));
    }
    let members = [
        ("tool", member("arguments", &own.arguments)),
        ("tool", member("allow_unannotated", &own.allow_unannotated)),
        ("http", member("headers", &own.headers)),
        ("sql", member("database", &own.database)),
        ("sql", member("parameters", &own.parameters)),
    ];
    for (of, member) in members {
        if of != way {
            table.refuse([member], &format!("belongs to `{of}`: leave it out"))?;
        }
    }
    let wrong = |error: settled_observers::Unusable| table.wrong(at.clone(), way, error.to_string());
    Ok(match way {
        "tool" => {
            let name = table.text("tool", own.tool.take(), "a tool of the server")?.unwrap_or_default();
            if name == tool {
                let problem = match role {
                    Role::Observe => "is the tool itself: to ask it would be to do it again",
                    Role::Seal => "is the tool itself: sealing needs another one",
                };
                return Err(table.wrong(at, way, problem));
            }
            let Some(arguments) = own.arguments.take() else {
                let problem = "is missing: say which call is meant, as in `{ order_id = \"{order_id}\" }`";
                return Err(table.lacks("arguments", problem));
            };
            let at = arguments.span();
            let values = Value::Object(arguments.into_inner().into_iter().collect());
            let arguments =
                Shape::parse(values, role.place()).map_err(|error| table.wrong(at, "arguments", error.to_string()))?;
            let allow_unannotated = own.allow_unannotated.as_ref().is_some_and(|allow| *allow.get_ref());
            Ask::Tool { name, arguments, allow_unannotated }
        }
        "http" => {
            let url = own.http.take().map(Spanned::into_inner).unwrap_or_default();
            let headers = own.headers.take().map(Spanned::into_inner).unwrap_or_default();
            let headers = headers.into_iter().map(|(name, value)| (name, Secret::new(value)));
            Ask::Way(Way::Http(Http::parse(&url, headers).map_err(wrong)?))
        }
        "sql" => {
            let statement = own.sql.take().map(Spanned::into_inner).unwrap_or_default();
            let Some(database) = own.database.take() else {
                let problem = "is missing: write `postgres://…`, `sqlite:` and a path, or `env:NAME` for a variable that holds it";
                return Err(table.lacks("database", problem));
            };
            let parameters = own.parameters.take().map(Spanned::into_inner).unwrap_or_default();
            let database = Secret::new(database.into_inner());
            Ask::Way(Way::Sql(Sql::parse(&statement, database, parameters).map_err(wrong)?))
        }
        _ => {
            let words = own.command.take().map(Spanned::into_inner).unwrap_or_default();
            Ask::Way(Way::Command(Command::parse(&words, role.place()).map_err(wrong)?))
        }
    })
}

fn reading(table: &Table, role: Role, ask: &Ask, own: &mut ObserveTable) -> Result<Reading, Wrong> {
    let source = ask.source();
    let conditions = |name: &str, value: Option<Spanned<Value>>, without: Option<Vec<Condition>>| match value {
        Some(value) => {
            let at = value.span();
            Condition::parse(value.into_inner(), source).map_err(|error| table.wrong(at, name, error.to_string()))
        }
        None => without.ok_or_else(|| {
            let example = match source {
                Source::Command => "{ exit = 0 }",
                _ => "{ at = \"/structuredContent/status\", is = \"charged\" }",
            };
            table.lacks(name, format!("is missing: say which answers mean that, as in `{example}`"))
        }),
    };
    let defaults = match (ask, role) {
        (Ask::Way(Way::Http(_)), Role::Observe) => Some((Http::applied(), Http::not_applied())),
        (Ask::Way(Way::Sql(_)), Role::Observe) => Some((Sql::applied(), Sql::not_applied())),
        (Ask::Way(Way::Command(_)), Role::Observe) => Some((Command::applied(), Command::not_applied())),
        _ => None,
    };
    let (by_default, not_by_default) = defaults.unzip();
    let applied = conditions("applied", own.applied.take(), by_default)?;
    let (not_applied, sealed) = match role {
        Role::Observe => (conditions("not_applied", own.not_applied.take(), not_by_default)?, Vec::new()),
        Role::Seal => (Vec::new(), conditions("sealed", own.sealed.take(), None)?),
    };
    let result = own
        .result
        .take()
        .map(|value| Pointer::parse(value.get_ref()).map_err(|problem| table.wrong(value.span(), "result", problem)));
    Ok(Reading { applied, not_applied, sealed, result: result.transpose()? })
}

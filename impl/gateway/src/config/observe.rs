//! `[routes.observe]`: how to find out whether a request whose answer was lost took effect.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use settled_observers::{Command, Condition, Http, Pointer, Reading, Secret, Source, Sql, Way, Where};

use super::span;
use super::value::Span;

/// How to find out whether a request took effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Observe {
    /// How to ask.
    pub way: Way,
    /// How to read the answer.
    pub reading: Reading,
    /// How long one answer may take.
    pub timeout: Duration,
    /// The longest wait before the second question; each one doubles it.
    pub every: Duration,
    /// How many questions may tell nothing before a person is asked.
    pub checks: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ObserveTable {
    http: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    sql: Option<String>,
    database: Option<String>,
    #[serde(default)]
    parameters: Vec<Value>,
    command: Option<Vec<String>>,
    applied: Option<Value>,
    not_applied: Option<Value>,
    result: Option<String>,
    timeout: Option<Span>,
    every: Option<Span>,
    checks: Option<super::value::Count>,
}

impl ObserveTable {
    pub(super) fn check(self) -> Result<Observe, String> {
        let wrong = |error: settled_observers::Unusable| format!("`observe` can't be used: {error}");
        let (way, source, applied, not_applied) = match (self.http, self.sql, self.command) {
            (Some(url), None, None) => {
                let headers = self.headers.into_iter().map(|(name, value)| (name, Secret::new(value)));
                let http = Http::parse(&url, headers).map_err(wrong)?;
                (Way::Http(http), Source::Http, Http::applied(), Http::not_applied())
            }
            (None, Some(statement), None) => {
                let Some(database) = self.database else {
                    return Err(
                        "`observe.database` is missing: write `postgres://…`, `sqlite:` and a path, or `env:NAME`"
                            .into(),
                    );
                };
                let sql = Sql::parse(&statement, Secret::new(database), self.parameters).map_err(wrong)?;
                (Way::Sql(sql), Source::Sql, Sql::applied(), Sql::not_applied())
            }
            (None, None, Some(words)) => {
                let command = Command::parse(&words, Where::Observation).map_err(wrong)?;
                (Way::Command(command), Source::Command, Command::applied(), Command::not_applied())
            }
            _ => return Err("`observe` asks in one way: write `http`, `sql` or `command`".into()),
        };
        if !way.uses("") {
            return Err(
                "`observe` asks the same about every request: name what is asked about by a placeholder, such as \
                        `{body.order_id}` or `{$key}`"
                    .into(),
            );
        }
        let conditions = |name: &str, value: Option<Value>, without: Vec<Condition>| match value {
            Some(value) => Condition::parse(value, source).map_err(|error| format!("`observe.{name}` {error}")),
            None => Ok(without),
        };
        let result = self.result.map(|at| Pointer::parse(&at).map_err(|problem| format!("`observe.result` {problem}")));
        Ok(Observe {
            way,
            reading: Reading {
                applied: conditions("applied", self.applied, applied)?,
                not_applied: conditions("not_applied", self.not_applied, not_applied)?,
                sealed: Vec::new(),
                result: result.transpose()?,
            },
            timeout: span(self.timeout, Duration::from_secs(10)),
            every: span(self.every, Duration::from_secs(1)),
            checks: self.checks.map_or(12, |checks| checks.0),
        })
    }
}

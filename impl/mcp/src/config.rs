//! `settled.toml`: what the user declares about a server's tools.
//!
//! Everything is checked when the file is read: what it means is never guessed, and what contradicts itself is refused
//! with the place and the reason.
//!
//! # The whole file
//!
//! | field | says |
//! | --- | --- |
//! | `scope` | the scope of all keys; without it, one for the server's command and directory |
//! | `ledger` | the ledger: a directory, or a URL |
//! | `lease = "15s"` | how long this process counts as the owner of what it has sent without renewing that |
//! | `in_progress = "wait"` | a call that is under way already is waited for; `"answer"`: for `patience` only, then the caller is told that it is in progress |
//! | `metrics = "127.0.0.1:9464"` | where to serve what is counted, for Prometheus |
//! | `[defaults]` | `window`, `timeout`, `repeat`, `slow_answer`, `retry_doubt` for tools that don't say otherwise |
//! | `[retries]` | `budget = "10%"` of the requests may be retries, of all processes on the ledger together, and `burst = 100` at once |
//! | `[tools.NAME]` | a tool, as follows |
//!
//! # `[tools.NAME]`
//!
//! | field | says |
//! | --- | --- |
//! | `guard` | `false`: passed on as it is |
//! | `kind` | `opaque`, `observable`, `sealable`, `deduplicates`; `idempotent` and `read-only` are passed on as they are |
//! | `key` | the arguments that name the operation |
//! | `repeat` | `replay` or `new-after-delivery` |
//! | `timeout` | how long one attempt's answer is waited for |
//! | `call_timeout` | how long a call waits at all before it is told how things stand |
//! | `attempts`, `total` | at most so many attempts, and none later than this after the call |
//! | `errors = "final"` | every error of the tool means that nothing happened |
//! | `final_errors` | conditions on its answer that mean: nothing happened, and asking again is of no use |
//! | `busy_errors`, `retry_after_at` | … but it may when it is asked again; where it says after how many seconds |
//! | `window` | how long after it ended an operation is replayed; not shorter than `retry_horizon` (without it, `timeout`) |
//! | `expired`, `tombstone` | what becomes of a call after that: `refuse` it for as long as `tombstone` (30 days), or take it as `new`. Without it: refuse the caller's own keys, take derived ones as new |
//! | `pass_key_as` | the argument under which the tool expects the key |
//! | `limit`, `margin` | `deduplicates`: how long it remembers a key, and how late a copy can arrive |
//! | `settling` | `observable`: how long after it was sent an effect can still appear |
//! | `pass_attempt_as` | `sealable`: the argument under which it expects the attempt's number |
//! | `resource`, `queue_timeout` | calls with the same resource run one at a time, in order; how long one waits for it |
//! | `outside`, `irrevocable`, `exclusive` | its effect is outside, can't be undone, must not overlap with another (without a `resource`, the tool itself is one): two of these need a `resource` and a way to find out, or `opaque = "ask"` |
//!
//! # `[tools.NAME.observe]`, `[tools.NAME.seal]`
//!
//! One of `tool` with `arguments`, `http` with `headers`, `sql` with `database` and `parameters`, or `command`; a seal is a `tool`
//! or a `command`. Placeholders in them: [`settled_observers::Template`]'s. `env:NAME` in a header or as the database is
//! that environment variable. Then:
//!
//! | field | says |
//! | --- | --- |
//! | `applied`, `not_applied`, `sealed` | conditions on the answer, one or a list of which one must hold |
//! | `result` | where in the answer is what the caller is told |
//! | `allow_unannotated` | the tool may be asked although the server does not say whether it only reads |
//! | `timeout` | how long one answer may take |
//! | `within` | how long a caller waits before it is told "unknown"; asking goes on |
//! | `every`, `at_most_every` | the longest wait before the second question, which each one doubles, and the longest at all |
//! | `checks` | how many questions may tell nothing before a person is asked |
//!
//! A condition is a table of which all members must hold: `status` (HTTP), `exit` (command), `rows` (SQL: a number, `some` or
//! `none`), `code` (JSON-RPC error), and `at` (a JSON pointer, also into text that is JSON) with `is`, `exists` or `contains`. Without
//! a declaration, an HTTP 2xx is "applied" and 404 is "not applied"; so are rows and no row; and so are exit status 0, and 1
//! with nothing on the standard error stream. Whatever fails, or fits no condition, says nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use settled::RetryBudget;
use settled_protocol::{Key, composite_id};
use toml::Spanned;

mod answers;
mod care;
mod error;
mod kind;
mod observe;
mod place;
mod process;
mod retention;
mod tool;

pub use answers::Answers;
pub use error::ConfigError;
pub use kind::Kind;
pub use observe::{Ask, Observe};
pub use retention::Retention;
pub use tool::ToolConfig;

use process::RetriesTable;
use tool::ToolTable;

/// What a repeated call means when its key was derived from its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// `repeat = "replay"`: a repeat is a retry, and gets the recorded answer until the window is over.
    Replay,
    /// `repeat = "new-after-delivery"`: once an answer has reached the client, the same call is a new wish.
    NewAfterDelivery,
}

/// The settings of `[defaults]`, or what holds without them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// How long after it ended an operation is still replayed.
    pub window: Duration,
    /// How long an answer is waited for before the outcome counts as unknown.
    pub timeout: Duration,
    /// What a repeat means; `None`: as the tool's annotations suggest.
    pub repeat: Option<Repeats>,
    /// An answer that took longer than this may have come too late for a client that gives up without saying so.
    pub slow_answer: Duration,
    /// How long after a slow answer the same call is taken for a retry.
    pub retry_doubt: Duration,
}

impl Default for Defaults {
    /// A window of 24 hours, a timeout of 10 minutes; answers are slow after 1 second, and doubted for 10.
    fn default() -> Self {
        Defaults {
            window: Duration::from_secs(24 * 60 * 60),
            timeout: Duration::from_secs(10 * 60),
            repeat: None,
            slow_answer: Duration::from_secs(1),
            retry_doubt: Duration::from_secs(10),
        }
    }
}

/// A checked configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The scope of all keys; `None`: derived from the server's command.
    pub scope: Option<String>,
    /// The ledger: a directory or a URL. What the client is told of an unknown outcome names it, for the person who will look.
    pub ledger: Option<String>,
    /// How long this process counts as the owner of what it has sent without renewing that; `None`: the default.
    pub lease: Option<Duration>,
    /// How long a caller waits for an attempt that is under way already; `None`: until there is an answer.
    pub patience: Option<Duration>,
    /// Where to serve what is counted; `None`: nowhere.
    pub metrics: Option<SocketAddr>,
    /// The retry budget of all processes on the ledger.
    pub retries: RetryBudget,
    /// What holds for tools that don't say otherwise.
    pub defaults: Defaults,
    /// The declared tools, by name.
    pub tools: BTreeMap<String, Arc<ToolConfig>>,
}

impl Config {
    /// Reads and checks a configuration file.
    ///
    /// # Errors
    /// [`ConfigError`], which names the file, the line, the field and what is allowed there.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { file: path.to_path_buf(), source })?;
        Config::parse(path, &text)
    }

    /// Checks a configuration's text; `path` is only named in errors.
    ///
    /// # Errors
    /// As [`load`](Config::load).
    pub fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
        let file: File = toml::from_str(text).map_err(|error| ConfigError::syntax(path, text, error))?;
        file.check().map_err(|wrong| ConfigError::wrong(path, text, wrong))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scope: Option<Spanned<String>>,
    ledger: Option<Spanned<String>>,
    lease: Option<Spanned<String>>,
    in_progress: Option<Spanned<String>>,
    patience: Option<Spanned<String>>,
    metrics: Option<Spanned<String>>,
    #[serde(default)]
    retries: RetriesTable,
    #[serde(default)]
    defaults: DefaultsTable,
    #[serde(default)]
    tools: BTreeMap<String, Spanned<ToolTable>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DefaultsTable {
    window: Option<Spanned<String>>,
    timeout: Option<Spanned<String>>,
    repeat: Option<Spanned<String>>,
    slow_answer: Option<Spanned<String>>,
    retry_doubt: Option<Spanned<String>>,
}

/// A value that is well-formed but can't be accepted.
struct Wrong {
    span: Range<usize>,
    field: String,
    problem: String,
}

impl Wrong {
    fn new(span: Range<usize>, field: impl Into<String>, problem: impl Into<String>) -> Wrong {
        Wrong { span, field: field.into(), problem: problem.into() }
    }
}

impl File {
    fn check(self) -> Result<Config, Wrong> {
        let scope = self.scope.map(check_scope).transpose()?;
        let ledger = self.ledger.map(check_ledger).transpose()?;
        let lease = self.lease.map(process::check_lease).transpose()?;
        let patience = process::check_patience(self.in_progress, self.patience)?;
        let metrics = self.metrics.map(process::check_metrics).transpose()?;
        let retries = self.retries.check()?;
        let defaults = self.defaults.check()?;
        let asked: Vec<(String, String, Range<usize>)> = self
            .tools
            .iter()
            .filter_map(|(name, table)| {
                let (observer, at) = table.get_ref().observe.as_ref()?.get_ref().tool()?;
                Some((format!("tools.{name}.observe.tool"), observer.to_owned(), at))
            })
            .collect();
        let tools: BTreeMap<String, Arc<ToolConfig>> = self
            .tools
            .into_iter()
            .map(|(name, table)| {
                let tool = tool::check(&name, table, &defaults)?;
                Ok((name, Arc::new(tool)))
            })
            .collect::<Result<_, Wrong>>()?;
        for (field, observer, at) in asked {
            if tools.get(&observer).is_some_and(|tool| tool.kind != Kind::Passed) {
                let problem = format!(
                    "names `{observer}`, which is declared as a tool to be guarded: an observer must not change anything"
                );
                return Err(Wrong::new(at, field, problem));
            }
        }
        Ok(Config { scope, ledger, lease, patience, metrics, retries, defaults, tools })
    }
}

impl DefaultsTable {
    fn check(self) -> Result<Defaults, Wrong> {
        let or = |name: &str, value: Option<Spanned<String>>, default| match value {
            Some(value) => span(&format!("defaults.{name}"), &value),
            None => Ok(default),
        };
        let without = Defaults::default();
        let places = [self.window.clone(), self.timeout.clone()];
        let window = or("window", self.window, without.window)?;
        let timeout = or("timeout", self.timeout, without.timeout)?;
        retention::check_defaults(window, timeout, places.each_ref())?;
        Ok(Defaults {
            window,
            timeout,
            repeat: self.repeat.map(|value| repeats("defaults.repeat", &value)).transpose()?,
            slow_answer: or("slow_answer", self.slow_answer, without.slow_answer)?,
            retry_doubt: or("retry_doubt", self.retry_doubt, without.retry_doubt)?,
        })
    }
}

fn check_scope(scope: Spanned<String>) -> Result<String, Wrong> {
    // The key's own rules decide; the other two parts are known to be good.
    match Key::new(scope.get_ref().as_str(), "tool", composite_id(["id"])) {
        Ok(_) => Ok(scope.into_inner()),
        Err(error) => Err(Wrong::new(scope.span(), "scope", error.to_string())),
    }
}

fn check_ledger(ledger: Spanned<String>) -> Result<String, Wrong> {
    if ledger.get_ref().is_empty() {
        return Err(Wrong::new(ledger.span(), "ledger", "is empty: name a directory or a URL, or leave the line out"));
    }
    Ok(ledger.into_inner())
}

/// A span of time such as `24h`, longer than nothing.
fn span(field: &str, value: &Spanned<String>) -> Result<Duration, Wrong> {
    let text = value.get_ref();
    let wrong = |problem: String| Wrong::new(value.span(), field, problem);
    let duration = humantime::parse_duration(text).map_err(|error| {
        wrong(format!("`{text}` is not a span of time ({error}): write one such as `30s`, `10m` or `24h`"))
    })?;
    if duration < Duration::from_millis(1) {
        return Err(wrong(format!("`{text}` is too short: it must be at least `1ms`")));
    }
    if duration > Duration::from_secs(100 * 365 * 24 * 60 * 60) {
        return Err(wrong(format!("`{text}` is too long: at most `100y`")));
    }
    Ok(duration)
}

fn repeats(field: &str, value: &Spanned<String>) -> Result<Repeats, Wrong> {
    match value.get_ref().as_str() {
        "replay" => Ok(Repeats::Replay),
        "new-after-delivery" => Ok(Repeats::NewAfterDelivery),
        other => Err(Wrong::new(
            value.span(),
            field,
            format!(
                "`{other}` is not known: write `replay` (a repeat is a retry) or `new-after-delivery` (a repeat is a new wish once an answer has arrived)"
            ),
        )),
    }
}

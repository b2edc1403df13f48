//! `settled.toml`: what the user declares about a server's tools.
//!
//! Everything is checked when the file is read: what it means is never guessed, and what contradicts itself is refused
//! with the place and the reason.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use settled_protocol::{Key, composite_id};
use toml::Spanned;

mod error;
mod tool;

pub use error::ConfigError;
pub use tool::{Kind, ToolConfig};

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The scope of all keys; `None`: derived from the server's command.
    pub scope: Option<String>,
    /// The ledger's directory. What the client is told of an unknown outcome names it, for the person who will look.
    pub ledger: Option<PathBuf>,
    /// What holds for tools that don't say otherwise.
    pub defaults: Defaults,
    /// The declared tools, by name.
    pub tools: BTreeMap<String, ToolConfig>,
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
        let defaults = self.defaults.check()?;
        let tools = self
            .tools
            .into_iter()
            .map(|(name, table)| {
                let tool = tool::check(&name, table, &defaults)?;
                Ok((name, tool))
            })
            .collect::<Result<_, Wrong>>()?;
        Ok(Config { scope, ledger, defaults, tools })
    }
}

impl DefaultsTable {
    fn check(self) -> Result<Defaults, Wrong> {
        let or = |name: &str, value: Option<Spanned<String>>, default| match value {
            Some(value) => span(&format!("defaults.{name}"), &value),
            None => Ok(default),
        };
        let without = Defaults::default();
        Ok(Defaults {
            window: or("window", self.window, without.window)?,
            timeout: or("timeout", self.timeout, without.timeout)?,
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

fn check_ledger(ledger: Spanned<String>) -> Result<PathBuf, Wrong> {
    if ledger.get_ref().is_empty() {
        return Err(Wrong::new(ledger.span(), "ledger", "is empty: name a directory, or leave the line out"));
    }
    Ok(PathBuf::from(ledger.into_inner()))
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

//! Which ledger a command works on, and opening it.

use std::path::{Path, PathBuf};

use clap::Args;
use settled_ledgers::{OpenError, OpenOptions, Opened};
use settled_mcp::Config;

use crate::failure::Failure;

/// The name of the history file in a ledger's directory.
pub const HISTORY_FILE: &str = "history.jsonl";

/// Which ledger to look at.
#[derive(Debug, Clone, Args)]
pub struct LedgerArgs {
    /// The ledger: a directory, or a URL: file:DIR, postgres://…, redis://… [default: the configuration's, else
    /// $XDG_STATE_HOME/settled or ~/.local/state/settled]
    #[arg(long, value_name = "DIR|URL", env = "SETTLED_LEDGER", hide_env_values = true)]
    ledger: Option<String>,
    /// The configuration that names the ledger, as given to `settled mcp` or `settled gateway`
    #[arg(long, value_name = "settled.toml")]
    config: Option<PathBuf>,
}

impl LedgerArgs {
    /// The ledger: the one given, else the one configured, else the user's own.
    ///
    /// # Errors
    /// If the configuration can't be read, or none is given and the user has no home directory.
    pub fn url(&self) -> Result<String, Failure> {
        let configured = match &self.config {
            Some(path) => match (Config::load(path), settled_gateway::Config::load(path)) {
                (Ok(config), _) => config.ledger,
                (Err(_), Ok(config)) => config.ledger,
                (Err(error), Err(_)) => return Err(Failure::input(error.to_string())),
            },
            None => None,
        };
        match self.ledger.clone().or(configured) {
            Some(named) => Ok(named),
            None => default_url(),
        }
    }

    /// The configuration, if one is given.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn configured(&self) -> Result<Option<Config>, Failure> {
        let load = |path| Config::load(path).map_err(|error| Failure::input(error.to_string()));
        self.config.as_deref().map(load).transpose()
    }

    /// Opens the ledger, which must be there.
    ///
    /// # Errors
    /// As [`url`](Self::url), or if it can't be opened.
    pub async fn open_existing(&self) -> Result<Opened, Failure> {
        let url = self.url()?;
        if url.trim() == "memory:" {
            return Err(Failure::input(
                "a ledger in memory is its own process's: there is nothing to look at from outside",
            ));
        }
        settled_ledgers::open_existing(&url, OpenOptions::default()).await.map_err(failure)
    }

    /// What to add to a command that looks at the same ledger. What is secret in a URL is not shown.
    pub fn repeated(&self, opened: &Opened) -> String {
        match (&self.ledger, &self.config) {
            (Some(ledger), _) => {
                let shown = if opened.directory.is_some() { ledger } else { &opened.display };
                format!(" --ledger {}", quoted(shown))
            }
            (None, Some(config)) => format!(" --config {}", quoted(&config.display().to_string())),
            (None, None) => String::new(),
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The user's own ledger.
///
/// # Errors
/// If the user has no home directory.
pub fn default_url() -> Result<String, Failure> {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|dir| Path::new(dir).is_absolute()).map(PathBuf::from);
    let home = std::env::var_os("HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    state
        .or_else(|| home.map(|home| home.join(".local/state")))
        .and_then(|state| state.join("settled").to_str().map(|path| format!("file:{path}")))
        .ok_or_else(|| Failure::input("no home directory is known: name the ledger with --ledger DIR or --ledger URL"))
}

/// Opens a ledger, and creates it if it is not there.
///
/// # Errors
/// If it can't be opened.
pub async fn open(url: &str) -> Result<Opened, Failure> {
    settled_ledgers::open(url, OpenOptions::default()).await.map_err(failure)
}

/// A ledger that can't be opened: 1; a name that can't be one: 2.
pub fn failure(error: OpenError) -> Failure {
    match error {
        OpenError::Ledger { .. } => Failure::nothing(error.to_string()),
        other => Failure::input(other.to_string()),
    }
}

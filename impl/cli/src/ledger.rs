//! Which ledger a command works on, and opening it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use settled::Ledger;
use settled_ledger_file::{FileLedger, FileLedgerOptions};
use settled_mcp::Config;

use crate::failure::Failure;

/// The name of the history file in a ledger's directory.
pub const HISTORY_FILE: &str = "history.jsonl";

/// Which ledger to look at.
#[derive(Debug, Clone, Args)]
pub struct LedgerArgs {
    /// The ledger's directory [default: the configuration's, else $XDG_STATE_HOME/settled or ~/.local/state/settled]
    #[arg(long, value_name = "DIR", env = "SETTLED_LEDGER")]
    ledger: Option<PathBuf>,
    /// The configuration that names the ledger, as given to `settled mcp`
    #[arg(long, value_name = "settled.toml")]
    config: Option<PathBuf>,
}

impl LedgerArgs {
    /// The directory: the one given, else the one configured, else the user's own.
    ///
    /// # Errors
    /// If the configuration can't be read, or none is given and the user has no home directory.
    pub fn directory(&self) -> Result<PathBuf, Failure> {
        let configured = match &self.config {
            Some(path) => Config::load(path).map_err(|error| Failure::input(error.to_string()))?.ledger,
            None => None,
        };
        directory(self.ledger.clone().or(configured))
    }

    /// What to add to a command that looks at the same ledger.
    pub fn repeated(&self) -> String {
        let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
        let option =
            |name: &str, path: &Option<PathBuf>| path.as_deref().map(|path| format!(" --{name} {}", quoted(path)));
        option("ledger", &self.ledger).or_else(|| option("config", &self.config)).unwrap_or_default()
    }
}

/// The named directory, or the user's own.
///
/// # Errors
/// If none is named and the user has no home directory.
pub fn directory(named: Option<PathBuf>) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        if named.starts_with("~") {
            return Err(Failure::input(format!("{}: `~` is the shell's: write the whole path", named.display())));
        }
        return Ok(named);
    }
    let state = std::env::var_os("XDG_STATE_HOME").filter(|dir| Path::new(dir).is_absolute()).map(PathBuf::from);
    let home = std::env::var_os("HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    state
        .or_else(|| home.map(|home| home.join(".local/state")))
        .map(|state| state.join("settled"))
        .ok_or_else(|| Failure::input("no home directory is known: name the ledger's directory with --ledger DIR"))
}

/// Opens a ledger, and creates it if it is not there.
pub async fn open(directory: &Path) -> Result<Arc<dyn Ledger>, Failure> {
    let ledger = FileLedger::open(directory, FileLedgerOptions::default());
    Ok(Arc::new(ledger.map_err(|error| Failure::unavailable(directory, &error))?))
}

/// Opens a ledger that must be there.
pub async fn open_existing(directory: &Path) -> Result<Arc<dyn Ledger>, Failure> {
    let ledger = FileLedger::open_existing(directory);
    Ok(Arc::new(ledger.map_err(|error| Failure::unavailable(directory, &error))?))
}

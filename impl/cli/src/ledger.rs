//! Which ledger a command works on, and opening it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use settled::Ledger;
use settled_ledger_file::{FileLedger, FileLedgerOptions};

use crate::failure::Failure;

/// The name of the history file in a ledger's directory.
pub const HISTORY_FILE: &str = "history.jsonl";

/// Which ledger.
#[derive(Debug, Clone, Args)]
pub struct LedgerArgs {
    /// The ledger's directory [default: $XDG_STATE_HOME/settled, or ~/.local/state/settled]
    #[arg(long, value_name = "DIR", env = "SETTLED_LEDGER")]
    pub ledger: Option<PathBuf>,
}

impl LedgerArgs {
    /// The directory: the one given, else the one configured, else the user's own.
    ///
    /// # Errors
    /// If none is given and the user has no home directory.
    pub fn directory(&self, configured: Option<&Path>) -> Result<PathBuf, Failure> {
        if let Some(given) = self.ledger.as_deref().or(configured) {
            return Ok(given.to_owned());
        }
        let state = std::env::var_os("XDG_STATE_HOME").filter(|dir| Path::new(dir).is_absolute()).map(PathBuf::from);
        let home = std::env::var_os("HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        state
            .or_else(|| home.map(|home| home.join(".local/state")))
            .map(|state| state.join("settled"))
            .ok_or_else(|| Failure::input("no home directory is known: name the ledger's directory with --ledger DIR"))
    }
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

//! Where what happens is written down.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use settled::{History, JsonLines, NoHistory};
use settled_ledgers::Opened;

use crate::failure::Failure;
use crate::ledger;

/// Where what happens is written down.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Where everything that happens is written down, as JSON lines [default: history.jsonl in the ledger's directory; nowhere
    /// if the ledger is not a directory]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// The history is put aside (as FILE.1, FILE.2 and so on) whenever it has grown to this many MiB
    #[arg(long, value_name = "MIB", default_value_t = JsonLines::PART_BYTES >> 20, value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    history_size: u64,
    /// How many histories that were put aside are kept
    #[arg(long, value_name = "N", default_value_t = JsonLines::PARTS_KEPT)]
    history_keep: u32,
}

impl HistoryArgs {
    /// Gets it ready.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn open(&self, opened: &Opened) -> Result<Arc<dyn History>, Failure> {
        let in_directory = || opened.directory.as_deref().map(|directory| directory.join(ledger::HISTORY_FILE));
        let Some(path) = self.history.clone().or_else(in_directory) else {
            return Ok(Arc::new(NoHistory));
        };
        let history = JsonLines::append_in_parts(&path, self.history_size << 20, self.history_keep);
        Ok(Arc::new(history.map_err(|error| Failure::input(format!("{}: {error}", path.display())))?))
    }
}

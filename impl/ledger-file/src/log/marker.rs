//! The file that tells a log that was lost from one that hasn't begun.
//!
//! It is made once the first batch is durable, and before that is acknowledged. So whoever finds it, but not that batch,
//! knows that something acknowledged is gone.

use super::LogError;
use super::disk::{Disk, write_all_at};
use super::format::VERSION;

/// The marker's name. Its content is for the curious: only its presence counts.
pub(crate) const MARKER: &str = "LEDGER";

/// Whether the log has begun, as far as the marker says.
pub(crate) fn is_there(disk: &dyn Disk) -> Result<bool, LogError> {
    let files = disk.list().map_err(|e| LogError::io("list", ".", e))?;
    Ok(files.iter().any(|file| file == MARKER))
}

/// Makes the marker, durably.
pub(crate) fn make(disk: &dyn Disk) -> Result<(), LogError> {
    let error = |doing| move |e| LogError::io(doing, MARKER, e);
    let file = disk.create(MARKER).map_err(error("create"))?;
    let text = format!("settled ledger, log format {VERSION}\n");
    write_all_at(&*file, text.as_bytes(), 0).map_err(error("write to"))?;
    file.sync_all().map_err(error("sync"))?;
    disk.sync_dir().map_err(|e| LogError::io("sync", ".", e))
}

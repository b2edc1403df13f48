//! The log's errors as the ledger's.

use std::path::Path;

use settled::LedgerError;

use crate::frame::FrameError;
use crate::log::LogError;

/// What an error of the log means to those who use the ledger in `dir`.
pub(crate) fn from_log(error: &LogError, dir: &Path) -> LedgerError {
    let text = format!("{error} (in `{}`)", dir.display());
    match error {
        LogError::Poisoned { cause } => LedgerError::Poisoned(format!("{cause}, in `{}`", dir.display())),
        // Written by a later version: nothing is wrong with it.
        LogError::Refused { source, .. } if matches!(source.downcast_ref(), Some(FrameError::Format(_))) => {
            LedgerError::Unavailable(text)
        }
        LogError::Corrupt { .. } | LogError::Lost { .. } | LogError::NoFrame { .. } | LogError::Refused { .. } => {
            LedgerError::Corrupt(text)
        }
        _ => LedgerError::Unavailable(text),
    }
}

/// An operation on a file in the directory failed.
pub(crate) fn from_io(doing: &str, path: &Path, error: &std::io::Error) -> LedgerError {
    LedgerError::Unavailable(format!("can't {doing} `{}`: {error}", path.display()))
}

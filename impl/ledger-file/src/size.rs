//! How large a ledger is.

use serde::{Deserialize, Serialize};

/// The size of a ledger, on its disk and in its holder's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LedgerSize {
    /// Bytes of the log's files and of the snapshot.
    pub disk_bytes: u64,
    /// Bytes of the log that hold what is still kept, to a thousandth. The rest is given back in time.
    pub live_bytes: u64,
    /// The log's files.
    pub segments: u64,
    /// Keys with a record or a tombstone.
    pub keys: u64,
    /// Keys whose operation is not settled.
    pub unsettled: u64,
}

//! What can be set for a ledger.

use std::time::Duration;

use crate::log::LogOptions;

/// How a [`FileLedger`](crate::FileLedger) behaves. Processes on one directory may differ in it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileLedgerOptions {
    /// Sizes of the log's files.
    pub log: LogOptions,
    /// How long a call goes on trying when the process that holds the directory has died or doesn't answer; then it is
    /// [`Unavailable`](settled::LedgerError::Unavailable). A holder that is silent (stopped, not dead) is noticed after
    /// half of this time, so a call lasts one and a half times this long at most.
    pub patience: Duration,
    /// Memory for entries that were read lately, in bytes. All else of a settled entry that stays in memory are some 40 to 96 bytes.
    pub cache_bytes: usize,
    /// Makes every sync take this much longer, to measure as on a slower disk.
    pub sync_delay: Duration,
}

impl Default for FileLedgerOptions {
    /// A patience of 10 seconds, 16 MiB of cache, and no delay.
    fn default() -> Self {
        FileLedgerOptions {
            log: LogOptions::default(),
            patience: Duration::from_secs(10),
            cache_bytes: 16 << 20,
            sync_delay: Duration::ZERO,
        }
    }
}

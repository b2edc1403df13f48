//! What can be set for a ledger, besides what is in its URL.

use std::time::Duration;

/// How a [`PostgresLedger`](crate::PostgresLedger) behaves. Processes on one database may differ in it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// How long a call waits for a connection while there is none; then it is
    /// [`Unavailable`](settled::LedgerError::Unavailable).
    pub patience: Duration,
    /// How long the server may take to answer a request; then the connection is given up, and the call is
    /// [`Unavailable`](settled::LedgerError::Unavailable).
    pub timeout: Duration,
    /// How many connections carry compare-and-sets. Each carries those that have gathered while the last ones were being
    /// stored.
    pub writers: usize,
    /// How many transactions of [transactional tools](crate::transactional) may be open at once, each on a connection of
    /// its own.
    pub transactions: usize,
}

impl Default for PostgresOptions {
    /// 5 s to connect, 2 s of patience, 5 s for an answer, 2 writers, 8 transactions.
    fn default() -> Self {
        PostgresOptions {
            connect_timeout: Duration::from_secs(5),
            patience: Duration::from_secs(2),
            timeout: Duration::from_secs(5),
            writers: 2,
            transactions: 8,
        }
    }
}

impl PostgresOptions {
    /// How long a request waits for a lock at the server, in milliseconds: less than for the answer, so that it ends there, too.
    pub(crate) fn lock_patience(&self) -> i32 {
        i32::try_from(self.timeout.as_millis() * 3 / 4).unwrap_or(i32::MAX).max(1)
    }
}

//! Why nothing could be measured.

use std::path::Path;

use settled::{EngineError, LedgerError};
use settled_ledgers::OpenError;

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A file can't be used.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A ledger can't be used.
    #[error("{ledger}: {error}")]
    Ledger {
        /// Which one.
        ledger: String,
        /// Why.
        error: LedgerError,
    },
    /// A ledger's URL leads nowhere.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A call was not answered as it should be.
    #[error("a call was answered with {0}: what is measured doesn't work, so there is nothing to measure")]
    Answer(String),
    /// A call was not made.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// PostgreSQL refuses.
    #[error("PostgreSQL: {0}")]
    Postgres(#[from] tokio_postgres::Error),
    /// Redis refuses.
    #[error("Redis: {0}")]
    Redis(#[from] redis::RedisError),
    /// A part of the measurement ended early.
    #[error("{0} ended before it was done")]
    Ended(&'static str),
    /// Something else is not as it must be.
    #[error("{0}")]
    Other(String),
}

impl BenchError {
    /// About a file.
    pub fn file(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> BenchError {
        move |source| BenchError::File { path: path.as_ref().display().to_string(), source }
    }

    /// About a ledger.
    pub fn ledger(ledger: impl Into<String>) -> impl FnOnce(LedgerError) -> BenchError {
        move |error| BenchError::Ledger { ledger: ledger.into(), error }
    }
}

//! Ledgers by their URLs: a directory, a PostgreSQL database, a Redis server, or memory.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod name;
mod redacted;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use settled::{Ledger, LedgerError, MemoryLedger};
use settled_ledger_file::{FileLedger, FileLedgerOptions};
use settled_ledger_postgres::{PostgresLedger, PostgresOptions};
use settled_ledger_redis::{RedisLedger, RedisOptions};

use crate::name::Name;

/// What can be set for each kind of ledger, besides what its URL says.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// For a directory.
    pub file: FileLedgerOptions,
    /// For a PostgreSQL database.
    pub postgres: PostgresOptions,
    /// For a Redis server.
    pub redis: RedisOptions,
}

/// A kind of ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A directory on a local disk, for the processes of one host.
    File,
    /// A PostgreSQL database, for any number of hosts.
    Postgres,
    /// A Redis server, for any number of hosts.
    Redis,
    /// The memory of this process, which is lost with it.
    Memory,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::File => "file",
            Kind::Postgres => "postgres",
            Kind::Redis => "redis",
            Kind::Memory => "memory",
        })
    }
}

/// A ledger that was opened.
#[derive(Clone)]
pub struct Opened {
    /// The ledger.
    pub ledger: Arc<dyn Ledger>,
    /// Its kind.
    pub kind: Kind,
    /// How to name it to a person: without what is secret in its URL.
    pub display: String,
    /// Its directory, if it has one.
    pub directory: Option<PathBuf>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("kind", &self.kind).field("display", &self.display).finish_non_exhaustive()
    }
}

/// Why a ledger can't be opened. Says nothing that is secret in its URL.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Nothing is named.
    #[error("no ledger is named: name a directory, or a URL: {ALLOWED}")]
    Empty,
    /// There is no such kind of ledger.
    #[error("there is no ledger of the kind `{scheme}:`; there are {ALLOWED}; write file:PATH for a path with a colon")]
    Scheme {
        /// What stands before the colon.
        scheme: String,
    },
    /// The path begins with a tilde, which only a shell replaces.
    #[error("{path}: `~` is the shell's: write the whole path")]
    Tilde {
        /// The path.
        path: String,
    },
    /// A file URL that names another host.
    #[error("a directory is written file:PATH, and is on this host: `{host}` can't be named")]
    Host {
        /// The host named.
        host: String,
    },
    /// Memory can't be opened twice.
    #[error("`memory:` takes nothing after the colon, this has `{rest}`: every ledger in memory is a new one")]
    Memory {
        /// What stands after the colon.
        rest: String,
    },
    /// The ledger itself can't be opened.
    #[error("{}", naming(.display, .error))]
    Ledger {
        /// How to name the ledger to a person.
        display: String,
        /// Why.
        error: LedgerError,
    },
}

/// The kinds, as they are written.
const ALLOWED: &str = "file:PATH, postgres://…, redis://…, rediss://… and memory:";

fn naming(display: &str, error: &LedgerError) -> String {
    let error = error.to_string();
    if error.contains(display) { error } else { format!("{display}: {error}") }
}

/// Opens the ledger with this URL, or in this directory, and creates it if there is none: `file:PATH` or a path,
/// `postgres://…` (or `postgresql://…`), `redis://…` (for TLS `rediss://…`), `memory:`.
///
/// # Errors
/// If nothing that can be a ledger is named, or the ledger can't be opened.
pub async fn open(url: &str, options: OpenOptions) -> Result<Opened, OpenError> {
    open_as(url, options, false).await
}

/// The same, but what is in a directory must be there already. A PostgreSQL schema or the keys at a Redis server can't be
/// missing by a mistyped path; they are created.
///
/// # Errors
/// As [`open`], or if the directory has no ledger.
pub async fn open_existing(url: &str, options: OpenOptions) -> Result<Opened, OpenError> {
    open_as(url, options, true).await
}

async fn open_as(url: &str, options: OpenOptions, existing: bool) -> Result<Opened, OpenError> {
    let name = Name::parse(url)?;
    let display = name.display();
    let failed = |error| OpenError::Ledger { display: display.clone(), error };
    let (kind, ledger, directory): (_, Arc<dyn Ledger>, _) = match name {
        Name::File(directory) => {
            let ledger = open_file(directory.clone(), options.file, existing).await.map_err(failed)?;
            (Kind::File, Arc::new(ledger), Some(directory))
        }
        Name::Postgres(url) => {
            let ledger = PostgresLedger::connect(&url, options.postgres).await.map_err(failed)?;
            (Kind::Postgres, Arc::new(ledger), None)
        }
        Name::Redis(url) => {
            let ledger = RedisLedger::connect(&url, options.redis).await.map_err(failed)?;
            (Kind::Redis, Arc::new(ledger), None)
        }
        Name::Memory => (Kind::Memory, Arc::new(MemoryLedger::new()), None),
    };
    Ok(Opened { ledger, kind, display, directory })
}

/// Opening blocks, while the ledger recovers.
async fn open_file(directory: PathBuf, options: FileLedgerOptions, existing: bool) -> Result<FileLedger, LedgerError> {
    let open = move || match existing {
        true => FileLedger::open_existing(directory),
        false => FileLedger::open(directory, options),
    };
    let opened = tokio::task::spawn_blocking(open).await;
    opened.unwrap_or_else(|_| Err(LedgerError::Unavailable("opening it was interrupted: try again".to_owned())))
}

//! The ledgers of the scenes: directories, and schemas or prefixes at a server that all scenes share.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use settled_test_services::postgres::{Postgres, Setup};
use settled_test_services::redis::Redis;

/// Where scenes have their ledgers.
pub enum Place {
    /// A directory each.
    File,
    /// A directory within this one, for one scene.
    Directory(PathBuf),
    /// A schema each. It is never killed here, so it needn't sync.
    Postgres(Box<Postgres>),
    /// A prefix each.
    Redis(Redis),
}

impl Place {
    /// A server for many scenes.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn postgres() -> Place {
        let server = Postgres::start_with(Setup::default().set("fsync", "off")).unwrap();
        // Where transactional tools have their effects.
        server.sql("CREATE TABLE effects (id text, attempt bigint); GRANT ALL ON effects TO settled").unwrap();
        Place::Postgres(Box::new(server))
    }

    /// A server for many scenes.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn redis() -> Place {
        Place::Redis(Redis::with().set("appendfsync", "no").start().unwrap())
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Place::File | Place::Directory(_) => "file",
            Place::Postgres(_) => "postgres",
            Place::Redis(_) => "redis",
        }
    }

    /// The URL of a new ledger, for a scene in this directory.
    pub fn new_ledger(&self, directory: &Path) -> String {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        match self {
            Place::File => format!("file:{}/ledger", directory.display()),
            Place::Directory(place) => format!("file:{}/ledger", place.display()),
            // What is lost when the server itself dies is another test's business.
            Place::Postgres(server) => format!("{}&schema=scene_{number}", server.url()),
            Place::Redis(server) => format!("{}?prefix=scene_{number}&trust=durable", server.url()),
        }
    }
}

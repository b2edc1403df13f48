//! The ledgers that processes can share, with the servers that they need.

use settled_test_services::postgres::Postgres;
use settled_test_services::redis::Redis;
use tempfile::TempDir;

/// A ledger that several processes can use.
pub enum Backend {
    /// A directory.
    File(TempDir),
    /// PostgreSQL.
    Postgres(Box<Postgres>),
    /// Redis, which syncs every write.
    Redis(Redis),
}

impl Backend {
    /// A new directory.
    ///
    /// # Panics
    /// If there can't be one.
    pub fn file() -> Backend {
        Backend::File(tempfile::tempdir().unwrap())
    }

    /// A new server.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn postgres() -> Backend {
        Backend::Postgres(Box::new(Postgres::start().unwrap()))
    }

    /// A new server.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn redis() -> Backend {
        Backend::Redis(Redis::start().unwrap())
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Backend::File(_) => "file",
            Backend::Postgres(_) => "postgres",
            Backend::Redis(_) => "redis",
        }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        match self {
            Backend::File(directory) => format!("file:{}/ledger", directory.path().display()),
            Backend::Postgres(server) => server.url(),
            Backend::Redis(server) => server.url(),
        }
    }

    /// Whether it is a server, which can be killed by itself.
    pub fn is_server(&self) -> bool {
        !matches!(self, Backend::File(_))
    }

    /// Kills the server and starts it again.
    ///
    /// # Panics
    /// If it doesn't start again.
    pub fn kill_and_restart(&mut self) {
        match self {
            Backend::File(_) => {}
            Backend::Postgres(server) => {
                server.kill();
                server.start_again().unwrap();
            }
            Backend::Redis(server) => {
                server.kill();
                server.start_again().unwrap();
            }
        }
    }

    /// Stops the server (SIGSTOP).
    pub fn freeze(&self) {
        match self {
            Backend::File(_) => {}
            Backend::Postgres(server) => server.freeze(),
            Backend::Redis(server) => server.freeze(),
        }
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        match self {
            Backend::File(_) => {}
            Backend::Postgres(server) => server.thaw(),
            Backend::Redis(server) => server.thaw(),
        }
    }
}

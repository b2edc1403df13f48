//! Connections for other stores than the ledger in the same kind of database, named and encrypted in the same way.

use std::sync::Arc;

use settled::LedgerError;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::lane;
use crate::options::PostgresOptions;
use crate::server;
use crate::target::Target;

/// A database, named by a URL as a ledger's is.
#[derive(Clone)]
pub struct Database {
    target: Arc<Target>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("schema", &self.target.schema).finish_non_exhaustive()
    }
}

impl Database {
    /// Reads the URL.
    ///
    /// # Errors
    /// If it can't be used. The error never holds the password.
    pub fn parse(url: &str, options: &PostgresOptions) -> Result<Database, LedgerError> {
        Ok(Database { target: Arc::new(Target::parse(url, options)?) })
    }

    /// The schema that its tables are to be in: a plain name, which needs no quotes.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.target.schema
    }

    /// Makes a connection to a server that can be written to.
    ///
    /// # Errors
    /// If there is none.
    pub async fn connect(&self) -> Result<Session, LedgerError> {
        let (live, wire) = lane::connect(&self.target).await.map_err(LedgerError::Unavailable)?;
        let driver = tokio::spawn(async move {
            // Its error is that of the requests that wait for an answer.
            let _ = wire.await;
        });
        Ok(Session { client: live.client, driver })
    }
}

/// A connection. It is closed when dropped, and whatever it had begun is undone.
#[derive(Debug)]
pub struct Session {
    /// The connection.
    pub client: Client,
    driver: JoinHandle<()>,
}

impl Session {
    /// Warns where the server promises little of commits that wait for its disk.
    ///
    /// # Errors
    /// If it gives no answer.
    pub async fn warn_of_promise(&self) -> Result<(), LedgerError> {
        server::promise(&self.client).await.map(drop).map_err(LedgerError::Unavailable)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

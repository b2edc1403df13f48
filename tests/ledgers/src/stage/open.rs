//! Opening a ledger.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::{Signal, raise};
use settled::{
    Change, Draw, Entry, Filter, Ledger, LedgerError, Liveness, Promise, Remains, Renewal, Resource, Stored,
};
use settled_protocol::{Epoch, Key, State, Time, Version};

/// Opens the ledger with this URL.
///
/// # Errors
/// If it can't be opened now.
pub async fn open(url: &str) -> Result<Arc<dyn Ledger>, String> {
    let opened = settled_ledgers::open(url, settled_ledgers::OpenOptions::default()).await;
    opened.map(|opened| opened.ledger).map_err(|error| error.to_string())
}

/// The same ledger, at which this process stops itself once the operation with this id is durably dispatched: so before
/// anything is sent.
pub fn stopping(ledger: Arc<dyn Ledger>, id: &str) -> Arc<dyn Ledger> {
    Arc::new(Stopping { ledger, id: id.to_owned() })
}

struct Stopping {
    ledger: Arc<dyn Ledger>,
    id: String,
}

#[async_trait]
impl Ledger for Stopping {
    async fn compare_and_set(&self, change: Change) -> Result<Stored, LedgerError> {
        let dispatched = change.key.id() == self.id && matches!(change.record.state(), State::Dispatched(_));
        let stored = self.ledger.compare_and_set(change).await?;
        if dispatched && stored != Stored::Refused {
            // Returns when somebody lets the process go on. (Sent to the whole process it could stop another thread first.)
            let _ = raise(Signal::SIGSTOP);
        }
        Ok(stored)
    }

    async fn register(&self, lease: Duration) -> Result<Epoch, LedgerError> {
        self.ledger.register(lease).await
    }

    async fn renew(&self, epoch: Epoch, lease: Duration) -> Result<Renewal, LedgerError> {
        self.ledger.renew(epoch, lease).await
    }

    async fn retire(&self, epoch: Epoch) -> Result<(), LedgerError> {
        self.ledger.retire(epoch).await
    }

    async fn liveness(&self, epoch: Epoch) -> Result<Liveness, LedgerError> {
        self.ledger.liveness(epoch).await
    }

    async fn time(&self) -> Result<Option<Time>, LedgerError> {
        self.ledger.time().await
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        self.ledger.get(key).await
    }

    async fn scan(&self, filter: Filter) -> Result<Vec<Entry>, LedgerError> {
        self.ledger.scan(filter).await
    }

    async fn line(&self, resource: &Resource) -> Result<Vec<Entry>, LedgerError> {
        self.ledger.line(resource).await
    }

    async fn due(&self, now: Time, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        self.ledger.due(now, after, limit).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Change>, LedgerError> {
        self.ledger.history(key).await
    }

    async fn forget(&self, key: &Key, expected: Version, remains: Remains) -> Result<bool, LedgerError> {
        self.ledger.forget(key, expected, remains).await
    }

    async fn changed(&self, key: &Key, seen: Option<Version>) -> Result<(), LedgerError> {
        self.ledger.changed(key, seen).await
    }

    async fn draw(&self, draw: Draw) -> Result<bool, LedgerError> {
        self.ledger.draw(draw).await
    }

    fn promise(&self) -> Promise {
        self.ledger.promise()
    }
}

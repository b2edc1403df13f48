//! The ledger under test, with what the test must have a say in: who is alive, and where a process stops.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use settled::protocol::{Epoch, Key, Time, Version};
use settled::{Change, Draw, Entry, Filter, Ledger, LedgerError, Liveness, Remains, Renewal, Resource, Stored};
use tokio::sync::Notify;

/// What is said of owners.
#[derive(Default)]
pub struct Owners {
    pub gone: Mutex<BTreeSet<Epoch>>,
    pub lapsed: Mutex<BTreeSet<Epoch>>,
}

/// One process's way to the ledger.
pub struct Watched {
    pub ledger: Arc<dyn Ledger>,
    pub owners: Arc<Owners>,
    /// How many changes may become durable before it stops.
    pub stop_after: Mutex<Option<(Key, usize)>>,
    pub reached: Arc<Notify>,
}

#[async_trait]
impl Ledger for Watched {
    async fn register(&self, lease: Duration) -> Result<Epoch, LedgerError> {
        self.ledger.register(lease).await
    }

    async fn renew(&self, epoch: Epoch, lease: Duration) -> Result<Renewal, LedgerError> {
        if self.owners.lapsed.lock().unwrap().contains(&epoch) {
            return Ok(Renewal::Fenced);
        }
        self.ledger.renew(epoch, lease).await
    }

    async fn retire(&self, epoch: Epoch) -> Result<(), LedgerError> {
        self.ledger.retire(epoch).await
    }

    async fn liveness(&self, epoch: Epoch) -> Result<Liveness, LedgerError> {
        Ok(match epoch {
            _ if self.owners.gone.lock().unwrap().contains(&epoch) => Liveness::Gone,
            _ if self.owners.lapsed.lock().unwrap().contains(&epoch) => Liveness::Lapsed,
            _ => Liveness::Alive,
        })
    }

    /// The test's own clock is everybody's.
    async fn time(&self) -> Result<Option<Time>, LedgerError> {
        Ok(None)
    }

    async fn compare_and_set(&self, change: Change) -> Result<Stored, LedgerError> {
        let key = change.key.clone();
        let stored = self.ledger.compare_and_set(change).await?;
        let stops = match &mut *self.stop_after.lock().unwrap() {
            // What is still under way for other keys doesn't count.
            Some((of, left)) if *of == key && matches!(stored, Stored::Durable(_)) => {
                *left = left.saturating_sub(1);
                *left == 0
            }
            _ => false,
        };
        if stops {
            self.reached.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(stored)
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
}

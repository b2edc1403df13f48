//! A ledger that fails on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use settled::protocol::{Epoch, Key, Version};
use settled::{Change, Entry, Filter, Ledger, LedgerError, MemoryLedger, Stored};

/// How a store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// With an error, before it took effect.
    Before,
    /// With an error, after it took effect.
    After,
}

/// A ledger whose n-th store (from 1), and as many after it as told, fails.
pub struct Faulty {
    pub inner: Arc<MemoryLedger>,
    pub fault: Fault,
    pub first: usize,
    pub count: usize,
    /// Whether reads fail as well while stores do.
    pub reads_too: bool,
    pub permanent: bool,
    pub stores: AtomicUsize,
}

impl Faulty {
    pub fn new(inner: Arc<MemoryLedger>, fault: Fault, first: usize, count: usize) -> Faulty {
        Faulty { inner, fault, first, count, reads_too: false, permanent: false, stores: AtomicUsize::new(0) }
    }

    fn fails(&self, store: usize) -> bool {
        store >= self.first && store - self.first < self.count
    }

    fn error(&self) -> LedgerError {
        if self.permanent {
            LedgerError::Poisoned("injected".into())
        } else {
            LedgerError::Unavailable("injected".into())
        }
    }
}

#[async_trait]
impl Ledger for Faulty {
    async fn register(&self) -> Result<Epoch, LedgerError> {
        self.inner.register().await
    }

    async fn compare_and_set(&self, change: Change) -> Result<Stored, LedgerError> {
        let store = self.stores.fetch_add(1, Ordering::SeqCst) + 1;
        if !self.fails(store) {
            return self.inner.compare_and_set(change).await;
        }
        if self.fault == Fault::After {
            self.inner.compare_and_set(change).await?;
        }
        Err(self.error())
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        let last = self.stores.load(Ordering::SeqCst);
        if self.reads_too && last > 0 && self.fails(last) {
            return Err(self.error());
        }
        self.inner.get(key).await
    }

    async fn scan(&self, filter: Filter) -> Result<Vec<Entry>, LedgerError> {
        self.inner.scan(filter).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Change>, LedgerError> {
        self.inner.history(key).await
    }

    async fn forget(&self, key: &Key, expected: Version) -> Result<bool, LedgerError> {
        self.inner.forget(key, expected).await
    }

    async fn changed(&self, key: &Key, seen: Option<Version>) -> Result<(), LedgerError> {
        self.inner.changed(key, seen).await
    }

    async fn owner_alive(&self, epoch: Epoch) -> Result<bool, LedgerError> {
        self.inner.owner_alive(epoch).await
    }
}

//! A ledger that fails on demand.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use settled::protocol::{Epoch, Key, Time, Version};
use settled::{
    Change, Draw, Entry, Filter, Ledger, LedgerError, Liveness, MemoryLedger, Remains, Renewal, Resource, Stored,
};

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
    /// How long a store takes before it is told to have been made; on the host's clock, as leases are.
    pub slow: Mutex<Duration>,
    /// How long the ledger's answer to the next renewal is on its way; that renewal is the last.
    pub late: Mutex<Duration>,
    /// Whether leases can't be renewed, nor new ones begun.
    pub cut_off: AtomicBool,
    /// Whether leases are renewed, and nobody hears of it.
    pub unheard: AtomicBool,
    /// Whether nothing can be stored or read.
    pub down: AtomicBool,
    pub stores: AtomicUsize,
}

impl Faulty {
    pub fn new(inner: Arc<MemoryLedger>, fault: Fault, first: usize, count: usize) -> Faulty {
        Faulty {
            inner,
            fault,
            first,
            count,
            reads_too: false,
            permanent: false,
            slow: Mutex::default(),
            late: Mutex::default(),
            cut_off: AtomicBool::new(false),
            unheard: AtomicBool::new(false),
            down: AtomicBool::new(false),
            stores: AtomicUsize::new(0),
        }
    }

    fn fails(&self, store: usize) -> bool {
        self.down.load(Ordering::SeqCst) || store >= self.first && store - self.first < self.count
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
    async fn register(&self, lease: Duration) -> Result<Epoch, LedgerError> {
        if self.cut_off.load(Ordering::SeqCst) {
            return Err(self.error());
        }
        self.inner.register(lease).await
    }

    async fn renew(&self, epoch: Epoch, lease: Duration) -> Result<Renewal, LedgerError> {
        if self.cut_off.load(Ordering::SeqCst) {
            return Err(self.error());
        }
        let renewed = self.inner.renew(epoch, lease).await;
        if self.unheard.load(Ordering::SeqCst) {
            return Err(self.error());
        }
        let late = *self.late.lock().unwrap();
        if late > Duration::ZERO {
            self.cut_off.store(true, Ordering::SeqCst);
            tokio::time::sleep(late).await;
        }
        renewed
    }

    async fn retire(&self, epoch: Epoch) -> Result<(), LedgerError> {
        self.inner.retire(epoch).await
    }

    async fn liveness(&self, epoch: Epoch) -> Result<Liveness, LedgerError> {
        self.inner.liveness(epoch).await
    }

    async fn time(&self) -> Result<Option<Time>, LedgerError> {
        self.inner.time().await
    }

    async fn compare_and_set(&self, change: Change) -> Result<Stored, LedgerError> {
        let store = self.stores.fetch_add(1, Ordering::SeqCst) + 1;
        if !self.fails(store) {
            let stored = self.inner.compare_and_set(change).await;
            let slow = *self.slow.lock().unwrap();
            tokio::time::sleep(slow).await;
            return stored;
        }
        if self.fault == Fault::After {
            self.inner.compare_and_set(change).await?;
        }
        Err(self.error())
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        let last = self.stores.load(Ordering::SeqCst);
        if self.down.load(Ordering::SeqCst) || self.reads_too && last > 0 && self.fails(last) {
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

    async fn line(&self, resource: &Resource) -> Result<Vec<Entry>, LedgerError> {
        self.inner.line(resource).await
    }

    async fn due(&self, now: Time, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        self.inner.due(now, after, limit).await
    }

    async fn draw(&self, draw: Draw) -> Result<bool, LedgerError> {
        self.inner.draw(draw).await
    }

    async fn forget(&self, key: &Key, expected: Version, remains: Remains) -> Result<bool, LedgerError> {
        self.inner.forget(key, expected, remains).await
    }

    async fn changed(&self, key: &Key, seen: Option<Version>) -> Result<(), LedgerError> {
        self.inner.changed(key, seen).await
    }
}

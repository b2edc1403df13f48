//! A ledger in memory that is slow where a test wants it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use settled::protocol::{Epoch, Key, Time, Version};
use settled::{
    Change, Draw, Entry, Filter, Ledger, LedgerError, Liveness, MemoryLedger, Remains, Renewal, Resource, Stored,
};
use tokio::sync::Notify;
use tokio::time::timeout;

/// See above.
#[derive(Default)]
pub struct SlowLedger {
    inner: MemoryLedger,
    /// Its operations are never counted to the end.
    pub never_counts: AtomicBool,
    /// Of the next two reads, if they come at the same time, the first is told once the second has been made, and the second only
    /// once an operation has ended.
    pub two_reads: AtomicBool,
    reads: AtomicUsize,
    second: Notify,
}

impl SlowLedger {
    async fn delay(&self, key: &Key, read: Option<&Entry>) {
        if !self.two_reads.load(Ordering::SeqCst) {
            return;
        }
        match self.reads.fetch_add(1, Ordering::SeqCst) {
            0 => {
                // It may be that no second one comes: then reads are as quick as ever.
                let second = timeout(Duration::from_millis(500), self.second.notified()).await;
                self.two_reads.store(second.is_ok(), Ordering::SeqCst);
            }
            1 => {
                self.second.notify_one();
                let is_over = |now: Option<Entry>| {
                    now.is_some_and(|now| {
                        now.record.is_settled()
                            && read.as_ref().is_none_or(|read| now.record.version() > read.record.version())
                    })
                };
                let over = async {
                    while !is_over(self.inner.get(key).await.unwrap()) {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                };
                let _ = timeout(Duration::from_secs(20), over).await;
            }
            _ => {}
        }
    }
}

#[async_trait]
impl Ledger for SlowLedger {
    async fn register(&self, lease: Duration) -> Result<Epoch, LedgerError> {
        self.inner.register(lease).await
    }
    async fn renew(&self, epoch: Epoch, lease: Duration) -> Result<Renewal, LedgerError> {
        self.inner.renew(epoch, lease).await
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
        self.inner.compare_and_set(change).await
    }
    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        let entry = self.inner.get(key).await;
        self.delay(key, entry.as_ref().ok().and_then(Option::as_ref)).await;
        entry
    }
    async fn scan(&self, filter: Filter) -> Result<Vec<Entry>, LedgerError> {
        self.inner.scan(filter).await
    }
    async fn page(&self, filter: Filter, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        if self.never_counts.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        self.inner.page(filter, after, limit).await
    }
    async fn line(&self, resource: &Resource) -> Result<Vec<Entry>, LedgerError> {
        self.inner.line(resource).await
    }
    async fn due(&self, now: Time, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        self.inner.due(now, after, limit).await
    }
    async fn history(&self, key: &Key) -> Result<Vec<Change>, LedgerError> {
        self.inner.history(key).await
    }
    async fn forget(&self, key: &Key, expected: Version, remains: Remains) -> Result<bool, LedgerError> {
        self.inner.forget(key, expected, remains).await
    }
    async fn changed(&self, key: &Key, seen: Option<Version>) -> Result<(), LedgerError> {
        self.inner.changed(key, seen).await
    }
    async fn draw(&self, draw: Draw) -> Result<bool, LedgerError> {
        self.inner.draw(draw).await
    }
}

//! A ledger in memory: for tests, for trying things out, and as the reference that other ledgers are compared with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use settled_protocol::{Durable, Epoch, Key, Time, Version};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::bucket::Bucket;
use crate::ledger::{Change, Draw, Entry, Filter, Ledger, LedgerError, Liveness, Remains, Renewal, Resource, Stored};
use crate::sync::lock;

/// How long [`Ledger::changed`] waits at most.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A ledger in memory. "Durable" means no more here than "as long as this value lives". Any number of engines may share
/// it, each as an owner of its own.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    kept: Mutex<Kept>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Kept {
    slots: BTreeMap<Key, Slot>,
    places: u64,
    /// Until when each owner's lease runs; none for ever.
    owners: BTreeMap<Epoch, Option<Instant>>,
    gone: BTreeSet<Epoch>,
    killed: BTreeSet<Epoch>,
    budget: Bucket,
}

impl Kept {
    fn liveness(&self, epoch: Epoch) -> Liveness {
        match self.owners.get(&epoch) {
            _ if self.gone.contains(&epoch) => Liveness::Gone,
            Some(until) if until.is_none_or(|until| Instant::now() < until) => Liveness::Alive,
            Some(_) => Liveness::Lapsed,
            // Whoever it was, this ledger has never been its process's.
            None => Liveness::Gone,
        }
    }
}

#[derive(Debug)]
struct Slot {
    entry: Entry,
    changes: Vec<Change>,
}

impl MemoryLedger {
    /// An empty ledger.
    pub fn new() -> MemoryLedger {
        MemoryLedger::default()
    }

    /// Declares an owner dead, as if its process had been killed: it counts as gone, and can store nothing any more.
    pub fn kill(&self, epoch: Epoch) {
        let mut kept = self.kept();
        kept.gone.insert(epoch);
        kept.killed.insert(epoch);
        drop(kept);
        self.changed.notify_waiters();
    }

    /// Lets an owner's lease run out, as if its process had been frozen for longer.
    pub fn freeze(&self, epoch: Epoch) {
        self.kept().owners.insert(epoch, Some(Instant::now()));
        self.changed.notify_waiters();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn register(&self, lease: Duration) -> Result<Epoch, LedgerError> {
        let mut kept = self.kept();
        let epoch = Epoch(u32::try_from(kept.owners.len()).unwrap_or(u32::MAX).saturating_add(1));
        kept.owners.insert(epoch, Instant::now().checked_add(lease));
        Ok(epoch)
    }

    async fn renew(&self, epoch: Epoch, lease: Duration) -> Result<Renewal, LedgerError> {
        let mut kept = self.kept();
        if kept.liveness(epoch) != Liveness::Alive {
            return Ok(Renewal::Fenced);
        }
        kept.owners.insert(epoch, Instant::now().checked_add(lease));
        Ok(Renewal::Held)
    }

    async fn retire(&self, epoch: Epoch) -> Result<(), LedgerError> {
        self.kept().gone.insert(epoch);
        self.changed.notify_waiters();
        Ok(())
    }

    async fn liveness(&self, epoch: Epoch) -> Result<Liveness, LedgerError> {
        Ok(self.kept().liveness(epoch))
    }

    async fn time(&self) -> Result<Option<Time>, LedgerError> {
        // All who share it are in one process, and have its clock.
        Ok(None)
    }

    async fn compare_and_set(&self, change: Change) -> Result<Stored, LedgerError> {
        let stored = {
            let kept = &mut *self.kept();
            if kept.killed.contains(&change.by) {
                return Err(LedgerError::Unavailable(format!("owner {} was killed", change.by)));
            }
            let before = kept.slots.get(&change.key).map(|slot| &slot.entry);
            if before.map(|entry| entry.record.version()) != change.expected {
                return Ok(Stored::Refused);
            }
            let durable = Durable::attest(&change.record);
            let entry = change.apply(before, |_| {
                kept.places += 1;
                kept.places
            });
            let buried = before.is_some_and(|entry| entry.tombstone);
            let slot =
                kept.slots.entry(change.key.clone()).or_insert_with(|| Slot { entry: entry.clone(), changes: vec![] });
            slot.entry = entry;
            if buried {
                slot.changes.clear();
            }
            slot.changes.push(change);
            Stored::Durable(durable)
        };
        self.changed.notify_waiters();
        Ok(stored)
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        Ok(self.kept().slots.get(key).map(|slot| slot.entry.clone()))
    }

    async fn scan(&self, filter: Filter) -> Result<Vec<Entry>, LedgerError> {
        let wanted = |entry: &&Entry| match filter {
            Filter::All => true,
            Filter::Unsettled => !entry.record.is_settled(),
        };
        Ok(self.kept().slots.values().map(|slot| &slot.entry).filter(wanted).cloned().collect())
    }

    async fn line(&self, resource: &Resource) -> Result<Vec<Entry>, LedgerError> {
        let wants = |entry: &&Entry| entry.resource.as_ref() == Some(resource) && !entry.record.is_settled();
        let mut line: Vec<Entry> = self.kept().slots.values().map(|slot| &slot.entry).filter(wants).cloned().collect();
        line.sort_by_key(|entry| entry.place);
        Ok(line)
    }

    async fn due(&self, now: Time, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        let order = |entry: &Entry| (entry.keep_until, entry.key.clone());
        let after = after.map(order);
        let is_due = |entry: &&Entry| {
            entry.record.is_settled()
                && entry.keep_until.is_some_and(|until| until <= now)
                && after.as_ref().is_none_or(|after| order(entry) > *after)
        };
        let mut due: Vec<Entry> = self.kept().slots.values().map(|slot| &slot.entry).filter(is_due).cloned().collect();
        due.sort_by_cached_key(order);
        due.truncate(limit);
        Ok(due)
    }

    async fn history(&self, key: &Key) -> Result<Vec<Change>, LedgerError> {
        Ok(self.kept().slots.get(key).map(|slot| slot.changes.clone()).unwrap_or_default())
    }

    async fn forget(&self, key: &Key, expected: Version, remains: Remains) -> Result<bool, LedgerError> {
        let forgotten = {
            let mut kept = self.kept();
            match kept.slots.get_mut(key) {
                Some(slot) if slot.entry.record.version() == expected => {
                    match remains {
                        Remains::Nothing => {
                            kept.slots.remove(key);
                        }
                        Remains::Tombstone { keep_until } => {
                            slot.entry = slot.entry.clone().buried(keep_until);
                            slot.changes.clear();
                        }
                    }
                    true
                }
                _ => false,
            }
        };
        self.changed.notify_waiters();
        Ok(forgotten)
    }

    async fn changed(&self, key: &Key, seen: Option<Version>) -> Result<(), LedgerError> {
        let changed = self.changed.notified();
        tokio::pin!(changed);
        // From here on no change can be missed between the look and the wait.
        changed.as_mut().enable();
        if self.kept().slots.get(key).map(|slot| slot.entry.record.version()) == seen {
            // Either way the caller looks again.
            let _ = tokio::time::timeout(LOOK_AGAIN, changed).await;
        }
        Ok(())
    }

    async fn draw(&self, draw: Draw) -> Result<bool, LedgerError> {
        Ok(self.kept().budget.draw(draw))
    }
}

//! A ledger in memory: for tests, for trying things out, and as the reference that other ledgers are compared with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use settled_protocol::{Durable, Epoch, Key, Version};
use tokio::sync::Notify;

use crate::ledger::{Change, Entry, Filter, Ledger, LedgerError, Stored};
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
    owners: u32,
    dead: BTreeSet<Epoch>,
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

    /// Declares an owner dead, as if its process had been killed: it counts as not alive, and can store nothing any more.
    pub fn kill(&self, epoch: Epoch) {
        self.kept().dead.insert(epoch);
        self.changed.notify_waiters();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn register(&self) -> Result<Epoch, LedgerError> {
        let mut kept = self.kept();
        kept.owners += 1;
        Ok(Epoch(kept.owners))
    }

    async fn compare_and_set(&self, change: Change) -> Result<Stored, LedgerError> {
        let stored = {
            let mut kept = self.kept();
            if kept.dead.contains(&change.by) {
                return Err(LedgerError::Unavailable(format!("owner {} was killed", change.by)));
            }
            let before = kept.slots.get_mut(&change.key);
            if before.as_ref().map(|slot| slot.entry.record.version()) != change.expected {
                return Ok(Stored::Refused);
            }
            let durable = Durable::attest(&change.record);
            match before {
                Some(slot) => {
                    slot.entry = change.apply(Some(&slot.entry));
                    slot.changes.push(change);
                }
                None => {
                    let slot = Slot { entry: change.apply(None), changes: vec![change.clone()] };
                    kept.slots.insert(change.key, slot);
                }
            }
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

    async fn history(&self, key: &Key) -> Result<Vec<Change>, LedgerError> {
        Ok(self.kept().slots.get(key).map(|slot| slot.changes.clone()).unwrap_or_default())
    }

    async fn forget(&self, key: &Key, expected: Version) -> Result<bool, LedgerError> {
        let forgotten = {
            let mut kept = self.kept();
            let found = kept.slots.get(key).is_some_and(|slot| slot.entry.record.version() == expected);
            found && kept.slots.remove(key).is_some()
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

    async fn owner_alive(&self, epoch: Epoch) -> Result<bool, LedgerError> {
        Ok(!self.kept().dead.contains(&epoch))
    }
}

//! Which operations this process is driving now: at most one leader per key, and everyone who waits for it.
//!
//! A stampede on one key costs one claim in the ledger, because all but the first caller join the leader. The table
//! says nothing about the protocol: across processes, the ledger's compare-and-set decides.
//!
//! A waiter of type `W` is told something by whoever takes it out of the table; a waiter that is *dropped* untold is
//! thereby asked to look again, so `W`'s own drop must wake it (as that of a oneshot sender does).

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hash};

use crate::sync::{Arc, Mutex, lock};

/// The table. `K`: the key, `F`: the fingerprint of what is asked, `W`: someone who waits.
/// Clones are the same table.
pub struct InFlight<K, F, W> {
    shared: Arc<Shared<K, F, W>>,
}

struct Shared<K, F, W> {
    shards: Box<[Shard<K, F, W>]>,
    hasher: RandomState,
}

type Shard<K, F, W> = Mutex<HashMap<K, Slot<F, W>>>;

impl<K, F, W> Clone for InFlight<K, F, W> {
    fn clone(&self) -> Self {
        InFlight { shared: self.shared.clone() }
    }
}

/// A key with a leader, with answers being delivered, or both. It is removed when it has neither.
struct Slot<F, W> {
    leading: Option<F>,
    joined: Vec<W>,
    others: Vec<W>,
    holds: usize,
    held_up: Vec<W>,
}

impl<F, W> Default for Slot<F, W> {
    fn default() -> Self {
        Slot { leading: None, joined: Vec::new(), others: Vec::new(), holds: 0, held_up: Vec::new() }
    }
}

impl<F, W> Slot<F, W> {
    fn is_idle(&self) -> bool {
        self.leading.is_none() && self.holds == 0
    }
}

/// What became of one who entered.
pub enum Entered<K: Hash + Eq + Clone, F, W> {
    /// It leads, and has its own waiter back.
    Leads(Lead<K, F, W>, W),
    /// Someone leads with the same fingerprint; the waiter is told the same answer.
    Joined,
    /// Someone leads with another fingerprint; the waiter is dropped when that leader ends.
    Other,
    /// An answer of this key is just being delivered; the waiter is dropped when that has ended.
    HeldUp,
}

impl<K: Hash + Eq + Clone, F: PartialEq, W> InFlight<K, F, W> {
    /// An empty table with this many locks (at least one).
    pub fn new(shards: usize) -> Self {
        let shards = (0..shards.max(1)).map(|_| Mutex::new(HashMap::new())).collect();
        InFlight { shared: Arc::new(Shared { shards, hasher: RandomState::new() }) }
    }

    /// Leads, or waits with those who asked before.
    pub fn enter(&self, key: &K, fingerprint: F, waiter: W) -> Entered<K, F, W> {
        let mut shard = lock(self.shard(key));
        let slot = shard.entry(key.clone()).or_default();
        if slot.holds > 0 {
            slot.held_up.push(waiter);
            return Entered::HeldUp;
        }
        match &slot.leading {
            Some(leading) if *leading == fingerprint => {
                slot.joined.push(waiter);
                Entered::Joined
            }
            Some(_) => {
                slot.others.push(waiter);
                Entered::Other
            }
            None => {
                slot.leading = Some(fingerprint);
                Entered::Leads(Lead { table: self.clone(), key: key.clone() }, waiter)
            }
        }
    }

    /// Leads without a caller (recovery, late replies), unless someone leads already.
    pub fn lead(&self, key: &K, fingerprint: F) -> Option<Lead<K, F, W>> {
        let mut shard = lock(self.shard(key));
        let slot = shard.entry(key.clone()).or_default();
        if slot.leading.is_some() {
            return None;
        }
        slot.leading = Some(fingerprint);
        Some(Lead { table: self.clone(), key: key.clone() })
    }

    /// Whether someone leads.
    pub fn is_led(&self, key: &K) -> bool {
        lock(self.shard(key)).get(key).is_some_and(|slot| slot.leading.is_some())
    }

    /// Makes everyone who enters from now on wait until this and all other holds of the key are dropped.
    pub fn hold(&self, key: &K) -> Hold<K, F, W> {
        lock(self.shard(key)).entry(key.clone()).or_default().holds += 1;
        Hold { table: self.clone(), key: key.clone() }
    }
}

impl<K: Hash + Eq + Clone, F, W> InFlight<K, F, W> {
    fn shard(&self, key: &K) -> &Shard<K, F, W> {
        let Shared { shards, hasher } = &*self.shared;
        &shards[hasher.hash_one(key) as usize % shards.len()]
    }

    /// Changes the key's slot, removes it if it has become idle, and drops the waiters taken out only after the lock
    /// is released: their drop wakes others, who will want that lock.
    fn leave(&self, key: &K, change: impl FnOnce(&mut Slot<F, W>) -> Vec<W>) {
        let woken = {
            let mut shard = lock(self.shard(key));
            let Some(slot) = shard.get_mut(key) else {
                return;
            };
            let woken = change(slot);
            if slot.is_idle() {
                shard.remove(key);
            }
            woken
        };
        drop(woken);
    }
}

impl<K, F, W> fmt::Debug for InFlight<K, F, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight").field("shards", &self.shared.shards.len()).finish_non_exhaustive()
    }
}

/// The leadership of a key in this process. When it is dropped, everyone who still waits looks again.
pub struct Lead<K: Hash + Eq + Clone, F, W> {
    table: InFlight<K, F, W>,
    key: K,
}

impl<K: Hash + Eq + Clone, F, W> Lead<K, F, W> {
    /// Takes out all who have joined, to tell them the answer. Who joins later waits for a later answer, or for the end.
    pub fn take_joined(&mut self) -> Vec<W> {
        let mut shard = lock(self.table.shard(&self.key));
        shard.get_mut(&self.key).map(|slot| std::mem::take(&mut slot.joined)).unwrap_or_default()
    }
}

impl<K: Hash + Eq + Clone, F, W> Drop for Lead<K, F, W> {
    fn drop(&mut self) {
        self.table.leave(&self.key, |slot| {
            slot.leading = None;
            let mut woken = std::mem::take(&mut slot.joined);
            woken.append(&mut slot.others);
            woken
        });
    }
}

impl<K: Hash + Eq + Clone, F, W> fmt::Debug for Lead<K, F, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lead").finish_non_exhaustive()
    }
}

/// An answer of the key is being delivered.
pub struct Hold<K: Hash + Eq + Clone, F, W> {
    table: InFlight<K, F, W>,
    key: K,
}

impl<K: Hash + Eq + Clone, F, W> Drop for Hold<K, F, W> {
    fn drop(&mut self) {
        self.table.leave(&self.key, |slot| {
            slot.holds -= 1;
            if slot.holds == 0 { std::mem::take(&mut slot.held_up) } else { Vec::new() }
        });
    }
}

impl<K: Hash + Eq + Clone, F, W> fmt::Debug for Hold<K, F, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

//! Where the latest frame of each key is. All of the ledger that stays in memory: a key costs 32 bytes, and twice that at most
//! with the tables' free space.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError, RwLock};

use settled_protocol::Version;
use tokio::sync::Notify;

use crate::frame::KeyHash;
use crate::sync::lock;

/// The latest frame of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub position: u64,
    /// The version, doubled, plus one if it is settled.
    packed: u64,
}

impl Slot {
    pub fn new(position: u64, version: Version, settled: bool) -> Slot {
        Slot { position, packed: version.0 << 1 | u64::from(settled) }
    }

    pub fn version(self) -> Version {
        Version(self.packed >> 1)
    }

    pub fn settled(self) -> bool {
        self.packed & 1 == 1
    }
}

/// The largest version that a slot can hold.
pub(crate) const MAX_VERSION: Version = Version(u64::MAX >> 1);

/// Many small tables rather than a large one: growing one of them keeps nobody waiting for long.
const SHARDS: usize = 256;

/// Only what is durable is ever put here.
pub(crate) struct Index {
    shards: Box<[Shard]>,
    unsettled: Mutex<HashSet<KeyHash>>,
}

#[derive(Default)]
struct Shard {
    slots: RwLock<HashMap<KeyHash, Slot>>,
    changed: Notify,
}

impl Index {
    pub fn new() -> Index {
        Index { shards: (0..SHARDS).map(|_| Shard::default()).collect(), unsettled: Mutex::default() }
    }

    fn shard(&self, key: KeyHash) -> &Shard {
        // The array has a shard for each value of a byte.
        &self.shards[usize::from(key.byte())]
    }

    pub fn get(&self, key: KeyHash) -> Option<Slot> {
        let slots = self.shard(key).slots.read();
        slots.unwrap_or_else(PoisonError::into_inner).get(&key).copied()
    }

    /// Replaces what is known of a key, and wakes those who wait for that.
    pub fn set(&self, key: KeyHash, slot: Option<Slot>) {
        let shard = self.shard(key);
        let mut slots = shard.slots.write().unwrap_or_else(PoisonError::into_inner);
        match slot {
            Some(slot) => slots.insert(key, slot),
            None => slots.remove(&key),
        };
        drop(slots);
        if slot.is_some_and(|slot| !slot.settled()) {
            lock(&self.unsettled).insert(key);
        } else {
            lock(&self.unsettled).remove(&key);
        }
        shard.changed.notify_waiters();
    }

    /// Returns once the key's version isn't `seen`; it may return earlier.
    pub async fn changed(&self, key: KeyHash, seen: Option<Version>) {
        let changed = self.shard(key).changed.notified();
        tokio::pin!(changed);
        // From here on no change can be missed between the look and the wait.
        changed.as_mut().enable();
        if self.get(key).map(Slot::version) == seen {
            changed.await;
        }
    }

    /// The positions of all keys, or of those that are not settled.
    pub fn positions(&self, unsettled_only: bool) -> Vec<u64> {
        if unsettled_only {
            let keys: Vec<KeyHash> = lock(&self.unsettled).iter().copied().collect();
            // One that was settled in between is left out.
            let open = keys.into_iter().filter_map(|key| self.get(key));
            return open.filter(|slot| !slot.settled()).map(|slot| slot.position).collect();
        }
        let mut positions = Vec::new();
        for shard in &self.shards {
            let slots = shard.slots.read().unwrap_or_else(PoisonError::into_inner);
            positions.extend(slots.values().map(|slot| slot.position));
        }
        positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settled_key_costs_at_most_96_bytes() {
        let entry = size_of::<(KeyHash, Slot)>();
        // A table doubles when it is 7/8 full, and has a byte of its own for each place.
        let worst = (entry + 1) * 16 / 7;
        assert!(worst <= 96, "{worst}");
    }
}

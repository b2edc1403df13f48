//! Where the latest frame of each key is, and what must be known of keys without reading it. All of the ledger that stays in
//! memory: a settled key costs 40 bytes, and 96 at most with the free space of tables.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use settled_protocol::{Time, Version};
use tokio::sync::Notify;

use crate::due::{Due, Point};
use crate::frame::{Head, KeyHash, Kind};
use crate::mixer::Mixer;
use crate::open::{Open, Place};
use crate::slot::Slot;
use crate::sync::lock;

/// Many small tables rather than a large one: growing one of them keeps nobody waiting for long.
pub(crate) const SHARDS: usize = 256;

/// Only what is durable is ever put here.
pub(crate) struct Index {
    shards: Box<[Shard]>,
    open: Mutex<Open>,
    due: Mutex<Due>,
    /// Bytes of all keys' chains.
    live: AtomicU64,
    keys: AtomicU64,
    /// How many points of what is due became stale, at most.
    stale: AtomicU64,
}

type Slots = HashMap<KeyHash, Slot, Mixer>;

struct Shard {
    slots: RwLock<Slots>,
    changed: Notify,
}

impl Index {
    pub fn new() -> Index {
        let mixer = Mixer::new();
        let shard = |_| Shard { slots: RwLock::new(HashMap::with_hasher(mixer)), changed: Notify::new() };
        Index {
            shards: (0..SHARDS).map(shard).collect(),
            open: Mutex::default(),
            due: Mutex::default(),
            live: AtomicU64::new(0),
            keys: AtomicU64::new(0),
            stale: AtomicU64::new(0),
        }
    }

    fn shard(&self, key: KeyHash) -> &Shard {
        // The array has a shard for each value of a byte.
        &self.shards[usize::from(key.byte())]
    }

    pub fn get(&self, key: KeyHash) -> Option<Slot> {
        read(self.shard(key)).get(&key).copied()
    }

    /// Takes note of a durable frame of `len` bytes, and wakes those who wait for what it changes. Frames are noted in the
    /// order of the log. What has been noted may be noted again, if all that follows it is, too.
    pub fn note(&self, head: &Head, position: u64, len: u64) {
        let Some(key) = head.kind.ends() else {
            return;
        };
        let shard = self.shard(key);
        let noted = Noted::of(head, position, len, self.get(key), || lock(&self.open).place(key));
        if let Some(due) = noted.due {
            lock(&self.due).push(due, position);
        }
        let before = put(&mut write(shard), key, noted.slot);
        self.count(before, noted.slot);
        if noted.is_open() || before.is_some_and(|before| !before.settled()) {
            noted.put_open(key, &mut lock(&self.open));
        }
        shard.changed.notify_waiters();
    }

    /// As [`note`](Index::note), while nobody else has the index.
    pub fn note_alone(&mut self, head: &Head, position: u64, len: u64) {
        let Some(key) = head.kind.ends() else {
            return;
        };
        let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner);
        let slots = self.shards[usize::from(key.byte())].slots.get_mut().unwrap_or_else(PoisonError::into_inner);
        let noted = Noted::of(head, position, len, slots.get(&key).copied(), || open.place(key));
        if let Some(due) = noted.due {
            self.due.get_mut().unwrap_or_else(PoisonError::into_inner).push(due, position);
        }
        let before = put(slots, key, noted.slot);
        if noted.is_open() || before.is_some_and(|before| !before.settled()) {
            noted.put_open(key, open);
        }
        self.count(before, noted.slot);
    }

    fn count(&self, before: Option<Slot>, next: Option<Slot>) {
        let (was, is) = (before.map_or(0, Slot::bytes), next.map_or(0, Slot::bytes));
        self.live.fetch_add(is.wrapping_sub(was), Ordering::Relaxed);
        if before.is_some_and(Slot::settled) {
            self.stale.fetch_add(1, Ordering::Relaxed);
        }
        let difference = u64::from(next.is_some()).wrapping_sub(u64::from(before.is_some()));
        self.keys.fetch_add(difference, Ordering::Relaxed);
    }

    /// Throws away what is stale of what is due, if it may be much.
    pub fn tidy(&self) {
        const MUCH: u64 = 1000;
        if self.stale.swap(0, Ordering::Relaxed) < MUCH {
            return;
        }
        let settled = self.list(false).into_iter().filter(|(_, slot)| slot.settled());
        let mut positions: Vec<u64> = settled.map(|(_, slot)| slot.position()).collect();
        positions.sort_unstable();
        let mut due = lock(&self.due);
        for bucket in due.buckets() {
            due.retain_in(bucket, |position| positions.binary_search(&position).is_ok());
        }
    }

    /// Bytes of the frames that are wanted.
    pub fn live_bytes(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// How many keys there are.
    pub fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed)
    }

    /// How many keys are not settled.
    pub fn unsettled(&self) -> u64 {
        lock(&self.open).len() as u64
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

    /// All keys, or those that are not settled, each with its latest frame.
    pub fn list(&self, unsettled_only: bool) -> Vec<(KeyHash, Slot)> {
        if unsettled_only {
            let keys = lock(&self.open).keys();
            // One that was settled in between is left out.
            return keys.into_iter().filter_map(|key| Some((key, self.unsettled_slot(key)?))).collect();
        }
        (0..SHARDS).flat_map(|shard| self.shard_list(shard)).collect()
    }

    fn unsettled_slot(&self, key: KeyHash) -> Option<Slot> {
        self.get(key).filter(|slot| !slot.settled())
    }

    /// The keys of one shard.
    pub fn shard_list(&self, shard: usize) -> Vec<(KeyHash, Slot)> {
        self.shards.get(shard).map(|shard| read(shard).iter().map(|(k, s)| (*k, *s)).collect()).unwrap_or_default()
    }

    /// Puts back the keys of one shard, of which nothing has been noted.
    pub fn restore_shard(&self, shard: usize, keys: impl ExactSizeIterator<Item = (KeyHash, Slot)>) {
        let Some(shard) = self.shards.get(shard) else {
            return;
        };
        let mut slots = write(shard);
        slots.reserve(keys.len());
        let (mut bytes, mut count) = (0, 0);
        for (key, slot) in keys {
            bytes += slot.bytes();
            count += 1;
            slots.insert(key, slot);
        }
        self.live.fetch_add(bytes, Ordering::Relaxed);
        self.keys.fetch_add(count, Ordering::Relaxed);
    }

    /// The unsettled keys that want this resource, the first one first.
    pub fn line(&self, line: KeyHash) -> Vec<KeyHash> {
        lock(&self.open).line(line)
    }

    /// Where an unsettled key stands in line.
    pub fn place(&self, key: KeyHash) -> Option<Place> {
        lock(&self.open).place(key)
    }

    /// Looks at who is unsettled.
    pub fn with_open<R>(&self, act: impl FnOnce(&mut Open) -> R) -> R {
        act(&mut lock(&self.open))
    }

    /// Up to `limit` frames of keys that may be forgotten by `now`, in order, some of which may be stale.
    pub fn due(&self, now: Time, after: Option<Point>, limit: usize) -> Vec<Point> {
        lock(&self.due).list(now, after, limit)
    }

    /// Looks at what may be forgotten when.
    pub fn with_due<R>(&self, act: impl FnOnce(&mut Due) -> R) -> R {
        act(&mut lock(&self.due))
    }
}

/// What a frame changes.
struct Noted {
    slot: Option<Slot>,
    place: Option<Place>,
    due: Option<Time>,
}

impl Noted {
    /// `stood`: the place that the key has had so far.
    fn of(head: &Head, position: u64, len: u64, before: Option<Slot>, stood: impl FnOnce() -> Option<Place>) -> Noted {
        let (of, bytes, place) = match head.kind {
            Kind::Change { of, line, .. } => {
                let begins = before.is_none_or(|before| !before.is_of(of.generation));
                let chain = match head.chain() {
                    // The first released version did not say.
                    0 if head.previous().is_some() => before.map_or(0, Slot::bytes),
                    chain => chain,
                };
                let stood = if begins || of.settled { None } else { stood() };
                let place = match (line, stood) {
                    (Some(line), stood) => Some(Place { line, place: stood.map_or(position + 1, |s| s.place) }),
                    (None, stood) => stood,
                };
                (of, chain + len, place)
            }
            Kind::Buried { of, line, .. } => (of, len, line.map(Place::from)),
            Kind::Whole { of, line, .. } => (of, head.chain() + len, line.map(Place::from)),
            _ => return Noted { slot: None, place: None, due: None },
        };
        Noted { slot: Some(Slot::new(position, &of, bytes)), place, due: of.keep_until }
    }

    fn is_open(&self) -> bool {
        self.slot.is_some_and(|slot| !slot.settled())
    }

    fn put_open(&self, key: KeyHash, open: &mut Open) {
        if self.is_open() { open.insert(key, self.place) } else { open.remove(key) }
    }
}

fn put(slots: &mut Slots, key: KeyHash, slot: Option<Slot>) -> Option<Slot> {
    match slot {
        Some(slot) => slots.insert(key, slot),
        None => slots.remove(&key),
    }
}

fn read(shard: &Shard) -> RwLockReadGuard<'_, Slots> {
    shard.slots.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(shard: &Shard) -> RwLockWriteGuard<'_, Slots> {
    shard.slots.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settled_key_costs_at_most_96_bytes() {
        let entry = size_of::<(KeyHash, Slot)>();
        // A table doubles when it is 7/8 full, and has a byte of its own for each place.
        let worst = (entry + 1) * 16 / 7;
        // And when it may be forgotten, in a list that grows by a quarter.
        let due = size_of::<u64>() * 5 / 4;
        assert!(worst + due <= 96, "{worst} + {due}");
    }
}

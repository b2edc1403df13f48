//! Entries that were read lately, so that a call which is repeated again and again needn't be read from the log each time.
//!
//! Each is kept with the position of its key's latest frame, and is good as long as the index says the same: nothing has to be
//! removed when a key changes. Memory is bounded: what wasn't asked for during a whole generation is dropped with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use settled::Entry;

use crate::frame::KeyHash;
use crate::sync::lock;

const SHARDS: usize = 16;

pub(crate) struct Recent {
    shards: Vec<Mutex<Generations>>,
    /// Bytes that one generation of one shard may have.
    limit: usize,
}

#[derive(Default)]
struct Generations {
    young: HashMap<KeyHash, Kept>,
    old: HashMap<KeyHash, Kept>,
    /// Of the young ones.
    bytes: usize,
}

struct Kept {
    position: u64,
    bytes: usize,
    entry: Arc<Entry>,
}

impl Recent {
    /// Keeps about `bytes` at most.
    pub fn new(bytes: usize) -> Recent {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Recent { shards, limit: bytes / SHARDS / 2 }
    }

    fn shard(&self, key: KeyHash) -> &Mutex<Generations> {
        &self.shards[usize::from(key.byte()) % SHARDS]
    }

    /// The entry of a key whose latest frame is at `position`.
    pub fn get(&self, key: KeyHash, position: u64) -> Option<Arc<Entry>> {
        let mut shard = lock(self.shard(key));
        if let Some(kept) = shard.young.get(&key) {
            return (kept.position == position).then(|| Arc::clone(&kept.entry));
        }
        let kept = shard.old.remove(&key)?;
        if kept.position != position {
            return None;
        }
        let entry = Arc::clone(&kept.entry);
        shard.put(key, kept, self.limit);
        Some(entry)
    }

    /// Keeps the entry of a key whose latest frame is at `position`.
    pub fn put(&self, key: KeyHash, position: u64, entry: &Entry) {
        let bytes = size(entry);
        if bytes > self.limit {
            return;
        }
        let entry = Arc::new(entry.clone());
        lock(self.shard(key)).put(key, Kept { position, bytes, entry }, self.limit);
    }
}

impl Generations {
    fn put(&mut self, key: KeyHash, kept: Kept, limit: usize) {
        if self.bytes + kept.bytes > limit {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += kept.bytes;
        if let Some(before) = self.young.insert(key, kept) {
            self.bytes -= before.bytes;
        }
    }
}

/// What an entry takes, with its place in a table.
fn size(entry: &Entry) -> usize {
    let bodies = [Some(&entry.asked), entry.sent.as_ref(), entry.outcome.as_ref()];
    let bodies: usize = bodies.into_iter().flatten().map(bytes::Bytes::len).sum();
    let key = &entry.key;
    let texts = key.scope().len() + key.tool().len() + key.id().len() + entry.note.as_ref().map_or(0, String::len);
    // Besides the text itself an allocation costs some bytes, of which there are up to seven.
    size_of::<Entry>() + 2 * size_of::<(KeyHash, Kept)>() + 7 * 16 + bodies + texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::make::{claim, key};

    #[test]
    fn memory_is_bounded_and_what_is_asked_for_stays() {
        let recent = Recent::new(1 << 20);
        let entry = |id: u64| claim(&key("recent", id)).apply(None, |_| 0);
        let hash = |id: u64| KeyHash::of(&entry(id).key);
        let most = (1 << 20) / size(&entry(10_000));
        recent.put(hash(0), 0, &entry(0));
        for id in 1..20_000 {
            recent.put(hash(id), id, &entry(id));
            assert_eq!(recent.get(hash(0), 0).as_deref(), Some(&entry(0)));
        }
        let kept = (0..20_000).filter(|id| recent.get(hash(*id), *id).is_some()).count();
        assert!((most / 4..=most).contains(&kept), "{kept} of {most}");
        assert_eq!(recent.get(hash(0), 1), None, "another frame is the latest");
        assert_eq!(recent.get(hash(1), 1), None);
        Recent::new(0).put(hash(0), 0, &entry(0));
    }
}

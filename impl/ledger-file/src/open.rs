//! The keys that are not settled, and who stands in which line.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::frame::KeyHash;
use crate::mixer::Mixer;

/// What an unsettled operation wants, and its place among those that want the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub line: KeyHash,
    pub place: u64,
}

impl From<(KeyHash, u64)> for Place {
    fn from((line, place): (KeyHash, u64)) -> Place {
        Place { line, place }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Open {
    keys: HashMap<KeyHash, Option<Place>, Mixer>,
    lines: HashMap<KeyHash, BTreeMap<u64, KeyHash>>,
}

impl Open {
    /// Notes that a key isn't settled.
    pub fn insert(&mut self, key: KeyHash, place: Option<Place>) {
        if let Some(Some(before)) = self.keys.insert(key, place)
            && Some(before) != place
        {
            self.leave(before);
        }
        if let Some(Place { line, place }) = place {
            self.lines.entry(line).or_default().insert(place, key);
        }
    }

    /// Notes that a key is settled, or gone.
    pub fn remove(&mut self, key: KeyHash) {
        if let Some(Some(before)) = self.keys.remove(&key) {
            self.leave(before);
        }
    }

    fn leave(&mut self, Place { line, place }: Place) {
        if let Some(places) = self.lines.get_mut(&line) {
            places.remove(&place);
            if places.is_empty() {
                self.lines.remove(&line);
            }
        }
    }

    /// Where a key stands, if it isn't settled and wants something.
    pub fn place(&self, key: KeyHash) -> Option<Place> {
        self.keys.get(&key).copied().flatten()
    }

    pub fn keys(&self) -> Vec<KeyHash> {
        self.keys.keys().copied().collect()
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// The keys in a line, the first one first.
    pub fn line(&self, line: KeyHash) -> Vec<KeyHash> {
        self.lines.get(&line).map(|places| places.values().copied().collect()).unwrap_or_default()
    }

    /// All of it, to be kept elsewhere.
    pub fn list(&self) -> Vec<(KeyHash, Option<Place>)> {
        self.keys.iter().map(|(key, place)| (*key, *place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn hash(byte: u8) -> KeyHash {
        KeyHash([byte; 16])
    }

    #[test]
    fn lines_are_in_order_and_end_with_those_who_stand_in_them() {
        let mut open = Open::default();
        let line = hash(100);
        for (key, place) in [(1, 30), (2, 10), (3, 20)] {
            open.insert(hash(key), Some(Place { line, place }));
        }
        open.insert(hash(4), None);
        assert_eq!(open.line(line), [hash(2), hash(3), hash(1)]);
        open.insert(hash(2), Some(Place { line: hash(101), place: 10 }));
        assert_eq!((open.line(line), open.line(hash(101))), (vec![hash(3), hash(1)], vec![hash(2)]));
        open.insert(hash(3), Some(Place { line, place: 20 }));
        open.remove(hash(1));
        assert_eq!(open.line(line), [hash(3)]);
        for key in 2..=4 {
            open.remove(hash(key));
        }
        assert!(open.keys.is_empty() && open.lines.is_empty());
    }
}

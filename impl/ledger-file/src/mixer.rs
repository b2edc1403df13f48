//! A hash for tables of digests.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Hashes what is a digest already; the secret keeps callers from choosing keys that fall into one place.
#[derive(Clone, Copy)]
pub(crate) struct Mixer(u64);

impl Mixer {
    pub fn new() -> Mixer {
        Mixer(RandomState::new().hash_one(0_u8) | 1)
    }
}

impl Default for Mixer {
    fn default() -> Mixer {
        Mixer::new()
    }
}

impl BuildHasher for Mixer {
    type Hasher = Mixing;

    fn build_hasher(&self) -> Mixing {
        Mixing { secret: self.0, hash: 0 }
    }
}

pub(crate) struct Mixing {
    secret: u64,
    hash: u64,
}

impl Hasher for Mixing {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let product = u128::from(self.hash ^ u64::from_le_bytes(word)) * u128::from(self.secret);
            self.hash = (product as u64) ^ (product >> 64) as u64;
        }
    }

    // The length of an array says nothing.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.hash
    }
}

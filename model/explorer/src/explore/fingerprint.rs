//! What a state is known by once it is no longer kept.

use ahash::RandomState;

use crate::system::System;

/// Hashes states: the same in every run of a program.
pub struct Fingerprints {
    hasher: RandomState,
    symmetry: bool,
}

impl Fingerprints {
    /// With `symmetry`, states that differ only in names of things that are alike have one fingerprint.
    pub fn new(symmetry: bool) -> Self {
        let hasher = RandomState::with_seeds(
            0x243f_6a88_85a3_08d3,
            0x1319_8a2e_0370_7344,
            0xa409_3822_299f_31d0,
            0x082e_fa98_ec4e_6c89,
        );
        Fingerprints { hasher, symmetry }
    }

    /// A state's fingerprint, and whether any state that is alike has a hash of its own.
    #[inline]
    pub fn of<S: System>(&self, system: &S, state: &S::State) -> (u64, bool) {
        if !self.symmetry {
            return (self.hasher.hash_one(state), false);
        }
        if let Some(canonical) = system.canonical(state) {
            return (self.hasher.hash_one(&canonical), canonical != *state);
        }
        let own = self.hasher.hash_one(state);
        let mut smallest = own;
        let mut renamed = false;
        system.symmetric(state, &mut |alike| {
            let its = self.hasher.hash_one(alike);
            renamed |= its != own;
            smallest = smallest.min(its);
        });
        (smallest, renamed)
    }

    /// The hash of anything, for use as a source of numbers that look random.
    pub fn number(&self, of: (u64, u64)) -> u64 {
        self.hasher.hash_one(of)
    }
}

//! Global ids: an id within a shard, and the shard.

/// How ids are divided among shards.
#[derive(Clone, Copy)]
pub struct Ids {
    shards: u32,
}

impl Ids {
    /// For this many shards.
    pub fn new(shards: usize) -> Self {
        Ids { shards: shards as u32 }
    }

    /// The shard of a fingerprint. Taken from its middle: the table of a shard uses both ends.
    #[inline]
    pub fn shard_of(self, fingerprint: u64) -> usize {
        (((fingerprint >> 20 & 0xffff_ffff) * u64::from(self.shards)) >> 32) as usize
    }

    /// The global id.
    #[inline]
    pub fn global(self, local: u32, shard: usize) -> u32 {
        local * self.shards + shard as u32
    }

    /// The id within the shard, and the shard.
    #[inline]
    pub fn local(self, global: u32) -> (u32, usize) {
        (global / self.shards, (global % self.shards) as usize)
    }
}

//! The content of a simulated file: a page cache over a disk.

use std::collections::BTreeSet;

use super::SECTOR;

#[derive(Default)]
pub(super) struct Content {
    pub cache: Vec<u8>,
    pub disk: Vec<u8>,
    /// Sectors that differ from the disk and that the next sync writes.
    pub dirty: BTreeSet<usize>,
    /// Sectors that differ from the disk but that a failed sync has marked clean.
    pub lost: BTreeSet<usize>,
}

impl Content {
    pub fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if end > self.cache.len() {
            self.cache.resize(end, 0);
        }
        self.cache[offset..end].copy_from_slice(bytes);
        for sector in offset / SECTOR..end.div_ceil(SECTOR) {
            self.lost.remove(&sector);
            self.dirty.insert(sector);
        }
    }

    pub fn truncate(&mut self, len: usize) {
        // The removed sectors come back as zeros if the file grows again before it is synced.
        let removed = len / SECTOR..self.cache.len().div_ceil(SECTOR);
        self.dirty.extend(removed);
        self.cache.resize(len, 0);
    }

    /// Copies one sector to the disk.
    fn persist(&mut self, sector: usize) {
        let start = sector * SECTOR;
        let end = (start + SECTOR).min(self.cache.len());
        if start < end {
            if self.disk.len() < end {
                self.disk.resize(end, 0);
            }
            self.disk[start..end].copy_from_slice(&self.cache[start..end]);
        }
    }

    pub fn sync(&mut self) {
        for sector in std::mem::take(&mut self.dirty) {
            self.persist(sector);
        }
        self.disk.resize(self.cache.len(), 0);
    }

    pub fn crash(&mut self, keep: &mut dyn FnMut() -> bool) {
        if self.disk.len() != self.cache.len() && keep() {
            self.disk.resize(self.cache.len(), 0);
        }
        let dirty = std::mem::take(&mut self.dirty);
        for sector in dirty.union(&std::mem::take(&mut self.lost)) {
            if keep() {
                self.persist(*sector);
            }
        }
        self.cache.clone_from(&self.disk);
    }
}

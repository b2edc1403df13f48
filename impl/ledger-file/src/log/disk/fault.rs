//! A disk in memory that loses, tears and refuses.
//!
//! It models a page cache over a disk. Reads see the cache; a sync copies the changed sectors to the disk; a
//! [`crash`](FaultDisk::crash) keeps any of the unsynced sectors and loses the others. After a *failed* sync the cache takes
//! its sectors for clean, as Linux does: they stay readable, no later sync writes them, and a crash may lose them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile, Displaced, SECTOR};

/// What goes wrong, counted from when the faults are set. `n` = 1 is the next such operation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// The n-th write fails after some of its bytes, perhaps none, have gone into the cache.
    pub fail_write: Option<u64>,
    /// The n-th sync, of a file or of the directory, fails.
    pub fail_sync: Option<u64>,
    /// Bytes that all files together may have; further ones are refused as on a full disk.
    pub capacity: Option<u64>,
    /// Writes take a random part of what they are given, at least one byte.
    pub short_writes: bool,
}

/// A directory in memory. Clones share it. Everything random comes from the seed.
#[derive(Clone)]
pub struct FaultDisk {
    state: Arc<Mutex<State>>,
}

struct State {
    files: BTreeMap<String, Content>,
    faults: Faults,
    /// Counts crashes and kills, so that files opened before one are refused after it.
    epoch: u64,
    writes: u64,
    syncs: u64,
    random: fastrand::Rng,
}

#[derive(Default)]
struct Content {
    cache: Vec<u8>,
    disk: Vec<u8>,
    /// Sectors that differ from the disk and that the next sync writes.
    dirty: BTreeSet<usize>,
    /// Sectors that differ from the disk but that a failed sync has marked clean.
    lost: BTreeSet<usize>,
    /// Whether the file's name is durable.
    linked: bool,
}

impl FaultDisk {
    /// An empty directory without faults.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let state = State { files: BTreeMap::new(), faults: Faults::default(), epoch: 0, writes: 0, syncs: 0, random };
        FaultDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Replaces the faults and counts anew.
    pub fn set_faults(&self, faults: Faults) {
        let mut state = self.lock();
        state.faults = faults;
        (state.writes, state.syncs) = (0, 0);
    }

    /// Writes and syncs since the faults were last set.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let state = self.lock();
        (state.writes, state.syncs)
    }

    /// Power fails: each unsynced sector, each unsynced length and each unsynced name is kept or lost at random. Ends all
    /// faults, and files opened before it are refused.
    pub fn crash(&self) {
        let mut state = self.lock();
        let State { files, random, .. } = &mut *state;
        // All lost and all kept are the likeliest of real crashes and the rarest of independent coin tosses.
        let keep = [0.0, 1.0, random.f64()][random.usize(..3)];
        files.retain(|_, content| content.linked || random.f64() < keep);
        for content in files.values_mut() {
            content.crash(&mut || random.f64() < keep);
        }
        state.restart();
    }

    /// The process dies: the cache survives. Ends all faults, and files opened before it are refused.
    pub fn kill(&self) {
        self.lock().restart();
    }

    /// The content of a file, as a reader would see it.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.lock().files.get(name).map(|content| content.cache.clone())
    }

    /// Replaces a file, durably and behind the log's back, to damage it. `None` removes it.
    pub fn replace(&self, name: &str, bytes: Option<Vec<u8>>) {
        let mut state = self.lock();
        match bytes {
            Some(bytes) => {
                let content = Content { cache: bytes.clone(), disk: bytes, linked: true, ..Content::default() };
                state.files.insert(name.to_owned(), content);
            }
            None => {
                state.files.remove(name);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, name: &str, epoch: u64) -> Arc<dyn DiskFile> {
        Arc::new(FaultFile { disk: self.clone(), name: name.to_owned(), epoch })
    }
}

impl State {
    fn restart(&mut self) {
        self.epoch += 1;
        self.faults = Faults::default();
        (self.writes, self.syncs) = (0, 0);
    }

    /// Counts a sync; says whether it is the one to fail.
    fn count_sync(&mut self) -> io::Result<()> {
        self.syncs += 1;
        if self.faults.fail_sync == Some(self.syncs) { Err(injected("sync")) } else { Ok(()) }
    }

    /// How many of `len` bytes at `offset` of `content` fit the capacity.
    fn room(&self, name: &str, offset: usize, len: usize) -> usize {
        let Some(capacity) = self.faults.capacity else {
            return len;
        };
        let others: usize = self.files.iter().filter(|(n, _)| n.as_str() != name).map(|(_, c)| c.cache.len()).sum();
        let own = self.files.get(name).map_or(0, |c| c.cache.len());
        let limit = usize::try_from(capacity).unwrap_or(usize::MAX).saturating_sub(others).max(own);
        limit.saturating_sub(offset).min(len)
    }
}

impl Content {
    fn write(&mut self, bytes: &[u8], offset: usize) {
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

    fn truncate(&mut self, len: usize) {
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

    fn sync(&mut self) {
        for sector in std::mem::take(&mut self.dirty) {
            self.persist(sector);
        }
        self.disk.resize(self.cache.len(), 0);
    }

    fn crash(&mut self, keep: &mut dyn FnMut() -> bool) {
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
        self.linked = true;
    }
}

fn injected(what: &str) -> io::Error {
    io::Error::other(format!("injected {what} error"))
}

impl Disk for FaultDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock();
        if state.files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.files.insert(name.to_owned(), Content::default());
        Ok(self.handle(name, state.epoch))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.lock();
        if !state.files.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(self.handle(name, state.epoch))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().files.keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.count_sync()?;
        state.files.values_mut().for_each(|content| content.linked = true);
        Ok(())
    }
}

struct FaultFile {
    disk: FaultDisk,
    name: String,
    epoch: u64,
}

impl FaultFile {
    fn with<R>(&self, act: impl FnOnce(&mut State, &str) -> io::Result<R>) -> io::Result<R> {
        let mut state = self.disk.lock();
        if state.epoch != self.epoch {
            return Err(io::Error::other("this file was opened before the crash"));
        }
        act(&mut state, &self.name)
    }

    fn content<R>(&self, act: impl FnOnce(&mut Content) -> R) -> io::Result<R> {
        self.with(|state, name| state.files.get_mut(name).map(act).ok_or_else(|| io::ErrorKind::NotFound.into()))
    }
}

fn index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput.into())
}

impl DiskFile for FaultFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let offset = index(offset)?;
        self.with(|state, name| {
            state.writes += 1;
            let fails = state.faults.fail_write == Some(state.writes);
            let mut len = state.room(name, offset, bytes.len());
            if len == 0 && !bytes.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            if fails {
                len = state.random.usize(..=len);
            } else if state.faults.short_writes && len > 1 {
                len = state.random.usize(1..=len);
            }
            let content = state.files.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
            if len > 0 {
                content.write(&bytes[..len], offset);
            }
            if fails { Err(injected("write")) } else { Ok(len) }
        })
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let offset = index(offset)?;
        self.content(|content| {
            let from = content.cache.get(offset..).unwrap_or_default();
            let len = from.len().min(into.len());
            into[..len].copy_from_slice(&from[..len]);
            len
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|state, name| {
            let counted = state.count_sync();
            let content = state.files.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
            match counted {
                Ok(()) => content.sync(),
                Err(_) => content.lost.append(&mut content.dirty),
            }
            counted
        })
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.content(|content| content.cache.len() as u64)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let len = index(len)?;
        self.content(|content| content.truncate(len))
    }

    fn in_place(&self, expected: u64) -> Result<(), Displaced> {
        match self.len() {
            Ok(found) if found < expected => Err(Displaced::Cut { found, expected }),
            Ok(_) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Displaced::FileGone),
            Err(e) => Err(Displaced::Unknown(e.to_string())),
        }
    }
}

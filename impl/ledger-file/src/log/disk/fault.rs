//! A disk in memory that loses, tears and refuses.
//!
//! It models a page cache over a disk. Reads see the cache; a sync copies the changed sectors to the disk; a
//! [`crash`](FaultDisk::crash) keeps any of the unsynced sectors and loses the others. After a *failed* sync the cache takes
//! its sectors for clean, as Linux does: they stay readable, no later sync writes them, and a crash may lose them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::pages::Content;
use super::{Disk, DiskFile, Displaced};

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
    /// After so many operations that change something or sync it, all further ones fail: the process is as good as dead.
    pub stop_after: Option<u64>,
}

/// A directory in memory. Clones share it. Everything random comes from the seed.
#[derive(Clone)]
pub struct FaultDisk {
    state: Arc<Mutex<State>>,
}

struct State {
    /// What the names lead to.
    names: BTreeMap<String, Id>,
    /// What they lead to after a crash, for certain.
    durable_names: BTreeMap<String, Id>,
    files: BTreeMap<Id, Content>,
    last_id: Id,
    faults: Faults,
    /// Counts crashes and kills, so that files opened before one are refused after it.
    epoch: u64,
    writes: u64,
    syncs: u64,
    operations: u64,
    random: fastrand::Rng,
}

type Id = u64;

impl FaultDisk {
    /// An empty directory without faults.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = State {
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            files: BTreeMap::new(),
            last_id: 0,
            faults: Faults::default(),
            epoch: 0,
            writes: 0,
            syncs: 0,
            operations: 0,
            random: fastrand::Rng::with_seed(seed),
        };
        FaultDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Replaces the faults and counts anew.
    pub fn set_faults(&self, faults: Faults) {
        let mut state = self.lock();
        state.faults = faults;
        (state.writes, state.syncs, state.operations) = (0, 0, 0);
    }

    /// Operations that change something or sync it, since the faults were last set.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Writes and syncs since the faults were last set.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let state = self.lock();
        (state.writes, state.syncs)
    }

    /// Power fails: each unsynced sector, each unsynced length and what was done to each name is kept or lost at random. Ends
    /// all faults, and files opened before it are refused.
    pub fn crash(&self) {
        let mut state = self.lock();
        let State { names, durable_names, files, random, .. } = &mut *state;
        // All lost and all kept are the likeliest of real crashes and the rarest of independent coin tosses.
        let keep = [0.0, 1.0, random.f64()][random.usize(..3)];
        let mut left = BTreeMap::new();
        let all: BTreeSet<String> = names.keys().chain(durable_names.keys()).cloned().collect();
        for name in all {
            let from = if random.f64() < keep { &*names } else { &*durable_names };
            if let Some(id) = from.get(&name) {
                left.insert(name, *id);
            }
        }
        files.retain(|id, _| left.values().any(|kept| kept == id));
        for content in files.values_mut() {
            content.crash(&mut || random.f64() < keep);
        }
        *names = left.clone();
        *durable_names = left;
        state.restart();
    }

    /// The process dies: the cache survives. Ends all faults, and files opened before it are refused.
    pub fn kill(&self) {
        self.lock().restart();
    }

    /// The content of a file, as a reader would see it.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.lock();
        state.files.get(state.names.get(name)?).map(|content| content.cache.clone())
    }

    /// The names of all files.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.lock().names.keys().cloned().collect()
    }

    /// Replaces a file, durably and behind the log's back, to damage it. `None` removes it.
    pub fn replace(&self, name: &str, bytes: Option<Vec<u8>>) {
        let mut state = self.lock();
        state.names.remove(name);
        state.durable_names.remove(name);
        if let Some(bytes) = bytes {
            let id = state.create(name, Content { cache: bytes.clone(), disk: bytes, ..Content::default() });
            state.durable_names.insert(name.to_owned(), id);
        }
    }

    /// A disk of its own with the same files.
    #[must_use]
    pub fn copy(&self, seed: u64) -> FaultDisk {
        let copy = FaultDisk::new(seed);
        for name in self.names() {
            copy.replace(&name, self.bytes(&name));
        }
        copy
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, name: &str, id: Id, epoch: u64) -> Arc<dyn DiskFile> {
        Arc::new(FaultFile { disk: self.clone(), name: name.to_owned(), id, epoch })
    }
}

impl State {
    fn restart(&mut self) {
        self.epoch += 1;
        self.faults = Faults::default();
        (self.writes, self.syncs, self.operations) = (0, 0, 0);
    }

    fn create(&mut self, name: &str, content: Content) -> Id {
        self.last_id += 1;
        self.files.insert(self.last_id, content);
        self.names.insert(name.to_owned(), self.last_id);
        self.last_id
    }

    /// Counts an operation that changes something or syncs it.
    fn count(&mut self) -> io::Result<()> {
        self.operations += 1;
        match self.faults.stop_after {
            Some(stop) if self.operations > stop => Err(injected("stop")),
            _ => Ok(()),
        }
    }

    /// Counts a sync; says whether it is the one to fail.
    fn count_sync(&mut self) -> io::Result<()> {
        self.count()?;
        self.syncs += 1;
        if self.faults.fail_sync == Some(self.syncs) { Err(injected("sync")) } else { Ok(()) }
    }

    /// How many of `len` bytes at `offset` of `content` fit the capacity.
    fn room(&self, id: Id, offset: usize, len: usize) -> usize {
        let Some(capacity) = self.faults.capacity else {
            return len;
        };
        let used = |id: &Id| self.files.get(id).map_or(0, |content| content.cache.len());
        let others: usize = self.names.values().filter(|other| **other != id).map(used).sum();
        let limit = usize::try_from(capacity).unwrap_or(usize::MAX).saturating_sub(others).max(used(&id));
        limit.saturating_sub(offset).min(len)
    }
}

fn injected(what: &str) -> io::Error {
    io::Error::other(format!("injected {what} error"))
}

impl Disk for FaultDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock();
        state.count()?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let id = state.create(name, Content::default());
        Ok(self.handle(name, id, state.epoch))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.lock();
        let id = *state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.handle(name, id, state.epoch))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.count()?;
        let id = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), id);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.count()?;
        state.names.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.count_sync()?;
        state.durable_names = state.names.clone();
        Ok(())
    }
}

struct FaultFile {
    disk: FaultDisk,
    /// The name that it was opened by.
    name: String,
    id: Id,
    epoch: u64,
}

impl FaultFile {
    fn with<R>(&self, act: impl FnOnce(&mut State, Id) -> io::Result<R>) -> io::Result<R> {
        let mut state = self.disk.lock();
        if state.epoch != self.epoch {
            return Err(io::Error::other("this file was opened before the crash"));
        }
        act(&mut state, self.id)
    }

    fn content<R>(&self, act: impl FnOnce(&mut Content) -> R) -> io::Result<R> {
        self.with(|state, id| state.files.get_mut(&id).map(act).ok_or_else(|| io::ErrorKind::NotFound.into()))
    }
}

fn index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput.into())
}

impl DiskFile for FaultFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let offset = index(offset)?;
        self.with(|state, id| {
            state.count()?;
            state.writes += 1;
            let fails = state.faults.fail_write == Some(state.writes);
            let mut len = state.room(id, offset, bytes.len());
            if len == 0 && !bytes.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            if fails {
                len = state.random.usize(..=len);
            } else if state.faults.short_writes && len > 1 {
                len = state.random.usize(1..=len);
            }
            let content = state.files.get_mut(&id).ok_or(io::ErrorKind::NotFound)?;
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
        self.with(|state, id| {
            let counted = state.count_sync();
            let content = state.files.get_mut(&id).ok_or(io::ErrorKind::NotFound)?;
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
        self.with(|state, _| state.count())?;
        self.content(|content| content.truncate(len))
    }

    fn in_place(&self, expected: u64) -> Result<(), Displaced> {
        match self.disk.lock().names.get(&self.name) {
            Some(id) if *id == self.id => {}
            Some(_) => return Err(Displaced::FileReplaced),
            None => return Err(Displaced::FileGone),
        }
        match self.len() {
            Ok(found) if found < expected => Err(Displaced::Cut { found, expected }),
            Ok(_) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Displaced::FileGone),
            Err(e) => Err(Displaced::Unknown(e.to_string())),
        }
    }
}

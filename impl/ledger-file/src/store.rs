//! The ledger as the process that holds its directory sees it: log, index and committer.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use settled::{Bucket, Change, Draw, Entry, Filter, LedgerError, Remains, Resource};
use settled_protocol::{Key, Time, Version};
use tokio::sync::oneshot;

use crate::body::Tombstone;
use crate::chain::Chains;
use crate::clock::{Clock, Simulated};
use crate::commit::{Committer, Item, Write, Written};
use crate::due::Point;
use crate::error::from_io;
use crate::frame::{self, FrameError, KeyHash, Kind, Token};
use crate::group_commit::GroupCommit;
use crate::index::Index;
use crate::leases::Leases;
use crate::log::DirLock;
use crate::log::disk::{Disk, FsDisk};
use crate::options::FileLedgerOptions;
use crate::owners::Owners;
use crate::path;
use crate::recent::Recent;
use crate::replay::{self, Replayed};
use crate::size::LedgerSize;
use crate::slot::{MAX_VERSION, Slot};
use crate::sync::lock;
use crate::tenure::Tenure;
use crate::upkeep::{Keeper, Parts, Upkeep};

/// The largest record that is stored, in bytes as encoded.
pub(crate) const MAX_RECORD: usize = 64 << 20;

/// How long [`Store::changed`] waits at most.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The ledger in a directory that this process holds.
pub(crate) struct Store {
    index: Arc<Index>,
    chains: Chains,
    recent: Recent,
    commits: Arc<GroupCommit<Item>>,
    tenure: Arc<Tenure>,
    pub(crate) owners: Arc<Owners>,
    pub(crate) leases: Arc<Leases>,
    clock: Clock,
    budget: Mutex<Bucket>,
    upkeep: Mutex<Option<Upkeep>>,
    snapshot_bytes: Arc<AtomicU64>,
    /// Released last, when nothing is written any more.
    held: Mutex<Option<DirLock>>,
}

/// How a store does what it does by itself.
pub(crate) enum Run {
    /// On threads of its own, by the host's clock.
    Threads,
    /// When it is told to, by another clock.
    Simulated(Simulated),
}

/// A request to write, and whether it may have been carried out already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub token: Token,
    pub again: bool,
}

impl Ticket {
    /// For what needn't be recognised.
    pub const NONE: Ticket = Ticket { token: 0, again: false };
}

impl Store {
    /// Opens the ledger in a directory whose lock has been taken, or begins one.
    pub fn open(
        dir: &Path,
        options: &FileLedgerOptions,
        owners: Arc<Owners>,
        held: DirLock,
    ) -> Result<Store, LedgerError> {
        let disk =
            FsDisk::open(dir).map_err(|e| from_io("open the directory", dir, &e))?.with_sync_delay(options.sync_delay);
        if disk.id() != held.id() {
            return Err(path::replaced(dir));
        }
        path::check_present(dir)?;
        let disk: Arc<dyn Disk> = Arc::new(disk);
        #[cfg(feature = "fault-points")]
        let disk = crate::log::disk::wrap(disk).map_err(|e| from_io("use the disk of", dir, &e))?;
        let (store, keeper) = Store::on(disk, dir, options, owners, Some(held), Run::Threads)?;
        *lock(&store.upkeep) = Some(Upkeep::start(keeper).map_err(|e| from_io("start a thread for", dir, &e))?);
        store.owners.clean();
        Ok(store)
    }

    pub(crate) fn on(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: &FileLedgerOptions,
        owners: Arc<Owners>,
        held: Option<DirLock>,
        run: Run,
    ) -> Result<(Store, Keeper), LedgerError> {
        let Replayed { log, index, forgotten, epoch, seen, snapshot } = replay::open(&disk, dir, options.log)?;
        let index = Arc::new(index);
        let chains = Chains::new(log.reader(), dir);
        let leases = Arc::new(Leases::default());
        let trimmer = log.trimmer();
        let mut committer = Committer {
            log,
            index: Arc::clone(&index),
            chains: chains.clone(),
            leases: Arc::clone(&leases),
            forgotten,
            epoch,
            dir: PathBuf::from(dir),
        };
        let snapshot_bytes = Arc::new(AtomicU64::new(snapshot.bytes));
        let thread = |e| from_io("start a thread for", dir, &e);
        let tenure = Arc::new(Tenure::default());
        let commit = {
            let tenure = Arc::clone(&tenure);
            move |items: &mut [Item]| {
                let committed = committer.commit(items);
                // Before anybody is told.
                committed.inspect_err(|error| tenure.failed(&committer.log, error))
            }
        };
        let (commits, clock) = match run {
            Run::Threads => (GroupCommit::start("settled-ledger", commit).map_err(thread)?, Clock::new()),
            Run::Simulated(now) => (GroupCommit::by_hand(commit), Clock::Simulated(now)),
        };
        let commits = Arc::new(commits);
        let store = Store {
            index: Arc::clone(&index),
            chains: chains.clone(),
            recent: Recent::new(options.cache_bytes),
            commits: Arc::clone(&commits),
            tenure,
            owners,
            leases: Arc::clone(&leases),
            clock,
            budget: Mutex::default(),
            upkeep: Mutex::default(),
            snapshot_bytes: Arc::clone(&snapshot_bytes),
            held: Mutex::new(held),
        };
        store.adopt(&seen);
        let (dir, options) = (PathBuf::from(dir), options.log);
        Ok((
            store,
            Keeper::new(Parts {
                disk,
                dir,
                index,
                chains,
                leases,
                commits,
                trimmer,
                options,
                snapshot,
                snapshot_bytes,
            }),
        ))
    }

    /// Carries out a compare-and-set. Returns whether the ledger held the expected version.
    pub async fn compare_and_set(&self, change: &Change, ticket: Ticket) -> Result<bool, LedgerError> {
        let key = KeyHash::of(&change.key);
        let frame = encode(change, key, ticket.token)?;
        let write = Write::Change(change.record.version());
        let written = self.write(write, key, change.expected, ticket, frame);
        Ok(written.await? == Written::Accepted(true))
    }

    /// Forgets a key at a version, or all but a tombstone of it. Returns whether the ledger held that.
    pub async fn forget(
        &self,
        key: &Key,
        expected: Version,
        remains: Remains,
        ticket: Ticket,
    ) -> Result<bool, LedgerError> {
        let hash = KeyHash::of(key);
        let unwritable = |e: FrameError| LedgerError::Unavailable(e.to_string());
        let Remains::Tombstone { keep_until } = remains else {
            let frame = frame::bare(Kind::Forgotten { key: hash }, ticket.token).map_err(unwritable)?;
            let written = self.write(Write::Forget, hash, Some(expected), ticket, frame);
            return Ok(written.await? == Written::Accepted(true));
        };
        loop {
            let (position, frame) = match self.get_at(key)? {
                Some((slot, entry)) if slot.version() == expected => {
                    let tombstone = Tombstone::of(entry, keep_until);
                    (slot.position(), frame::buried(&tombstone, hash, ticket.token).map_err(unwritable)?)
                }
                // It may have been done before.
                _ if ticket.again => (u64::MAX, Vec::new()),
                _ => return Ok(false),
            };
            let written = self.write(Write::Bury { position }, hash, Some(expected), ticket, frame);
            if written.await? == Written::Accepted(true) {
                return Ok(true);
            }
            // A copy may have taken the place of what was found.
            if !self.index.get(hash).is_some_and(|now| now.position() != position && now.version() == expected) {
                return Ok(false);
            }
        }
    }

    pub(crate) async fn write(
        &self,
        write: Write,
        key: KeyHash,
        expected: Option<Version>,
        ticket: Ticket,
        frame: Vec<u8>,
    ) -> Result<Written, LedgerError> {
        let (done, written) = oneshot::channel();
        let item = Item { write, key, expected, token: ticket.token, again: ticket.again, frame, written: None, done };
        let closed = || LedgerError::Unavailable("it was closed".to_owned());
        self.commits.submit(item).map_err(|_| closed())?;
        written.await.map_err(|_| closed())?
    }

    /// The entry of a key. May read from the disk.
    pub fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        Ok(self.get_at(key)?.map(|(_, entry)| entry))
    }

    fn get_at(&self, key: &Key) -> Result<Option<(Slot, Entry)>, LedgerError> {
        let hash = KeyHash::of(key);
        self.current(hash, |slot| {
            if let Some(entry) = self.recent.get(hash, slot.position()).filter(|entry| entry.key == *key) {
                return Ok((slot, Entry::clone(&entry)));
            }
            let entry = self.chains.entry(slot.position(), Some(key))?;
            self.recent.put(hash, slot.position(), &entry);
            Ok((slot, entry))
        })
    }

    /// Reads what a key's latest frame leads to. That may be moved meanwhile: then it is read from its new place.
    fn current<R>(
        &self,
        key: KeyHash,
        read: impl Fn(Slot) -> Result<R, LedgerError>,
    ) -> Result<Option<R>, LedgerError> {
        loop {
            let Some(slot) = self.index.get(key) else {
                return Ok(None);
            };
            match read(slot) {
                Err(_) if self.index.get(key) != Some(slot) => {}
                result => return result.map(Some),
            }
        }
    }

    /// The entries that the filter names, ordered by key. Reads from the disk, perhaps for long.
    pub fn scan(&self, filter: Filter) -> Result<Vec<Entry>, LedgerError> {
        let mut found = self.index.list(filter == Filter::Unsettled);
        found.sort_unstable_by_key(|(_, slot)| slot.position());
        let mut entries = self.entries(found.into_iter().map(|(key, _)| key))?;
        if filter == Filter::Unsettled {
            entries.retain(|entry| !entry.record.is_settled());
        }
        entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(entries)
    }

    /// The unsettled operations that want a resource, the first one first.
    pub fn line(&self, resource: &Resource) -> Result<Vec<Entry>, LedgerError> {
        let keys = self.index.line(KeyHash::of_resource(resource));
        let mut entries = self.entries(keys.into_iter())?;
        entries.retain(|entry| !entry.record.is_settled() && entry.resource.as_ref() == Some(resource));
        entries.sort_by_key(|entry| entry.place);
        Ok(entries)
    }

    fn entries(&self, keys: impl Iterator<Item = KeyHash>) -> Result<Vec<Entry>, LedgerError> {
        keys.filter_map(|key| self.current(key, |slot| self.chains.entry(slot.position(), None)).transpose()).collect()
    }

    /// Up to `limit` settled entries that may be forgotten by `now`: by that time, then by their places in the log.
    pub fn due(&self, now: Time, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        let mut from = None;
        if let Some(after) = after {
            let slot = self.index.get(KeyHash::of(&after.key)).filter(|slot| slot.version() == after.record.version());
            let stands = slot.map(|slot| self.due_at(slot.position())).transpose()?.flatten();
            // Where one that is gone, or buried, stood isn't known: its time is.
            let same = slot.filter(|_| stands.is_some_and(|stands| stands.keep_until == after.keep_until));
            from = Some(Point::new(after.keep_until.unwrap_or_default(), same.map_or(0, |slot| slot.position())));
        }
        let mut entries = Vec::new();
        while entries.len() < limit {
            let points = self.index.due(now, from, limit - entries.len());
            let Some(last) = points.last() else {
                break;
            };
            from = Some(*last);
            let mut stale = Vec::new();
            for point in points {
                match self.due_at(point.position())? {
                    Some(entry) if entry.keep_until.is_some_and(|until| until <= now) => entries.push(entry),
                    Some(_) => {}
                    None => stale.push(point),
                }
            }
            self.index.with_due(|due| due.remove(&stale));
        }
        Ok(entries)
    }

    /// The settled entry whose latest frame is at `position`, if there is one.
    fn due_at(&self, position: u64) -> Result<Option<Entry>, LedgerError> {
        let Some(key) = self.chains.key(position)? else {
            return Ok(None);
        };
        if !self.index.get(key).is_some_and(|slot| slot.position() == position && slot.settled()) {
            return Ok(None);
        }
        match self.chains.entry(position, None) {
            Ok(entry) => Ok(Some(entry)),
            Err(_) if self.index.get(key).is_none_or(|slot| slot.position() != position) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A key's changes, oldest first. Reads from the disk.
    pub fn history(&self, key: &Key) -> Result<Vec<Change>, LedgerError> {
        let history = self.current(KeyHash::of(key), |slot| self.chains.history(slot.position(), key))?;
        Ok(history.unwrap_or_default())
    }

    /// Waits until the key's version may be another than `seen`, for a while.
    pub async fn changed(&self, key: &Key, seen: Option<Version>) {
        let changed = self.index.changed(KeyHash::of(key), seen);
        // Either way the caller looks again.
        let _ = tokio::time::timeout(LOOK_AGAIN, changed).await;
    }

    /// The time of all processes on the ledger.
    pub fn time(&self) -> Time {
        self.clock.now()
    }

    /// Takes a token of the retry budget of all processes on the ledger.
    pub fn draw(&self, draw: Draw) -> bool {
        lock(&self.budget).draw(draw)
    }

    /// How large it is.
    pub fn size(&self) -> LedgerSize {
        let log = self.chains.log();
        LedgerSize {
            disk_bytes: log.bytes() + self.snapshot_bytes.load(Ordering::Relaxed),
            live_bytes: self.index.live_bytes(),
            segments: log.segments().len() as u64,
            keys: self.index.keys(),
            unsettled: self.index.unsettled(),
        }
    }

    /// Where its writes are queued.
    pub(crate) fn commits(&self) -> &GroupCommit<Item> {
        &self.commits
    }

    /// Finishes what was accepted, accepts nothing more, and lets go of the directory.
    pub fn close(&self) {
        self.tenure.close();
        if let Some(upkeep) = &*lock(&self.upkeep) {
            upkeep.stop();
        }
        self.commits.close();
        lock(&self.upkeep).take();
        lock(&self.held).take();
    }

    /// Whether it still speaks for the directory.
    pub fn tenure(&self) -> &Arc<Tenure> {
        &self.tenure
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

/// The frame of a change, if it may be stored.
fn encode(change: &Change, key: KeyHash, token: Token) -> Result<Vec<u8>, LedgerError> {
    check_size(change)?;
    if change.record.version() > MAX_VERSION {
        return Err(LedgerError::Unavailable(format!(
            "the version {} is beyond what it can count to; nothing was stored",
            change.record.version()
        )));
    }
    frame::change(change, key, token).map_err(|e| LedgerError::Unavailable(e.to_string()))
}

/// Refuses what is too large to be stored.
pub(crate) fn check_size(change: &Change) -> Result<(), LedgerError> {
    let bytes = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    let size = bytes(&change.asked)
        + bytes(&change.sent)
        + bytes(&change.outcome)
        + change.note.as_ref().map_or(0, String::len)
        + change.resource.as_ref().map_or(0, |resource| resource.scope.len() + resource.name.len())
        + change.event.len();
    if size > MAX_RECORD {
        return Err(LedgerError::TooLarge(format!(
            "a record with {size} bytes of arguments, answers and notes was refused, its limit is {MAX_RECORD} bytes; nothing \
             was stored, and smaller records still are"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;

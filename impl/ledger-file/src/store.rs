//! The ledger as the process that holds its directory sees it: log, index and committer.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use settled::{Change, Entry, Filter, LedgerError};
use settled_protocol::{Epoch, Key, Version};
use tokio::sync::oneshot;

use crate::chain::Chains;
use crate::commit::{Committer, Forgotten, Item, Write, Written};
use crate::error::{from_io, from_log};
use crate::frame::{self, KeyHash, Kind, Token};
use crate::group_commit::GroupCommit;
use crate::index::{Index, MAX_VERSION, Slot};
use crate::log::disk::{Disk, FsDisk};
use crate::log::{DirLock, Log, Recovery, Refusal};
use crate::options::FileLedgerOptions;
use crate::owners::Owners;
use crate::path;
use crate::recent::Recent;
use crate::sync::lock;

/// The largest record that is stored, in bytes as encoded.
pub(crate) const MAX_RECORD: usize = 64 << 20;

/// How long [`Store::changed`] waits at most.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The ledger in a directory that this process holds.
pub(crate) struct Store {
    index: Arc<Index>,
    chains: Chains,
    recent: Recent,
    commits: GroupCommit<Item>,
    closed: AtomicBool,
    owners: Arc<Owners>,
    /// Released last, when nothing is written any more.
    held: Mutex<Option<DirLock>>,
}

/// A request to write, and whether it may have been carried out already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub token: Token,
    pub again: bool,
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
        let store = Store::on(Arc::new(disk), dir, options, owners, held)?;
        store.owners.clean();
        Ok(store)
    }

    fn on(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: &FileLedgerOptions,
        owners: Arc<Owners>,
        held: DirLock,
    ) -> Result<Store, LedgerError> {
        let index = Arc::new(Index::new());
        let mut forgotten = Forgotten::default();
        let mut epoch = Epoch(0);
        let opened = Log::open(disk, options.log, |position, bytes| {
            let (head, _) = frame::read(bytes).map_err(Refusal::from)?;
            match head.kind {
                Kind::Registered { epoch: given } => epoch = epoch.max(given),
                Kind::Forgotten { key } => {
                    index.set(key, None);
                    forgotten.remember(key, position);
                }
                Kind::Change { key, version, settled } => index.set(key, Some(Slot::new(position, version, settled))),
            }
            Ok(())
        });
        let (log, recovery) = opened.map_err(|e| from_log(&e, dir))?;
        if recovery.batches == 0 {
            path::check_begun(dir)?;
        }
        report(&recovery, dir);
        let chains = Chains::new(log.reader(), dir);
        let mut committer = Committer {
            log,
            index: Arc::clone(&index),
            chains: chains.clone(),
            forgotten,
            epoch,
            dir: PathBuf::from(dir),
        };
        let commits = GroupCommit::start("settled-ledger", move |items| committer.commit(items))
            .map_err(|e| from_io("start a thread for", dir, &e))?;
        Ok(Store {
            index,
            chains,
            recent: Recent::new(options.cache_bytes),
            commits,
            closed: AtomicBool::new(false),
            owners,
            held: Mutex::new(Some(held)),
        })
    }

    /// Gives away the next epoch.
    pub async fn register(&self) -> Result<Epoch, LedgerError> {
        let ticket = Ticket { token: 0, again: false };
        // A registration is no key's business.
        let key = KeyHash::NONE;
        match self.write(Write::Register, key, None, ticket, Vec::new()).await? {
            Written::Registered(epoch) => Ok(epoch),
            Written::Accepted(_) => Err(LedgerError::Unavailable("no epoch was given".to_owned())),
        }
    }

    /// Carries out a compare-and-set. Returns whether the ledger held the expected version.
    pub async fn compare_and_set(&self, change: &Change, ticket: Ticket) -> Result<bool, LedgerError> {
        let key = KeyHash::of(&change.key);
        let frame = encode(change, key, ticket.token)?;
        let write = Write::Change { version: change.record.version(), settled: change.record.is_settled() };
        let written = self.write(write, key, change.expected, ticket, frame);
        Ok(written.await? == Written::Accepted(true))
    }

    /// Forgets a key at a version. Returns whether the ledger held that.
    pub async fn forget(&self, key: &Key, expected: Version, ticket: Ticket) -> Result<bool, LedgerError> {
        let key = KeyHash::of(key);
        let frame = frame::forgotten(key, ticket.token).map_err(|e| LedgerError::Unavailable(e.to_string()))?;
        let written = self.write(Write::Forget, key, Some(expected), ticket, frame);
        Ok(written.await? == Written::Accepted(true))
    }

    async fn write(
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
        let hash = KeyHash::of(key);
        let Some(Slot { position, .. }) = self.index.get(hash) else {
            return Ok(None);
        };
        if let Some(entry) = self.recent.get(hash, position).filter(|entry| entry.key == *key) {
            return Ok(Some(Entry::clone(&entry)));
        }
        let entry = self.chains.entry(position, Some(key))?;
        self.recent.put(hash, position, &entry);
        Ok(Some(entry))
    }

    /// The entries that the filter names, ordered by key. Reads from the disk, perhaps for long.
    pub fn scan(&self, filter: Filter) -> Result<Vec<Entry>, LedgerError> {
        let mut positions = self.index.positions(filter == Filter::Unsettled);
        positions.sort_unstable();
        let entries = positions.into_iter().map(|position| self.chains.entry(position, None));
        let mut entries = entries.collect::<Result<Vec<Entry>, LedgerError>>()?;
        entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(entries)
    }

    /// A key's changes, oldest first. Reads from the disk.
    pub fn history(&self, key: &Key) -> Result<Vec<Change>, LedgerError> {
        match self.index.get(KeyHash::of(key)) {
            Some(slot) => self.chains.history(slot.position, key),
            None => Ok(Vec::new()),
        }
    }

    /// Waits until the key's version may be another than `seen`, for a while.
    pub async fn changed(&self, key: &Key, seen: Option<Version>) {
        let changed = self.index.changed(KeyHash::of(key), seen);
        // Either way the caller looks again.
        let _ = tokio::time::timeout(LOOK_AGAIN, changed).await;
    }

    /// Finishes what was accepted, accepts nothing more, and lets go of the directory.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.commits.close();
        lock(&self.held).take();
    }

    /// The ledger's owners, as this process knows them.
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Whether it is closed or about to be: then an error says nothing about the ledger.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
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
        + change.event.len();
    if size > MAX_RECORD {
        return Err(LedgerError::TooLarge(format!(
            "a record with {size} bytes of arguments, answers and notes was refused, its limit is {MAX_RECORD} bytes; nothing \
             was stored, and smaller records still are"
        )));
    }
    Ok(())
}

fn report(recovery: &Recovery, dir: &Path) {
    if recovery.cut_bytes > 0 {
        tracing::warn!(
            directory = %dir.display(),
            bytes = recovery.cut_bytes,
            "cut a write that a crash had torn off the end of the ledger; it had not been acknowledged"
        );
    }
    tracing::debug!(directory = %dir.display(), frames = recovery.frames, "opened the ledger");
}

#[cfg(test)]
mod tests;

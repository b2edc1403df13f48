//! What the holder does besides serving, on a thread of its own: compaction and snapshots.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use settled::LedgerError;
use tokio::sync::oneshot::{self, error::TryRecvError};

use crate::chain::Chains;
use crate::commit::{Item, LogState, Write, Written};
use crate::copy::{Copied, copy};
use crate::error::{from_io, from_log};
use crate::frame::{self, KeyHash};
use crate::group_commit::GroupCommit;
use crate::index::Index;
use crate::leases::Leases;
use crate::log::disk::Disk;
use crate::log::{LogOptions, LogTrimmer};
use crate::slot::Slot;
use crate::snapshot;
use crate::sync::lock;

/// How often it looks whether there is something to do.
const LOOK: Duration = Duration::from_millis(250);
/// How long it does nothing after something has failed.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
/// So many bytes of copies go to the committer at once.
const GROUP_BYTES: usize = 256 << 10;
/// A key that changed so often while it was being copied is copied by the committer.
const ROUNDS: usize = 3;

/// Runs until it is dropped.
pub(crate) struct Upkeep {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn is_set(&self) -> bool {
        *lock(&self.stopped)
    }

    /// Waits, and says whether it was set.
    fn wait(&self, timeout: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(lock(&self.stopped), timeout, |stopped| !*stopped);
        waited.map_or(true, |(stopped, _)| *stopped)
    }
}

impl Upkeep {
    pub fn start(mut keeper: Keeper) -> std::io::Result<Upkeep> {
        let stop = Arc::clone(&keeper.stop);
        let thread = std::thread::Builder::new().name("settled-upkeep".to_owned()).spawn(move || keeper.run())?;
        Ok(Upkeep { stop, thread: Some(thread) })
    }
}

impl Upkeep {
    /// Lets it end soon. Dropping it waits for that.
    pub fn stop(&self) {
        *lock(&self.stop.stopped) = true;
        self.stop.changed.notify_all();
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // An error means that it panicked, and the panic has been reported.
            let _ = thread.join();
        }
    }
}

/// What the upkeep works with.
pub(crate) struct Keeper {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    index: Arc<Index>,
    chains: Chains,
    leases: Arc<Leases>,
    commits: Arc<GroupCommit<Item>>,
    trimmer: LogTrimmer,
    options: LogOptions,
    snapshot: snapshot::Kept,
    /// For whoever wants to know.
    snapshot_bytes: Arc<AtomicU64>,
    stop: Arc<Stop>,
}

/// All parts of a store that the upkeep needs.
pub(crate) struct Parts {
    pub disk: Arc<dyn Disk>,
    pub dir: PathBuf,
    pub index: Arc<Index>,
    pub chains: Chains,
    pub leases: Arc<Leases>,
    pub commits: Arc<GroupCommit<Item>>,
    pub trimmer: LogTrimmer,
    pub options: LogOptions,
    pub snapshot: snapshot::Kept,
    pub snapshot_bytes: Arc<AtomicU64>,
}

impl Keeper {
    pub fn new(parts: Parts) -> Keeper {
        let Parts { disk, dir, index, chains, leases, commits, trimmer, options, snapshot, snapshot_bytes } = parts;
        let stop = Arc::default();
        Keeper { disk, dir, index, chains, leases, commits, trimmer, options, snapshot, snapshot_bytes, stop }
    }

    fn run(&mut self) {
        let mut pause = LOOK;
        while !self.stop.wait(pause) {
            pause = match self.work() {
                Ok(()) => LOOK,
                Err(_) if self.stop.is_set() => return,
                Err(error) => {
                    tracing::warn!(directory = %self.dir.display(), %error, "the ledger could not be compacted: it goes on, and grows");
                    AFTER_FAILURE
                }
            };
        }
    }

    /// Does all that is to be done now.
    pub fn work(&mut self) -> Result<(), LedgerError> {
        while !self.stop.is_set() && self.is_sparse() && self.compact()? {
            self.snapshot_if_due()?;
        }
        self.snapshot_if_due()
    }

    /// Whether more of the log is given up than is wanted: then copying what is wanted at its beginning pays.
    fn is_sparse(&self) -> bool {
        let live = self.index.live_bytes();
        let dead = self.chains.log().bytes().saturating_sub(live);
        dead > live.saturating_add(self.options.segment_bytes / 2)
    }

    /// Copies what is wanted of the log's first file to its end, and removes the file. `false` if it is the only one, or this
    /// was stopped.
    pub fn compact(&mut self) -> Result<bool, LedgerError> {
        let log = self.chains.log().clone();
        let [first, next, ..] = log.segments()[..] else {
            return Ok(false);
        };
        let mut keys = HashSet::new();
        let collected = log.each(first, |_, bytes| {
            // Whatever can't be read was refused when the ledger was opened.
            keys.extend(frame::read(bytes).ok().and_then(|(head, _)| head.kind.key()));
        });
        collected.map_err(|e| from_log(&e, &self.dir))?;
        let mut keys: Vec<KeyHash> = keys.into_iter().collect();
        for _ in 0..ROUNDS {
            if keys.is_empty() {
                break;
            }
            keys = match self.copy_all(keys, next)? {
                Some(changed) => changed,
                None => return Ok(false),
            };
        }
        for key in keys {
            self.submit(Write::MoveNow { before: next }, key, Vec::new())?.wait()?;
        }
        self.submit(Write::Keep { before: next }, KeyHash::NONE, Vec::new())?.wait()?;
        self.trimmer.remove_before(next).map_err(|e| from_log(&e, &self.dir))?;
        for bucket in self.index.with_due(|due| due.buckets()) {
            self.index.with_due(|due| due.retain_in(bucket, |position| position >= next));
        }
        Ok(true)
    }

    /// Copies the chains of these keys that reach before `limit`. Returns those that changed meanwhile; `None` if stopped.
    fn copy_all(&self, keys: Vec<KeyHash>, limit: u64) -> Result<Option<Vec<KeyHash>>, LedgerError> {
        // In the order of the log, which is the disk's.
        let mut found: Vec<(KeyHash, Slot)> =
            keys.into_iter().filter_map(|key| Some((key, self.index.get(key)?))).collect();
        found.sort_unstable_by_key(|(_, slot)| slot.position());
        let mut changed = Vec::new();
        let (mut group, mut bytes) = (Vec::new(), 0);
        for (key, slot) in found {
            let part = |frame| match self.submit(Write::Plain, KeyHash::NONE, frame)?.wait()? {
                Written::At(position) => Ok(position),
                other => Err(LedgerError::Unavailable(format!("a part was not written: {other:?}"))),
            };
            match copy((&self.chains, &self.index), (key, slot), limit, part) {
                Ok(Some(copied)) => {
                    bytes += copied.frame.len();
                    group.push(copied);
                }
                Ok(None) => {}
                Err(_) if self.index.get(key) != Some(slot) => changed.push(key),
                Err(error) => return Err(error),
            }
            if bytes >= GROUP_BYTES {
                self.put(std::mem::take(&mut group), &mut changed)?;
                bytes = 0;
                if self.stop.is_set() {
                    return Ok(None);
                }
            }
        }
        self.put(group, &mut changed)?;
        Ok(Some(changed))
    }

    /// Has copies take the place of what they are copies of.
    fn put(&self, copies: Vec<Copied>, changed: &mut Vec<KeyHash>) -> Result<(), LedgerError> {
        let put = |Copied { key, position, frame }| Ok((key, self.submit(Write::Move { position }, key, frame)?));
        let waiting = copies.into_iter().map(put).collect::<Result<Vec<_>, LedgerError>>()?;
        for (key, waiting) in waiting {
            if waiting.wait()? != Written::Accepted(true) {
                changed.push(key);
            }
        }
        Ok(())
    }

    pub(crate) fn submit(&self, write: Write, key: KeyHash, frame: Vec<u8>) -> Result<Waiting, LedgerError> {
        let (done, written) = oneshot::channel();
        let item = Item { write, key, expected: None, token: 0, again: false, frame, written: None, done };
        self.commits.submit(item).map_err(|_| closed())?;
        Ok(Waiting { written, commits: Arc::clone(&self.commits) })
    }

    fn look(&self) -> Result<LogState, LedgerError> {
        match self.submit(Write::Look, KeyHash::NONE, Vec::new())?.wait()? {
            Written::Standing(state) => Ok(*state),
            other => Err(LedgerError::Unavailable(format!("the log's state was not told: {other:?}"))),
        }
    }

    fn snapshot_if_due(&mut self) -> Result<(), LedgerError> {
        let log = self.chains.log();
        let added = log.end().saturating_sub(self.snapshot.covers.max(log.begin()));
        match added >= self.options.segment_bytes.max(self.snapshot.bytes) {
            true => self.snapshot(),
            false => Ok(()),
        }
    }

    /// Writes a snapshot of the index.
    pub fn snapshot(&mut self) -> Result<(), LedgerError> {
        let LogState { mark: Some(mark), epoch, forgotten } = self.look()? else {
            return Ok(());
        };
        let covers = mark.end;
        let written = self.write_snapshot(|reaches| {
            let leases = self.leases.list();
            snapshot::Meta { mark, reaches, epoch, forgotten, leases }
        });
        match written {
            Ok(bytes) => {
                self.snapshot = snapshot::Kept { covers, bytes };
                self.snapshot_bytes.store(bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                // What was written of it takes space that may be needed. Another attempt begins by removing it, too.
                let _ = snapshot::discard(&*self.disk);
                Err(error)
            }
        }
    }

    fn write_snapshot(&self, meta: impl FnOnce(u64) -> snapshot::Meta) -> Result<u64, LedgerError> {
        let error = |e| from_io("write a snapshot in", &self.dir, &e);
        let mut writer = snapshot::Writer::begin(&*self.disk).map_err(error)?;
        writer.index(&self.index, || !self.stop.is_set()).map_err(error)?;
        // What it holds may be of later frames, which the log must then have.
        let reaches = self.look()?.mark.map_or(0, |mark| mark.end);
        self.trimmer.check_place().map_err(|e| from_log(&e, &self.dir))?;
        writer.finish(&meta(reaches)).map_err(error)
    }
}

/// A write that is under way.
pub(crate) struct Waiting {
    written: oneshot::Receiver<Result<Written, LedgerError>>,
    commits: Arc<GroupCommit<Item>>,
}

impl Waiting {
    pub fn wait(mut self) -> Result<Written, LedgerError> {
        self.commits.run_queued();
        match self.written.try_recv() {
            Ok(written) => written,
            Err(TryRecvError::Closed) => Err(closed()),
            Err(TryRecvError::Empty) => self.written.blocking_recv().map_err(|_| closed())?,
        }
    }
}

fn closed() -> LedgerError {
    LedgerError::Unavailable("it was closed".to_owned())
}

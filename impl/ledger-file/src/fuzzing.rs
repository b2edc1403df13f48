//! Ways into the parts that parse, for fuzz targets only: not part of the interface, and never to be relied on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use settled::{Change, Entry, LedgerError};
use settled_protocol::{Key, Time, Version};
use tokio::sync::oneshot;

use crate::body::{Link, Requests, Tombstone};
use crate::chain::Chains;
use crate::commit::{Committer, Item, Write, Written};
use crate::frame::{self, KeyHash, Kind};
use crate::leases::Leases;
use crate::log::LogOptions;
use crate::log::disk::{Disk, FaultDisk};
use crate::replay::{self, Replayed};
use crate::snapshot::{self, Meta};
use crate::wire;

/// Files so small that a short log has several.
const SMALL: LogOptions = LogOptions { segment_bytes: 4 << 10, preallocate_bytes: 1 << 10 };

/// Something to write.
#[derive(Clone, Debug)]
pub enum Op {
    /// Give away an epoch.
    Register,
    /// Store a change, if the ledger holds the version that it expects.
    Change(Box<Change>),
    /// Forget a key at this version.
    Forget(Key, Version),
    /// Leave a tombstone of it.
    Bury(Key, Version, Time),
    /// Copy what the key's chain has before the log's present end.
    Move(Key),
    /// Write once more what is told only before the log's present end.
    Keep,
}

/// A ledger on a simulated disk, opened and written as a holder does it, without its threads.
pub struct Ledger {
    committer: Committer,
    disk: FaultDisk,
}

impl Ledger {
    /// Opens what is on the disk, or begins a ledger there.
    ///
    /// # Errors
    /// As when a ledger's directory is opened.
    pub fn open(disk: &FaultDisk) -> Result<Ledger, LedgerError> {
        // Nothing is ever there.
        let dir = PathBuf::from("/nonexistent/fuzzed");
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let Replayed { log, index, forgotten, epoch, seen, .. } = replay::open(&shared, &dir, SMALL)?;
        let leases = Arc::new(Leases::default());
        seen.over.iter().for_each(|(epoch, retired)| leases.ended(*epoch, *retired));
        let chains = Chains::new(log.reader(), &dir);
        let committer = Committer { log, index: Arc::new(index), chains, leases, forgotten, epoch, dir };
        Ok(Ledger { committer, disk: disk.clone() })
    }

    /// Carries out these as one batch; returns which were accepted.
    ///
    /// # Errors
    /// If the log fails.
    pub fn batch(&mut self, ops: &[Op]) -> Result<Vec<bool>, LedgerError> {
        let mut items = ops.iter().map(|op| self.item(op)).collect::<Result<Vec<_>, _>>()?;
        self.committer.commit(&mut items)?;
        let accepted = |item: Item| match item.written {
            Some(Ok(Written::Accepted(accepted))) => accepted,
            Some(Ok(_)) => true,
            Some(Err(_)) | None => false,
        };
        Ok(items.into_iter().map(accepted).collect())
    }

    fn item(&self, op: &Op) -> Result<Item, LedgerError> {
        let before = self.committer.log.end();
        let unwritable = |e: frame::FrameError| LedgerError::Unavailable(e.to_string());
        let (write, key, expected, frame) = match op {
            Op::Register => (Write::Register { lease: Duration::from_secs(1) }, KeyHash::NONE, None, Vec::new()),
            Op::Change(change) => {
                let key = KeyHash::of(&change.key);
                let frame = frame::change(change, key, 7).map_err(unwritable)?;
                (Write::Change(change.record.version()), key, change.expected, frame)
            }
            Op::Forget(key, version) => {
                let key = KeyHash::of(key);
                let frame = frame::bare(Kind::Forgotten { key }, 8).map_err(unwritable)?;
                (Write::Forget, key, Some(*version), frame)
            }
            Op::Bury(key, version, keep_until) => {
                let hash = KeyHash::of(key);
                let slot = self.committer.index.get(hash).filter(|slot| slot.version() == *version);
                let position = slot.map_or(u64::MAX, |slot| slot.position());
                let frame = match slot {
                    Some(_) => {
                        let entry = self.committer.chains.entry(position, Some(key))?;
                        frame::buried(&Tombstone::of(entry, *keep_until), hash, 9).map_err(unwritable)?
                    }
                    None => Vec::new(),
                };
                (Write::Bury { position }, hash, Some(*version), frame)
            }
            Op::Move(key) => (Write::MoveNow { before }, KeyHash::of(key), None, Vec::new()),
            Op::Keep => (Write::Keep { before }, KeyHash::NONE, None, Vec::new()),
        };
        let (done, _) = oneshot::channel();
        Ok(Item { write, key, expected, token: 0, again: false, frame, written: None, done })
    }

    /// Writes a snapshot of it as it is.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn snapshot(&self) -> std::io::Result<()> {
        let Some(mark) = self.committer.log.mark() else {
            return Ok(());
        };
        let reaches = self.committer.log.end();
        let (epoch, forgotten) = (self.committer.epoch, self.committer.forgotten.list());
        let meta = Meta { mark, reaches, epoch, forgotten, leases: self.committer.leases.list() };
        let mut writer = snapshot::Writer::begin(&self.disk)?;
        writer.index(&self.committer.index, || true)?;
        writer.finish(&meta).map(drop)
    }

    /// Everything in it, ordered by key.
    ///
    /// # Errors
    /// If any of it is damaged.
    pub fn entries(&self) -> Result<Vec<Entry>, LedgerError> {
        let found = self.committer.index.list(false);
        let mut entries = found
            .into_iter()
            .map(|(_, slot)| self.committer.chains.entry(slot.position(), None))
            .collect::<Result<Vec<_>, _>>()?;
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(entries)
    }

    /// The history of each key, which must not be damaged if its entry isn't.
    ///
    /// # Errors
    /// If any of it is damaged.
    pub fn histories(&self) -> Result<usize, LedgerError> {
        let entries = self.entries()?;
        let mut changes = 0;
        for entry in entries {
            if let Some(slot) = self.committer.index.get(KeyHash::of(&entry.key)) {
                changes += self.committer.chains.history(slot.position(), &entry.key)?.len();
            }
        }
        Ok(changes)
    }
}

/// Reads a frame of the log, head and body. Whether it was one.
pub fn frame(bytes: &[u8]) -> bool {
    let Ok((head, rest)) = frame::read(bytes) else {
        return false;
    };
    match head.kind {
        Kind::Change { .. } => rest.body().is_ok(),
        Kind::Buried { .. } => rest.parse::<Tombstone>().is_ok(),
        Kind::Whole { .. } | Kind::Part { .. } => rest.parse::<Vec<Link>>().is_ok(),
        Kind::Remembered { .. } => rest.parse::<Requests>().is_ok(),
        Kind::Registered { .. } | Kind::Ended { .. } | Kind::Forgotten { .. } => true,
    }
}

/// Reads what one process on a directory says to another. Whether each was one: a call, an answer.
pub async fn messages(bytes: &[u8]) -> (bool, bool) {
    let (mut call, mut answer) = (bytes, bytes);
    let call = wire::read::<wire::Call<wire::Request>>(&mut call, wire::MAX_CALL).await;
    let answer = wire::read::<wire::Answer>(&mut answer, wire::MAX_ANSWER).await;
    (matches!(call, Ok(Some(_))), matches!(answer, Ok(Some(_))))
}

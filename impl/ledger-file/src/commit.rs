//! The committer: decides each compare-and-set, and makes what it accepts durable.
//!
//! It is the only writer of log and index. A batch goes to the log in one append, unless an item builds on another one of the
//! same batch: a frame names the position of its predecessor, which is known only once that is written, so what has been
//! accepted so far is written first.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use settled::LedgerError;
use settled_protocol::{Epoch, Version};
use tokio::sync::oneshot;

use crate::chain::Chains;
use crate::copy::copy;
use crate::error::from_log;
use crate::forgotten::Forgotten;
use crate::frame::{self, KeyHash, Kind, Token};
use crate::group_commit;
use crate::index::Index;
use crate::leases::Leases;
use crate::log::{Log, Mark};
use crate::slot::{MAX_POSITION, Slot};

/// Something to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// Give away the next epoch, with a lease of this length.
    Register { lease: Duration },
    /// Store a record of this version.
    Change(Version),
    /// Forget the key.
    Forget,
    /// Put a tombstone in the place of what is at this position.
    Bury { position: u64 },
    /// Put a copy in the place of what is at this position.
    Move { position: u64 },
    /// Put a copy in the place of the key's chain if that has a frame before this position, whatever it is now.
    MoveNow { before: u64 },
    /// Write the frame, whatever there is.
    Plain,
    /// Write once more all that must be known and is told only before this position.
    Keep { before: u64 },
    /// Nothing: say where the log stands.
    Look,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Registered(Epoch),
    /// Whether the ledger held what was expected, and now holds the change.
    Accepted(bool),
    /// A plain frame's position.
    At(u64),
    Standing(Box<LogState>),
}

/// Where the log stands between two batches, and what of it is in neither index nor leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogState {
    /// `None` if the log has no batch in its last segment.
    pub mark: Option<Mark>,
    pub epoch: Epoch,
    pub forgotten: Vec<(KeyHash, u64)>,
}

/// One request to the committer.
pub(crate) struct Item {
    pub write: Write,
    pub key: KeyHash,
    /// The version that the ledger must hold.
    pub expected: Option<Version>,
    pub token: Token,
    /// The request may have been carried out already.
    pub again: bool,
    /// The frame to write. Empty where the committer makes it.
    pub frame: Vec<u8>,
    /// What the committer decided.
    pub written: Option<Result<Written, LedgerError>>,
    pub done: oneshot::Sender<Result<Written, LedgerError>>,
}

impl group_commit::Item for Item {
    type Error = LedgerError;

    fn complete(self, result: Result<(), LedgerError>) {
        let undecided = || LedgerError::Unavailable("the write was not carried out".to_owned());
        let written = result.and_then(|()| self.written.unwrap_or_else(|| Err(undecided())));
        // Whoever asked may have given up meanwhile.
        let _ = self.done.send(written);
    }
}

/// The state of the committer's thread.
pub(crate) struct Committer {
    pub log: Log,
    pub index: Arc<Index>,
    pub chains: Chains,
    pub leases: Arc<Leases>,
    pub forgotten: Forgotten,
    /// The last epoch that was given away.
    pub epoch: Epoch,
    pub dir: PathBuf,
}

/// What is accepted but not yet written.
#[derive(Default)]
struct Group {
    items: Vec<usize>,
    /// The versions that these keys will have. The positions are not yet known.
    ahead: HashMap<KeyHash, Option<Version>>,
    bytes: usize,
}

/// A group is written when it has this many bytes, far below the log's limit for a batch.
const GROUP_BYTES: usize = 256 << 20;

impl Committer {
    /// Carries out a batch. What it says of an item holds once it has returned.
    pub fn commit(&mut self, items: &mut [Item]) -> Result<Option<Duration>, LedgerError> {
        let mut group = Group::default();
        let mut synced = false;
        for i in 0..items.len() {
            synced |= self.decide(items, i, &mut group)?;
            if group.bytes >= GROUP_BYTES {
                synced |= self.write(items, &mut group)?;
            }
        }
        synced |= self.write(items, &mut group)?;
        Ok(synced.then(|| self.log.sync_time()))
    }

    /// Decides on one item. Says whether it had to write what was accepted before.
    fn decide(&mut self, items: &mut [Item], i: usize, group: &mut Group) -> Result<bool, LedgerError> {
        let Some(item) = items.get_mut(i) else {
            return Ok(false);
        };
        match item.write {
            Write::Change(_) | Write::Forget | Write::Bury { .. } | Write::Move { .. } => {
                return self.decide_on_key(items, i, group);
            }
            Write::Register { lease } => match next_epoch(self.epoch, lease, item.token) {
                Ok((epoch, frame)) => {
                    self.epoch = epoch;
                    item.written = Some(Ok(Written::Registered(epoch)));
                    item.frame = frame;
                    group.accept(i, item);
                }
                Err(error) => item.written = Some(Err(error)),
            },
            Write::Plain => group.accept(i, item),
            Write::Keep { .. } | Write::MoveNow { .. } => {
                let (write, key) = (item.write, item.key);
                // What is accepted comes first.
                self.write(items, group)?;
                let done = match write {
                    Write::Keep { before } => self.keep(before),
                    Write::MoveNow { before } => self.move_now(key, before),
                    _ => Ok(()),
                };
                if let Some(item) = items.get_mut(i) {
                    item.written = Some(done.clone().map(|()| Written::Accepted(true)));
                }
                // Only what concerns the log itself concerns all.
                return if let Err(error @ LedgerError::Poisoned(_)) = done { Err(error) } else { Ok(true) };
            }
            Write::Look => item.written = Some(Ok(Written::Standing(Box::new(self.state())))),
        }
        Ok(false)
    }

    fn decide_on_key(&mut self, items: &mut [Item], i: usize, group: &mut Group) -> Result<bool, LedgerError> {
        let Some(&Item { write, key, expected, again, token, .. }) = items.get(i) else {
            return Ok(false);
        };
        let ahead = group.ahead.get(&key).copied();
        let matches = |now: Option<Slot>| match write {
            Write::Move { position } => now.is_some_and(|now| now.position() == position),
            Write::Bury { position } => {
                now.is_some_and(|now| now.position() == position && Some(now.version()) == expected)
            }
            _ => now.map(Slot::version) == expected,
        };
        // From here on positions are needed.
        let positional = matches!(write, Write::Move { .. } | Write::Bury { .. });
        let wrote = ahead.is_some_and(|ahead| ahead == expected || again || positional) && self.write(items, group)?;
        let (now, accepted) = match ahead {
            // The version ahead is another one.
            Some(_) if !wrote => (None, false),
            _ => {
                let now = self.index.get(key);
                (now, matches(now))
            }
        };
        let done_before = match again {
            true => self.done_before(key, now, token, expected),
            false => Ok(false),
        };
        let Some(item) = items.get_mut(i) else {
            return Ok(wrote);
        };
        let done_before = match done_before {
            Ok(done_before) => done_before,
            Err(error) => {
                item.written = Some(Err(error));
                return Ok(wrote);
            }
        };
        item.written = Some(Ok(Written::Accepted(done_before || accepted)));
        if accepted && !done_before {
            if !matches!(write, Write::Move { .. }) {
                frame::link(&mut item.frame, now.map(|slot| slot.position()), now.map_or(0, Slot::bytes));
            }
            let next = match write {
                Write::Change(version) => Some(version),
                Write::Bury { .. } | Write::Move { .. } => now.map(Slot::version),
                _ => None,
            };
            group.ahead.insert(key, next);
            group.accept(i, item);
        }
        Ok(wrote)
    }

    /// Whether the request that `token` names has been carried out on this key.
    fn done_before(
        &self,
        key: KeyHash,
        now: Option<Slot>,
        token: Token,
        expected: Option<Version>,
    ) -> Result<bool, LedgerError> {
        let positions = now.map(|slot| slot.position()).into_iter().chain(self.forgotten.positions(key));
        for position in positions {
            if self.chains.holds(position, token, expected)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes what was accepted, as one batch, and publishes it. Says whether there was anything.
    fn write(&mut self, items: &mut [Item], group: &mut Group) -> Result<bool, LedgerError> {
        let group = std::mem::take(group);
        if group.items.is_empty() {
            return Ok(false);
        }
        let frames: Vec<&[u8]> =
            group.items.iter().filter_map(|&i| items.get(i)).map(|item| item.frame.as_slice()).collect();
        let positions = self.append(&frames)?;
        for (&i, position) in group.items.iter().zip(positions) {
            if let Some(item) = items.get_mut(i)
                && item.write == Write::Plain
            {
                item.written = Some(Ok(Written::At(position)));
            }
        }
        Ok(true)
    }

    /// Makes frames durable, and takes note of them.
    fn append(&mut self, frames: &[&[u8]]) -> Result<Vec<u64>, LedgerError> {
        if self.log.end() >= MAX_POSITION {
            return Err(LedgerError::Unavailable(format!(
                "its log has taken {MAX_POSITION} bytes in its life, and can count no further; nothing was stored: begin another ledger"
            )));
        }
        let positions = self.log.append(frames).map_err(|e| from_log(&e, &self.dir))?;
        for (frame, position) in frames.iter().zip(&positions) {
            // They were made a moment ago.
            let (head, _) = frame::read(frame).map_err(|e| LedgerError::Poisoned(e.to_string()))?;
            self.index.note(&head, *position, frame.len() as u64);
            if let Kind::Forgotten { key } = head.kind {
                self.forgotten.remember(key, *position);
            }
        }
        Ok(positions)
    }

    /// Writes once more which epochs were given away, how it stands with their leases, and what was forgotten lately.
    fn keep(&mut self, before: u64) -> Result<(), LedgerError> {
        let leases = self.leases.list();
        let last = Kind::Registered { epoch: self.epoch, lease: 0 };
        let running = leases.running.iter().map(|(epoch, lease)| registered(*epoch, *lease));
        let over = leases.over.iter().map(|(epoch, retired)| Kind::Ended { epoch: *epoch, retired: *retired });
        let kinds = std::iter::once(last).chain(running).chain(over);
        let unwritable = |e: frame::FrameError| LedgerError::Unavailable(e.to_string());
        let mut frames = kinds.map(|kind| frame::bare(kind, 0)).collect::<Result<Vec<_>, _>>().map_err(unwritable)?;
        let others = frames.len();
        let (old, remembered) = self.forgotten.copies(before, &self.chains)?;
        frames.extend(remembered);
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let positions = self.append(&frames)?;
        self.forgotten.moved(old.into_iter().zip(positions.into_iter().skip(others)));
        Ok(())
    }

    /// Copies a key's chain.
    fn move_now(&mut self, key: KeyHash, before: u64) -> Result<(), LedgerError> {
        let Some(slot) = self.index.get(key) else {
            return Ok(());
        };
        let chains = self.chains.clone();
        let index = Arc::clone(&self.index);
        let copied = copy((&chains, &index), (key, slot), before, |part| {
            Ok(self.append(&[&part])?.first().copied().unwrap_or_default())
        })?;
        if let Some(copied) = copied {
            self.append(&[&copied.frame])?;
        }
        Ok(())
    }

    fn state(&self) -> LogState {
        LogState { mark: self.log.mark(), epoch: self.epoch, forgotten: self.forgotten.list() }
    }
}

impl Group {
    fn accept(&mut self, i: usize, item: &Item) {
        self.bytes += item.frame.len();
        self.items.push(i);
    }
}

fn registered(epoch: Epoch, lease: Duration) -> Kind {
    Kind::Registered { epoch, lease: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX) }
}

fn next_epoch(last: Epoch, lease: Duration, token: Token) -> Result<(Epoch, Vec<u8>), LedgerError> {
    let next = last.0.checked_add(1).map(Epoch);
    let next =
        next.ok_or_else(|| LedgerError::Unavailable("all epochs have been given away: begin a new ledger".to_owned()))?;
    let frame = frame::bare(registered(next, lease), token).map_err(|e| LedgerError::Unavailable(e.to_string()))?;
    Ok((next, frame))
}

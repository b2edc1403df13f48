//! The committer: decides each compare-and-set, and makes what it accepts durable.
//!
//! It is the only writer of log and index. A batch goes to the log in one append, unless an item builds on another one of the
//! same batch: a frame names the position of its predecessor, which is known only once that is written, so what has been
//! accepted so far is written first.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use settled::LedgerError;
use settled_protocol::{Epoch, Version};
use tokio::sync::oneshot;

use crate::chain::Chains;
use crate::error::from_log;
use crate::frame::{self, KeyHash, Token};
use crate::group_commit;
use crate::index::{Index, Slot};
use crate::log::Log;

/// Something to write.
pub(crate) enum Write {
    /// Give away the next epoch.
    Register,
    /// Store the record that has this version.
    Change { version: Version, settled: bool },
    /// Forget the key.
    Forget,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Registered(Epoch),
    /// Whether the ledger held the expected version, and now holds the change.
    Accepted(bool),
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
    /// The frame to write. Empty for a registration: the committer makes it.
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

/// How many of the latest forgotten keys are remembered, so that requests which are sent again can be recognised.
const REMEMBERED: usize = 4096;

/// The positions of the latest frames that forgot a key.
#[derive(Default)]
pub(crate) struct Forgotten(VecDeque<(KeyHash, u64)>);

impl Forgotten {
    pub fn remember(&mut self, key: KeyHash, position: u64) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((key, position));
    }
}

/// The state of the committer's thread.
pub(crate) struct Committer {
    pub log: Log,
    pub index: Arc<Index>,
    pub chains: Chains,
    pub forgotten: Forgotten,
    /// The last epoch that was given away.
    pub epoch: Epoch,
    pub dir: PathBuf,
}

/// What is accepted but not yet written.
#[derive(Default)]
struct Group {
    items: Vec<usize>,
    /// What the index will say of these keys. The positions are not yet known.
    ahead: HashMap<KeyHash, Option<Slot>>,
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
        if let Write::Register = item.write {
            match next_epoch(self.epoch, item.token) {
                Ok((epoch, frame)) => {
                    self.epoch = epoch;
                    item.written = Some(Ok(Written::Registered(epoch)));
                    item.frame = frame;
                    group.bytes += item.frame.len();
                    group.items.push(i);
                }
                Err(error) => item.written = Some(Err(error)),
            }
            return Ok(false);
        }
        let (key, expected, again, token) = (item.key, item.expected, item.again, item.token);
        let ahead = group.ahead.get(&key).copied();
        let now = ahead.unwrap_or_else(|| self.index.get(key));
        let matches = now.map(Slot::version) == expected;
        // From here on positions are needed.
        let wrote = ahead.is_some() && (matches || again) && self.write(items, group)?;
        let now = if wrote { self.index.get(key) } else { now };
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
        item.written = Some(Ok(Written::Accepted(done_before || matches)));
        if matches && !done_before {
            frame::link(&mut item.frame, now.map(|slot| slot.position));
            let next = match item.write {
                Write::Change { version, settled } => Some(Slot::new(0, version, settled)),
                Write::Forget | Write::Register => None,
            };
            group.ahead.insert(key, next);
            group.bytes += item.frame.len();
            group.items.push(i);
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
        let forgotten = self.forgotten.0.iter().filter(|(forgotten, _)| *forgotten == key);
        let positions = now.map(|slot| slot.position).into_iter().chain(forgotten.map(|(_, position)| *position));
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
        let accepted = || group.items.iter().filter_map(|&i| items.get(i));
        let frames: Vec<&[u8]> = accepted().map(|item| item.frame.as_slice()).collect();
        let positions = self.log.append(&frames).map_err(|e| from_log(&e, &self.dir))?;
        for (item, position) in accepted().zip(positions) {
            match item.write {
                Write::Register => {}
                Write::Change { version, settled } => {
                    let slot = Slot::new(position, version, settled);
                    self.index.set(item.key, Some(slot));
                }
                Write::Forget => {
                    self.index.set(item.key, None);
                    self.forgotten.remember(item.key, position);
                }
            }
        }
        Ok(true)
    }
}

fn next_epoch(last: Epoch, token: Token) -> Result<(Epoch, Vec<u8>), LedgerError> {
    let next = last.0.checked_add(1).map(Epoch);
    let next =
        next.ok_or_else(|| LedgerError::Unavailable("all epochs have been given away: begin a new ledger".to_owned()))?;
    let frame = frame::registered(next, token).map_err(|e| LedgerError::Unavailable(e.to_string()))?;
    Ok((next, frame))
}

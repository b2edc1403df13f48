//! The durable store of operation records, behind one trait.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use settled_protocol::{Digest, Durable, Epoch, Key, Record, Time, Version};

/// What is stored of an operation now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The operation's key.
    pub key: Key,
    /// Its protocol state.
    pub record: Record<Digest>,
    /// The arguments that the caller asked with, as they came.
    pub asked: Bytes,
    /// The arguments that were really sent, if they are not those asked with.
    pub sent: Option<Bytes>,
    /// The tool's answer: the body of its result or of its error.
    pub outcome: Option<Bytes>,
    /// What a person wrote when deciding it.
    pub note: Option<String>,
}

/// One durable step of an operation: a compare-and-set, and what the history shall tell of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The operation's key.
    pub key: Key,
    /// The version that the ledger must hold now; `None`: the key must be absent (a claim).
    pub expected: Option<Version>,
    /// What to store.
    pub record: Record<Digest>,
    /// When, by the storing process's clock.
    pub at: Time,
    /// The ownership of the storing process.
    pub by: Epoch,
    /// Which event led to it, in a word or two (`call`, `reply`, `timed out`, `owner lost` …).
    pub event: String,
    /// New arguments asked with; `None`: as before.
    pub asked: Option<Bytes>,
    /// What was sent instead of the arguments asked with; `None`: as before.
    pub sent: Option<Bytes>,
    /// The tool's answer; `None`: as before.
    pub outcome: Option<Bytes>,
    /// A person's note; `None`: as before.
    pub note: Option<String>,
}

impl Change {
    /// The entry that this change makes of the one before. A new operation under the key (a new generation, or a claim)
    /// inherits nothing.
    pub fn apply(&self, before: Option<&Entry>) -> Entry {
        let before = before.filter(|entry| entry.record.generation() == self.record.generation());
        Entry {
            key: self.key.clone(),
            record: self.record,
            asked: self.asked.clone().or_else(|| before.map(|b| b.asked.clone())).unwrap_or_default(),
            sent: self.sent.clone().or_else(|| before.and_then(|b| b.sent.clone())),
            outcome: self.outcome.clone().or_else(|| before.and_then(|b| b.outcome.clone())),
            note: self.note.clone().or_else(|| before.and_then(|b| b.note.clone())),
        }
    }
}

/// The answer to a compare-and-set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is durable: here is the proof.
    Durable(Durable<Digest>),
    /// The ledger held another version: someone else was there first. Nothing was changed.
    Refused,
}

/// Which entries to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Filter {
    /// All of them.
    All,
    /// Only those that are not settled.
    Unsettled,
}

/// Why a ledger can't do what it was asked for. After any of these the outcome of a store is not known to the caller,
/// unless the variant says otherwise; what is durable decides.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    /// It can't be reached or opened now.
    #[error("the ledger is not available: {0}")]
    Unavailable(String),
    /// A write or sync failed, or its files were taken away: nothing more is acknowledged until it is opened again.
    #[error("the ledger refuses all writes until it is opened again: {0}")]
    Poisoned(String),
    /// The change is larger than the ledger keeps. Nothing was stored, and trying again is of no use.
    #[error("{0}")]
    TooLarge(String),
    /// What is stored is damaged.
    #[error("the ledger is damaged: {0}")]
    Corrupt(String),
}

/// The durable store of operation records. Every implementation keeps the same promises:
///
/// * a store is a compare-and-set on the record's version, atomic with respect to every other process on the ledger;
/// * when [`compare_and_set`](Ledger::compare_and_set) returns [`Stored::Durable`], the change survives any crash;
/// * reads return only what is durable;
/// * an epoch is never handed out twice.
#[async_trait]
pub trait Ledger: Send + Sync + 'static {
    /// Registers this process as an owner and returns its epoch. It counts as alive from then on until it has ended.
    async fn register(&self) -> Result<Epoch, LedgerError>;

    /// Stores a change if the ledger holds the version that it expects: claims a key (`expected: None`), or advances
    /// its record.
    async fn compare_and_set(&self, change: Change) -> Result<Stored, LedgerError>;

    /// The entry of a key.
    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError>;

    /// The entries that the filter names, ordered by key.
    async fn scan(&self, filter: Filter) -> Result<Vec<Entry>, LedgerError>;

    /// Every durable change that is still kept of a key, oldest first.
    async fn history(&self, key: &Key) -> Result<Vec<Change>, LedgerError>;

    /// Forgets a key whose record has this version; `false` if it has another. The version sequence never restarts: a
    /// later claim of the key is a new record, but its epochs and times are later ones.
    async fn forget(&self, key: &Key, expected: Version) -> Result<bool, LedgerError>;

    /// Returns when the key's record may have another version than `seen` (`None`: absent), or after a while in any
    /// case: callers look again.
    async fn changed(&self, key: &Key, seen: Option<Version>) -> Result<(), LedgerError>;

    /// Whether the process that registered this epoch may still be running. `true` unless it certainly is not.
    async fn owner_alive(&self, epoch: Epoch) -> Result<bool, LedgerError>;
}

//! The durable store of operation records, behind one trait.

use std::time::Duration;

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
    /// What the operation must have to itself while it is under way.
    pub resource: Option<Resource>,
    /// Its place among the operations that want the same resource: smaller ones come first. Given by the ledger when an
    /// operation with a resource begins; 0 without one.
    pub place: u64,
    /// The ownership that stored it as it is now.
    pub by: Epoch,
    /// Once settled: from when on it may be forgotten. `None`: never.
    pub keep_until: Option<Time>,
    /// What was asked, sent and answered has been forgotten; only the record is left, to say that there was one.
    pub tombstone: bool,
}

/// The name of something that operations must have to themselves, one after the other (an account, a door, a branch).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Resource {
    /// Separates tenants, as the scope of a key does.
    pub scope: String,
    /// Its name there.
    pub name: String,
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.scope, self.name)
    }
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
    /// What a new operation must have to itself; `None`: as before.
    pub resource: Option<Resource>,
    /// From when on a settled record may be forgotten; `None`: never.
    pub keep_until: Option<Time>,
}

impl Change {
    /// Whether a new operation begins with it, after what was stored before.
    pub fn begins(&self, before: Option<&Entry>) -> bool {
        before.is_none_or(|before| before.record.generation() != self.record.generation())
    }

    /// The entry that this change makes of the one before. A new operation under the key (a new generation, or a claim)
    /// inherits nothing. `next_place` is asked for the place of a new operation that wants a resource.
    pub fn apply(&self, before: Option<&Entry>, next_place: impl FnOnce(&Resource) -> u64) -> Entry {
        let before = before.filter(|_| !self.begins(before));
        let resource = self.resource.clone().or_else(|| before.and_then(|b| b.resource.clone()));
        let place = match (before, &resource) {
            (Some(before), _) => before.place,
            (None, Some(resource)) => next_place(resource),
            (None, None) => 0,
        };
        Entry {
            key: self.key.clone(),
            record: self.record,
            asked: self.asked.clone().or_else(|| before.map(|b| b.asked.clone())).unwrap_or_default(),
            sent: self.sent.clone().or_else(|| before.and_then(|b| b.sent.clone())),
            outcome: self.outcome.clone().or_else(|| before.and_then(|b| b.outcome.clone())),
            note: self.note.clone().or_else(|| before.and_then(|b| b.note.clone())),
            resource,
            place,
            by: self.by,
            keep_until: self.keep_until,
            tombstone: false,
        }
    }
}

impl Entry {
    /// What is left of it as a tombstone until `keep_until`.
    pub fn buried(self, keep_until: Time) -> Entry {
        Entry {
            asked: Bytes::new(),
            sent: None,
            outcome: None,
            note: None,
            keep_until: Some(keep_until),
            tombstone: true,
            ..self
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

/// What becomes of a record whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remains {
    /// Nothing.
    Nothing,
    /// Its record without any content ([`Entry::buried`]), and no history.
    Tombstone {
        /// From when on that may be forgotten, too.
        keep_until: Time,
    },
}

/// What is known of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Liveness {
    /// Its lease runs.
    Alive,
    /// Its lease has run out, but its process may exist: it may be frozen, or cut off from the ledger, and what it has
    /// queued may still be sent. Its operations may be taken over.
    Lapsed,
    /// It will never send anything again: its process is known to be gone, or it has said so itself.
    Gone,
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Renewal {
    /// The lease runs on.
    Held,
    /// The lease had run out, or the owner had been retired: it never holds again. Register anew.
    Fenced,
}

/// A request for a token of the retry budget that all processes on a ledger share: a bucket that every request fills a
/// little and every retry takes one out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draw {
    /// Requests (not retries) made since this process last asked.
    pub requests: u64,
    /// Whether a token is wanted; `false`: only the requests are told.
    pub take: bool,
    /// How many tokens a thousand requests put in.
    pub per_mille: u32,
    /// The largest number of tokens in the bucket; it begins full.
    pub burst: u32,
}

/// What a ledger can promise of what it has acknowledged (rule 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promise {
    /// It survives the crash of any process and host.
    Kept,
    /// A failover or a crash can lose it, for this reason. Opaque and observable tools are unsafe on it.
    MayBeLost(String),
}

/// The durable store of operation records. Every implementation keeps the same promises:
///
/// * a store is a compare-and-set on the record's version, atomic with respect to every other process on the ledger;
/// * when [`compare_and_set`](Ledger::compare_and_set) returns [`Stored::Durable`], the change survives any crash (as far as
///   the ledger's [`promise`](Ledger::promise) goes);
/// * reads return only what is durable;
/// * an epoch is never handed out twice;
/// * places in a resource's line only grow, in the order in which operations become visible in it: whoever finds itself first
///   stays first until it is settled.
#[async_trait]
pub trait Ledger: Send + Sync + 'static {
    /// Registers this process as an owner and returns its epoch. Its lease runs from then on, for this long unless renewed.
    async fn register(&self, lease: Duration) -> Result<Epoch, LedgerError>;

    /// Lets an owner's lease run for this long from now, unless it has run out already. The time is measured by the
    /// ledger, so that hosts' clocks don't matter.
    async fn renew(&self, epoch: Epoch, lease: Duration) -> Result<Renewal, LedgerError>;

    /// An owner says that it has nothing queued and will never send anything again.
    async fn retire(&self, epoch: Epoch) -> Result<(), LedgerError>;

    /// What is known of an owner. [`Liveness::Gone`] only if that is certain.
    async fn liveness(&self, epoch: Epoch) -> Result<Liveness, LedgerError>;

    /// The time that all processes on this ledger share, in milliseconds since the Unix epoch; `None` if the ledger has none
    /// of its own, because all of them have the same clock.
    async fn time(&self) -> Result<Option<Time>, LedgerError>;

    /// Stores a change if the ledger holds the version that it expects: claims a key (`expected: None`), or advances
    /// its record.
    async fn compare_and_set(&self, change: Change) -> Result<Stored, LedgerError>;

    /// The entry of a key.
    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError>;

    /// The entries that the filter names, ordered by key.
    async fn scan(&self, filter: Filter) -> Result<Vec<Entry>, LedgerError>;

    /// Up to `limit` of the entries that the filter names, in an order of the ledger's own that is the same every time; those
    /// after `after` in that order, if it is given.
    async fn page(&self, filter: Filter, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        let mut entries = self.scan(filter).await?;
        entries.retain(|entry| after.is_none_or(|after| entry.key > after.key));
        entries.truncate(limit);
        Ok(entries)
    }

    /// The operations that want this resource and are not settled, first the one that came first.
    async fn line(&self, resource: &Resource) -> Result<Vec<Entry>, LedgerError>;

    /// Up to `limit` settled entries with `keep_until` at or before `now`, in an order of the ledger's own that is the same
    /// every time; those after `after` in that order, if it is given.
    async fn due(&self, now: Time, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError>;

    /// Every durable change that is still kept of a key, oldest first.
    async fn history(&self, key: &Key) -> Result<Vec<Change>, LedgerError>;

    /// Forgets a key whose record has this version, or all but a tombstone of it; `false` if it has another version. The
    /// version sequence never restarts: a later claim of the key is a new record, but its epochs and times are later ones.
    async fn forget(&self, key: &Key, expected: Version, remains: Remains) -> Result<bool, LedgerError>;

    /// Returns when the key's record may have another version than `seen` (`None`: absent), or after a while in any
    /// case: callers look again.
    async fn changed(&self, key: &Key, seen: Option<Version>) -> Result<(), LedgerError>;

    /// Tells of requests, and takes a token of the retry budget: `false` if there is none (or none was wanted).
    async fn draw(&self, draw: Draw) -> Result<bool, LedgerError>;

    /// What it can promise of what it has acknowledged.
    fn promise(&self) -> Promise {
        Promise::Kept
    }
}

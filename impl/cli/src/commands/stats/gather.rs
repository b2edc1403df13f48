//! Looks through a ledger and counts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use settled::protocol::{Digest, Epoch, Key, Record, State, Time, Verdict};
use settled::{Clock, Entry, Filter, Ledger, Liveness, Promise, SystemClock};
use settled_ledgers::Opened;

use super::story::{self, Fates};
use crate::failure::Failure;

/// How much is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Settled operations.
    pub records: usize,
    /// Operations whose steps are read.
    pub histories: usize,
}

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// Which ledger.
    pub ledger: String,
    /// What it can't promise, if there is something.
    pub may_lose: Option<String>,
    /// Bytes on disk, of a directory: the ledger's own, without histories.
    pub disk_bytes: Option<u64>,
    /// How many operations were looked at.
    pub operations: u64,
    /// All of them; else there are more settled ones, and whatever is counted is counted among these.
    pub all: bool,
    /// Operations by tool and state.
    pub by_tool: BTreeMap<String, BTreeMap<&'static str, u64>>,
    /// Of which only a tombstone is left.
    pub tombstones: u64,
    /// Whose retention is over and that are still there.
    pub over: u64,
    /// Operations whose outcome is not known now, oldest first.
    pub unknown: Vec<Open>,
    /// Resources that are held or waited for.
    pub lines: Vec<Line>,
    /// Processes that the operations looked at were stored or sent by.
    pub owners: Owners,
    /// How operations fared.
    pub fates: Fates,
    /// Of how many operations the steps were read, and how many have taken more than the usual ones.
    pub histories: Histories,
}

/// An operation whose outcome is not known.
#[derive(Clone, Debug, Serialize)]
pub struct Open {
    /// Its key.
    pub key: String,
    /// Why it is not known.
    pub cause: &'static str,
    /// Whether a person has been asked.
    pub escalated: bool,
    /// Seconds since its last attempt was sent.
    pub age_seconds: u64,
    /// How many attempts there were.
    pub attempts: u32,
}

/// A resource, and those who want it.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The resource.
    pub resource: String,
    /// The operation that has it.
    pub held_by: String,
    /// That operation's state.
    pub state: &'static str,
    /// How many wait.
    pub waiting: u64,
}

/// How many processes there are of each kind.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Owners {
    /// Their lease runs.
    pub alive: u64,
    /// Their lease has run out; they may be frozen.
    pub lapsed: u64,
    /// They have ended.
    pub gone: u64,
    /// Not looked up, because there are so many.
    pub not_looked_up: u64,
}

/// Whose steps were read.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Histories {
    /// So many.
    pub read: u64,
    /// Of so many that took more than the usual two steps.
    pub of: u64,
}

/// Operations that are read at once.
const PAGE: usize = 1_000;

/// The latest processes are looked up; those before them have ended long ago.
const OWNERS: usize = 1_000;

/// Looks through the ledger.
///
/// # Errors
/// If it can't be read.
pub async fn gather(opened: &Opened, limits: Limits) -> Result<Stats, Failure> {
    let ledger = &*opened.ledger;
    let now = ledger.time().await?.unwrap_or_else(|| SystemClock.now());
    let mut gathering = Gathering { now, ..Gathering::default() };
    let unsettled = ledger.scan(Filter::Unsettled).await?;
    for entry in &unsettled {
        gathering.look(entry);
    }
    let all = settled_ones(ledger, limits.records, |entry| gathering.look(entry)).await?;
    let mut fates = gathering.fates;
    let of = gathering.unusual.len() as u64;
    let mut read = 0;
    for key in gathering.unusual.iter().take(limits.histories) {
        fates.add(&ledger.history(key).await?);
        read += 1;
    }
    Ok(Stats {
        ledger: opened.display.clone(),
        may_lose: match ledger.promise() {
            Promise::Kept => None,
            Promise::MayBeLost(why) => Some(why),
        },
        disk_bytes: match &opened.directory {
            Some(directory) => Some(bytes_of(directory)?),
            None => None,
        },
        operations: gathering.operations,
        all,
        by_tool: gathering.by_tool,
        tombstones: gathering.tombstones,
        over: gathering.over,
        unknown: unknown(&unsettled, now),
        lines: lines(&unsettled),
        owners: owners(ledger, &gathering.owners).await?,
        fates,
        histories: Histories { read, of },
    })
}

#[derive(Default)]
struct Gathering {
    now: Time,
    operations: u64,
    by_tool: BTreeMap<String, BTreeMap<&'static str, u64>>,
    tombstones: u64,
    over: u64,
    owners: BTreeSet<Epoch>,
    fates: Fates,
    /// Whose steps have to be read to know how they fared.
    unusual: Vec<Key>,
}

impl Gathering {
    fn look(&mut self, entry: &Entry) {
        let record = &entry.record;
        self.operations += 1;
        *self.by_tool.entry(entry.key.tool().to_owned()).or_default().entry(state(record)).or_default() += 1;
        self.tombstones += u64::from(entry.tombstone);
        self.over += u64::from(entry.keep_until.is_some_and(|until| until <= self.now));
        self.owners.insert(entry.by);
        self.owners.extend(record.sent().map(|sent| sent.owner()));
        if is_usual(record) {
            self.fates.add_usual();
        } else if !entry.tombstone {
            self.unusual.push(entry.key.clone());
        }
    }
}

/// Sent once, answered, settled: two durable steps, and nothing more to learn from them. A key's first version is made of the time;
/// later operations under a key go on from the last one's, so that their steps can't be told from it.
fn is_usual(record: &Record<Digest>) -> bool {
    let once = record.sent().is_some_and(|sent| sent.attempt().get() == 1);
    let answered =
        matches!(record.state(), State::Settled { verdict: Verdict::Succeeded(_) | Verdict::Failed(Some(_)), .. });
    let second = record.created().0.checked_add(2) == Some(record.version().0);
    once && answered && second
}

/// Passes at most so many settled operations to `look`; says whether these are all.
async fn settled_ones(ledger: &dyn Ledger, limit: usize, mut look: impl FnMut(&Entry)) -> Result<bool, Failure> {
    let mut after: Option<Entry> = None;
    let mut left = limit;
    loop {
        let page = ledger.page(Filter::All, after.as_ref(), PAGE).await?;
        for entry in page.iter().filter(|entry| entry.record.is_settled()) {
            if left == 0 {
                return Ok(false);
            }
            look(entry);
            left -= 1;
        }
        match page.into_iter().last() {
            Some(last) => after = Some(last),
            None => return Ok(true),
        }
    }
}

/// The state, and how a settled operation ended.
fn state(record: &Record<Digest>) -> &'static str {
    match record.state() {
        State::Settled { verdict: Verdict::Succeeded(_), .. } => "succeeded",
        State::Settled { verdict: Verdict::Failed(_), .. } => "failed",
        State::Settled { verdict: Verdict::Abandoned(_), .. } => "abandoned",
        other => other.name(),
    }
}

fn unknown(unsettled: &[Entry], now: Time) -> Vec<Open> {
    let open = |entry: &Entry| {
        let (State::Unknown { sent, cause, .. } | State::Escalated { sent, cause }) = entry.record.state() else {
            return None;
        };
        Some(Open {
            key: entry.key.to_string(),
            cause: story::name(cause),
            escalated: matches!(entry.record.state(), State::Escalated { .. }),
            age_seconds: now.since(sent.at()) / 1_000,
            attempts: sent.attempt().get(),
        })
    };
    let mut all: Vec<Open> = unsettled.iter().filter_map(open).collect();
    all.sort_by_key(|its| std::cmp::Reverse(its.age_seconds));
    all
}

fn lines(unsettled: &[Entry]) -> Vec<Line> {
    let mut by_resource: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
    for entry in unsettled {
        if let Some(resource) = &entry.resource {
            by_resource.entry(resource.to_string()).or_default().push(entry);
        }
    }
    let line = |(resource, mut entries): (String, Vec<&Entry>)| {
        entries.sort_by_key(|entry| entry.place);
        let first = entries.first()?;
        Some(Line {
            resource,
            held_by: first.key.to_string(),
            state: first.record.state().name(),
            waiting: entries.len() as u64 - 1,
        })
    };
    let mut lines: Vec<Line> = by_resource.into_iter().filter_map(line).collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.waiting));
    lines
}

async fn owners(ledger: &dyn Ledger, epochs: &BTreeSet<Epoch>) -> Result<Owners, Failure> {
    let mut owners = Owners { not_looked_up: epochs.len().saturating_sub(OWNERS) as u64, ..Owners::default() };
    for epoch in epochs.iter().rev().take(OWNERS) {
        match ledger.liveness(*epoch).await? {
            Liveness::Alive => owners.alive += 1,
            Liveness::Lapsed => owners.lapsed += 1,
            Liveness::Gone => owners.gone += 1,
        }
    }
    Ok(owners)
}

/// The bytes of a ledger's files. They come and go while it is in use.
fn bytes_of(directory: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let is_history = entry.file_name().to_string_lossy().starts_with(crate::ledger::HISTORY_FILE);
        if let Ok(its) = entry.metadata()
            && its.is_file()
            && !is_history
        {
            bytes += its.len();
        }
    }
    Ok(bytes)
}

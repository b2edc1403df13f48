//! The evidence, sorted by keys and by processes.

use std::collections::{BTreeMap, BTreeSet};

use settled::{Change, Entry, Resource, Taken};
use settled_protocol::{Digest, Epoch, Key, Policy, Record, Time, Version};

use crate::report::Where;

/// Where a line stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) at: Time,
    pub(crate) by: Epoch,
    pub(crate) run: Epoch,
    pub(crate) n: u64,
    /// The file, as an index, and the line in it; 0: it was not read from a file.
    pub(crate) file: u32,
    pub(crate) line: u32,
}

impl Place {
    /// Whether it is of the same process as the other, and before it.
    pub(crate) fn is_before(&self, other: &Place) -> bool {
        self.run == other.run && self.n < other.n
    }
}

pub(crate) struct Asked {
    pub(crate) place: Place,
    pub(crate) call: u64,
    pub(crate) fingerprint: Digest,
    pub(crate) policy: Policy,
}

pub(crate) struct Stored {
    pub(crate) place: Place,
    pub(crate) state: String,
    pub(crate) because: String,
    pub(crate) expected: Option<Version>,
    pub(crate) record: Record<Digest>,
    pub(crate) resource: Option<Resource>,
    pub(crate) step: Box<Taken>,
}

/// Something about one attempt.
pub(crate) struct About<T> {
    pub(crate) place: Place,
    pub(crate) generation: u32,
    pub(crate) attempt: u32,
    pub(crate) what: T,
}

pub(crate) struct Answered {
    pub(crate) place: Place,
    pub(crate) call: u64,
    pub(crate) generation: u32,
    pub(crate) answer: String,
    pub(crate) digest: Option<Digest>,
    pub(crate) replayed: bool,
}

/// All that is known of one key.
#[derive(Default)]
pub(crate) struct KeyFacts {
    pub(crate) asked: Vec<Asked>,
    pub(crate) joined: Vec<(Place, u64)>,
    pub(crate) stored: Vec<Stored>,
    pub(crate) refused: Vec<(Place, Version)>,
    /// Under which ownership.
    pub(crate) sent: Vec<About<Epoch>>,
    pub(crate) withheld: Vec<About<Epoch>>,
    /// Which reply, and the digest of its body.
    pub(crate) replied: Vec<About<(String, Digest)>>,
    pub(crate) lost: Vec<About<String>>,
    /// What was seen, and whether it counted.
    pub(crate) observed: Vec<About<(String, bool)>>,
    pub(crate) answered: Vec<Answered>,
    pub(crate) escalated: Vec<(Place, u32)>,
    pub(crate) decided: Vec<(Place, u32, String)>,
    pub(crate) delivered: Vec<(Place, u32, Time)>,
    pub(crate) expired: Vec<(Place, Version, Box<Taken>)>,
    /// What the ledger holds: its entry, and every change that it has kept.
    pub(crate) kept: Option<(Option<Entry>, Vec<Change>)>,
}

impl KeyFacts {
    /// Puts what is looked for by its operation into an order to find it by.
    pub(crate) fn sort(&mut self) {
        self.stored.sort_by_key(|line| (line.record.generation(), line.record.version()));
        sort(&mut self.sent);
        sort(&mut self.withheld);
        sort(&mut self.replied);
        sort(&mut self.lost);
        sort(&mut self.observed);
    }

    /// Whether what the ledger holds of the key is all that it ever held.
    pub(crate) fn is_never_forgotten(&self) -> bool {
        let entry = self.kept.as_ref().and_then(|(entry, _)| entry.as_ref());
        let is_kept = entry.is_some_and(|entry| entry.record.is_settled() && entry.keep_until.is_none());
        is_kept || !self.stored.is_empty() && self.stored.iter().all(|line| line.step.policy.repeat.window.is_none())
    }

    /// What was stored of an operation.
    pub(crate) fn stored_of(&self, generation: u32) -> &[Stored] {
        let from = self.stored.partition_point(|line| line.record.generation() < generation);
        let to = self.stored.partition_point(|line| line.record.generation() <= generation);
        self.stored.get(from..to).unwrap_or_default()
    }
}

fn sort<T>(all: &mut [About<T>]) {
    all.sort_by_key(|about| (about.generation, about.attempt, about.place.run, about.place.n));
}

/// What is about an operation.
pub(crate) fn of_operation<T>(all: &[About<T>], generation: u32) -> &[About<T>] {
    let from = all.partition_point(|about| about.generation < generation);
    let to = all.partition_point(|about| about.generation <= generation);
    all.get(from..to).unwrap_or_default()
}

/// What is about an attempt.
pub(crate) fn of_attempt<T>(all: &[About<T>], generation: u32, attempt: u32) -> &[About<T>] {
    let wanted = (generation, attempt);
    let from = all.partition_point(|about| (about.generation, about.attempt) < wanted);
    let to = all.partition_point(|about| (about.generation, about.attempt) <= wanted);
    all.get(from..to).unwrap_or_default()
}

/// All that is known of one process.
#[derive(Default)]
pub(crate) struct RunFacts {
    pub(crate) numbers: Numbers,
    pub(crate) started: BTreeSet<Epoch>,
    /// Under which it wrote lines.
    pub(crate) seen: BTreeMap<Epoch, Place>,
    pub(crate) fenced: Vec<(Epoch, Place)>,
    pub(crate) retired: bool,
}

impl RunFacts {
    /// Whether every line up to this one is there.
    pub(crate) fn is_whole(&self, up_to: u64) -> bool {
        self.numbers.0.first_key_value().is_some_and(|(first, last)| *first == 1 && *last >= up_to)
    }
}

/// The numbers of the lines of a process, as ranges: from the first to the last one.
#[derive(Default)]
pub(crate) struct Numbers(pub(crate) BTreeMap<u64, u64>);

impl Numbers {
    /// Adds a number; `false` if it was there.
    pub(crate) fn insert(&mut self, n: u64) -> bool {
        let below = self.0.range(..=n).next_back().map(|(first, last)| (*first, *last));
        let mut first = n;
        if let Some((start, end)) = below {
            if n <= end {
                return false;
            }
            if end.checked_add(1) == Some(n) {
                first = start;
            }
        }
        let above = n.checked_add(1).and_then(|next| self.0.remove(&next));
        self.0.insert(first, above.unwrap_or(n));
        true
    }
}

/// Names the places in a report.
pub(crate) struct Names {
    pub(crate) files: Vec<String>,
}

impl Names {
    pub(crate) fn line(&self, place: &Place) -> String {
        match self.files.get(place.file as usize) {
            Some(file) => format!("{file}:{}", place.line),
            None => format!("line {} of process {}", place.n, place.run),
        }
    }

    /// A place for a report.
    pub(crate) fn at(&self, key: Option<&Key>, place: &Place) -> Where {
        Where {
            key: key.cloned(),
            at: Some(place.at),
            process: Some(place.run),
            lines: vec![self.line(place)],
            ..Where::default()
        }
    }
}

impl Where {
    pub(crate) fn of(mut self, generation: u32) -> Where {
        self.generation = Some(generation);
        self
    }

    pub(crate) fn version(mut self, version: Version) -> Where {
        self.version = Some(version);
        self
    }

    pub(crate) fn and(mut self, line: String) -> Where {
        self.lines.push(line);
        self
    }
}

//! Takes the evidence in, and judges it.

use std::collections::BTreeMap;

use settled::{Change, Entry, HISTORY_VERSION, Happened, HistoryLine};
use settled_protocol::{Epoch, Key, Time};

use crate::chain::Chain;
use crate::effects::Effect;
use crate::facts::{About, Answered, Asked, KeyFacts, Names, Place, RunFacts, Stored};
use crate::property::Property;
use crate::report::{Report, Where};
use crate::resources::Resources;
use crate::{effects, end, runs, sent, told, verdicts};

/// What is known of the evidence besides what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Nothing is under way any more: an operation that is still open has been left so, and a record whose time is over has been
    /// kept too long.
    pub ended: bool,
    /// The effects given are all that there were.
    pub effects_known: bool,
    /// How long a record may be kept after its time is over, in milliseconds.
    pub margin: u64,
}

impl Default for Options {
    /// A run that may go on, without knowledge of effects; an hour for what is over to be removed.
    fn default() -> Self {
        Options { ended: false, effects_known: false, margin: 3_600_000 }
    }
}

/// Takes evidence, in any order, and judges it.
#[derive(Default)]
pub struct Verifier {
    options: Options,
    files: Vec<String>,
    keys: BTreeMap<Key, KeyFacts>,
    runs: BTreeMap<Epoch, RunFacts>,
    effects: Vec<Effect>,
    report: Report,
    has_ledger: bool,
    last: Time,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("lines", &self.report.lines).finish_non_exhaustive()
    }
}

/// What the checks of one key look at and write to.
pub(crate) struct Case<'a> {
    pub(crate) options: Options,
    pub(crate) names: &'a Names,
    pub(crate) runs: &'a BTreeMap<Epoch, RunFacts>,
    pub(crate) has_ledger: bool,
    pub(crate) last: Time,
    pub(crate) report: &'a mut Report,
}

impl Case<'_> {
    /// Whether every line of the process up to this one is there.
    pub(crate) fn is_whole(&self, place: &Place) -> bool {
        self.runs.get(&place.run).is_some_and(|run| run.is_whole(place.n))
    }

    /// Whether nothing at all can be missing.
    pub(crate) fn has_all(&self) -> bool {
        self.has_ledger || self.has_all_lines()
    }

    /// Whether there is every line that was ever written.
    pub(crate) fn has_all_lines(&self) -> bool {
        !self.runs.is_empty()
            && self.runs.values().all(|run| run.retired && run.is_whole(1) && run.numbers.0.len() == 1)
    }
}

impl Verifier {
    /// Without any evidence yet.
    pub fn new(options: Options) -> Verifier {
        Verifier { options, ..Verifier::default() }
    }

    /// A line of a history. What matters is its process and its number there, not the order of the lines given.
    pub fn line(&mut self, line: HistoryLine) {
        self.line_of(line, u32::MAX, 0);
    }

    /// An effect, as the tool noted it.
    pub fn effect(&mut self, effect: Effect) {
        self.report.effects += 1;
        self.effects.push(effect);
    }

    /// What the ledger holds of a key. Read it after the histories: it may know more than they do, not less.
    pub fn kept(&mut self, key: &Key, entry: Option<Entry>, changes: Vec<Change>) {
        self.has_ledger = true;
        self.keys.entry(key.clone()).or_default().kept = Some((entry, changes));
    }

    /// There is a ledger, whatever it holds.
    pub fn with_ledger(&mut self) {
        self.has_ledger = true;
    }

    /// The keys that were named so far.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.keys()
    }

    /// A file of which lines come; returns its index.
    pub(crate) fn file(&mut self, name: String) -> u32 {
        self.files.push(name);
        u32::try_from(self.files.len() - 1).unwrap_or(u32::MAX)
    }

    /// Where no line was read and no ledger holds anything, there was nothing to verify.
    pub(crate) fn nothing_at_all(&mut self) {
        if self.report.lines == 0 && self.keys.is_empty() {
            let place = Where { lines: self.files.clone(), ..Where::default() };
            self.report.gap(place, "every line: nothing was verified");
        }
    }

    /// A line that is no line of a history.
    pub(crate) fn unreadable(&mut self, file: u32, line: u32, torn: bool, why: &str) {
        let name = self.files.get(file as usize).cloned().unwrap_or_default();
        let place = Where { lines: vec![format!("{name}:{line}")], ..Where::default() };
        self.report.lines += 1;
        self.report.check(Property::WholeHistory);
        if torn {
            self.report.gap(place, "a line that was begun and not ended: its process was killed, or its disk was full");
        } else {
            self.report.violate(Property::WholeHistory, None, place, format!("this is no line of a history: {why}"));
        }
    }

    pub(crate) fn line_of(&mut self, line: HistoryLine, file: u32, number: u32) {
        let HistoryLine { v, at, by, run, n, key, what } = line;
        let place = Place { at, by, run, n, file, line: number };
        self.report.lines += 1;
        self.report.check(Property::WholeHistory);
        self.last = self.last.max(at);
        let of_run = self.runs.entry(run).or_default();
        let is_put_in = n == 0;
        if !is_known_version(u64::from(v)) {
            self.wrong(key.as_ref(), &place, &format!("a line of format {v}, this program reads {HISTORY_VERSION}"));
            return;
        }
        if n == 1 && !matches!(what, Happened::Started) {
            self.wrong(key.as_ref(), &place, "the first line of a process says that it has started");
            return;
        }
        if is_put_in != matches!(what, Happened::Gap { .. }) {
            self.wrong(key.as_ref(), &place, "only a gap has no number");
            return;
        }
        if !is_put_in {
            if !of_run.numbers.insert(n) {
                self.wrong(key.as_ref(), &place, &format!("line {n} of this process is there twice"));
                return;
            }
            of_run.seen.entry(by).or_insert(place);
        }
        match (key, what) {
            (None, Happened::Started) => drop(of_run.started.insert(by)),
            (None, Happened::Fenced { epoch }) => of_run.fenced.push((epoch, place)),
            (None, Happened::Retired { epoch }) => {
                of_run.retired = true;
                of_run.seen.entry(epoch).or_insert(place);
            }
            (None, Happened::Gap { lines }) => {
                let place = Names { files: self.files.clone() }.at(None, &place);
                self.report.gap(place, format!("{lines} lines came faster than they could be written"));
            }
            (Some(key), what) => {
                let facts = self.keys.entry(key.clone()).or_default();
                if !take(facts, place, what) {
                    self.wrong(
                        Some(&key),
                        &place,
                        "a line about a process names a key, or is of a kind that is not known",
                    );
                }
            }
            (None, _) => self.wrong(None, &place, "a line about an operation names no key"),
        }
    }

    fn wrong(&mut self, key: Option<&Key>, place: &Place, text: &str) {
        let place = Names { files: self.files.clone() }.at(key, place);
        self.report.violate(Property::WholeHistory, None, place, text);
    }

    /// Judges what was taken in.
    pub fn finish(self) -> Report {
        let Verifier { options, files, mut keys, runs, effects, mut report, has_ledger, last } = self;
        let names = Names { files };
        let mut case = Case { options, names: &names, runs: &runs, has_ledger, last, report: &mut report };
        runs::check(&mut case);
        let mut resources = Resources::default();
        effects::overlaps(&mut case, &effects);
        let mut effects = effects::by_key(effects);
        for (key, facts) in &mut keys {
            facts.sort();
            let chain = Chain::of(&mut case, key, facts);
            sent::check(&mut case, key, facts, &chain);
            told::check(&mut case, key, facts, &chain);
            end::check(&mut case, key, facts, &chain);
            effects::check(&mut case, key, facts, &chain, effects.remove(key).unwrap_or_default());
            resources.add(&case, key, &chain);
        }
        effects::of_unknown_keys(&mut case, effects);
        resources.check(&mut case);
        verdicts::judge(&mut report, options, has_ledger);
        report
    }
}

/// Whether the format of a line is the one that is known here.
pub(crate) fn is_known_version(v: u64) -> bool {
    v == u64::from(HISTORY_VERSION)
}

/// Sorts a line about a key in; `false` if it is none.
fn take(facts: &mut KeyFacts, place: Place, what: Happened) -> bool {
    match what {
        Happened::Asked { call, fingerprint, policy, arguments: _ } => {
            facts.asked.push(Asked { place, call, fingerprint, policy });
        }
        Happened::Joined { call, fingerprint: _ } => facts.joined.push((place, call)),
        Happened::Stored { state, because, expected, record, resource, step } => facts.stored.push(Stored {
            place,
            state: state.into_owned(),
            because: because.into_owned(),
            expected,
            record: *record,
            resource,
            step,
        }),
        Happened::Refused { version, because: _ } => facts.refused.push((place, version)),
        Happened::Sent { generation, attempt, epoch, because: _, arguments: _ } => {
            facts.sent.push(About { place, generation, attempt, what: epoch });
        }
        Happened::Withheld { generation, attempt, epoch } => {
            facts.withheld.push(About { place, generation, attempt, what: epoch });
        }
        Happened::Replied { generation, attempt, reply, digest } => {
            facts.replied.push(About { place, generation, attempt, what: (reply, digest) });
        }
        Happened::Lost { generation, attempt, how } => {
            facts.lost.push(About { place, generation, attempt, what: how });
        }
        Happened::Observed { generation, attempt, seen, conclusive } => {
            facts.observed.push(About { place, generation, attempt, what: (seen, conclusive) });
        }
        Happened::Answered { call, generation, answer, digest, replayed } => {
            facts.answered.push(Answered { place, call, generation, answer, digest, replayed });
        }
        Happened::Escalated { generation } => facts.escalated.push((place, generation)),
        Happened::Decided { generation, verdict, note: _ } => facts.decided.push((place, generation, verdict)),
        Happened::Delivered { generation, from } => facts.delivered.push((place, generation, from)),
        Happened::Expired { version, step } => facts.expired.push((place, version, step)),
        // Nothing rests on them.
        Happened::GivenUp { .. } | Happened::Recovered { .. } => {}
        _ => return false,
    }
    true
}

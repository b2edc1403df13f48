//! The records of one key, in the order of their versions: what all processes and the ledger say of them, put together.

use std::collections::BTreeMap;
use std::ops::Range;

use settled::{Change, Resource, Taken, ToDo, because};
use settled_protocol::{Action, Digest, Key, Record, State, ToolKind, Version};

use crate::facts::{KeyFacts, Stored};
use crate::property::Property;
use crate::report::Where;
use crate::search::{self, Kinds};
use crate::table;
use crate::verifier::Case;

/// A version of a key's record.
pub(crate) struct Link<'a> {
    pub(crate) record: Record<Digest>,
    /// The record before it, if that is known; the outer `None`: it isn't.
    pub(crate) before: Option<Option<Record<Digest>>>,
    /// The lines that tell of it: more than one if several processes asked for the same change.
    pub(crate) lines: Vec<&'a Stored>,
    /// What the ledger has of it.
    pub(crate) kept: Option<&'a Change>,
}

impl Link<'_> {
    pub(crate) fn step(&self) -> Option<&Taken> {
        self.lines.first().map(|line| &*line.step)
    }
}

/// One operation under the key.
pub(crate) struct Operation {
    pub(crate) generation: u32,
    pub(crate) links: Range<usize>,
    pub(crate) resource: Option<Resource>,
    /// Whether its claim is there, and everything after it as far as that can be told.
    pub(crate) is_whole: bool,
}

/// All versions of a key's record.
pub(crate) struct Chain<'a> {
    pub(crate) links: Vec<Link<'a>>,
    pub(crate) operations: Vec<Operation>,
    /// Where each of them is, by its number.
    numbers: BTreeMap<u32, usize>,
    /// Whether no version is missing, as far as that can be told.
    pub(crate) is_whole: bool,
}

impl<'a> Chain<'a> {
    /// Puts the records together, and checks them and their steps.
    pub(crate) fn of(case: &mut Case<'_>, key: &Key, facts: &'a KeyFacts) -> Chain<'a> {
        let mut chain =
            Chain { links: gather(case, key, facts), operations: Vec::new(), numbers: BTreeMap::new(), is_whole: true };
        kept(case, key, facts, &chain);
        chain.connect(case, key, facts);
        chain.split();
        for index in 0..chain.links.len() {
            chain.check(case, key, index);
        }
        chain.check_kinds(case, key);
        case.report.operations += chain.operations.len() as u64;
        chain
    }

    /// The operation of this number.
    pub(crate) fn operation(&self, generation: u32) -> Option<&Operation> {
        self.operations.get(*self.numbers.get(&generation)?)
    }

    pub(crate) fn links_of(&self, operation: &Operation) -> impl Iterator<Item = &Link<'a>> {
        self.links.get(operation.links.clone()).unwrap_or_default().iter()
    }

    /// Whether nothing of the operation can be missing: there is every line, or the ledger has it, and so has all of it.
    pub(crate) fn has_all_of(&self, case: &Case<'_>, operation: &Operation) -> bool {
        let in_ledger = || self.links_of(operation).any(|link| link.kept.is_some());
        operation.is_whole && (case.has_all_lines() || in_ledger())
    }

    /// What its tool was declared to be when it was last dispatched.
    pub(crate) fn kind(&self, operation: &Operation) -> Option<ToolKind> {
        let of = |link: &Link<'_>| link.step().map(|step| step.policy.tool);
        let dispatches = |link: &&Link<'_>| matches!(link.record.state(), State::Dispatched(_));
        self.links_of(operation).filter(dispatches).filter_map(of).last()
    }

    /// Says for each version which one was before it.
    fn connect(&mut self, case: &mut Case<'_>, key: &Key, facts: &KeyFacts) {
        let mut index = 0;
        while index < self.links.len() {
            let before = index.checked_sub(1).and_then(|last| self.links.get(last)).map(|link| link.record);
            let Some(link) = self.links.get(index) else { return };
            let expected = match (link.lines.first(), link.kept) {
                (Some(line), _) => line.expected,
                (None, Some(change)) => change.expected,
                (None, None) => before.map(|before| before.version()),
            };
            let place = here(case, key, link);
            let found = match (expected, before) {
                (None, None) => Some(None),
                (None, Some(last)) => {
                    forgotten(case, key, facts, &last, link, &place);
                    Some(None)
                }
                (Some(expected), Some(before)) if expected == before.version() => Some(Some(before)),
                (Some(expected), Some(before)) if expected.0 == before.version().0 + 1 => {
                    let is_its_own = link.step().is_some_and(|step| step.policy.tool == ToolKind::Transactional);
                    let leads = |confirmed: &Record<Digest>| {
                        link.step().is_some_and(|step| {
                            step.policy.step(Some(confirmed), &step.event()).record == Some(link.record)
                        })
                    };
                    match search::committed_between(&before, &link.record).filter(|it| is_its_own && leads(it)) {
                        Some(confirmed) => {
                            case.report.inferred += 1;
                            let inserted = Link { record: confirmed, before: None, lines: Vec::new(), kept: None };
                            self.links.insert(index, inserted);
                            continue;
                        }
                        None => None,
                    }
                }
                _ => None,
            };
            if found.is_none() {
                self.is_whole = false;
                let seen = before.map_or("nothing".to_owned(), |before| format!("version {}", before.version()));
                let text = format!("what was stored between {seen} and version {}", link.record.version());
                case.report.gap(place, text);
            }
            if let Some(link) = self.links.get_mut(index) {
                link.before = found;
            }
            index += 1;
        }
    }

    /// Finds the operations.
    fn split(&mut self) {
        for (index, link) in self.links.iter().enumerate() {
            let generation = link.record.generation();
            match self.operations.last_mut() {
                Some(operation) if operation.generation == generation => {
                    operation.links.end = index + 1;
                    operation.is_whole &= link.before.is_some();
                }
                _ => {
                    self.numbers.entry(generation).or_insert(self.operations.len());
                    self.operations.push(Operation {
                        generation,
                        links: index..index + 1,
                        resource: resource(link),
                        is_whole: link.before.is_some(),
                    });
                }
            }
        }
    }

    /// The core leads from the record before to this one, and so does the design's table.
    fn check(&self, case: &mut Case<'_>, key: &Key, index: usize) {
        let Some(link) = self.links.get(index) else { return };
        let Some(before) = &link.before else { return };
        for line in &link.lines {
            let place =
                case.names.at(Some(key), &line.place).of(link.record.generation()).version(link.record.version());
            case.report.check(Property::CoreSteps);
            case.report.steps += 1;
            if let Err(text) = replay(before.as_ref(), line) {
                case.report.violate(Property::CoreSteps, None, place.clone(), text);
            }
            table::check(case.report, before.as_ref(), &link.record, &line.step, &place);
        }
    }

    /// Of what only the ledger tells, the core must be able to lead there, with one kind of tool for each operation.
    fn check_kinds(&self, case: &mut Case<'_>, key: &Key) {
        for operation in &self.operations {
            let mut possible: Kinds = search::ANY;
            for link in self.links_of(operation) {
                let (Some(change), Some(before), true) = (link.kept, &link.before, link.lines.is_empty()) else {
                    continue;
                };
                case.report.check(Property::CoreSteps);
                case.report.inferred += 1;
                let kinds = search::kinds_that_lead(before.as_ref(), change);
                let place = here(case, key, link);
                let state = |record: &Record<Digest>| record.state().name();
                let from = before.as_ref().map_or("nothing", state);
                if kinds == 0 {
                    let text = format!(
                        "no step of the core leads from {from} to {} by “{}”",
                        state(&link.record),
                        change.event
                    );
                    case.report.violate(Property::CoreSteps, None, place, text);
                } else if possible & kinds == 0 {
                    let text = format!(
                        "no one kind of tool allows all steps of this operation up to {} by “{}”",
                        state(&link.record),
                        change.event
                    );
                    case.report.violate(Property::CoreSteps, None, place, text);
                    break;
                } else {
                    possible &= kinds;
                }
            }
        }
    }
}

/// What the history and the ledger say of each version, side by side.
fn gather<'a>(case: &mut Case<'_>, key: &Key, facts: &'a KeyFacts) -> Vec<Link<'a>> {
    let mut links: BTreeMap<Version, Link<'a>> = BTreeMap::new();
    for line in &facts.stored {
        case.report.check(Property::Kept);
        let link = links.entry(line.record.version()).or_insert_with(|| link_of(line.record));
        if link.record != line.record {
            let first = link.lines.first().map(|first| case.names.line(&first.place)).unwrap_or_default();
            let place = case.names.at(Some(key), &line.place).version(line.record.version()).and(first);
            let text = "two different records are told to be durable under one version";
            case.report.violate(Property::Kept, Some(5), place, text);
        }
        link.lines.push(line);
    }
    let changes = facts.kept.iter().flat_map(|(_, changes)| changes);
    for change in changes {
        let link = links.entry(change.record.version()).or_insert_with(|| link_of(change.record));
        if link.record != change.record {
            let place = here(case, key, link);
            case.report.violate(
                Property::Kept,
                Some(8),
                place,
                "the ledger holds another record than was told to be durable",
            );
        }
        link.kept = Some(change);
    }
    case.report.records += links.len() as u64;
    links.into_values().collect()
}

fn link_of<'a>(record: Record<Digest>) -> Link<'a> {
    Link { record, before: None, lines: Vec::new(), kept: None }
}

fn here(case: &Case<'_>, key: &Key, link: &Link<'_>) -> Where {
    let place = match (link.lines.first(), link.kept) {
        (Some(line), _) => case.names.at(Some(key), &line.place),
        (None, Some(change)) => {
            Where { key: Some(key.clone()), at: Some(change.at), process: Some(change.by), ..Where::default() }
        }
        (None, None) => Where { key: Some(key.clone()), ..Where::default() },
    };
    place.of(link.record.generation()).version(link.record.version())
}

fn resource(link: &Link<'_>) -> Option<Resource> {
    let told = link.lines.iter().find_map(|line| line.resource.clone());
    told.or_else(|| link.kept.and_then(|change| change.resource.clone()))
}

/// What was told to be durable is in the ledger.
fn kept(case: &mut Case<'_>, key: &Key, facts: &KeyFacts, chain: &Chain<'_>) {
    let Some((entry, changes)) = &facts.kept else { return };
    case.report.check(Property::Kept);
    let (Some(last), Some(told)) = (chain.links.last(), facts.stored.iter().max_by_key(|line| line.record.version()))
    else {
        return;
    };
    let place = case.names.at(Some(key), &told.place).version(told.record.version());
    match entry {
        None if !last.record.is_settled() => {
            let text = format!("the ledger has no record of an operation that is {}", last.record.state().name());
            // It may have ended, and been forgotten, in lines that are missing.
            let never_forgotten = facts.stored.iter().all(|line| line.step.policy.repeat.window.is_none());
            if never_forgotten || case.has_all_lines() {
                case.report.violate(Property::Kept, Some(12), place, text);
            } else {
                case.report.gap(place, text + ", or how it ended is missing");
            }
        }
        Some(entry) if entry.record.version() < told.record.version() => {
            let text = format!("it is lost: the ledger holds version {}", entry.record.version());
            case.report.violate(Property::Kept, Some(8), place, text);
        }
        Some(entry) if !entry.tombstone && Some(&entry.record) != changes.last().map(|change| &change.record) => {
            case.report.violate(Property::Kept, None, place, "the ledger's record is not that of its last change");
        }
        _ => {}
    }
    let Some(first) = changes.first().map(|change| change.record.version()) else { return };
    for link in chain.links.iter().filter(|link| link.record.version() > first && link.kept.is_none()) {
        if !link.lines.is_empty() {
            let place = here(case, key, link);
            case.report.violate(
                Property::Kept,
                Some(8),
                place,
                "it was told to be durable, and the ledger never had it",
            );
        }
    }
}

/// A key is claimed that had a record: that one must have been forgotten, and its numbers are not used again.
fn forgotten(case: &mut Case<'_>, key: &Key, facts: &KeyFacts, last: &Record<Digest>, link: &Link<'_>, place: &Where) {
    case.report.check(Property::BoundedMemory);
    if link.record.generation() <= last.generation() {
        let text = format!("operation {} comes after operation {}", link.record.generation(), last.generation());
        case.report.violate(Property::BoundedMemory, Some(5), place.clone(), text);
    }
    match facts.expired.iter().find(|(_, version, _)| *version >= last.version() && *version < link.record.version()) {
        Some((_, version, _)) if *version == last.version() => {}
        Some(_) => case.report.gap(place.clone(), "what was stored before the key was forgotten"),
        None => case.report.gap(place.clone(), format!("who forgot version {} of {key}", last.version())),
    }
}

/// Takes the step again.
fn replay(before: Option<&Record<Digest>>, line: &Stored) -> Result<(), String> {
    let Stored { place, state, because: word, expected, record, resource, step } = line;
    let taken = step.policy.step(before, &step.event());
    let stored = taken.actions.iter().find_map(|action| match action {
        Action::Store(store) => Some(store),
        _ => None,
    });
    let from = before.map_or("nothing", |before| before.state().name());
    let Some(store) = stored else {
        return Err(format!("from {from}, the core stores nothing by “{word}”"));
    };
    if store.record != *record {
        return Err(format!(
            "from {from} by “{word}”, the core stores {:?}, but {:?} was stored",
            store.record.state(),
            record.state()
        ));
    }
    if store.expected != *expected {
        return Err("the core expects another version to be replaced".to_owned());
    }
    let actions: Vec<ToDo> = taken.actions.iter().map(ToDo::of).collect();
    if actions != step.actions {
        return Err(format!("from {from} by “{word}”, the core asks for {actions:?}, but {:?} was done", step.actions));
    }
    if state != record.state().name() {
        return Err(format!("the line says “{state}”, its record is {}", record.state().name()));
    }
    let name = because(&step.what, before.map(Record::state), record);
    if word != name {
        return Err(format!("the line says “{word}”, its event is “{name}”"));
    }
    if step.now > place.at {
        return Err("the step is dated after its line".to_owned());
    }
    let begins = before.is_none_or(|before| before.generation() != record.generation());
    if resource.is_some() && !begins {
        return Err("it takes a resource without beginning an operation".to_owned());
    }
    Ok(())
}

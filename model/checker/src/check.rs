//! Checking a protocol: every reachable state of its world, and a verdict for each property.

use std::time::{Duration, Instant};

use settled_devices_model::DeviceWorld;
use settled_explorer::{Budget, Exploration, Fault, Options, PropertyName, PropertySet, Readable, Trace, explore};

use crate::description::{Description, Intent, Torn, WithoutLedger};
use crate::validate::Unbuildable;
use crate::world::Rules;

pub use settled_explorer::Progress;

/// How far to go, and what may be left out because something else that is explored shows the same.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Stop after about this many states, doubles included, and say so.
    pub states: usize,
    /// Stop after this time, and say so.
    pub time: Duration,
    /// Threads to explore with.
    pub threads: usize,
    /// What may be left out.
    pub reductions: Reductions,
    /// The properties to decide; all, by default.
    pub wanted: PropertySet,
    /// Stop once every wanted property has been found violated.
    pub stop_when_found: bool,
}

/// What need not be explored. None of it changes a verdict, or the length of a shortest run; but with `operations` that of
/// `settles`, `can always settle` and `bounded memory` is the length for one operation, as all others have to rest, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reductions {
    /// Worlds that differ only in the names of processes and logical calls are explored once.
    pub symmetry: bool,
    /// A world is not explored with a smaller fault budget than it was explored with before.
    pub budgets: bool,
    /// Of operations that have nothing in common only one is explored: see [`Description::operations_are_independent`].
    pub operations: bool,
    /// Messages that can't matter any more are dropped.
    pub messages: bool,
    /// First, faults that can't go on for ever by themselves may happen any number of times, so that their budgets need not
    /// be told apart. What holds then holds within the bounds. If anything is violated, or that gets too large, all is explored
    /// again with the bounds as they are.
    pub any_number: bool,
}

impl Reductions {
    /// All of them.
    pub const ALL: Reductions =
        Reductions { symmetry: true, budgets: true, operations: true, messages: true, any_number: true };
    /// None of them.
    pub const NONE: Reductions =
        Reductions { symmetry: false, budgets: false, operations: false, messages: false, any_number: false };
}

impl Default for Limits {
    fn default() -> Self {
        let options = Options::default();
        Limits {
            states: options.states,
            time: options.time,
            threads: options.threads,
            reductions: Reductions::ALL,
            wanted: options.wanted,
            stop_when_found: false,
        }
    }
}

impl Limits {
    /// Where nothing that is asked for says anything of a world, there is nothing to be seen in it.
    fn if_asked(self, properties: PropertySet) -> Limits {
        if properties.and(self.wanted).is_empty() { Limits { states: 1, ..self } } else { self }
    }

    fn options(&self) -> Options {
        Options {
            states: self.states,
            time: self.time,
            threads: self.threads.max(1),
            reductions: settled_explorer::Reductions {
                symmetry: self.reductions.symmetry,
                budgets: self.reductions.budgets,
            },
            wanted: self.wanted,
            stop_when_found: self.stop_when_found,
            stop_when_any: false,
        }
    }
}

/// What was found out about one property.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It holds in every state within the bounds.
    Holds,
    /// It does not; a shortest run that shows it.
    Violated(Box<Trace>),
    /// No violation so far, but a limit was reached before everything was explored.
    NotFinished,
    /// It says nothing about this protocol, or was not asked for.
    NotApplicable,
}

/// The result of checking one protocol.
#[derive(Clone, Debug)]
pub struct Report {
    /// The protocol, with the bounds that were asked for.
    pub description: Description,
    /// The verdict for each property, in the design's order.
    pub verdicts: Vec<(PropertyName, Verdict)>,
    /// Distinct pairs of a state and the fault budget left in it, after reductions.
    pub unique_states: usize,
    /// Distinct states, whatever the budget left, after reductions.
    pub worlds: usize,
    /// Moves made.
    pub transitions: usize,
    /// How many moves away the farthest state is.
    pub depth: usize,
    /// How long it took.
    pub elapsed: Duration,
    /// The most memory that the exploration used, in bytes.
    pub peak_bytes: usize,
    /// Whether everything within the bounds was explored.
    pub exhaustive: bool,
    /// The faults of which it was found that any number of them changes nothing: all that holds, holds whatever their bounds.
    pub any_number_of: Vec<Fault>,
    /// How many logical calls were explored; fewer than described, if they are independent of each other.
    pub operations_explored: u8,
    /// The probability that two different states were taken for one and something was missed because of that.
    pub collision_odds: f64,
}

impl Report {
    /// The properties that are violated, with their traces.
    pub fn violations(&self) -> impl Iterator<Item = (PropertyName, &Trace)> {
        self.verdicts.iter().filter_map(|(property, verdict)| match verdict {
            Verdict::Violated(trace) => Some((*property, trace.as_ref())),
            _ => None,
        })
    }

    /// Whether every property that applies holds.
    pub fn all_hold(&self) -> bool {
        self.verdicts.iter().all(|(_, verdict)| matches!(verdict, Verdict::Holds | Verdict::NotApplicable))
    }

    /// The verdict of one property.
    pub fn verdict(&self, property: PropertyName) -> &Verdict {
        self.verdicts.iter().find(|(its, _)| *its == property).map_or(&Verdict::NotFinished, |(_, verdict)| verdict)
    }
}

/// Explores every state of a protocol's world within its bounds, and decides every property.
///
/// # Errors
/// [`Unbuildable`] if the description has a bound out of range or contradicts itself.
pub fn check(
    description: &Description,
    limits: Limits,
    mut progress: impl FnMut(Progress),
) -> Result<Report, Unbuildable> {
    let mut explored = description.clone();
    if limits.reductions.operations && description.operations_are_independent() {
        explored.caller.operations = 1;
    }
    // What has room for one operation may not have it for three.
    explored.validate()?;
    if let Some(devices) = &description.devices {
        let world = DeviceWorld::new(&description.name, devices, description.faults)?;
        return Ok(decide(&world, description.clone(), limits, &mut progress));
    }
    let mut rules = Rules::new(explored);
    rules.prunes &= limits.reductions.messages;
    Ok(check_world(&rules, description, limits, progress))
}

/// The same for a world with machines of your own: see [`Rules::with`].
///
/// # Errors
/// [`Unbuildable`] if the description has a bound out of range or contradicts itself.
pub fn check_rules(rules: &Rules, limits: Limits, progress: impl FnMut(Progress)) -> Result<Report, Unbuildable> {
    rules.description.validate()?;
    Ok(check_world(rules, &rules.description, limits, progress))
}

fn check_world(rules: &Rules, described: &Description, limits: Limits, mut progress: impl FnMut(Progress)) -> Report {
    let begun = Instant::now();
    let left = |limits: Limits| Limits { time: limits.time.saturating_sub(begun.elapsed()), ..limits };
    let operations_explored = rules.description.caller.operations;
    let (bounds, any) = with_any_number(&rules.description);
    let generous = Rules { bounds, ..rules.clone() };
    let limits = limits.if_asked(rules.properties());
    let mut promising = limits.reductions.any_number && !any.is_empty();
    // Neither of the two ways may keep the other waiting: first both are tried for a while.
    let mut states = if promising { FIRST_TRY.min(limits.states) } else { limits.states };
    let mut report = loop {
        if promising {
            let tried = Limits { states, time: left(limits).time / 2, ..limits };
            // Violations need the bounds as they are, so the first is enough.
            let options = Options { stop_when_any: true, ..tried.options() };
            let found = explore(&generous, &options, &mut progress);
            let report = report(&generous, &found, described.clone(), limits);
            if found.exhaustive && !generous.take_overflow() && report.all_hold() {
                return Report { operations_explored, any_number_of: any, elapsed: begun.elapsed(), ..report };
            }
            // Only one that was cut short may still turn out well.
            promising = found.violations.is_empty() && !found.exhaustive;
        }
        rules.take_overflow();
        let found = explore(rules, &Limits { states, ..left(limits) }.options(), &mut progress);
        let more_to_see = !found.exhaustive && found.transitions >= states && states < limits.states;
        if !more_to_see {
            break report(rules, &found, described.clone(), limits);
        }
        states = limits.states;
    };
    if rules.take_overflow() {
        report.exhaustive = false;
        for (_, verdict) in &mut report.verdicts {
            if *verdict == Verdict::Holds {
                *verdict = Verdict::NotFinished;
            }
        }
    }
    Report { operations_explored, elapsed: begun.elapsed(), ..report }
}

/// How many moves are made before the other way of exploring is tried.
const FIRST_TRY: usize = 2_000_000;

/// The bounds, with any number of each fault that needs something else to happen: an attempt, a call, a unit of time, of
/// which there are only so many. Worlds stay finite without a bound on those.
fn with_any_number(description: &Description) -> (Budget, Vec<Fault>) {
    let ledger = &description.ledger;
    let begins_anew = |fault| match fault {
        Fault::Duplicate | Fault::KeyExpiry | Fault::LedgerFailover => true,
        // How far a clock can be off is bounded by these alone.
        Fault::ClockSkew | Fault::ClockJump => true,
        Fault::TornWrite => ledger.torn == Torn::Erases,
        Fault::UnsyncedLoss | Fault::SyncError => *ledger != Default::default(),
        Fault::GuardCrash => description.guard.intent == Intent::AfterEffect,
        Fault::LedgerPartition | Fault::DiskFull => description.guard.without_ledger == WithoutLedger::SendsAnyway,
        _ => false,
    };
    let bounds = description.faults.list().into_iter();
    let any: Vec<_> =
        bounds.filter(|(fault, bound)| *bound > 0 && !begins_anew(*fault)).map(|(fault, _)| fault).collect();
    let budget = any.iter().fold(Budget::from(description.faults), |budget, fault| budget.with_any(*fault));
    (budget, any)
}

fn decide<S: Readable>(
    system: &S,
    description: Description,
    limits: Limits,
    progress: &mut dyn FnMut(Progress),
) -> Report {
    let found = explore(system, &limits.if_asked(system.properties()).options(), progress);
    report(system, &found, description, limits)
}

fn report<S: Readable>(system: &S, found: &Exploration<S::Move>, description: Description, limits: Limits) -> Report {
    let asked = system.properties().and(limits.wanted);
    let verdicts = PropertyName::ALL.iter().map(|property| (*property, verdict(system, found, asked, *property)));
    Report {
        verdicts: verdicts.collect(),
        description,
        unique_states: found.unique_states,
        worlds: found.worlds,
        transitions: found.transitions,
        depth: found.depth,
        elapsed: found.elapsed,
        peak_bytes: found.peak_bytes,
        exhaustive: found.exhaustive,
        operations_explored: 0,
        any_number_of: Vec::new(),
        collision_odds: found.collision_odds(),
    }
}

fn verdict<S: Readable>(
    system: &S,
    found: &Exploration<S::Move>,
    asked: PropertySet,
    property: PropertyName,
) -> Verdict {
    if !asked.has(property) {
        Verdict::NotApplicable
    } else if let Some(run) = found.violation(property) {
        Verdict::Violated(Box::new(Trace::of(system, property, &run.moves, run.round)))
    } else if !found.exhaustive || found.undecided.has(property) {
        Verdict::NotFinished
    } else {
        Verdict::Holds
    }
}

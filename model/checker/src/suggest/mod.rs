//! The smallest changes that repair a protocol: searched for among all that a designer may change, one at a time, then two,
//! then three, and each checked in full.

mod knobs;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use settled_devices_model::Devices;
use settled_explorer::{Fault, Faults, PropertyName, PropertySet};

use crate::check::{Limits, Reductions, Report, Verdict, check};
use crate::description::{BudgetRules, CallerRules, Description, GuardRules, LedgerRules, ToolRules};
use crate::diff::{FieldChange, field_changes};
use crate::validate::Unbuildable;
use knobs::KNOBS;

/// The most fields that are changed together.
const MOST: usize = 3;
/// One candidate may take this part of the time that is left.
const SHARE: u32 = 8;

/// A change that repairs a property.
#[derive(Clone, Debug)]
pub struct Suggestion {
    /// The fields to change.
    pub changes: Vec<FieldChange>,
    /// The bounds of faults that were changed with them: faults that can't happen any more, and, if a guard was put in
    /// between, one crash of it.
    pub faults: Vec<FieldChange>,
    /// Whether it takes another tool.
    pub another_tool: bool,
    /// The verdicts after the change.
    pub report: Report,
}

impl Suggestion {
    /// The properties that are still violated after the change. None of them held before.
    pub fn left(&self) -> Vec<PropertyName> {
        self.report.violations().map(|(property, _)| property).collect()
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Suggestions {
    /// The repairs, the best first: those that leave the fewest properties violated, then the least intrusive. If none
    /// does without another tool, those that take one come last.
    pub found: Vec<Suggestion>,
    /// How many changes were tried.
    pub tried: usize,
    /// Up to how many fields were changed together.
    pub size: usize,
    /// Whether every change up to that size was tried and decided.
    pub finished: bool,
}

/// A change of some knobs.
#[derive(Clone)]
struct Candidate {
    /// Their places in the order of [`KNOBS`], and the values.
    set: Vec<(usize, Value)>,
}

struct Search<'a> {
    description: &'a Description,
    json: Value,
    /// The description that says nothing, which is sound.
    sound: Value,
    property: PropertyName,
    /// What was violated before.
    violated: PropertySet,
    /// The faults that the shortest violation of the property needs.
    needed: Faults,
    limits: Limits,
    deadline: Instant,
}

/// Searches for the smallest change of a description that makes a property hold and violates none that was not violated
/// before. `limits.time` bounds the search, `limits.states` each candidate's exploration.
///
/// # Errors
/// [`Unbuildable`] if the description has a bound out of range or contradicts itself.
pub fn suggest(description: &Description, property: PropertyName, limits: Limits) -> Result<Suggestions, Unbuildable> {
    let begun = Instant::now();
    let limits = Limits {
        wanted: PropertyName::ALL.iter().copied().collect(),
        stop_when_found: false,
        // What would hold for any number of faults is of no use here, and may take long to find out.
        reductions: Reductions { any_number: false, ..limits.reductions },
        ..limits
    };
    let before = check(description, limits, |_| {})?;
    let search = Search {
        description,
        json: serde_json::to_value(description).unwrap_or_default(),
        sound: sound(description),
        property,
        violated: before.violations().map(|(property, _)| property).collect(),
        needed: match before.verdict(property) {
            Verdict::Violated(trace) => trace.faults,
            _ => Faults::default(),
        },
        limits,
        deadline: begun.checked_add(limits.time).unwrap_or(begun + Duration::from_secs(60)),
    };
    let mut all = Suggestions { found: Vec::new(), tried: 0, size: 0, finished: true };
    if !search.violated.has(property) {
        return Ok(all);
    }
    let mut with_another_tool = Vec::new();
    for size in 1..=MOST {
        let candidates = search.candidates(size);
        if candidates.is_empty() || Instant::now() >= search.deadline {
            all.finished &= candidates.is_empty();
            break;
        }
        all.size = size;
        let (found, tried, finished) = search.try_all(&candidates);
        all.tried += tried;
        all.finished &= finished;
        let (other, same): (Vec<_>, Vec<_>) = found.into_iter().partition(|suggestion| suggestion.another_tool);
        with_another_tool.extend(other);
        if !same.is_empty() {
            all.found = same;
            break;
        }
    }
    all.found.extend(with_another_tool);
    Ok(all)
}

impl Search<'_> {
    /// All ways to change `size` fields, the least intrusive first: what goes back to the default, which is sound, and then
    /// in the order of [`KNOBS`]. Another tool is proposed on its own only.
    fn candidates(&self, size: usize) -> Vec<Candidate> {
        let values: Vec<Vec<Value>> = KNOBS.iter().map(|knob| knob.values(self.description, &self.json)).collect();
        let direct = self.description.is_direct() && self.description.devices.is_none();
        let places: Vec<usize> = (0..KNOBS.len()).filter(|place| !values[*place].is_empty()).collect();
        let mut all: Vec<Candidate> = vec![Candidate { set: Vec::new() }];
        for _ in 0..size {
            let longer = all.iter().flat_map(|shorter| {
                let after = shorter.set.last().map_or(0, |(place, _)| place + 1);
                let places = places.iter().filter(move |place| **place >= after);
                places.flat_map(|place| {
                    let each = values[*place].iter();
                    each.map(|value| Candidate { set: [shorter.set.as_slice(), &[(*place, value.clone())]].concat() })
                })
            });
            all = longer.collect();
        }
        all.retain(|candidate| {
            let of = |test: fn(&knobs::Knob) -> bool| candidate.set.iter().any(|(place, _)| test(&KNOBS[*place]));
            let guarded = !direct || of(|knob| knob.key == "processes") || !of(knobs::Knob::needs_guard);
            guarded && (size == 1 || !of(|knob| knob.another_tool))
        });
        let away = |(place, value): &&(usize, Value)| !KNOBS[*place].is_in(&self.sound, value);
        all.sort_by_key(|candidate| {
            let places = candidate.set.iter().map(|(place, _)| *place).sum::<usize>();
            (candidate.set.iter().filter(away).count(), places)
        });
        all
    }

    /// The changed description, and whether one can be built that way.
    fn build(&self, candidate: &Candidate) -> Option<Description> {
        let mut json = self.json.clone();
        for (place, value) in &candidate.set {
            KNOBS[*place].set(&mut json, value.clone());
        }
        let mut changed: Description = serde_json::from_value(json).ok()?;
        if changed.devices.is_none() {
            if self.description.is_direct() && !changed.is_direct() {
                changed.faults.guard_crashes = changed.faults.guard_crashes.max(1);
            }
            for fault in Fault::ALL {
                if changed.cannot_happen(*fault).is_some() {
                    *changed.faults.of(*fault) = 0;
                }
            }
        }
        changed.validate().ok().map(|()| changed)
    }

    /// Tries candidates, several at a time. Returns what repairs, how many were tried, and whether all were decided.
    fn try_all(&self, candidates: &[Candidate]) -> (Vec<Suggestion>, usize, bool) {
        let next = AtomicUsize::new(0);
        let (tried, undecided) = (AtomicUsize::new(0), AtomicBool::new(false));
        let found = Mutex::new(Vec::new());
        let work = || {
            while let Some((index, candidate)) = {
                let index = next.fetch_add(1, Ordering::Relaxed);
                candidates.get(index).map(|candidate| (index, candidate))
            } {
                if Instant::now() >= self.deadline {
                    undecided.store(true, Ordering::Relaxed);
                    return;
                }
                tried.fetch_add(1, Ordering::Relaxed);
                match self.try_one(candidate) {
                    Tried::Repairs(suggestion) => {
                        found.lock().unwrap_or_else(PoisonError::into_inner).push((index, *suggestion));
                    }
                    Tried::Fails => {}
                    Tried::Undecided => undecided.store(true, Ordering::Relaxed),
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.limits.threads.max(1) {
                scope.spawn(work);
            }
            work();
        });
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_by_key(|(index, suggestion)| (suggestion.another_tool, suggestion.left().len(), *index));
        let mut numbers = BTreeSet::new();
        found.retain(|(index, suggestion)| {
            let places: Vec<_> = candidates[*index].set.iter().map(|(place, _)| *place).collect();
            let number = places.iter().any(|place| KNOBS[*place].is_number());
            // Of several numbers that do, the nearest is enough.
            !number || numbers.insert((places, suggestion.left()))
        });
        let found = found.into_iter().map(|(_, suggestion)| suggestion).collect();
        (found, tried.into_inner(), !undecided.into_inner())
    }

    fn try_one(&self, candidate: &Candidate) -> Tried {
        let Some(changed) = self.build(candidate) else {
            return Tried::Fails;
        };
        let left = self.deadline.saturating_duration_since(Instant::now());
        let limits = Limits { threads: 1, time: left / SHARE, ..self.limits };
        // Most candidates repair nothing: that is told by the first violation, and most often with no more than the faults
        // that the known one needs. A run with fewer faults is one of the whole world, too.
        let alone = PropertySet::NONE.with(self.property, true);
        let quick = Limits { wanted: alone, stop_when_found: true, ..limits };
        let mut few = changed.clone();
        for (fault, bound) in changed.faults.list() {
            *few.faults.of(fault) = bound.min(*self.needed.clone().of(fault));
        }
        for world in [&few, &changed] {
            match check(world, quick, |_| {}).map(|report| report.verdict(self.property).clone()) {
                Ok(Verdict::Holds) => {}
                Ok(Verdict::NotFinished) => return Tried::Undecided,
                // A property that says nothing any more was evaded, not repaired.
                Ok(Verdict::Violated(_) | Verdict::NotApplicable) | Err(_) => return Tried::Fails,
            }
        }
        let Ok(report) = check(&changed, limits, |_| {}) else {
            return Tried::Fails;
        };
        if report.violations().any(|(property, _)| !self.violated.has(property)) {
            return Tried::Fails;
        }
        if report.verdicts.iter().any(|(_, verdict)| *verdict == Verdict::NotFinished) {
            return Tried::Undecided;
        }
        let (faults, changes) =
            field_changes(self.description, &changed).into_iter().partition(|change| change.table == "faults");
        let another_tool = candidate.set.iter().any(|(place, _)| KNOBS[*place].another_tool);
        Tried::Repairs(Box::new(Suggestion { changes, faults, another_tool, report }))
    }
}

/// What a description means that leaves everything out.
fn sound(description: &Description) -> Value {
    let rest = Description {
        name: String::new(),
        about: String::new(),
        source: String::new(),
        caller: CallerRules::default(),
        guard: GuardRules::default(),
        ledger: LedgerRules::default(),
        tool: ToolRules::default(),
        budget: BudgetRules::default(),
        devices: description.devices.map(|_| Devices::default()),
        faults: Faults::default(),
    };
    serde_json::to_value(rest).unwrap_or_default()
}

enum Tried {
    Repairs(Box<Suggestion>),
    Fails,
    Undecided,
}

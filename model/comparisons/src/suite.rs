//! What is measured, one after the other: see [`items`] and [`run`].

use std::time::Duration;

use serde::Serialize;
use settled_model::{Description, Fault, LoadError, Unbuildable, library};

use crate::actors::Setting;
use crate::measure::{MeasureError, Measured};
use crate::spin::{self, Promela, SpinError};
use crate::table::Row;
use crate::work::{By, Model, Work};

/// Why something is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// The same model for all engines.
    TwoPhaseCommit,
    /// At-most-once calls in stateright's actor framework, beside this project's world.
    Actors,
    /// Shipped worlds at their bounds.
    Shipped,
    /// The faults that the Promela model of a guard has, so that all engines can be put to the same world.
    SpinFaults,
    /// Safe protocols with two operations, two guards, and two faults of each kind.
    TwoOfEach,
    /// Protocols that are not safe.
    Unsafe,
}

/// One thing to measure.
#[derive(Clone, Debug)]
pub struct Item {
    /// Why.
    pub group: Group,
    /// The model, in words.
    pub what: String,
    /// How.
    pub how: How,
}

/// By whom.
#[derive(Clone, Debug)]
pub enum How {
    /// An engine in this program.
    Here(Work),
    /// Spin, with these macros.
    Spin(Promela, Vec<(&'static str, u32)>),
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Why it was measured.
    pub group: Group,
    /// The numbers.
    #[serde(flatten)]
    pub row: Row,
    /// Whether everything was explored.
    pub finished: bool,
    /// Who: what the aims are about.
    pub who: Who,
}

/// Whose numbers they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    /// This checker's, with all reductions.
    Settled,
    /// This checker's, without any.
    SettledUnreduced,
    /// Stateright's.
    Stateright,
    /// Spin's.
    Spin,
    /// Nobody's: it is not installed.
    Missing,
}

/// Why the suite could not be run.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// A shipped protocol can't be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// No world can be built of one.
    #[error(transparent)]
    Unbuildable(#[from] Unbuildable),
    /// A run could not be measured.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// Spin is there and fails.
    #[error(transparent)]
    Spin(SpinError),
}

/// The protocol `settled-sealable` with the faults that its Promela model has, and that model's bounds.
pub const SPIN_FAULTS: &str = include_str!("../spin-faults.toml");

/// The guard that is beside the one of [`Setting::GUARDED`]: one process, a tool that deduplicates, an unreliable network.
const GUARD_OF_ONE: &str = include_str!("../guard-of-one.toml");

/// Everything that is measured. `quick`: less of it.
///
/// # Errors
/// [`SuiteError`] if a shipped protocol can't be read.
pub fn items(quick: bool) -> Result<Vec<Item>, SuiteError> {
    let mut items = two_phase_commit(if quick { 5 } else { 7 });
    items.extend(actors()?);
    items.extend(shipped(quick)?);
    items.extend(two_of_each(quick)?);
    items.extend(not_safe()?);
    Ok(items)
}

fn here(group: Group, what: &str, model: Model, by: By, threads: usize, seconds: u64) -> Item {
    Item { group, what: what.to_owned(), how: How::Here(Work { model, by, threads, seconds }) }
}

fn two_phase_commit(managers: usize) -> Vec<Item> {
    let what = format!("two-phase commit, {managers} managers");
    let engines = [
        (By::Breadth, 1),
        (By::Breadth, 2),
        (By::Depth, 1),
        (By::Depth, 2),
        (By::Symmetry, 1),
        (By::SettledUnreduced, 1),
        (By::SettledUnreduced, 2),
        (By::Settled, 1),
    ];
    let model = Model::TwoPhaseCommit(managers);
    let group = Group::TwoPhaseCommit;
    let mut items: Vec<_> =
        engines.iter().map(|(by, threads)| here(group, &what, model.clone(), *by, *threads, 100)).collect();
    let how = How::Spin(Promela::TwoPhaseCommit, vec![("MANAGERS", managers as u32)]);
    items.push(Item { group, what, how });
    items
}

fn protocol(description: &Description) -> Model {
    Model::Protocol(Box::new(description.clone()))
}

fn actors() -> Result<Vec<Item>, SuiteError> {
    let (group, seconds) = (Group::Actors, 30);
    let guarded = Setting { deduplicates: true, ..Setting::GUARDED };
    let mcp = protocol(&library::load("mcp-2025-11-25")?);
    let guard = protocol(&settled_model::parse("guard-of-one", GUARD_OF_ONE)?);
    Ok(vec![
        here(group, "mcp-2025-11-25 as actors", Model::Actors(Setting::DIRECT), By::Breadth, 1, seconds),
        here(group, "mcp-2025-11-25", mcp, By::Settled, 1, seconds),
        Item { group, what: "mcp-2025-11-25".into(), how: How::Spin(Promela::Mcp, Vec::new()) },
        here(group, "a guard as actors", Model::Actors(guarded), By::Breadth, 1, seconds),
        here(group, "a guard with crashes between steps", guard, By::Settled, 1, seconds),
    ])
}

fn shipped(quick: bool) -> Result<Vec<Item>, SuiteError> {
    let seconds = if quick { 1 } else { 12 };
    let mut items = Vec::new();
    let mut all = |group, what: &str, description: &Description, seconds| {
        items.push(here(group, what, protocol(description), By::Settled, 2, 60));
        for by in [By::SettledUnreduced, By::Breadth, By::Depth] {
            items.push(here(group, what, protocol(description), by, 2, seconds));
        }
    };
    let same = settled_model::parse("settled-sealable", SPIN_FAULTS)?;
    let what = "settled-sealable, Spin's faults";
    all(Group::SpinFaults, what, &same, if quick { 3 } else { 20 });
    for name in ["settled-sealable", "settled-opaque", "settled-observable"] {
        all(Group::Shipped, name, &library::load(name)?, seconds);
    }
    items
        .insert(4, Item { group: Group::SpinFaults, what: what.into(), how: How::Spin(Promela::Sealable, Vec::new()) });
    Ok(items)
}

/// A safe protocol with two operations, two guards, and two faults of each kind that it allows.
pub fn doubled(description: &Description) -> Description {
    let mut its = description.clone();
    its.caller.operations = 2;
    its.guard.processes = 2;
    for fault in Fault::ALL {
        let bound = its.faults.of(*fault);
        *bound = if *bound > 0 { 2 } else { 0 };
    }
    its
}

/// This project's policies, for each kind of tool and for each kind of trouble. Left out are those that reckon with time: their
/// margins, settling times and windows are stated for one delay and one jump of a clock, and two contradict them.
fn safe() -> impl Iterator<Item = &'static str> {
    let reckons = |name: &str| name.ends_with("-clocks") || name == "settled-retention";
    library::SHIPPED.iter().map(|(name, _)| *name).filter(move |name| name.starts_with("settled-") && !reckons(name))
}

fn two_of_each(quick: bool) -> Result<Vec<Item>, SuiteError> {
    let seconds = if quick { 3 } else { 30 };
    let mut items = Vec::new();
    for name in safe() {
        let description = doubled(&library::load(name)?);
        description.validate()?;
        let what = format!("{name}, two of each");
        items.push(here(Group::TwoOfEach, &what, protocol(&description), By::Settled, 2, seconds));
    }
    Ok(items)
}

/// All that are not this project's policies; those among them that hold are left out once that is known.
fn not_safe() -> Result<Vec<Item>, SuiteError> {
    let mut items = Vec::new();
    for (name, _) in library::SHIPPED.iter().filter(|(name, _)| !name.starts_with("settled-")) {
        items.push(here(Group::Unsafe, name, protocol(&library::load(name)?), By::Settled, 2, 20));
    }
    Ok(items)
}

/// Measures one. `measure` does a work in a process of its own.
///
/// # Errors
/// [`SuiteError`] if it can't be measured. That Spin is not installed is none.
pub fn run(
    item: &Item,
    measure: &mut dyn FnMut(&Work) -> Result<Measured, MeasureError>,
) -> Result<Outcome, SuiteError> {
    let Item { group, what, how } = item;
    let (row, finished, who) = match how {
        How::Here(work) => {
            // Their memory is of no interest, and there are many of them.
            let its = if *group == Group::Unsafe { here_and_now(work)? } else { measure(work)? };
            let threads = if work.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", work.threads) };
            let row = Row::measured(what, &format!("{}, {threads}", work.by.name()), &its);
            let who = match work.by {
                By::Settled | By::SettledCounting => Who::Settled,
                By::SettledUnreduced => Who::SettledUnreduced,
                By::Breadth | By::Depth | By::Symmetry => Who::Stateright,
            };
            (row, its.counted.exhaustive, who)
        }
        How::Spin(model, bounds) => {
            let options = spin::Options { hash_bits: 20, time: Duration::from_secs(100), ..Default::default() };
            match spin::check(*model, bounds, &options) {
                Ok(report) => (Row::spin(what, "Spin", &report), true, Who::Spin),
                Err(SpinError::Missing { .. }) => (Row::missing(what, "Spin"), false, Who::Missing),
                Err(error) => return Err(SuiteError::Spin(error)),
            }
        }
    };
    Ok(Outcome { group: *group, row, finished, who })
}

fn here_and_now(work: &Work) -> Result<Measured, Unbuildable> {
    let mut failed = None;
    let its = crate::measure::here(|| {
        work.run().unwrap_or_else(|error| {
            failed = Some(error);
            Default::default()
        })
    });
    failed.map_or(Ok(its), Err)
}

/// Only the slowest of the protocols that are not safe stays, and how many there are.
pub fn slowest_unsafe(outcomes: &mut Vec<Outcome>) -> usize {
    let (mut bad, rest): (Vec<_>, Vec<_>) = outcomes.drain(..).partition(|its| its.group == Group::Unsafe);
    *outcomes = rest;
    bad.retain(|its| its.row.verdict != "all hold");
    let count = bad.len();
    let slowest = bad.into_iter().max_by(|a, b| a.row.seconds.total_cmp(&b.row.seconds));
    outcomes.extend(slowest.map(|mut its| {
        its.row.what = format!("slowest of {count} that are not safe: {}", its.row.what);
        its
    }));
    count
}

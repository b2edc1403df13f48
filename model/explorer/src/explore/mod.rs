//! The explorer: every state of a [`System`], layer by layer.
//!
//! **Shortest runs.** States are explored in layers: all that can be reached by *n* moves before any that takes *n + 1*. So
//! the first violation of a property that is found is one of a shortest run. Of the states of that layer which violate it
//! the one with the fewest faults is shown, and of those the one that comes first if moves are tried in the order in which
//! the system offers them (for `CanSettle` and rounds, where that is not known any more, the one with the smallest
//! fingerprint). All results but times and memory are the same for any number of threads.
//!
//! **Budgets.** What is explored are nodes: a state, and how often each fault may still happen. Of two nodes of one state
//! the one with the larger budget can do all that the other can, since faults are offered if and only if they are left, and
//! a move's result doesn't depend on the budget. So a node is dropped if another of its state that is no deeper covers its
//! budget. Shortest runs keep their length: replace, along such a run, the first node that was dropped by the one that covers
//! it, and follow the same moves from there. The run gets no longer, spends no more faults if it is as long, and has
//! its first dropped node later, if it has one; so in the end it has none.
//!
//! **Symmetry.** States that differ only in the names of things that are alike have one fingerprint, the smallest of theirs.
//! What can happen to them differs only in names, too, so one of them stands for all.
//!
//! **Fingerprints.** States are not kept: they are compared by 64 bits. Two of *n* states have the same with a
//! probability of about *n²/2⁶⁵*, and then what follows one of them may be missed: see [`Exploration::collision_odds`].
//!
//! **Without end.** Once faults have stopped only the other moves happen, and those don't depend on budgets; so `Settles` and
//! `CanSettle` are decided on the graph of states without budgets and faults. `Settles` is violated by a state that has
//! not ended and in which no such move changes anything, and by a round through states that have not ended
//! on which no move is possible all the time and never made (weak fairness). Names of moves change with those of
//! things: if there are rounds and states that are alike, the rounds are judged in a second exploration without symmetry.

mod components;
mod cycles;
mod edges;
mod expand;
mod fingerprint;
mod found;
mod graph;
mod ids;
mod insert;
mod judge;
mod run;
mod search;
mod store;
mod waiting;

use std::time::{Duration, Instant};

pub(crate) use fingerprint::Fingerprints;

use crate::faults::Fault;
use crate::properties::{PropertyName, PropertySet};
use crate::system::System;

/// What to explore, and how far to go.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Stop after about this many states, doubles included, and say so.
    pub states: usize,
    /// Stop after this time, and say so.
    pub time: Duration,
    /// Threads to explore with: at least 1, at most 64.
    pub threads: usize,
    /// What need not be explored.
    pub reductions: Reductions,
    /// The properties to look at, of those that say anything about the system.
    pub wanted: PropertySet,
    /// Stop once every wanted property has been found violated.
    pub stop_when_found: bool,
    /// Stop once any wanted property has been found violated.
    pub stop_when_any: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            states: 200_000_000,
            time: Duration::from_secs(600),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            reductions: Reductions::default(),
            wanted: PropertyName::ALL.iter().copied().collect(),
            stop_when_found: false,
            stop_when_any: false,
        }
    }
}

/// What need not be explored, because something else that is shows the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reductions {
    /// States that differ from one that is explored only in names of things that are alike.
    pub symmetry: bool,
    /// States that are explored with a larger budget.
    pub budgets: bool,
}

impl Default for Reductions {
    fn default() -> Self {
        Reductions { symmetry: true, budgets: true }
    }
}

/// How an exploration is coming along.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Moves made.
    pub transitions: usize,
    /// Distinct pairs of a state and a budget.
    pub unique_states: usize,
    /// The moves of the longest run so far.
    pub depth: usize,
    /// The states of the layer that is being expanded.
    pub frontier: usize,
}

/// A run from the first state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run<M> {
    /// Its moves, and which fault each is, if it is one.
    pub moves: Vec<(M, Option<Fault>)>,
    /// If it goes round for ever: the moves from this one on repeat.
    pub round: Option<usize>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Exploration<M> {
    /// The properties that are violated, in the design's order, each with a shortest run that shows it.
    pub violations: Vec<(PropertyName, Run<M>)>,
    /// The properties that were looked at and about which nothing can be said, because a limit was reached first.
    pub undecided: PropertySet,
    /// Distinct pairs of a state and the budget left in it, after reductions.
    pub unique_states: usize,
    /// Distinct states, whatever the budget, after reductions.
    pub worlds: usize,
    /// Moves made that changed something.
    pub transitions: usize,
    /// The moves of the longest run that was needed to reach a state.
    pub depth: usize,
    /// Whether everything within the bounds was explored.
    pub exhaustive: bool,
    /// How long it took.
    pub elapsed: Duration,
    /// The most memory that it used, without what states keep on the heap.
    pub peak_bytes: usize,
    /// With how many threads.
    pub threads: usize,
    /// Whether rounds had to be judged in a second exploration without symmetry. The numbers above are the first's, except
    /// time and memory.
    pub repeated: bool,
}

impl<M> Exploration<M> {
    /// The run that violates a property.
    pub fn violation(&self, property: PropertyName) -> Option<&Run<M>> {
        self.violations.iter().find(|(its, _)| *its == property).map(|(_, run)| run)
    }

    /// The probability that two different states were taken for one, and something was missed because of that.
    pub fn collision_odds(&self) -> f64 {
        (self.worlds as f64).powi(2) / 2_f64.powi(65)
    }
}

/// Explores a system.
pub fn explore<S: System>(system: &S, options: &Options, progress: &mut dyn FnMut(Progress)) -> Exploration<S::Move> {
    judge::explore(system, options, Instant::now(), progress)
}

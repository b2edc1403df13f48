//! The first half of a batch: what may happen next in each state of a part of the frontier. Everything seen so far is only
//! read, so any number of threads do this at once.

use crate::explore::edges::Edges;
use crate::explore::fingerprint::Fingerprints;
use crate::explore::found::{self, Found};
use crate::explore::ids::Ids;
use crate::explore::insert::Part;
use crate::explore::store::{NONE, Seen};
use crate::explore::waiting::{Place, Waiting};
use crate::faults::{Budget, Fault};
use crate::properties::{PropertyName, PropertySet};
use crate::system::System;

/// A state of the frontier: it has been seen, and what follows it has not. Its fingerprint and its budget are its node's.
pub struct Entry {
    /// Where it waits.
    pub place: Place,
    /// Its position in its layer: that of the state it was first reached from, and of the move among that state's.
    pub order: u64,
    /// Its node.
    pub node: u32,
    /// The first node of its state.
    pub first: u32,
    /// Whether it is the one to record the edges of its state.
    pub edges: bool,
    /// Whether its state was seen first in this layer.
    pub fresh: bool,
}

/// A state that follows one of the frontier, on its way to its shard.
pub struct Successor<T> {
    /// `None`: one that is equal, budget and all, is before it on its way to the same shard.
    pub state: Option<T>,
    pub fingerprint: u64,
    pub budget: Budget,
    pub order: u64,
    pub parent: u32,
    /// The first node of the state that it follows, if that is an edge of the graph without faults.
    pub source: u32,
}

/// Successors by shard.
pub type Buckets<T> = Vec<Vec<Successor<T>>>;

/// What is the same for a whole layer.
pub struct Layer<'a, S: System> {
    pub system: &'a S,
    pub fingerprints: &'a Fingerprints,
    pub ids: Ids,
    pub whole: Budget,
    /// The properties that no violation was found of yet.
    pub open: PropertySet,
    /// Whether the graph without faults is needed.
    pub graph: bool,
}

/// Successors that a thread has just found: what is found again need not be kept until it is inserted. Where two of them fall to
/// one place the later is remembered.
#[derive(Default)]
pub struct Recent {
    found: Vec<(u64, Budget, u32)>,
    round: u32,
}

impl Recent {
    const PLACES: usize = 1024;

    /// Forgets all.
    pub fn begin(&mut self) {
        self.round = self.round.wrapping_add(1);
        if self.found.is_empty() || self.round == 0 {
            self.found = vec![(0, Budget::default(), 0); Self::PLACES];
            self.round = 1;
        }
    }

    /// Whether it has this one; it has from now on. Before the first [`begin`](Recent::begin) it remembers nothing.
    fn has(&mut self, fingerprint: u64, budget: Budget) -> bool {
        let this = (fingerprint, budget, self.round);
        let place = self.found.get_mut(fingerprint as usize % Self::PLACES);
        place.is_some_and(|place| std::mem::replace(place, this) == this)
    }
}

/// What one thread needs to expand states, and what it has found.
pub struct Worker<S: System> {
    moves: Vec<(S::Move, Option<Fault>)>,
    pub recent: Recent,
    /// The successors found, by chunk of the frontier and then by shard.
    pub output: Vec<(usize, Buckets<S::State>)>,
    pub edges: Edges,
    /// Violations in states in which nothing happens without a fault.
    pub found: Found,
    pub transitions: usize,
    /// Whether a state could not be read back: then something was left out.
    pub unreadable: bool,
    /// Whether any state had others that are alike and not equal.
    pub renamed: bool,
}

impl<S: System> Worker<S> {
    /// With nothing found.
    pub fn new() -> Self {
        Worker {
            moves: Vec::new(),
            recent: Recent::default(),
            output: Vec::new(),
            edges: Edges::default(),
            found: Found::default(),
            transitions: 0,
            unreadable: false,
            renamed: false,
        }
    }

    /// Finds the successors of a state, and whether it is one in which nothing happens without a fault.
    pub fn expand(
        &mut self,
        layer: &Layer<'_, S>,
        parts: &[Part<S::State>],
        waiting: &Waiting<S::State>,
        entry: &Entry,
        rank: usize,
        buckets: &mut [Vec<Successor<S::State>>],
    ) {
        let look = |state: &S::State| self.expand_state(layer, parts, state, entry, rank, buckets);
        if waiting.with(layer.system, entry.place, look).is_none() {
            self.unreadable = true;
        }
    }

    fn expand_state(
        &mut self,
        layer: &Layer<'_, S>,
        parts: &[Part<S::State>],
        state: &S::State,
        entry: &Entry,
        rank: usize,
        buckets: &mut [Vec<Successor<S::State>>],
    ) {
        let system = layer.system;
        let (local, shard) = layer.ids.local(entry.node);
        let store = &parts[shard].shard;
        let (its_fingerprint, its_budget) = (store.fingerprint(local), store.budget(local));
        let source = if layer.graph && entry.edges { entry.first } else { NONE };
        let mut rests = true;
        self.moves.clear();
        system.moves(state, its_budget, &mut self.moves);
        for (index, (what, fault)) in self.moves.iter().enumerate() {
            let budget = match fault {
                None => its_budget,
                Some(fault) => match its_budget.spend(*fault) {
                    Some(budget) => budget,
                    None => continue,
                },
            };
            let Some(next) = system.apply(state, *what) else {
                continue;
            };
            let (fingerprint, renamed) = layer.fingerprints.of(system, &next);
            if fingerprint == its_fingerprint && next == *state {
                continue;
            }
            self.renamed |= renamed;
            self.transitions += 1;
            let source = if fault.is_none() { source } else { NONE };
            rests &= fault.is_some();
            let shard = layer.ids.shard_of(fingerprint);
            match parts[shard].shard.look_up(fingerprint, budget) {
                Seen::Covered(first) => {
                    if source != NONE {
                        let ended = parts[shard].shard.has_ended(first);
                        self.edges.add(source, layer.ids.global(first, shard), ended);
                    }
                }
                Seen::No => buckets[shard].push(Successor {
                    state: (!self.recent.has(fingerprint, budget)).then_some(next),
                    fingerprint,
                    budget,
                    order: (rank as u64) << 32 | index as u64,
                    parent: entry.node,
                    source,
                }),
            }
        }
        // A state that was seen in an earlier layer has been judged with that.
        if rests && entry.fresh && !layer.open.is_empty() {
            // That a state can't settle is noted for explorations that end early: else the graph gives a shorter run.
            let stuck = !system.ended(state);
            let violated =
                system.violated_at_rest(state).with(PropertyName::Settles, stuck).with(PropertyName::CanSettle, stuck);
            let spent = layer.whole.total().saturating_sub(its_budget.total());
            self.found.offer(violated.and(layer.open), found::Place { spent, order: rank as u64, node: entry.node });
        }
    }
}

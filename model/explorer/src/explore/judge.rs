//! A whole exploration: the search, and then what is decided on its graph.

use std::time::Instant;

use crate::explore::components::with_rounds;
use crate::explore::cycles::Judged;
use crate::explore::graph::{Graph, IdSet};
use crate::explore::search::Search;
use crate::explore::{Exploration, Options, Progress, Reductions, Run};
use crate::properties::{PropertyName, PropertySet};
use crate::system::System;

/// Whether a run goes round for ever before everything has ended.
enum Rounds<M> {
    None,
    Fair(Run<M>),
    Undecided,
    /// It can't be told with symmetry.
    Repeat,
}

pub fn explore<S: System>(
    system: &S,
    options: &Options,
    begun: Instant,
    progress: &mut dyn FnMut(Progress),
) -> Exploration<S::Move> {
    let mut search = Search::new(system, options, begun);
    search.run(progress);
    let (transitions, unique_states) = (search.transitions(), search.unique_states());
    let worlds = search.parts.iter().map(|part| part.shard.states()).sum();
    search.finish();
    let mut undecided = PropertySet::NONE;
    let mut repeat = false;
    if search.exhaustive {
        decide(&mut search, &mut undecided, &mut repeat);
    } else {
        // A state that stops is one that can't settle, whatever else there is.
        let stuck = search.stuck.filter(|_| search.open.has(PropertyName::CanSettle));
        if let Some(node) = stuck {
            let run = Run { moves: search.moves_to(node), round: None };
            found(&mut search, PropertyName::CanSettle, run);
        }
        undecided = search.open;
    }
    let mut exploration = Exploration {
        violations: std::mem::take(&mut search.violations),
        undecided,
        unique_states,
        worlds,
        transitions,
        depth: search.depth,
        exhaustive: search.exhaustive,
        elapsed: begun.elapsed(),
        peak_bytes: search.peak_bytes,
        threads: search.parts.len(),
        repeated: repeat,
    };
    drop(search);
    if repeat {
        let settles = PropertySet::NONE.with(PropertyName::Settles, true);
        let reductions = Reductions { symmetry: false, ..options.reductions };
        let without = Options { reductions, wanted: settles, ..*options };
        let again = explore(system, &without, begun, progress);
        exploration.violations.extend(again.violations);
        exploration.undecided = exploration.undecided.or(again.undecided);
        exploration.peak_bytes = exploration.peak_bytes.max(again.peak_bytes);
        exploration.elapsed = begun.elapsed();
    }
    exploration.violations.sort_by_key(|(property, _)| *property);
    exploration
}

fn found<S: System>(search: &mut Search<'_, S>, property: PropertyName, run: Run<S::Move>) {
    search.violations.push((property, run));
    search.open = search.open.without(PropertySet::NONE.with(property, true));
}

fn decide<S: System>(search: &mut Search<'_, S>, undecided: &mut PropertySet, repeat: &mut bool) {
    let (settles, can_settle) = (search.open.has(PropertyName::Settles), search.open.has(PropertyName::CanSettle));
    if !settles && !can_settle {
        return;
    }
    let Some(graph) = Graph::of(search) else {
        *undecided = PropertySet::NONE.with(PropertyName::Settles, settles).with(PropertyName::CanSettle, can_settle);
        return;
    };
    search.peak_bytes = search.peak_bytes.max(search.bytes() + graph.bytes());
    if can_settle && let Some(node) = unable(search, &graph.can_settle()) {
        let run = Run { moves: search.moves_to(node), round: None };
        found(search, PropertyName::CanSettle, run);
    }
    if settles {
        let edges = graph.rounds();
        drop(graph);
        match rounds(search, edges) {
            Rounds::None => {}
            Rounds::Fair(run) => found(search, PropertyName::Settles, run),
            Rounds::Undecided => *undecided = undecided.with(PropertyName::Settles, true),
            Rounds::Repeat => *repeat = true,
        }
    }
}

/// The nearest state that can't settle any more.
fn unable<S: System>(search: &Search<'_, S>, able: &IdSet) -> Option<u32> {
    let nearest = |(shard, part): (usize, &crate::explore::insert::Part<S::State>)| {
        let store = &part.shard;
        // Ids grow with the layers: beyond the first layer with one, none is nearer.
        let ids = 0..store.len() as u32;
        let mut unable =
            ids.filter(|id| store.is_first(*id) && !store.has_ended(*id) && !able.has(search.ids.global(*id, shard)));
        let first = unable.next()?;
        let layer = store.layer(first);
        let rest = unable.take_while(|id| store.layer(*id) == layer);
        std::iter::once(first).chain(rest).map(|id| search.best(search.ids.global(id, shard))).min()
    };
    search.parts.iter().enumerate().filter_map(nearest).min().map(|best| best.3)
}

fn rounds<S: System>(search: &Search<'_, S>, edges: Vec<(u32, u32)>) -> Rounds<S::Move> {
    if edges.is_empty() {
        return Rounds::None;
    }
    let components = with_rounds(edges);
    if components.is_empty() {
        return Rounds::None;
    }
    if search.workers.iter().any(|worker| worker.renamed) {
        return Rounds::Repeat;
    }
    let mut components: Vec<_> = components
        .into_iter()
        .map(|members| (members.iter().map(|first| search.best(*first)).min(), members))
        .collect();
    components.sort_unstable();
    let mut undecided = false;
    for (_, members) in components {
        match search.judge(&members) {
            Judged::Unfair => {}
            Judged::Undecided => undecided = true,
            Judged::Fair(run) => return Rounds::Fair(run),
        }
    }
    if undecided { Rounds::Undecided } else { Rounds::None }
}

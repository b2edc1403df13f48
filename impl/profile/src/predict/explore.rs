//! Every way in which a run can end after a strike.

use std::collections::HashSet;

use settled_explorer::{Budget, Faults};
use settled_model::Description;
use settled_model::world::{Heard, Phase, Rules, World};

use super::Kinds;
use super::strike::{Strike, more};
use crate::cell::Cell;

/// More states than any protocol of an adapter has; one that has more is not predicted.
const MOST: usize = 400_000;

/// A run: before the strike or after it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    world: World,
    struck: bool,
    /// What may still happen to it.
    left: Budget,
}

/// The kinds of outcomes of all runs that are struck; `None` if there is no such run, or there are too many to see them all.
pub(super) fn endings(description: Description, cell: Cell, strike: Strike) -> Option<Kinds> {
    let rules = Rules::new(description);
    let first = State { world: World::initial(), struck: false, left: Budget::from(Faults::default()) };
    let mut seen = HashSet::from([first]);
    let (mut waiting, mut kinds) = (vec![first], Kinds::new());
    while let Some(state) = waiting.pop() {
        if state.world.wrongs.overflowed || seen.len() > MOST {
            return None;
        }
        let mut next = Vec::new();
        if !state.struck {
            let struck = strike(&rules, &state.world).into_iter();
            next.extend(struck.map(|world| State { world, struck: true, left: Budget::from(more(cell)) }));
        }
        let rests = go_on(&rules, state, &mut next);
        if state.struck && rests {
            kinds.extend(ends(&rules, &state.world));
        }
        waiting.extend(next.into_iter().filter(|state| seen.insert(*state)));
    }
    (!kinds.is_empty()).then_some(kinds)
}

/// What can come next without a strike. Whether nothing can.
fn go_on(rules: &Rules, state: State, next: &mut Vec<State>) -> bool {
    let mut moves = Vec::new();
    rules.moves(&state.world, state.left, &mut moves);
    let mut rests = true;
    for (what, fault) in moves {
        if let Some(world) = rules.apply(&state.world, what) {
            rests &= fault.is_some();
            let left = fault.and_then(|fault| state.left.spend(fault)).unwrap_or(state.left);
            next.push(State { world, left, ..state });
        }
    }
    rests
}

fn callers<'a>(rules: &Rules, world: &'a World) -> &'a [settled_model::world::Caller] {
    &world.callers[..usize::from(rules.description.caller.operations)]
}

/// How the harness would call this end. Whether a framework that leaves a run unfinished calls that an error, or says that the
/// run is over, or that it knows none, is not in the model.
fn ends(rules: &Rules, world: &World) -> &'static [&'static str] {
    let times = || (0..rules.description.caller.operations).map(|call| world.effects_of(call));
    let complete = times().all(|times| times == 1);
    // The first that is not done is where it stopped.
    let stopped = callers(rules, world).iter().find(|caller| !matches!(caller.phase, Phase::Told(Heard::Done(_))));
    match stopped.map(|caller| caller.phase) {
        _ if times().any(|times| times > 1) => &["duplicate"],
        None if complete => &["once"],
        None => &["lost"],
        Some(Phase::Told(Heard::InProgress)) => &["stuck"],
        Some(_) if complete => &["error", "once"],
        Some(_) => &["error", "lost"],
    }
}

//! Shortest counterexamples: breadth-first search over the same model, one layer at a time.
//!
//! stateright's own breadth-first checker overwrites a discovery with later, longer ones when it checks several
//! properties, so verdicts come from its exhaustive depth-first checker and minimal traces from here.

use std::collections::{HashMap, HashSet};

use stateright::{Model, Representative};

use crate::model::{ProtocolModel, hash};
use crate::moves::Move;
use crate::properties::PropertyName;
use crate::world::World;

/// A run from the beginning, as the moves taken.
pub type Run = Vec<Move>;

/// For each of these properties a shortest run that violates it. All of them must be violated somewhere: the search goes
/// on until every one is found, or `at_most` distinct states were seen.
pub fn shortest_runs(model: &ProtocolModel, wanted: &[PropertyName], at_most: usize) -> HashMap<PropertyName, Run> {
    let mut found: HashMap<PropertyName, Run> = HashMap::new();
    let mut seen: HashSet<u64> = HashSet::new();
    // Each state of the tree: the index of the one before, and the move that led on from there.
    let mut tree: Vec<Option<(usize, Move)>> = Vec::new();
    let mut layer: Vec<(usize, World)> = Vec::new();
    let mut missing: Vec<PropertyName> = wanted.to_vec();
    for world in model.init_states() {
        seen.insert(fingerprint(&world));
        tree.push(None);
        layer.push((tree.len() - 1, world));
    }
    while !layer.is_empty() && !missing.is_empty() && seen.len() < at_most {
        for (at, world) in &layer {
            missing.retain(|property| {
                let holds = property.holds(&model.rules, world);
                if !holds {
                    found.insert(*property, run_to(&tree, *at));
                }
                holds
            });
        }
        let mut next = Vec::new();
        let mut moves = Vec::new();
        for (at, world) in &layer {
            model.actions(world, &mut moves);
            for what in moves.drain(..) {
                if let Some(after) = model.next_state(world, what)
                    && seen.insert(fingerprint(&after))
                {
                    tree.push(Some((*at, what)));
                    next.push((tree.len() - 1, after));
                }
            }
        }
        layer = next;
    }
    found
}

fn run_to(tree: &[Option<(usize, Move)>], mut at: usize) -> Run {
    let mut run = Vec::new();
    while let Some((before, what)) = tree[at] {
        run.push(what);
        at = before;
    }
    run.reverse();
    run
}

fn fingerprint(world: &World) -> u64 {
    hash(&world.representative())
}

//! What is true of a random system, found as naively as possible.

use std::collections::{HashMap, HashSet, VecDeque};

use settled_explorer::{Budget, PropertyName, System};

use crate::pair::{Act, FAULTS, Pair, Pairs};

/// What is true by the definitions.
#[derive(Debug, Default)]
pub struct Truth {
    pub nodes: usize,
    pub depth: usize,
    pub states: HashSet<Pairs>,
    /// The length of a shortest run, and the fewest faults of one.
    pub shortest: HashMap<PropertyName, (usize, u32)>,
    pub fair_round: bool,
}

pub fn calm(pair: &Pair, state: &Pairs) -> Vec<(Act, Pairs)> {
    let mut moves = Vec::new();
    pair.moves(state, Budget::default(), &mut moves);
    moves
        .into_iter()
        .filter_map(|(what, _)| pair.apply(state, what).map(|next| (what, next)))
        .filter(|(_, next)| next != state)
        .collect()
}

pub fn truth(pair: &Pair) -> Truth {
    let mut truth = Truth::default();
    let whole = pair.bounds();
    let mut seen = HashMap::from([((pair.initial(), whole), 0)]);
    let mut queue = VecDeque::from([(pair.initial(), whole)]);
    while let Some((state, left)) = queue.pop_front() {
        let depth = seen[&(state, left)];
        let mut moves = Vec::new();
        pair.moves(&state, left, &mut moves);
        for (what, fault) in moves {
            let next = pair.apply(&state, what).unwrap();
            let node = (next, fault.map_or(left, |fault| left.spend(fault).unwrap()));
            if next != state && !seen.contains_key(&node) {
                seen.insert(node, depth + 1);
                queue.push_back(node);
            }
        }
    }
    truth.nodes = seen.len();
    truth.states = seen.keys().map(|(state, _)| *state).collect();
    truth.depth = *seen.values().max().unwrap();
    for ((state, left), depth) in &seen {
        let mut violated = pair.violated(state).with(PropertyName::CanSettle, !can_settle(pair, state));
        if calm(pair, state).is_empty() {
            violated = violated.or(pair.violated_at_rest(state)).with(PropertyName::Settles, !pair.ended(state));
        }
        for property in violated.iter() {
            let its = (*depth, whole.total() - left.total());
            let best = truth.shortest.entry(property).or_insert(its);
            *best = its.min(*best);
        }
    }
    truth.fair_round = truth.states.iter().any(|state| fair_round_through(pair, state));
    truth
}

pub fn can_settle(pair: &Pair, state: &Pairs) -> bool {
    let mut reached = HashSet::from([*state]);
    let mut queue = vec![*state];
    while let Some(state) = queue.pop() {
        if pair.ended(&state) {
            return true;
        }
        queue.extend(calm(pair, &state).into_iter().map(|(_, next)| next).filter(|next| reached.insert(*next)));
    }
    false
}

/// Whether a run can return to this state through states that have not ended, fair or not.
pub fn comes_back(pair: &Pair, start: &Pairs) -> bool {
    let mut reached = HashSet::new();
    let mut queue = vec![*start];
    while let Some(state) = queue.pop() {
        let next = calm(pair, &state).into_iter().map(|(_, next)| next).filter(|next| !pair.ended(next));
        queue.extend(next.filter(|next| reached.insert(*next)));
    }
    reached.contains(start)
}

/// How many nodes are left if, layer by layer, those are dropped that another of their state, no deeper, covers.
pub fn needed(pair: &Pair) -> usize {
    let mut needed = HashSet::new();
    let mut layer = vec![(pair.initial(), pair.bounds())];
    while !layer.is_empty() {
        needed.extend(layer.iter().copied());
        let mut next = HashSet::new();
        for (state, left) in layer {
            let mut moves = Vec::new();
            pair.moves(&state, left, &mut moves);
            next.extend(moves.into_iter().map(|(what, fault)| {
                (pair.apply(&state, what).unwrap(), fault.map_or(left, |fault| left.spend(fault).unwrap()))
            }));
        }
        let covers = |other: &(Pairs, Budget), node: &(Pairs, Budget)| other.0 == node.0 && other.1.covers(node.1);
        let is_needed = |node: &&(Pairs, Budget)| {
            !needed.iter().any(|other| covers(other, node))
                && !next.iter().any(|other| other != *node && covers(other, node))
        };
        layer = next.iter().filter(is_needed).copied().collect();
    }
    needed.len()
}

/// Whether a run can return to this state through states that have not ended such that each move was made, or was not
/// possible, at some time.
pub fn fair_round_through(pair: &Pair, start: &Pairs) -> bool {
    let number = |(who, label): Act| 1_u8 << (who * FAULTS + label);
    let all = (1 << (2 * FAULTS)) - 1;
    let not_possible = |state: &Pairs| calm(pair, state).into_iter().fold(all, |all, (what, _)| all & !number(what));
    if pair.ended(start) {
        return false;
    }
    let begin = (*start, not_possible(start));
    let mut seen = HashSet::new();
    let mut queue = vec![begin];
    while let Some((state, fair)) = queue.pop() {
        for (what, next) in calm(pair, &state) {
            let node = (next, fair | number(what) | not_possible(&next));
            if node == (*start, all) {
                return true;
            }
            if !pair.ended(&next) && seen.insert(node) {
                queue.push(node);
            }
        }
    }
    false
}

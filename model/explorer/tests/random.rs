//! Random systems: whatever the reductions and the number of threads, the explorer finds what a naive search finds that
//! follows the definitions.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::{HashMap, HashSet, VecDeque};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use settled_explorer::{
    Budget, Exploration, Fault, Faults, Options, Plain, PropertyName, PropertySet, Reductions, Run, System, contract,
    explore,
};
use stateright::{Checker, Model};

/// Two components with the same rules. Labels name moves; those from `FAULTS` on are faults.
#[derive(Clone, Debug)]
struct Pair {
    rules: Vec<Rule>,
    initial: [u8; 2],
    bounds: [u8; 3],
    /// By the two components' states, the smaller first.
    bad: [u64; 2],
    bad_at_rest: u64,
    ended: u64,
    alike: bool,
}

#[derive(Clone, Debug)]
struct Rule {
    from: u8,
    label: u8,
    to: u8,
    /// In which states the other component has to be.
    when: u8,
}

const LOCAL: u8 = 5;
const FAULTS: u8 = 3;
const LABELS: u8 = 6;
type Pairs = [u8; 2];
type Act = (u8, u8);

fn bit(state: &Pairs, set: u64) -> bool {
    set >> (state[0].min(state[1]) * LOCAL + state[0].max(state[1])) & 1 == 1
}

fn fault(label: u8) -> Option<Fault> {
    const ALL: [Fault; 3] = [Fault::Timeout, Fault::GuardCrash, Fault::Decision];
    label.checked_sub(FAULTS).map(|index| ALL[index as usize])
}

impl Pair {
    fn rule(&self, state: &Pairs, (who, label): Act) -> Option<&Rule> {
        let (its, other) = (state[who as usize], state[1 - who as usize]);
        self.rules.iter().find(|rule| rule.from == its && rule.label == label && rule.when >> other & 1 == 1)
    }
}

impl System for Pair {
    type State = Pairs;
    type Move = Act;

    fn initial(&self) -> Pairs {
        self.initial
    }

    fn bounds(&self) -> Budget {
        let [timeouts, guard_crashes, decisions] = self.bounds;
        Faults { timeouts, guard_crashes, decisions, ..Faults::default() }.into()
    }

    fn moves(&self, state: &Pairs, left: Budget, moves: &mut Vec<(Act, Option<Fault>)>) {
        for who in 0..2 {
            for label in 0..LABELS {
                let fault = fault(label);
                if self.rule(state, (who, label)).is_some() && fault.is_none_or(|fault| left.left(fault) > 0) {
                    moves.push(((who, label), fault));
                }
            }
        }
    }

    fn apply(&self, state: &Pairs, what: Act) -> Option<Pairs> {
        let rule = self.rule(state, what)?;
        let mut next = *state;
        next[what.0 as usize] = rule.to;
        Some(next)
    }

    fn symmetric(&self, state: &Pairs, each: &mut dyn FnMut(&Pairs)) {
        if self.alike {
            each(&[state[1], state[0]]);
        }
    }

    fn properties(&self) -> PropertySet {
        use PropertyName::{AtMostOnce, BoundedMemory, CanSettle, NoOverlap, Settles};
        [AtMostOnce, NoOverlap, BoundedMemory, Settles, CanSettle].into_iter().collect()
    }

    fn violated(&self, state: &Pairs) -> PropertySet {
        PropertySet::NONE
            .with(PropertyName::AtMostOnce, bit(state, self.bad[0]))
            .with(PropertyName::NoOverlap, bit(state, self.bad[1]))
    }

    fn violated_at_rest(&self, state: &Pairs) -> PropertySet {
        PropertySet::NONE.with(PropertyName::BoundedMemory, bit(state, self.bad_at_rest))
    }

    fn ended(&self, state: &Pairs) -> bool {
        bit(state, self.ended)
    }
}

/// A few of the pairs.
fn few(most: usize) -> impl Strategy<Value = u64> {
    proptest::collection::vec(0..LOCAL * LOCAL, 0..=most)
        .prop_map(|bits| bits.iter().fold(0, |all, bit| all | 1 << bit))
}

prop_compose! {
    fn rule()(from in 0..LOCAL, label in 0..LABELS, to in 0..LOCAL, when in prop_oneof![Just(255_u8), any::<u8>()]) -> Rule {
        Rule { from, label, to, when }
    }
}

prop_compose! {
    fn pair()(
        rules in prop_oneof![proptest::collection::vec(rule(), 1..16), proptest::collection::vec(rule(), 16..50)],
        initial in [0..LOCAL, 0..LOCAL],
        bounds in [0_u8..4, 0_u8..3, 0_u8..2],
        bad in [few(4), few(4)],
        bad_at_rest in few(8),
        ended in prop_oneof![few(4), few(16), few(60)],
        alike in any::<bool>(),
    ) -> Pair {
        Pair { rules, initial, bounds, bad, bad_at_rest, ended, alike }
    }
}

/// What is true by the definitions.
#[derive(Debug, Default)]
struct Truth {
    nodes: usize,
    depth: usize,
    states: HashSet<Pairs>,
    /// The length of a shortest run, and the fewest faults of one.
    shortest: HashMap<PropertyName, (usize, u32)>,
    fair_round: bool,
}

fn calm(pair: &Pair, state: &Pairs) -> Vec<(Act, Pairs)> {
    let mut moves = Vec::new();
    pair.moves(state, Budget::default(), &mut moves);
    moves
        .into_iter()
        .filter_map(|(what, _)| pair.apply(state, what).map(|next| (what, next)))
        .filter(|(_, next)| next != state)
        .collect()
}

fn truth(pair: &Pair) -> Truth {
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

fn can_settle(pair: &Pair, state: &Pairs) -> bool {
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
fn comes_back(pair: &Pair, start: &Pairs) -> bool {
    let mut reached = HashSet::new();
    let mut queue = vec![*start];
    while let Some(state) = queue.pop() {
        let next = calm(pair, &state).into_iter().map(|(_, next)| next).filter(|next| !pair.ended(next));
        queue.extend(next.filter(|next| reached.insert(*next)));
    }
    reached.contains(start)
}

/// How many nodes are left if, layer by layer, those are dropped that another of their state, no deeper, covers.
fn needed(pair: &Pair) -> usize {
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
fn fair_round_through(pair: &Pair, start: &Pairs) -> bool {
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

/// Follows a run; the states on it, the first included.
fn follow(pair: &Pair, run: &Run<Act>) -> (Vec<Pairs>, u32) {
    let mut states = vec![pair.initial()];
    let mut left = pair.bounds();
    for (what, fault) in &run.moves {
        let state = states.last().unwrap();
        let mut moves = Vec::new();
        pair.moves(state, left, &mut moves);
        assert!(moves.contains(&(*what, *fault)), "{what:?} is not offered in {state:?}");
        left = fault.map_or(left, |fault| left.spend(fault).unwrap());
        states.push(pair.apply(state, *what).unwrap());
    }
    (states, pair.bounds().total() - left.total())
}

fn judge(pair: &Pair, truth: &Truth, options: &Options, found: &Exploration<Act>) {
    assert!(found.exhaustive && found.undecided.is_empty());
    for property in pair.properties().iter() {
        let run = found.violation(property);
        if property == PropertyName::Settles && run.is_some_and(|run| run.round.is_some()) {
            let run = run.unwrap();
            assert!(truth.fair_round && !truth.shortest.contains_key(&property));
            let (states, _) = follow(pair, run);
            let round = &states[run.round.unwrap()..];
            assert!(round.len() > 1 && round.first() == round.last(), "{run:?} goes {round:?}");
            assert!(round.iter().all(|state| !pair.ended(state)));
            let made: HashSet<_> = run.moves[run.round.unwrap()..].iter().collect();
            assert!(made.iter().all(|(_, fault)| fault.is_none()));
            for (what, _) in calm(pair, &round[0]) {
                let always = round.iter().all(|state| calm(pair, state).iter().any(|(its, _)| *its == what));
                assert!(!always || made.contains(&(what, None)), "{what:?} is put off by {run:?}");
            }
            continue;
        }
        assert_eq!(run.is_none(), !truth.shortest.contains_key(&property), "{property:?}");
        let Some(run) = run else {
            assert!(property != PropertyName::Settles || !truth.fair_round, "a fair round is missed");
            continue;
        };
        let (states, spent) = follow(pair, run);
        assert_eq!((run.moves.len(), spent), truth.shortest[&property], "{property:?}: {run:?}");
        let last = states.last().unwrap();
        let shown = pair.violated(last).has(property)
            || calm(pair, last).is_empty() && pair.violated_at_rest(last).has(property)
            || calm(pair, last).is_empty() && property == PropertyName::Settles && !pair.ended(last)
            || property == PropertyName::CanSettle && !can_settle(pair, last);
        assert!(shown, "{run:?} doesn't show {property:?}");
    }
    let class = |state: &Pairs| [state[0].min(state[1]), state[0].max(state[1])];
    let reduced = options.reductions;
    let states = if reduced.symmetry && pair.alike {
        truth.states.iter().map(class).collect::<HashSet<_>>().len()
    } else {
        truth.states.len()
    };
    assert_eq!(found.worlds, states);
    if !reduced.budgets && !(reduced.symmetry && pair.alike) {
        assert_eq!((found.unique_states, found.depth), (truth.nodes, truth.depth));
    }
    if reduced.budgets && !(reduced.symmetry && pair.alike) {
        assert_eq!(found.unique_states, needed(pair));
    }
    assert!(found.unique_states >= found.worlds && found.unique_states <= truth.nodes);
}

fn options(threads: usize, symmetry: bool, budgets: bool) -> Options {
    Options { threads, reductions: Reductions { symmetry, budgets }, ..Options::default() }
}

fn agree(pair: &Pair) {
    contract::check(pair, 20).unwrap();
    let truth = truth(pair);
    for symmetry in [false, true] {
        for budgets in [false, true] {
            let one = options(1, symmetry, budgets);
            let alone = explore(pair, &one, &mut |_| ());
            judge(pair, &truth, &one, &alone);
            for threads in [2, 3] {
                let found = explore(pair, &options(threads, symmetry, budgets), &mut |_| ());
                assert_eq!(found.violations, alone.violations);
                assert_eq!(
                    (found.unique_states, found.worlds, found.transitions, found.depth, found.repeated),
                    (alone.unique_states, alone.worlds, alone.transitions, alone.depth, alone.repeated)
                );
            }
            // One property at a time, and no further than needed: the same runs, except that a state that can't settle
            // is not looked for before all has been explored.
            for property in pair.properties().iter() {
                let wanted = PropertySet::NONE.with(property, true);
                let first = explore(pair, &Options { wanted, stop_when_found: true, ..one }, &mut |_| ());
                assert_eq!(first.violation(property), alone.violation(property));
                assert!(first.violations.len() <= 1 && first.undecided.is_empty());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_explorer_agrees_with_the_definitions(pair in pair()) {
        agree(&pair);
    }
}

/// What the test above compares occurs, so that it can't pass because nothing happens.
#[test]
fn random_systems_have_it_all() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = std::collections::BTreeMap::<&str, usize>::new();
    for _ in 0..600 {
        let pair = pair().new_tree(&mut runner).unwrap().current();
        let truth = truth(&pair);
        let found = explore(&pair, &options(1, true, true), &mut |_| ());
        let mut note = |what, when| *seen.entry(what).or_default() += usize::from(when);
        note("fair round", found.violation(PropertyName::Settles).is_some_and(|run| run.round.is_some()));
        note("round judged again", found.repeated);
        let can_settle = truth.shortest.get(&PropertyName::CanSettle);
        let stops = truth.shortest.get(&PropertyName::Settles);
        note("can't settle, never stops", can_settle.is_some() && stops.is_none());
        note("can't settle, with faults", can_settle.is_some_and(|(_, faults)| *faults > 0));
        note("stops", stops.is_some());
        note("settles", !truth.fair_round && stops.is_none() && truth.nodes > 5);
        let round = truth.states.iter().any(|state| !pair.ended(state) && comes_back(&pair, state));
        note("unfair rounds only", round && !truth.fair_round && stops.is_none());
        note("budgets save nodes", found.unique_states > found.worlds && found.unique_states < truth.nodes / 2);
        note("violation at rest", truth.shortest.contains_key(&PropertyName::BoundedMemory));
        note("violation with two faults", truth.shortest.get(&PropertyName::NoOverlap).is_some_and(|its| its.1 > 1));
    }
    println!("{seen:?}");
    assert!(seen.values().all(|count| *count >= 3), "{seen:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stateright_counts_the_same(pair in pair()) {
        let found = explore(&pair, &options(2, false, false), &mut |_| ());
        let checker = Plain::new(pair.clone()).checker().spawn_bfs().join();
        prop_assert_eq!(found.unique_states, checker.unique_state_count());
        for property in [PropertyName::AtMostOnce, PropertyName::NoOverlap, PropertyName::BoundedMemory] {
            prop_assert_eq!(found.violation(property).is_some(), checker.discovery(property.name()).is_some());
        }
    }
}

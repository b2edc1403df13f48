//! Random systems: whatever the reductions and the number of threads, the explorer finds what a naive search finds that
//! follows the definitions.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod pair;
mod truth;

use std::collections::HashSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use settled_explorer::{
    Exploration, Options, Plain, PropertyName, PropertySet, Reductions, Run, System, contract, explore,
};
use stateright::{Checker, Model};

use crate::pair::{Act, Pair, Pairs, pair};
use crate::truth::{Truth, calm, can_settle, comes_back, needed, truth};

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
    let merged = reduced.symmetry && pair.alike;
    if !merged && !reduced.budgets {
        assert_eq!((found.unique_states, found.depth), (truth.nodes, truth.depth));
    }
    if !merged && reduced.budgets {
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

//! One model, two engines, the same number of states: and those that stateright publishes for it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;

use settled_comparisons::engines::{Engine, Limits, Search, explorer, run, stateright, stateright_with_symmetry};
use settled_comparisons::measure::Counted;
use settled_comparisons::{ManagerState, Message, State, TransactionState, TwoPhaseCommit};
use settled_explorer::{Reductions, System};

const PLAIN: Reductions = Reductions { symmetry: false, budgets: false };

fn holds(its: &Counted) -> usize {
    assert!(its.exhaustive && its.violated.is_empty(), "{its:?}");
    its.unique_states
}

#[test]
fn two_phase_commit_has_the_published_number_of_states_on_both_engines() {
    for (managers, states) in [(3, 288), (5, 8_832)] {
        let model = TwoPhaseCommit { managers };
        let ours = explorer(&model, PLAIN, &Limits::default());
        assert_eq!(holds(&ours), states);
        assert_eq!(holds(&stateright(model, Search::Depth, &Limits::default())), states);
        for engine in Engine::ALL.into_iter().filter(|engine| *engine != Engine::Explorer) {
            let its = run(model, engine, &Limits::default());
            assert_eq!((holds(&its), its.transitions), (states, ours.transitions), "{}", engine.name());
            assert_eq!(Engine::by_flag(engine.flag()), Some(engine));
        }
    }
}

#[test]
fn with_symmetry_stateright_has_its_published_number_and_ours_is_exact() {
    let model = TwoPhaseCommit { managers: 5 };
    assert_eq!(holds(&stateright_with_symmetry(model, &Limits::default())), 665);
    // States that are alike: those with the same managers, in whatever order. Counted here from all 8,832 states.
    let mut classes = BTreeSet::new();
    let (mut seen, mut open) = (BTreeSet::new(), vec![model.initial()]);
    while let Some(state) = open.pop() {
        if !seen.insert(format!("{state:?}")) {
            continue;
        }
        let managers = state.managers.iter().zip(&state.heard_prepared).enumerate();
        let mut managers: Vec<_> =
            managers.map(|(at, its)| (*its.0, *its.1, state.messages.contains(&Message::Prepared(at)))).collect();
        managers.sort_unstable();
        classes.insert(format!("{managers:?} {:?}", state.transaction));
        let mut moves = Vec::new();
        model.moves(&state, model.bounds(), &mut moves);
        open.extend(moves.into_iter().filter_map(|(what, _)| model.apply(&state, what)));
    }
    assert_eq!(seen.len(), 8_832);
    let ours = holds(&explorer(&model, Reductions { symmetry: true, budgets: false }, &Limits::default()));
    assert_eq!(ours, classes.len());
    assert!(ours < 665, "stateright's representative is not the same for all states that are alike: {ours}");
}

#[test]
fn every_order_of_the_managers_is_alike_and_no_other() {
    let state = State {
        managers: vec![ManagerState::Working, ManagerState::Aborted, ManagerState::Working],
        transaction: TransactionState::Aborted,
        heard_prepared: vec![false, true, false],
        messages: [Message::Abort, Message::Prepared(1)].into(),
    };
    let mut alike = Vec::new();
    TwoPhaseCommit { managers: 3 }.symmetric(&state, &mut |other| alike.push(other.clone()));
    assert_eq!(alike.len(), 3);
    assert!(alike.contains(&state));
    for (at, its) in alike.iter().map(|its| (its.heard_prepared.iter().position(|heard| *heard).unwrap(), its)) {
        assert_eq!(its.managers[at], ManagerState::Aborted);
        assert_eq!(its.messages, [Message::Abort, Message::Prepared(at)].into());
    }
}

#[test]
fn a_run_that_is_cut_short_does_not_count_as_explored() {
    let limits = Limits { states: 2_000, ..Limits::default() };
    let model = TwoPhaseCommit { managers: 7 };
    assert!(!explorer(&model, PLAIN, &limits).exhaustive);
    assert!(!stateright(model, Search::Breadth, &limits).exhaustive);
}

//! Khan's six properties, decided from the cells that try them.

use settled_profile::khan::{Finding, Property, Witness, view};
use settled_profile::{Cell, Outcome};

use crate::sample::{missed, profile, result, run};

/// What a profile with one cell says about a property.
fn finding(property: Property, cell: Cell, runs: &[(Outcome, &[u32])]) -> Finding {
    let runs = runs.iter().map(|(outcome, effects)| run(outcome.clone(), effects)).collect();
    property.of(&profile("toy", "1", "default", None, vec![result(cell, runs)]))
}

fn violated(cell: Cell, times: u32, of: u32) -> Finding {
    Finding::Violated { by: vec![Witness { cell, times, of }] }
}

const ONCE: (Outcome, &[u32]) = (Outcome::Once, &[1, 1, 1]);

#[test]
fn a_step_before_the_one_under_way_must_not_run_again() {
    let of = |cell, runs: &[_]| finding(Property::PrefixContinuation, cell, runs);
    let b_twice: (Outcome, &[u32]) = (Outcome::Duplicate(2), &[1, 2, 1]);
    let a_twice: (Outcome, &[u32]) = (Outcome::Duplicate(2), &[2, 1, 1]);
    assert_eq!(of(Cell::KillAfterEffect, std::slice::from_ref(&b_twice)), Finding::Holds { runs: 1 });
    assert_eq!(of(Cell::KillAfterEffect, &[a_twice, ONCE]), violated(Cell::KillAfterEffect, 1, 2));
    // Here c is under way, and b has ended.
    assert_eq!(of(Cell::KillAfterRecord, std::slice::from_ref(&b_twice)), violated(Cell::KillAfterRecord, 1, 1));
    // What had ended when it was killed is not known.
    assert_eq!(of(Cell::KillAtRandom, &[b_twice]), Finding::NotTried);
}

#[test]
fn a_step_must_not_take_effect_twice() {
    let of = |runs: &[_]| finding(Property::EffectExactlyOnce, Cell::AnswerLost, runs);
    assert_eq!(of(&[ONCE, (Outcome::Lost, &[1, 1, 0])]), Finding::Holds { runs: 2 });
    assert_eq!(of(&[(Outcome::Duplicate(2), &[1, 2, 1]), ONCE]), violated(Cell::AnswerLost, 1, 2));
}

#[test]
fn the_answer_decides() {
    let of = |cell, runs: &[_]| finding(Property::ForkDeterminism, cell, runs);
    let done: (Outcome, &[u32]) = (Outcome::Once, &[1, 1]);
    let denied: (Outcome, &[u32]) = (Outcome::Once, &[1, 0]);
    assert_eq!(of(Cell::ApprovedTwice, &[done]), Finding::Holds { runs: 1 });
    assert_eq!(of(Cell::ApprovedTwice, &[(Outcome::Lost, &[1, 0])]), violated(Cell::ApprovedTwice, 1, 1));
    assert_eq!(of(Cell::DeniedThenApproved, &[denied]), Finding::Holds { runs: 1 });
    let after_all: (Outcome, &[u32]) = (Outcome::Duplicate(1), &[1, 1]);
    assert_eq!(of(Cell::DeniedThenApproved, &[after_all]), violated(Cell::DeniedThenApproved, 1, 1));
}

#[test]
fn what_a_kill_leaves_must_be_resumable() {
    let of = |runs: &[_]| finding(Property::CheckpointValidity, Cell::TornWrite, runs);
    assert_eq!(of(&[(Outcome::Duplicate(2), &[1, 2, 1])]), Finding::Holds { runs: 1 });
    for outcome in [Outcome::Lost, Outcome::Stuck, Outcome::Error("no".to_owned())] {
        assert_eq!(of(&[(outcome, &[1, 1, 0]), ONCE]), violated(Cell::TornWrite, 1, 2));
    }
}

#[test]
fn an_approval_is_used_once() {
    let of = |cell, runs: &[_]| finding(Property::ConsumeOnce, cell, runs);
    let gated_twice: (Outcome, &[u32]) = (Outcome::Duplicate(3), &[1, 3]);
    assert_eq!(of(Cell::ApprovedAtOnce, &[gated_twice]), violated(Cell::ApprovedAtOnce, 1, 1));
    // Its sibling ran twice, which is no matter of the approval.
    let sibling: (Outcome, &[u32]) = (Outcome::Duplicate(2), &[1, 2, 1]);
    assert_eq!(of(Cell::ParallelApproved, &[sibling]), Finding::Holds { runs: 1 });
    assert_eq!(
        of(Cell::ParallelApproved, &[(Outcome::Duplicate(2), &[1, 1, 2])]),
        violated(Cell::ParallelApproved, 1, 1)
    );
}

#[test]
fn equal_runs_must_end_alike() {
    let of = |cell, runs: &[_]| finding(Property::RecoveryDeterminism, cell, runs);
    let twice: (Outcome, &[u32]) = (Outcome::Duplicate(2), &[1, 2, 1]);
    let also_twice: (Outcome, &[u32]) = (Outcome::Duplicate(2), &[2, 1, 1]);
    assert_eq!(of(Cell::KillAfterAnswer, &[twice.clone(), twice.clone()]), Finding::Holds { runs: 2 });
    let mixed = [twice.clone(), twice.clone(), also_twice];
    assert_eq!(of(Cell::KillAfterAnswer, &mixed), violated(Cell::KillAfterAnswer, 1, 3));
    // One run has nothing to be compared with, and where the moment differs runs may differ.
    assert_eq!(of(Cell::KillAfterAnswer, &[ONCE]), Finding::NotTried);
    assert_eq!(of(Cell::KillAtRandom, &[ONCE, twice]), Finding::NotTried);
}

#[test]
fn a_missed_run_says_nothing() {
    let mut harmless = missed("it had ended");
    harmless.effects.insert("a".to_owned(), 2);
    let cells = vec![result(Cell::KillAfterEffect, vec![harmless.clone(), harmless])];
    let profile = profile("toy", "1", "default", None, cells);
    assert!(view(&profile).iter().all(|(_, finding)| *finding == Finding::NotTried));
}

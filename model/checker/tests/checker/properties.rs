//! Each property can fail: for every one of them there is a protocol that violates it alone, and one that differs in a single
//! choice and holds.

use crate::support::{assert_holds, assert_violated, found, trace};
use settled_model::PropertyName::{self, *};
use settled_model::Verdict;

/// What is violated, in which setting, by which choice, and the choice that mends it.
type Mutant = (&'static [PropertyName], &'static str, &'static str, &'static str);

const MUTANTS: &[Mutant] = &[
    (&[AtMostOnce], "faults.reruns = 1", "caller.key = 'per-call'", "caller.key = 'caller'"),
    (&[NoPhantomSuccess], "caller.calls = 1", "guard.answers = 'at-dispatch'", "guard.answers = 'after-store'"),
    (
        &[NoFalseFailure],
        "caller.after-cancel = 'retry'; faults.cancels = 1",
        "guard.rules.keep-cancelled = false",
        "guard.rules.keep-cancelled = true",
    ),
    (
        &[FaithfulReplay],
        "caller.new-key-after-failure = false; faults.rejections = 1",
        "guard.repeat = 'new-after-failure'",
        "guard.repeat = 'replay'",
    ),
    (
        &[NoSuppression],
        "caller.operations = 2; caller.calls = 1; caller.same-arguments = true",
        "caller.key = 'arguments'",
        "caller.key = 'caller'",
    ),
    (&[IntentFirst], "", "guard.intent = 'after-effect'", "guard.intent = 'before-send'"),
    // A second attempt is on its way while the first may still apply. Only since the tool can do more than it is taken for,
    // no second effect follows.
    (
        &[UnknownBlocks],
        "tool.kind = 'deduplicates'; tool.declared = 'opaque'; faults.timeouts = 1",
        "guard.rules.hold-unknown = false",
        "guard.rules.hold-unknown = true",
    ),
    (
        &[NoOverlap],
        "caller.operations = 2; caller.same-resource = true; tool.lasting = true",
        "guard.resources = 'ignored'",
        "guard.resources = 'one-at-a-time'",
    ),
    (&[Convergence], "devices.operations = 1", "devices.merge = 'first-arrival'", "devices.merge = 'latest'"),
    (
        &[CausalRespect],
        "devices.operations = 1; faults.clock-skews = 1",
        "devices.clock = 'wall'",
        "devices.clock = 'hybrid-logical'",
    ),
    // Polls keep the guard from giving up: each time it is about to, it has a poll to look at.
    (
        &[Settles],
        "guard.in-progress = 'told'; faults.lost-requests = 1",
        "guard.claim = 'read-then-write'",
        "guard.claim = 'compare-and-set'",
    ),
    // Whatever can't settle from some state on doesn't settle: so `can always settle` is never violated alone.
    (&[Settles, CanSettle], "faults.lost-requests = 1", "guard.gives-up = false", "guard.gives-up = true"),
    (
        &[BoundedRetries],
        "tool.kind = 'deduplicates'; budget.operation = 1; faults.timeouts = 1",
        "tool.attempts = 2",
        "tool.attempts = 1",
    ),
    (&[BoundedMemory], "caller.horizon = 1; budget.memory = 2", "guard.window = 0", "guard.window = 2"),
];

#[test]
fn no_property_is_missing() {
    for property in PropertyName::ALL {
        let smallest = MUTANTS.iter().map(|(violated, ..)| violated).filter(|violated| violated.contains(property));
        let fewest = smallest.map(|violated| violated.len()).min();
        let expected = if *property == CanSettle { 2 } else { 1 };
        assert_eq!(fewest, Some(expected), "{}", property.name());
    }
}

#[test]
fn each_property_is_violated_alone() {
    for (expected, setting, broken, _) in MUTANTS {
        assert_violated(&format!("{setting};{broken}"), expected);
    }
}

#[test]
fn the_other_choice_holds() {
    for (violated, setting, _, mended) in MUTANTS {
        let lines = format!("{setting};{mended}");
        assert_holds(&lines);
        for property in *violated {
            let verdict = found(&lines).verdict(*property).clone();
            assert_eq!(verdict, Verdict::Holds, "{} is said of it", property.name());
        }
    }
}

/// What goes round for ever is told from what stops.
#[test]
fn a_livelock_has_a_round_and_a_stop_has_none() {
    let stuck = "guard.gives-up = false; faults.lost-requests = 1";
    let stop = found(stuck);
    assert_eq!(trace(&stop, Settles).round, None);
    let polls = found(&format!("{stuck}; guard.in-progress = 'told'"));
    let run = trace(&polls, Settles);
    assert!(run.round.is_some_and(|round| round < run.steps.len()), "{}", run.text());
    assert_holds("guard.in-progress = 'told'; faults.lost-requests = 1");
}

/// The second half of `bounded memory`: a repetition that arrives after its record was forgotten.
#[test]
fn a_late_repetition_slips_in_behind_retention() {
    let late = "caller.horizon = 2; guard.window = 1; budget.memory = 2; faults.reruns = 1";
    let report = found(late);
    assert_eq!(trace(&report, BoundedMemory).effects, [2]);
    assert_holds("caller.horizon = 2; guard.window = 2; budget.memory = 2; faults.reruns = 1");
}

/// The second budget of `bounded retries`: all operations together.
#[test]
fn a_fleet_has_a_budget_of_its_own() {
    let fleet = "caller.operations = 2; caller.calls = 1; budget.operation = 1";
    assert_violated(&format!("{fleet}; budget.fleet = 1"), &[BoundedRetries]);
    assert_holds(&format!("{fleet}; budget.fleet = 2"));
}

//! What Spin says of the models in `proofs/spin`.
//!
//! Without Spin these tests say so and pass, unless `SETTLED_NEED_SPIN=1`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use settled_comparisons::engines::{Limits, explorer};
use settled_comparisons::spin::{Options, SpinError, SpinReport, check, check_text};
use settled_comparisons::{Promela, TwoPhaseCommit};
use settled_explorer::Reductions;

fn report(result: Result<SpinReport, SpinError>) -> Option<SpinReport> {
    match result {
        Err(error @ SpinError::Missing { .. }) if std::env::var_os("SETTLED_NEED_SPIN").is_none_or(|it| it != "1") => {
            eprintln!("not run: {error}");
            None
        }
        other => Some(other.unwrap()),
    }
}

const QUICK: Options = Options {
    depth: 100_000,
    memory: 2_048,
    time: Duration::from_secs(300),
    hash_bits: 18,
    collapse: false,
    optimised: false,
    rounds: false,
};

fn of(model: Promela, bounds: &[(&str, u32)]) -> Option<SpinReport> {
    report(check(model, bounds, &QUICK))
}

/// One sound model after a change that makes it unsound.
fn broken(from: &str, to: &str, bounds: &[(&str, u32)]) -> Option<Vec<String>> {
    let text = Promela::Sealable.text();
    assert_eq!(text.matches(from).count(), 1, "{from}");
    Some(report(check_text(&text.replace(from, to), bounds, &QUICK))?.violated)
}

#[test]
fn two_phase_commit_has_as_many_states_as_on_the_explorer() {
    for managers in [3, 5] {
        let Some(its) = of(Promela::TwoPhaseCommit, &[("MANAGERS", managers)]) else { return };
        let plain = Reductions { symmetry: false, budgets: false };
        let ours = explorer(&TwoPhaseCommit { managers: managers as usize }, plain, &Limits::default());
        assert_eq!((its.states, its.errors), (ours.unique_states, 0));
    }
}

#[test]
fn a_direct_caller_makes_two_effects() {
    let Some(its) = of(Promela::Mcp, &[]) else { return };
    assert_eq!(its.states, 18);
    assert_eq!(its.violated, ["at most once", "unknown blocks"]);
}

/// Every fault that a direct caller's world knows, once or twice.
#[test]
fn a_direct_caller_with_every_fault() {
    let twice = ["TIMEOUTS", "LOST_REPLIES"].map(|name| (name, 2));
    let once = [
        "TOOL_CRASHES_BEFORE",
        "TOOL_CRASHES_AFTER",
        "ERRORS_BEFORE",
        "ERRORS_AFTER",
        "REJECTIONS",
        "LOST_REQUESTS",
        "DUPLICATES",
        "RERUNS",
    ];
    let bounds: Vec<_> = once.map(|name| (name, 1)).into_iter().chain(twice).chain([("CALLS", 3)]).collect();
    let Some(its) = of(Promela::Mcp, &bounds) else { return };
    assert_eq!(its.states, 53_319);
    assert_eq!(its.violated, ["at most once", "faithful replay", "no false failure", "unknown blocks"]);
}

const NO_FAULT: [(&str, u32); 8] = [
    ("TIMEOUTS", 0),
    ("GUARD_CRASHES", 0),
    ("TAKEOVERS", 0),
    ("TOOL_CRASHES_AFTER", 0),
    ("REJECTIONS", 0),
    ("DUPLICATES", 0),
    ("REORDERINGS", 0),
    ("CONCURRENT_CALLS", 0),
];

#[test]
fn a_guard_of_a_sealable_tool_is_safe_with_each_fault_alone() {
    // How many states each has is compared with our own world's in `drift`.
    for (fault, guards) in [
        ("", 1),
        ("TIMEOUTS", 1),
        ("GUARD_CRASHES", 1),
        ("REJECTIONS", 1),
        ("DUPLICATES", 1),
        ("TOOL_CRASHES_AFTER", 1),
        ("CONCURRENT_CALLS", 1),
        ("", 2),
        ("TAKEOVERS", 2),
    ] {
        let mut bounds = NO_FAULT.to_vec();
        bounds.iter_mut().filter(|(name, _)| *name == fault).for_each(|(_, bound)| *bound = 1);
        bounds.push(("GUARDS", guards));
        let Some(its) = of(Promela::Sealable, &bounds) else { return };
        assert!(its.states > 6 && its.violated.is_empty(), "{fault} with {guards}: {its:?}");
    }
}

#[test]
fn a_guard_of_a_sealable_tool_is_safe_with_all_faults_together() {
    let Some(its) = of(Promela::Sealable, &[("GUARDS", 1)]) else { return };
    assert_eq!((its.states, its.violated.len()), (5_251, 0));
}

#[test]
fn without_its_rules_the_guard_is_not_safe() {
    // A rejection taken at its word, although another copy is under way (rule 7).
    let word = ":: KIND(m) == NOT_RUN && record[k] == DISPATCHED -> settle(g, k, FAILED(1), ANSWER_FAILED(1))";
    let found =
        broken(":: KIND(m) == NOT_RUN && record[k] == DISPATCHED -> unknown(k, REFUSED)", word, &[("GUARDS", 1)]);
    let Some(found) = found else { return };
    assert_eq!(found, ["at most once", "no false failure"]);
    // A tool that applies what is sealed.
    let found = broken("remembered[k] == 0 && sealed[k] >= a", "false", &[("GUARDS", 1)]);
    assert_eq!(found.unwrap(), ["at most once", "no false failure"]);
    // A new attempt without a seal.
    let found = broken(
        "e = (attempt[K] < ATTEMPTS && cause[K] != REFUSED -> SEAL_ATTEMPTS : SEAL_OPERATION)",
        "e = SEALED_ATTEMPTS",
        &[("GUARDS", 1)],
    );
    assert_eq!(found.unwrap(), ["unknown blocks"]);
    // Nobody takes over from the dead.
    let found = broken("(owner[K] == DEAD || takeovers > 0)", "(owner[K] != DEAD && takeovers > 0)", &[("GUARDS", 1)]);
    assert_eq!(found.unwrap(), ["settles"]);
}

#[test]
fn a_guard_of_a_sealable_tool_settles_every_operation_once_faults_stop() {
    let bounds = [("GUARDS", 1), ("FAULTS_STOP", 1)];
    let Some(its) = of(Promela::Sealable, &bounds) else { return };
    assert_eq!(its.violated.len(), 0);
    // From the dead it takes over only while that is a fault: seen only if faults stop before their bound.
    let found = broken("(owner[K] == DEAD || takeovers > 0)", "(owner[K] != DEAD || takeovers > 0)", &bounds);
    assert_eq!(found.unwrap(), ["settles"]);
    let rounds = Options { rounds: true, ..QUICK };
    let bounds = [("GUARDS", 1), ("ROUNDS", 1)];
    let its = report(check(Promela::Sealable, &bounds, &rounds)).unwrap();
    assert_eq!((its.violated.len(), its.errors), (0, 0));
    // A guard that is unsure for ever whether the caller waits.
    let text = Promela::Sealable.text();
    let loss = "IS_REPLY(net[pick]) && lost_replies > 0 -> lost_replies--; arrive(pick)";
    assert_eq!(text.matches(loss).count(), 1);
    let text = text.replace(loss, "IS_REPLY(net[pick]) -> waits[0] = 1 - waits[0]");
    assert_eq!(report(check_text(&text, &bounds, &rounds)).unwrap().violated, ["settles"]);
}

#[test]
fn a_limit_is_not_a_verdict() {
    let shallow = Options { depth: 10, ..QUICK };
    let result = check(Promela::Sealable, &[("GUARDS", 1)], &shallow);
    if !matches!(result, Err(SpinError::Missing { .. })) {
        assert!(matches!(result, Err(SpinError::Unfinished { .. })), "{result:?}");
    }
    let result = check_text("active proctype world() { nonsense }", &[], &QUICK);
    if !matches!(result, Err(SpinError::Missing { .. })) {
        assert!(matches!(result, Err(SpinError::Failed { program: "spin", .. })), "{result:?}");
    }
}

//! The protocol holds, one change breaks it, and each machine works with those that ship.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

use settled_example_protocol::{BudgetedCaller, Reservations, ReservingGuard, description, rules};
use settled_explorer::contract;
use settled_model::PropertyName::{self, AtMostOnce, NoFalseFailure, NoPhantomSuccess};
use settled_model::description::{Again, CallerRules, InProgress, Kind};
use settled_model::machine::{
    Caller, CoreGuard, DescribedCaller, DescribedTool, Guard, Machines, Situation, SoFar, Tool,
};
use settled_model::{Description, Faults, Limits, Reductions, Report, Rules, check_rules};

fn explored(rules: &Rules, reductions: Reductions) -> Report {
    let report = check_rules(rules, Limits { threads: 1, reductions, ..Limits::default() }, |_| {}).unwrap();
    assert!(report.exhaustive);
    report
}

/// What is violated, and in how many steps.
fn violated(report: &Report) -> Vec<(PropertyName, usize)> {
    report.violations().map(|(property, trace)| (property, trace.steps.len())).collect()
}

#[test]
fn a_marked_cancellation_holds_and_a_deleted_one_does_not() {
    let sound = explored(&rules(description().unwrap(), true), Reductions::ALL);
    assert_eq!(violated(&sound), []);
    assert!(sound.worlds > 10_000, "{}", sound.worlds);
    let broken = explored(&rules(description().unwrap(), false), Reductions::ALL);
    assert_eq!(violated(&broken), [(NoFalseFailure, 13)]);
    // The trace tells of this protocol's own records, in its own words and in their order.
    let lines = broken.violations().map(|(_, trace)| trace.text()).collect::<String>();
    let mut rest = lines.as_str();
    for words in ["asking for a reservation", "to be confirmed", "being cancelled", ": cancelled", "was told failed"] {
        rest = rest.split_once(words).unwrap_or_else(|| panic!("no “{words}” where it belongs in\n{lines}")).1;
    }
}

#[test]
fn without_reductions_the_same_is_found() {
    for fence in [true, false] {
        let faults = Faults { duplicates: 1, takeovers: 1, timeouts: 1, ..Faults::default() };
        let rules = rules(Description { faults, ..description().unwrap() }, fence);
        let (reduced, whole) = (explored(&rules, Reductions::ALL), explored(&rules, Reductions::NONE));
        assert_eq!(violated(&reduced), violated(&whole));
        assert_eq!(violated(&whole).is_empty(), fence);
        assert!(reduced.unique_states < whole.unique_states);
    }
}

#[test]
fn the_explorers_contract_is_kept() {
    for fence in [true, false] {
        contract::check(&rules(description().unwrap(), fence), 5_000).unwrap();
    }
}

/// What is violated with these machines, under a few faults.
fn with(guard: impl Guard + 'static, caller: impl Caller + 'static, tool: impl Tool + 'static) -> Vec<PropertyName> {
    let mut description = description().unwrap();
    description.faults = Faults { guard_crashes: 1, takeovers: 1, duplicates: 1, ..Faults::default() };
    description.guard.in_progress = InProgress::Waits;
    let machines = Machines { guard, caller: Box::new(caller), tool: Box::new(tool) };
    let report = explored(&Rules::with(description, machines), Reductions::ALL);
    report.violations().map(|(property, _)| property).collect()
}

const BUDGETED: BudgetedCaller = BudgetedCaller { calls: 2, keys: 1 };
const SEALABLE: DescribedTool = DescribedTool { kind: Kind::Sealable };

fn core() -> CoreGuard {
    CoreGuard { policy: description().unwrap().policy() }
}

fn described_caller() -> DescribedCaller {
    let rules = description().unwrap().caller;
    DescribedCaller { rules: CallerRules { after_failed: Again::Stop, ..rules } }
}

/// A tool that takes effect at once is confirmed by its first answer. It must be one that can be told never to.
#[test]
fn this_guard_with_a_caller_and_a_tool_that_ship() {
    assert_eq!(with(ReservingGuard, described_caller(), SEALABLE), []);
    let opaque = DescribedTool { kind: Kind::Opaque };
    assert!(with(ReservingGuard, described_caller(), opaque).contains(&NoFalseFailure));
}

/// The core takes the answer "reserved" for an effect: this tool needs the guard that it is made for.
#[test]
fn this_tool_with_a_guard_and_a_caller_that_ship() {
    let found = with(core(), described_caller(), Reservations { fence: true });
    assert!(found.contains(&NoPhantomSuccess) && !found.contains(&AtMostOnce), "{found:?}");
}

/// A caller that takes silence for failure.
struct Hasty;

impl Caller for Hasty {
    fn calls(&self, _: Situation, so_far: SoFar) -> Option<u8> {
        (so_far.calls < 2).then_some(so_far.calls)
    }
}

#[test]
fn this_caller_with_a_guard_and_a_tool_that_ship() {
    assert_eq!(with(core(), BUDGETED, SEALABLE), []);
    assert!(with(core(), Hasty, SEALABLE).contains(&AtMostOnce));
}

/// Who is told `failed` may call again under a new key: so the false failure becomes a second effect.
#[test]
fn a_false_failure_is_a_licence_for_a_second_effect() {
    let deleted = Reservations { fence: false };
    assert_eq!(with(ReservingGuard, BUDGETED, deleted), [NoFalseFailure]);
    let found = with(ReservingGuard, BudgetedCaller { keys: 2, ..BUDGETED }, deleted);
    assert_eq!(found, [AtMostOnce, NoFalseFailure]);
}

#[test]
fn the_program_prints_verdicts_and_the_run() {
    let output = Command::new(env!("CARGO_BIN_EXE_example-protocol")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    let (sound, broken) = text.split_once("a cancelled reservation is deleted").unwrap();
    assert!(sound.contains("holds        no false failure") && !sound.contains("violated"), "{text}");
    assert!(broken.contains("violated     no false failure") && broken.contains("key 1: cancelled"), "{text}");
}

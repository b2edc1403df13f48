//! A resource's line: what it rests on, shown both ways.

use crate::support::{assert_holds, found, violates};
use settled_model::PropertyName::{AtMostOnce, NoOverlap};
use settled_model::{Description, Limits, PropertyName, Report, check, library};

const LINE: &str = "caller.operations = 2; caller.calls = 1; caller.same-resource = true
     guard.resources = 'line'; guard.processes = 2";

fn decide(description: &Description, property: PropertyName) -> bool {
    let report: Report = check(description, Limits::default(), |_| {}).unwrap();
    assert!(report.exhaustive, "{}", description.name);
    report.violations().any(|(violated, _)| violated == property)
}

/// An operation that was sent again has copies: on the wire, and with whoever was paused before the send. The next one on the
/// resource must wait for each of them that there can be, and for no more than that.
#[test]
fn the_next_one_waits_for_every_copy_that_there_can_be() {
    let mut description = library::load("settled-idempotent-line").unwrap();
    (description.faults.tool_crashes_after, description.faults.errors_after, description.faults.cancels) = (0, 0, 0);
    use settled_model::description::Frees::*;
    for (late, paused, frees, repeated) in [
        (0, 0, WhenSettled, false),
        (1, 0, WhenSettled, true),
        (1, 0, WhenArrived, false),
        (0, 1, WhenSettled, true),
        (0, 1, WhenArrived, true),
        (0, 1, WhenQuiet, false),
        (1, 1, WhenQuiet, false),
    ] {
        (description.faults.timeouts, description.faults.reorderings) = (late, late);
        (description.faults.takeovers, description.faults.guard_crashes) = (paused, 0);
        description.guard.frees = frees;
        assert_eq!(decide(&description, AtMostOnce), repeated, "{late} {paused} {frees:?}");
    }
}

/// What happened may still be going on: a person who says that it happened, or a look at it, does not free the resource, unless
/// its end is waited for.
#[test]
fn an_outcome_that_is_known_early_frees_too_early() {
    let lasting = format!("{LINE}; tool.lasting = true");
    for early in
        ["faults.decisions = 1; faults.guard-crashes = 1", "tool.kind = 'observable'; faults.guard-crashes = 1"]
    {
        let lines = format!("{lasting}; {early}");
        assert!(violates(&found(&lines), NoOverlap), "{lines}");
        assert_holds(&format!("{lines}; guard.frees = 'when-arrived'"));
    }
}

/// Whose process is dead or taken for dead is given up by another, once: the next ones get their turn.
#[test]
fn what_a_dead_process_had_waiting_does_not_block_the_line() {
    assert_holds(&format!("{LINE}; tool.lasting = true; faults.guard-crashes = 2"));
    assert_holds(&format!("{LINE}; tool.lasting = true; faults.takeovers = 2"));
}

/// A line of three is no different.
#[test]
fn three_in_a_line() {
    let three = "caller.operations = 3; caller.calls = 1; caller.same-resource = true; caller.after-failed = 'stop'
         tool.lasting = true; faults.takeovers = 1; guard.processes = 2";
    assert_holds(&format!("{three}; guard.resources = 'line'"));
    let freed = format!("{three}; guard.resources = 'line-freed-by-lease'");
    assert!(violates(&found(&freed), NoOverlap), "{freed}");
}

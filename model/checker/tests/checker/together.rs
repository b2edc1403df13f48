//! What operations, processes and clocks do to each other: kinds of runs that a reduction, or a world that is too simple,
//! could leave out unnoticed.

use crate::support::{assert_holds, found, limits, protocol, toml_of, violated, violates};
use settled_model::PropertyName::{self, *};
use settled_model::{Limits, Reductions, check, parse};

/// One operation's fault kills what is at work for another: both have to be explored.
#[test]
fn a_fault_that_hits_two_operations_is_not_left_out() {
    let early = "caller.operations = 2; caller.calls = 1; guard.rules.wait-for-quiet = false; tool.kind = 'observable'";
    for (lines, property) in [
        (
            "caller.operations = 2; guard.processes = 0; tool.lasting = true; faults.tool-crashes-before = 1".into(),
            AtMostOnce,
        ),
        (format!("{early}; faults.torn-writes = 1"), AtMostOnce),
        (format!("{early}; faults.sync-errors = 1"), AtMostOnce),
        (
            "caller.operations = 2; tool.kind = 'sealable'; budget.operation = 1; faults.torn-writes = 1".into(),
            BoundedRetries,
        ),
    ] {
        let lines: String = lines;
        let all = check(&protocol(&lines), Limits { reductions: Reductions::NONE, ..limits() }, |_| {}).unwrap();
        assert!(violates(&all, property), "{lines}");
        assert_eq!(violated(&found(&lines)), violated(&all), "{lines}");
    }
}

/// A person's clock is nobody's but the person's: else it would matter which guard is the first.
#[test]
fn a_decision_is_the_same_whatever_the_guards_are_called() {
    let lines = "caller.horizon = 2; caller.new-key-after-failure = false; guard.processes = 2; guard.window = 3; \
                 tool.kind = 'sealable'; faults.decisions = 1; faults.clock-skews = 2; faults.timeouts = 1";
    let all = check(&protocol(lines), Limits { reductions: Reductions::NONE, ..limits() }, |_| {}).unwrap();
    assert_eq!(violated(&found(lines)), violated(&all));
}

fn said(lines: &str, property: PropertyName) -> bool {
    violates(&found(lines), property)
}

#[test]
fn a_record_must_not_remain_longer_than_its_budget() {
    for (window, memory) in [(1, 1), (1, 2), (2, 1), (8, 1), (8, 2), (8, 8)] {
        let lines = format!("caller.horizon = 1; guard.window = {window}; budget.memory = {memory}");
        assert_eq!(said(&lines, BoundedMemory), window > memory, "window {window}, memory {memory}");
    }
}

/// As far as their bound says, not only two units.
#[test]
fn clocks_jump_as_far_as_they_may() {
    for jumps in 1..=4 {
        let lines = |window| {
            format!("caller.horizon = 1; guard.window = {window}; faults.reruns = 1; faults.clock-jumps = {jumps}")
        };
        assert!(said(&lines(jumps), AtMostOnce), "{jumps}");
        assert!(!said(&lines(jumps + 1), AtMostOnce), "{jumps}");
    }
}

/// Another resource's operation does not stand between an operation and its repetition.
#[test]
fn only_operations_of_the_same_resource_disturb() {
    let lines = "caller.operations = 2; caller.sequential = true; tool.kind = 'idempotent'; budget.fleet = 3; \
                 faults.lost-requests = 2";
    assert!(said(lines, BoundedRetries));
}

/// A tool that deduplicates, and is taken for one that can be sealed, does not become one.
#[test]
fn a_tool_that_cannot_be_sealed_is_not() {
    let lines = "tool.kind = 'deduplicates'; tool.declared = 'sealable'; tool.attempts = 1; faults.tool-partitions = 1";
    assert!(said(lines, NoFalseFailure));
}

/// An answer is given to those who have waited for its operation, not to those of the next.
#[test]
fn the_answer_of_an_operation_is_not_the_next_ones() {
    let lines = "caller.operations = 2; caller.calls = 1; caller.key = 'arguments'; caller.same-arguments = true; \
                 guard.processes = 2; guard.repeat = 'new-after-failure'; faults.rejections = 1";
    assert!(!said(lines, NoFalseFailure));
    assert_holds(&lines.replace("caller.operations = 2", "caller.operations = 1"));
}

#[test]
fn a_transactional_tool_and_its_ledger_are_one() {
    let lines = "tool.kind = 'transactional'; ledger.acknowledged = 'unsynced'; faults.unsynced-losses = 1";
    let error = parse("test.toml", &toml_of(lines)).unwrap_err().to_string();
    assert!(error.contains("ledger.acknowledged"), "{error}");
}

//! The verdicts of every shipped protocol, with the number of distinct states and the length of each shortest
//! counterexample pinned: an encoding that changes by accident is noticed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use settled_model::PropertyName::{self, *};
use settled_model::{Limits, Verdict, check, library};

/// What is violated, and after how many steps; all else holds.
fn expect(name: &str, states: usize, violated: &[(PropertyName, usize)]) {
    let description = library::load(name).unwrap();
    let report = check(&description, Limits::default(), |_| {}).unwrap();
    let found: Vec<_> = report.violations().map(|(property, trace)| (property, trace.steps.len())).collect();
    assert_eq!(found, violated, "{name}");
    for (property, verdict) in &report.verdicts {
        let fine = matches!(verdict, Verdict::Holds | Verdict::NotApplicable | Verdict::Violated(_));
        assert!(fine, "{name}: {property:?}: {verdict:?}");
    }
    assert!(report.exhaustive, "{name}");
    assert_eq!(report.unique_states, states, "{name}: distinct states");
}

#[test]
fn unsafe_protocols_are_violated_by_their_shortest_runs() {
    expect(
        "naive-retry",
        166,
        &[(AtMostOnce, 4), (NoFalseFailure, 3), (FaithfulReplay, 6), (IntentFirst, 2), (UnknownBlocks, 2)],
    );
    expect("mcp-2025-11-25", 30, &[(AtMostOnce, 4), (IntentFirst, 2), (UnknownBlocks, 2)]);
    expect("mcp-restart", 18, &[(AtMostOnce, 5), (IntentFirst, 2), (UnknownBlocks, 4)]);
    expect(
        "langgraph-default-retry",
        10,
        &[(AtMostOnce, 5), (FaithfulReplay, 6), (IntentFirst, 2), (UnknownBlocks, 4)],
    );
    expect("key-per-attempt", 1900, &[(AtMostOnce, 8)]);
    expect("arguments-as-key", 169, &[(NoSuppression, 7)]);
    expect("record-after-effect", 200, &[(AtMostOnce, 9), (IntentFirst, 4)]);
    expect("volatile-intent", 436, &[(AtMostOnce, 9), (IntentFirst, 4)]);
    expect("not-found-means-failed", 30_436, &[(AtMostOnce, 11), (NoFalseFailure, 17), (UnknownBlocks, 8)]);
    expect("server-error-means-failed", 75, &[(AtMostOnce, 10), (NoFalseFailure, 6)]);
}

#[test]
fn opaque_holds() {
    expect("settled-opaque", 308_095, &[]);
}

#[test]
fn sealable_holds() {
    expect("settled-sealable", 1_488_895, &[]);
}

#[test]
fn observable_holds() {
    expect("settled-observable", 3_596_077, &[]);
}

#[test]
fn deduplicates_holds() {
    expect("settled-deduplicates", 374_047, &[]);
}

#[test]
fn transactional_holds() {
    expect("settled-transactional", 393_175, &[]);
}

#[test]
fn every_shipped_protocol_is_named_as_its_file() {
    for (name, _) in library::SHIPPED {
        assert_eq!(library::load(name).unwrap().name, *name);
    }
}

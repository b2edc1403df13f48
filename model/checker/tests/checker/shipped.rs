//! The verdicts of every shipped protocol, with the length of each shortest counterexample pinned: a world, or a description,
//! that changes by accident is noticed. A protocol that is not in the table must hold.

use settled_model::PropertyName::{self, *};
use settled_model::description::{Claim, Kind};
use settled_model::{Limits, PropertySet, Verdict, check, library};

/// What is violated, and after how many steps. All else holds, or says nothing of the protocol.
const VIOLATED: &[(&str, &[(PropertyName, usize)])] = &[
    ("naive-retry", &[(AtMostOnce, 4), (NoFalseFailure, 3), (FaithfulReplay, 6), (UnknownBlocks, 2)]),
    ("mcp-2025-11-25", &[(AtMostOnce, 4), (UnknownBlocks, 2)]),
    ("mcp-2026-07-28", &[(AtMostOnce, 5), (UnknownBlocks, 3)]),
    ("mcp-restart", &[(AtMostOnce, 5), (UnknownBlocks, 4)]),
    ("mcp-sep-3182", &[(AtMostOnce, 9), (UnknownBlocks, 6)]),
    ("ietf-idempotency-key", &[(Settles, 6), (CanSettle, 3)]),
    ("stripe-late-retry", &[(AtMostOnce, 6)]),
    ("redis-short-retention", &[(AtMostOnce, 11), (IntentFirst, 5)]),
    ("redis-failover", &[(AtMostOnce, 11), (IntentFirst, 5)]),
    ("redis-with-sealable-tool", &[(IntentFirst, 5)]),
    ("langgraph-default-retry", &[(AtMostOnce, 5), (FaithfulReplay, 6), (UnknownBlocks, 4)]),
    ("langgraph-checkpoint-sync", &[(AtMostOnce, 5), (FaithfulReplay, 7), (UnknownBlocks, 3)]),
    ("langgraph-checkpoint-async", &[(AtMostOnce, 5), (FaithfulReplay, 7), (UnknownBlocks, 3), (BoundedRetries, 9)]),
    ("langgraph-checkpoint-exit", &[(AtMostOnce, 5), (FaithfulReplay, 7), (UnknownBlocks, 3), (BoundedRetries, 9)]),
    ("workflow-journal", &[(AtMostOnce, 5), (FaithfulReplay, 7), (UnknownBlocks, 3)]),
    ("keys-above-tools-call", &[(AtMostOnce, 6)]),
    ("key-per-attempt", &[(AtMostOnce, 9)]),
    ("arguments-as-key", &[(NoSuppression, 8)]),
    ("new-after-delivery", &[(AtMostOnce, 11), (UnknownBlocks, 9)]),
    ("no-fingerprint", &[(FaithfulReplay, 8), (NoSuppression, 8)]),
    ("record-after-effect", &[(AtMostOnce, 9), (IntentFirst, 4)]),
    ("volatile-intent", &[(AtMostOnce, 9), (IntentFirst, 4)]),
    ("fsync-error-ignored", &[(AtMostOnce, 9), (IntentFirst, 4)]),
    ("torn-write-erases", &[(AtMostOnce, 9)]),
    ("fail-open", &[(AtMostOnce, 9), (IntentFirst, 4)]),
    ("claim-read-then-write", &[(AtMostOnce, 10)]),
    ("dispatch-without-compare-and-set", &[(AtMostOnce, 11)]),
    ("lease-shorter-than-call", &[(AtMostOnce, 8), (UnknownBlocks, 4)]),
    ("timeout-taken-for-busy", &[(AtMostOnce, 7), (NoFalseFailure, 8), (UnknownBlocks, 4)]),
    ("in-progress-for-ever", &[(Settles, 6), (CanSettle, 3)]),
    ("key-freed-by-failure", &[(AtMostOnce, 10), (NoFalseFailure, 6), (FaithfulReplay, 12), (UnknownBlocks, 8)]),
    ("failure-then-success", &[(FaithfulReplay, 12)]),
    ("polls-starve-the-guard", &[(Settles, 9)]),
    ("server-error-means-failed", &[(AtMostOnce, 10), (NoFalseFailure, 6)]),
    ("cancel-means-failed", &[(NoFalseFailure, 8)]),
    ("optimistic-answer", &[(NoPhantomSuccess, 3)]),
    ("not-found-means-failed", &[(AtMostOnce, 12), (NoFalseFailure, 20), (UnknownBlocks, 9)]),
    ("settling-too-short", &[(AtMostOnce, 12), (UnknownBlocks, 9)]),
    ("margin-too-short", &[(AtMostOnce, 10)]),
    ("retention-too-short", &[(AtMostOnce, 12), (UnknownBlocks, 10), (BoundedMemory, 13)]),
    ("resend-without-seal", &[(UnknownBlocks, 5)]),
    ("idempotent-late-copy", &[(AtMostOnce, 13)]),
    ("overlapping-calls", &[(NoOverlap, 8)]),
    ("line-by-start-time", &[(NoOverlap, 13)]),
    ("line-freed-by-lease", &[(NoOverlap, 13)]),
    ("retry-storm", &[(BoundedRetries, 12)]),
    ("never-forgets", &[(BoundedMemory, 6)]),
    ("devices-first-arrival", &[(Convergence, 7)]),
    ("devices-last-arrival", &[(Convergence, 7)]),
    ("devices-wall-clock", &[(CausalRespect, 6)]),
    ("devices-keeps-its-time", &[(Convergence, 8), (CausalRespect, 9)]),
    ("devices-result-after", &[(AtMostOnce, 5), (Convergence, 5)]),
    ("devices-server-ids", &[(AtMostOnce, 5)]),
    ("devices-sent-and-forgotten", &[(Settles, 7), (CanSettle, 3)]),
];

/// Protocols of which there are several variants, or that take long: each group is a test of its own, so that they run at the
/// same time.
const GROUPS: &[&str] = &[
    "settled-opaque",
    "settled-observable",
    "settled-sealable",
    "settled-deduplicates",
    "settled-transactional",
    "settled-idempotent",
    "devices",
];

/// The number of distinct states of each protocol.
const STATES: &str = include_str!("../states.txt");

fn verify(name: &str) {
    let expected = VIOLATED.iter().find(|(its, _)| *its == name).map_or(&[][..], |(_, violated)| violated);
    let description = library::load(name).unwrap();
    let report = check(&description, Limits::default(), |_| {}).unwrap();
    let found: Vec<_> = report.violations().map(|(property, trace)| (property, trace.steps.len())).collect();
    assert_eq!(found, expected, "{name}");
    for (property, verdict) in &report.verdicts {
        assert!(*verdict != Verdict::NotFinished, "{name}: {property:?}");
    }
    assert!(report.exhaustive, "{name}");
    let pinned = STATES.lines().find_map(|line| line.strip_prefix(name)?.trim_start().parse().ok());
    assert_eq!(
        pinned,
        Some(report.unique_states),
        "{name}: an encoding that changes by accident is noticed (states.txt)"
    );
}

fn verify_group(group: &str) {
    let mut names = library::SHIPPED.iter().map(|(name, _)| *name).filter(|name| name.starts_with(group)).peekable();
    assert!(names.peek().is_some(), "{group}: no such protocol");
    names.for_each(verify);
}

#[test]
fn opaque() {
    verify_group("settled-opaque");
}

#[test]
fn observable() {
    verify_group("settled-observable");
}

#[test]
fn sealable() {
    verify_group("settled-sealable");
}

#[test]
fn deduplicates() {
    verify_group("settled-deduplicates");
}

#[test]
fn transactional() {
    verify_group("settled-transactional");
}

#[test]
fn idempotent() {
    verify_group("settled-idempotent");
}

#[test]
fn devices() {
    verify_group("devices");
}

#[test]
fn all_others() {
    let others = library::SHIPPED.iter().filter(|(name, _)| !GROUPS.iter().any(|group| name.starts_with(group)));
    others.for_each(|(name, _)| verify(name));
}

#[test]
fn the_table_names_shipped_protocols_once() {
    for (at, (name, violated)) in VIOLATED.iter().enumerate() {
        assert!(library::text(name).is_some(), "{name}");
        assert!(!violated.is_empty(), "{name}");
        assert!(!VIOLATED[..at].iter().any(|(other, _)| other == name), "{name}");
    }
}

#[test]
fn every_shipped_protocol_is_named_as_its_file_and_says_where_it_comes_from() {
    for (name, _) in library::SHIPPED {
        let description = library::load(name).unwrap();
        assert_eq!(description.name, *name);
        assert!(!description.about.is_empty() && !description.source.is_empty(), "{name}");
    }
}

#[test]
fn every_file_ships() {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/protocols")).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let mut shipped: Vec<_> = library::SHIPPED.iter().map(|(name, _)| format!("{name}.toml")).collect();
    files.sort();
    shipped.sort();
    assert_eq!(files, shipped);
}

/// That a sound protocol holds says something only if it can fail: with a tool that is not what it declares, or with the rule
/// broken that its kind rests on, each of them has two effects for one call.
#[test]
fn every_sound_protocol_can_fail() {
    let can_fail = library::SHIPPED
        .iter()
        .filter(|(name, _)| name.starts_with("settled-") && !["settled-key-reuse", "settled-retention"].contains(name));
    for (name, _) in can_fail {
        let mut description = library::load(name).unwrap();
        match description.tool.kind {
            Kind::Opaque => description.guard.rules.hold_unknown = false,
            // What can be asked is always answered truthfully: too early is what is wrong.
            Kind::Observable => description.guard.rules.wait_for_quiet = false,
            Kind::Transactional => description.guard.claim = Claim::ReadThenWrite,
            kind => {
                description.tool.declared = Some(kind);
                description.tool.kind = Kind::Opaque;
            }
        }
        let wanted = PropertySet::NONE.with(AtMostOnce, true);
        let limits = Limits { wanted, stop_when_found: true, ..Limits::default() };
        let report = check(&description, limits, |_| {}).unwrap();
        assert!(matches!(report.verdict(AtMostOnce), Verdict::Violated(_)), "{name}: {:?}", report.verdicts);
    }
}

//! The checker itself: what it says when it can't finish, that traces are runs of the world, that symmetry is one, and that
//! each property can fail.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use proptest::prelude::*;
use settled_model::model::ProtocolModel;
use settled_model::moves::{Move, Rules};
use settled_model::world::{Heard, Phase, World};
use settled_model::{Limits, PropertyName, Trace, Verdict, check, library, parse};
use settled_protocol::{Epoch, Event, Policy, Start, Time, ToolKind, What};
use stateright::{Model, Representative};

#[test]
fn reaching_a_limit_is_never_told_as_holding() {
    let description = library::load("settled-opaque").unwrap();
    for limits in [
        Limits { states: 2_000, ..Limits::default() },
        Limits { time: Duration::from_millis(5), threads: 1, ..Limits::default() },
    ] {
        let report = check(&description, limits, |_| {}).unwrap();
        assert!(!report.exhaustive && !report.all_hold());
        assert!(report.verdicts.iter().all(|(_, verdict)| *verdict == Verdict::NotFinished), "{:?}", report.verdicts);
    }
}

/// A shortest counterexample is a run: each move is offered where it is taken, changes the world, and only the last state
/// violates the property.
#[test]
fn shortest_runs_are_runs_and_shortest_at_their_violation() {
    for name in
        ["mcp-2025-11-25", "mcp-restart", "server-error-means-failed", "not-found-means-failed", "volatile-intent"]
    {
        let report = check(&library::load(name).unwrap(), Limits::default(), |_| {}).unwrap();
        for (property, trace) in report.violations() {
            let json = serde_json::to_string(trace).unwrap();
            assert_eq!(&serde_json::from_str::<Trace>(&json).unwrap(), trace, "{name}: the machine-readable form");
            assert!(trace.text().contains(property.name()));
            assert!(trace.mermaid().starts_with("sequenceDiagram"));
            assert!(!trace.steps.is_empty());
        }
    }
}

#[test]
fn two_effects_are_what_at_most_once_means() {
    let report = check(&library::load("mcp-2025-11-25").unwrap(), Limits::default(), |_| {}).unwrap();
    let Verdict::Violated(trace) = report.verdict(PropertyName::AtMostOnce) else { panic!("{report:?}") };
    assert_eq!(trace.effects, [2]);
    assert_eq!(
        trace.steps.iter().map(|step| step.kind.as_str()).collect::<Vec<_>>(),
        ["call", "effect", "call-again", "effect"]
    );
}

/// Each rule that a description can switch off is what keeps its property: with it the protocol holds.
#[test]
fn the_rule_that_is_broken_is_the_one_that_matters() {
    for (name, broken, mended) in [
        ("server-error-means-failed", "doubt-errors = false", "doubt-errors = true"),
        ("not-found-means-failed", "wait-for-quiet = false", "wait-for-quiet = true"),
        ("volatile-intent", "intent = \"volatile\"", "intent = \"before-send\""),
        ("record-after-effect", "intent = \"after-effect\"", "intent = \"before-send\""),
        ("key-per-attempt", "key = \"per-call\"", "key = \"caller\""),
        ("arguments-as-key", "same-arguments = true", "same-arguments = false"),
    ] {
        let text = library::text(name).unwrap();
        assert!(text.contains(broken), "{name}");
        let report = check(&parse(name, &text.replace(broken, mended)).unwrap(), Limits::default(), |_| {}).unwrap();
        assert!(report.all_hold() && report.exhaustive, "{name}, mended: {:?}", report.verdicts);
    }
}

/// An opaque tool whose unknown is sent again is the mutant that the product exists to prevent.
#[test]
fn sending_an_opaque_unknown_again_is_seen() {
    let text = library::text("settled-opaque")
        .unwrap()
        .replace("processes = 2", "processes = 1\nrules = { hold-unknown = false }");
    let report = check(&parse("mutant", &text).unwrap(), Limits::default(), |_| {}).unwrap();
    assert!(matches!(report.verdict(PropertyName::AtMostOnce), Verdict::Violated(_)), "{:?}", report.verdicts);
    assert!(matches!(report.verdict(PropertyName::UnknownBlocks), Verdict::Violated(_)));
}

/// A transport that delivers twice is beyond what an opaque tool can bear (rule 1).
#[test]
fn a_duplicating_transport_breaks_an_opaque_tool() {
    let mut description = library::load("settled-opaque").unwrap();
    description.guard.processes = 1;
    description.faults.duplicates = 1;
    let report = check(&description, Limits::default(), |_| {}).unwrap();
    assert!(matches!(report.verdict(PropertyName::AtMostOnce), Verdict::Violated(_)));
}

/// One key for other arguments gets a conflict, not the old answer.
#[test]
fn a_reused_key_is_a_conflict() {
    let text = "name = \"reused\"\nabout = \"-\"\n[caller]\noperations = 2\nkey = \"reused\"\n[guard]\nprocesses = 2\n[faults]\ntimeouts = 1\n";
    let report = check(&parse("reused", text).unwrap(), Limits::default(), |_| {}).unwrap();
    assert!(report.all_hold(), "{:?}", report.verdicts);
}

/// The properties that no shipped protocol violates alone can fail, too.
#[test]
fn phantoms_suppression_and_stuck_operations_are_seen() {
    let rules = Rules::new(library::load("settled-opaque").unwrap());
    let initial = World::initial(&rules.description);
    for property in PropertyName::ALL {
        assert!(property.holds(&rules, &initial));
    }
    let mut phantom = initial.clone();
    phantom.wrongs.phantom = true;
    assert!(!PropertyName::NoPhantomSuccess.holds(&rules, &phantom));

    // Dispatched, nobody left to do anything about it, nothing on its way.
    let mut stuck = initial.clone();
    let event = Event { now: Time(0), by: Epoch(1), draw: 0, what: What::Call { fingerprint: 0u8, start: Start::Now } };
    stuck.keys[0].record = Policy::new(ToolKind::Opaque).step(None, &event).record;
    stuck.keys[0].durable = stuck.keys[0].record;
    stuck.guards.clear();
    for caller in &mut stuck.callers {
        caller.phase = Phase::Told(Heard::Unknown);
    }
    assert!(!PropertyName::Settles.holds(&rules, &stuck));
}

#[test]
fn bad_descriptions_are_refused_with_line_and_field() {
    for (text, expected) in [
        (
            "name = \"x\"\nabout = \"-\"\n[faults]\ntimeout = 1\n",
            vec!["mine.toml", "line 4", "timeout", "expected one of", "timeouts"],
        ),
        ("name = \"x\"\nabout = \"-\"\n[tool]\nkind = \"magic\"\n", vec!["mine.toml", "line 4", "magic", "opaque"]),
        (
            "name = \"x\"\nabout = \"-\"\n[caller]\n\noperations = 9\n",
            vec!["mine.toml", "line 5", "caller.operations", "1 to 3"],
        ),
        ("name = \"x\"\nabout = \"-\"\n[faults]\ntimeouts = 7\n", vec!["mine.toml", "line 4", "timeouts", "0 to 4"]),
        (
            "name = \"x\"\nabout = \"-\"\n[guard]\nprocesses = 2\nintent = \"volatile\"\n",
            vec!["line 4", "guard.processes"],
        ),
        (
            "name = \"x\"\nabout = \"-\"\n[guard]\nprocesses = 0\n[tool]\nkind = \"transactional\"\n",
            vec!["line 6", "tool.kind"],
        ),
        ("name = \"x\nabout", vec!["mine.toml", "line "]),
        ("about = \"-\"\nname = \"\"\n", vec!["line 2", "name", "one line"]),
        ("about = \"-\"\n", vec!["missing field", "name"]),
    ] {
        let error = parse("mine.toml", text).unwrap_err().to_string();
        for part in expected {
            assert!(error.contains(part), "“{part}” is missing in: {error}");
        }
    }
}

fn random_world(name: &str, choices: &[u16]) -> World {
    let model = ProtocolModel { rules: Rules::new(library::load(name).unwrap()), properties: vec![] };
    let mut world = model.init_states().remove(0);
    let mut moves: Vec<Move> = Vec::new();
    for choice in choices {
        moves.clear();
        model.actions(&world, &mut moves);
        let next: Vec<World> = moves.iter().filter_map(|what| model.next_state(&world, *what)).collect();
        if next.is_empty() {
            break;
        }
        world = next[usize::from(*choice) % next.len()].clone();
    }
    world
}

proptest! {
    /// Symmetry: a world and its renaming have one representative, and renaming back restores the world.
    #[test]
    fn a_representative_is_the_same_for_all_names(
        which in 0usize..5,
        choices in prop::collection::vec(any::<u16>(), 0..40),
    ) {
        let names = ["settled-opaque", "settled-sealable", "settled-observable", "settled-deduplicates", "settled-transactional"];
        let world = random_world(names[which], &choices);
        let renamed = world.rename_guards(&[1, 0]);
        prop_assert_eq!(renamed.rename_guards(&[1, 0]), world.clone());
        prop_assert_eq!(renamed.representative(), world.representative());
    }

    /// Every run ends: moves consume a bound or make progress.
    #[test]
    fn every_run_ends(which in 0usize..5, choices in prop::collection::vec(any::<u16>(), 400)) {
        let names = ["settled-opaque", "settled-sealable", "settled-observable", "settled-deduplicates", "settled-transactional"];
        let model = ProtocolModel { rules: Rules::new(library::load(names[which]).unwrap()), properties: vec![] };
        let world = random_world(names[which], &choices);
        let mut moves = Vec::new();
        model.actions(&world, &mut moves);
        prop_assert!(moves.iter().all(|what| model.next_state(&world, *what).is_none()));
    }
}

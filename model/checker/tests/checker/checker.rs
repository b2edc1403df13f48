//! The checker itself: what it says when it can't finish, that traces are runs of the world, and that bad descriptions are
//! refused with what to do.

use std::time::Duration;

use crate::support::{assert_holds, found, happens, protocol, trace, violates};
use proptest::prelude::*;
use settled_explorer::{Options, Run, explore};
use settled_model::world::{Move, World};
use settled_model::{
    Description, Fault, Faults, Limits, PropertyName, PropertySet, Rules, System, Trace, Verdict, check, library, parse,
};

/// A world of some size.
const SOUND: &str = "guard.processes = 2; faults.timeouts = 1; faults.guard-crashes = 1; faults.takeovers = 1
    faults.lost-replies = 1; faults.errors-after = 1; faults.reruns = 1; faults.duplicates = 1
    tool.kind = 'deduplicates'; guard.single-delivery = false";

#[test]
fn reaching_a_limit_is_never_told_as_holding() {
    let description = protocol(SOUND);
    for limits in [
        Limits { states: 500, threads: 1, ..Limits::default() },
        Limits { time: Duration::ZERO, threads: 1, ..Limits::default() },
    ] {
        let report = check(&description, limits, |_| {}).unwrap();
        assert!(!report.exhaustive && !report.all_hold());
        for (property, verdict) in &report.verdicts {
            assert!(
                matches!(verdict, Verdict::NotFinished | Verdict::NotApplicable),
                "{}: {verdict:?}",
                property.name()
            );
        }
    }
    assert!(check(&description, Limits::default(), |_| {}).unwrap().all_hold());
}

/// What was violated before the limit was reached is told, and nothing else is.
#[test]
fn a_violation_is_told_even_if_not_all_was_explored() {
    let description = protocol(&format!("{SOUND}; caller.key = 'per-call'"));
    let whole = check(&description, Limits::default(), |_| {}).unwrap();
    let limits = Limits { states: whole.unique_states / 2, threads: 1, ..Limits::default() };
    let report = check(&description, limits, |_| {}).unwrap();
    assert!(!report.exhaustive && violates(&report, PropertyName::AtMostOnce));
    assert_eq!(report.verdict(PropertyName::IntentFirst), &Verdict::NotFinished);
}

#[test]
fn only_what_is_wanted_is_looked_at() {
    let description = protocol("caller.key = 'per-call'; faults.reruns = 2; caller.calls = 3");
    let wanted: PropertySet = [PropertyName::AtMostOnce].into_iter().collect();
    let some = check(&description, Limits { wanted, ..Limits::default() }, |_| {}).unwrap();
    assert!(violates(&some, PropertyName::AtMostOnce));
    let others = some.verdicts.iter().filter(|(property, _)| *property != PropertyName::AtMostOnce);
    assert!(others.into_iter().all(|(_, verdict)| *verdict == Verdict::NotApplicable));
    let soon = check(&description, Limits { wanted, stop_when_found: true, ..Limits::default() }, |_| {}).unwrap();
    assert!(!soon.exhaustive && soon.unique_states < some.unique_states);
    assert_eq!(trace(&soon, PropertyName::AtMostOnce).steps.len(), trace(&some, PropertyName::AtMostOnce).steps.len());
}

#[test]
fn results_are_the_same_for_any_number_of_threads() {
    let description = protocol(&format!("{SOUND}; caller.key = 'per-call'"));
    let description =
        Description { faults: Faults { takeovers: 0, duplicates: 0, ..description.faults }, ..description };
    let one = check(&description, Limits { threads: 1, ..Limits::default() }, |_| {}).unwrap();
    let two = check(&description, Limits { threads: 2, ..Limits::default() }, |_| {}).unwrap();
    assert_eq!((one.unique_states, one.transitions, one.depth), (two.unique_states, two.transitions, two.depth));
    assert_eq!(one.verdicts, two.verdicts);
    assert!(one.violations().count() > 0);
}

fn violated_in(rules: &Rules, world: &World) -> PropertySet {
    System::violated(rules, world)
}

/// Replays a run: each move is offered and changes the world, and only the last world violates the property.
fn replay(rules: &Rules, property: PropertyName, run: &Run<Move>) {
    let (mut world, mut left) = (rules.initial(), rules.bounds());
    for (what, fault) in &run.moves {
        assert!(!violated_in(rules, &world).has(property), "{} is violated earlier", property.name());
        let mut moves = Vec::new();
        System::moves(rules, &world, left, &mut moves);
        assert!(moves.contains(&(*what, *fault)), "{what:?} is not offered");
        left = fault.map_or(left, |fault| left.spend(fault).unwrap());
        world = System::apply(rules, &world, *what).unwrap();
    }
    if !matches!(property, PropertyName::Settles | PropertyName::CanSettle | PropertyName::BoundedMemory) {
        assert!(violated_in(rules, &world).has(property), "{} is not violated at the end", property.name());
    }
}

#[test]
fn shortest_runs_are_runs_and_can_be_read() {
    let mut replayed = 0;
    for (name, _) in library::SHIPPED {
        let description = library::load(name).unwrap();
        if description.devices.is_some() {
            continue;
        }
        let rules = Rules::new(description);
        let options = Options { states: 50_000, threads: 1, ..Options::default() };
        for (property, run) in &explore(&rules, &options, &mut |_| {}).violations {
            replay(&rules, *property, run);
            let trace = Trace::of(&rules, *property, &run.moves, run.round);
            let json = serde_json::to_string(&trace).unwrap();
            assert_eq!(serde_json::from_str::<Trace>(&json).unwrap(), trace, "{name}: the machine-readable form");
            assert!(trace.text().contains(property.name()), "{name}");
            assert!(trace.mermaid().starts_with("sequenceDiagram"), "{name}");
            let faults = trace.steps.iter().filter(|step| step.fault.is_some()).count();
            let counted: u8 = trace.faults.list().iter().map(|(_, times)| times).sum();
            assert_eq!((trace.steps.len(), faults), (run.moves.len(), usize::from(counted)), "{name}");
            replayed += 1;
        }
    }
    assert!(replayed >= 15, "{replayed}");
}

#[test]
fn two_effects_are_what_at_most_once_means() {
    let report = found("guard.processes = 0; faults.timeouts = 1");
    let run = trace(&report, PropertyName::AtMostOnce);
    assert_eq!(run.effects, [2]);
    let kinds: Vec<_> = run.steps.iter().map(|step| step.kind.as_str()).collect();
    assert_eq!(kinds, ["call", "effect", "call-again", "effect"]);
}

/// A transport that delivers twice is beyond what an opaque tool can bear (rule 1).
#[test]
fn a_duplicating_transport_breaks_an_opaque_tool() {
    assert!(violates(&found("faults.duplicates = 1"), PropertyName::AtMostOnce));
    assert_holds("faults.duplicates = 1; guard.single-delivery = false; tool.kind = 'sealable'");
}

/// One key for other arguments gets a conflict, not the old answer.
#[test]
fn a_reused_key_is_a_conflict() {
    let reused = "caller.operations = 2; caller.key = 'reused'; guard.processes = 2; faults.timeouts = 1";
    assert_holds(reused);
    assert!(violates(&found(&format!("{reused}; guard.rules.check-arguments = false")), PropertyName::FaithfulReplay));
}

/// One that has used another's key goes on with its own, which it has never used.
#[test]
fn after_a_failure_under_a_reused_key_comes_a_key_of_ones_own() {
    assert_holds("caller.operations = 2; faults.key-reuses = 1; faults.rejections = 1");
}

/// What can't happen is refused by the field's name; of what is not refused everything happens somewhere.
#[test]
fn every_fault_can_happen_where_it_is_not_refused() {
    let settings = [
        "guard.processes = 0",
        "guard.processes = 2; tool.kind = 'observable'",
        "caller.operations = 2; guard.window = 2; caller.horizon = 1",
        "caller.operations = 2; ledger.keeps = 'shortly'; ledger.acknowledged = 'unreplicated'",
    ];
    let mut refused = 0;
    for fault in Fault::ALL {
        let mut happened = false;
        for setting in settings {
            let mut description: Description = protocol(setting);
            // Where nothing else happens nothing is unknown, and nobody needs to decide it.
            description.faults.timeouts = 1;
            *description.faults.of(*fault) = 1;
            if description.cannot_happen(*fault).is_some() {
                let error = description.validate().unwrap_err().to_string();
                assert!(error.starts_with(&format!("faults.{}: ", fault.name())), "{error}");
                refused += 1;
            } else {
                happened |= happens(&Rules::new(description), *fault);
            }
        }
        assert!(happened, "{} never happens", fault.name());
    }
    assert!(refused > 20, "{refused}");
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
            "name = \"x\"\nabout = \"-\"\n[guard]\nprocesses = 2\nintent = \"after-effect\"\n",
            vec!["line 4", "guard.processes"],
        ),
        (
            "name = \"x\"\nabout = \"-\"\n[guard]\nprocesses = 0\n[tool]\nkind = \"transactional\"\n",
            vec!["line 6", "tool.kind"],
        ),
        (
            "name = \"x\"\nabout = \"-\"\n[tool]\nkind = \"transactional\"\ndeclared = \"opaque\"\n",
            vec!["line 5", "tool.declared"],
        ),
        ("name = \"x\"\nabout = \"-\"\n[faults]\ntakeovers = 1\n", vec!["line 4", "faults.takeovers", "second guard"]),
        (
            "name = \"x\"\nabout = \"-\"\n[caller]\noperations = 3\ncalls = 4\n[faults]\nkey-reuses = 1\n",
            vec!["line 5", "caller.calls", "at most 6 keys"],
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

/// Where a walk that draws its moves ends, or is after all draws.
fn walk(rules: &Rules, choices: &[u16]) -> (World, bool) {
    let (mut world, mut left) = (rules.initial(), rules.bounds());
    for choice in choices {
        let mut moves = Vec::new();
        System::moves(rules, &world, left, &mut moves);
        let next: Vec<_> = moves
            .into_iter()
            .filter_map(|(what, fault)| {
                let left = fault.map_or(Some(left), |fault| left.spend(fault))?;
                Some((System::apply(rules, &world, what)?, left))
            })
            .collect();
        if next.is_empty() {
            return (world, true);
        }
        (world, left) = next[usize::from(*choice) % next.len()];
    }
    (world, false)
}

const KINDS: [&str; 6] = ["opaque", "observable", "sealable", "deduplicates", "transactional", "idempotent"];

fn walked(kind: usize) -> Rules {
    let lines = "guard.processes = 2; faults.timeouts = 1; faults.guard-crashes = 1; faults.takeovers = 1
        faults.lost-replies = 1; faults.reorderings = 1; faults.ledger-partitions = 1; faults.cancels = 1";
    Rules::new(protocol(&format!("{lines}; tool.kind = '{}'", KINDS[kind])))
}

proptest! {
    /// Renaming guards and renaming them back restores the world.
    #[test]
    fn names_can_be_restored(kind in 0..KINDS.len(), choices in prop::collection::vec(any::<u16>(), 0..40)) {
        let rules = walked(kind);
        let (world, _) = walk(&rules, &choices);
        let renamed = rules.rename_guards(&world, &[1, 0]);
        prop_assert_eq!(rules.rename_guards(&renamed, &[1, 0]), world);
        prop_assert_eq!(rules.violated(&renamed), rules.violated(&world));
        prop_assert_eq!(rules.ended(&renamed), rules.ended(&world));
    }

    /// Without polls every run ends: moves consume a bound or make progress.
    #[test]
    fn every_run_ends(kind in 0..KINDS.len(), choices in prop::collection::vec(any::<u16>(), 400)) {
        let (_, ended) = walk(&walked(kind), &choices);
        prop_assert!(ended);
    }
}

//! What need not be explored changes no verdict and no length of a shortest run: every shipped protocol is explored with
//! every reduction and without, and with stateright.
//!
//! Where the world without reductions is too large, the protocol is made smaller until it is not: fewer processes, then fewer
//! calls, then fewer faults.

use std::time::Duration;

use crate::support::{protocol, violated};
use settled_explorer::contract;
use settled_model::{
    Description, Fault, Limits, Plain, PropertyName, Reductions, Report, Rules, Verdict, check, library,
};
use stateright::{Checker, Model};

/// The largest world that is explored without reductions.
const MOST: usize = 40_000;

fn with(description: &Description, reductions: Reductions) -> Report {
    let limits = Limits { states: MOST, time: Duration::from_secs(60), threads: 1, reductions, ..Limits::default() };
    check(description, limits, |_| {}).unwrap()
}

/// Smaller and smaller versions of a protocol, itself first. Each can be built.
fn smaller(description: &Description) -> Vec<Description> {
    let mut all = vec![description.clone()];
    let mut next = description.clone();
    let mut change = |next: &Description| {
        if next.validate().is_ok() {
            all.push(next.clone());
        }
    };
    next.guard.processes = next.guard.processes.min(2);
    next.caller.operations = next.caller.operations.min(2);
    for fault in Fault::ALL {
        let bound = next.faults.of(*fault);
        *bound = (*bound).min(1);
    }
    change(&next);
    next.caller.calls = next.caller.calls.min(2);
    change(&next);
    for fault in Fault::ALL.iter().rev() {
        if *next.faults.of(*fault) > 0 {
            *next.faults.of(*fault) = 0;
            change(&next);
        }
    }
    next.guard.processes = next.guard.processes.min(1);
    change(&next);
    all
}

/// The largest version that can be explored without reductions, and what was found.
fn baseline(description: &Description) -> (Description, Report) {
    let finished = |version: Description| {
        let report = with(&version, Reductions::NONE);
        report.exhaustive.then_some((version, report))
    };
    smaller(description).into_iter().find_map(finished).unwrap_or_else(|| panic!("{} is too large", description.name))
}

/// Every verdict, with the length of its shortest run. Two operations come to rest later than the one that stands for them:
/// so where one does, what is decided at rest is compared without its length.
fn verdicts(report: &Report, one_stands_for_all: bool) -> Vec<(PropertyName, Option<usize>)> {
    let at_rest = [PropertyName::Settles, PropertyName::CanSettle, PropertyName::BoundedMemory];
    let length = |property, verdict: &Verdict| match verdict {
        Verdict::Violated(_) if one_stands_for_all && at_rest.contains(&property) => Some(0),
        Verdict::Violated(trace) => Some(trace.steps.len()),
        Verdict::Holds | Verdict::NotApplicable => None,
        Verdict::NotFinished => panic!("not finished: {}", report.description.name),
    };
    report.verdicts.iter().map(|(property, verdict)| (*property, length(*property, verdict))).collect()
}

const EACH: [(&str, Reductions); 5] = [
    ("all", Reductions::ALL),
    ("symmetry", Reductions { symmetry: true, ..Reductions::NONE }),
    ("budgets", Reductions { budgets: true, ..Reductions::NONE }),
    ("operations", Reductions { operations: true, ..Reductions::NONE }),
    ("messages", Reductions { messages: true, ..Reductions::NONE }),
];

fn shipped() -> Vec<Description> {
    library::SHIPPED.iter().map(|(name, _)| library::load(name).unwrap()).collect()
}

#[test]
fn no_reduction_changes_what_is_found() {
    let (mut compared, mut whole, mut with_faults) = (0, 0, 0);
    let mut reduced = [0; EACH.len()];
    for description in shipped() {
        let (version, plain) = baseline(&description);
        for (at, (which, reductions)) in EACH.iter().enumerate() {
            let report = with(&version, *reductions);
            let one = report.operations_explored < version.caller.operations;
            assert_eq!(
                verdicts(&report, one),
                verdicts(&plain, one),
                "{}, {which}:\n{}",
                version.name,
                toml::to_string(&version).unwrap()
            );
            reduced[at] += usize::from(report.unique_states < plain.unique_states);
            compared += 1;
        }
        whole += usize::from(version == description);
        with_faults += usize::from(version.faults.list().iter().any(|(_, bound)| *bound > 0));
    }
    assert_eq!(compared, EACH.len() * library::SHIPPED.len());
    // Each of them is at work somewhere, so that something was compared.
    for ((which, _), times) in EACH.iter().zip(reduced) {
        assert!(times > 0 || *which == "operations", "{which} reduces nothing");
    }
    let shipped = library::SHIPPED.len();
    assert!(whole * 2 > shipped && with_faults * 10 > shipped * 8, "{whole} whole, {with_faults} with faults");
}

/// Of operations that have nothing in common one stands for all.
#[test]
fn one_operation_stands_for_those_that_are_independent() {
    let mut compared = 0;
    for description in shipped() {
        let mut two = description.clone();
        two.caller.operations = 2;
        if !two.operations_are_independent() {
            continue;
        }
        let (two, plain) = baseline(&two);
        if two.caller.operations < 2 {
            continue;
        }
        let report = with(&two, Reductions { operations: true, ..Reductions::NONE });
        assert_eq!(report.operations_explored, 1, "{}", two.name);
        assert_eq!(
            verdicts(&report, true),
            verdicts(&plain, true),
            "{}:\n{}",
            two.name,
            toml::to_string(&two).unwrap()
        );
        assert!(report.unique_states < plain.unique_states, "{}", two.name);
        compared += 1;
    }
    assert!(compared >= 10, "{compared}");
}

/// Operations that share something are never explored one at a time.
#[test]
fn operations_that_share_something_are_not_independent() {
    let two = "caller.operations = 2";
    assert!(protocol(two).operations_are_independent());
    for shared in [
        "caller.key = 'arguments'",
        "caller.key = 'reused'",
        "caller.sequential = true",
        "caller.same-resource = true",
        "faults.key-reuses = 1",
        "budget.fleet = 2",
    ] {
        assert!(!protocol(&format!("{two}; {shared}")).operations_are_independent(), "{shared}");
    }
}

#[test]
fn every_shipped_world_keeps_the_explorers_contract() {
    let mut checked = 0;
    for description in shipped().into_iter().filter(|description| description.devices.is_none()) {
        let rules = Rules::new(description);
        contract::check(&rules, 400).unwrap_or_else(|broken| panic!("{}: {broken}", rules.description.name));
        checked += 1;
    }
    assert!(checked >= 15, "{checked}");
}

/// Stateright, which knows no reduction, finds as many states and the same violations.
#[test]
fn stateright_finds_the_same() {
    let (mut compared, mut violations) = (0, 0);
    for description in shipped().into_iter().filter(|description| description.devices.is_none()) {
        let reductions = Reductions { messages: true, ..Reductions::NONE };
        let version = smaller(&description).into_iter().find(|version| {
            let report = with(version, reductions);
            report.exhaustive && report.unique_states < 5_000
        });
        let version = version.unwrap_or_else(|| panic!("{} is too large", description.name));
        let report = with(&version, reductions);
        let checker = Plain::new(Rules::new(version.clone())).checker().threads(1).spawn_bfs().join();
        assert_eq!(checker.unique_state_count(), report.unique_states, "{}", version.name);
        // Rounds are what a search without the graph can't see.
        let graph = |property: &PropertyName| {
            *property == PropertyName::CanSettle
                || matches!(report.verdict(*property), Verdict::Violated(trace) if trace.round.is_some())
        };
        let mine: Vec<_> = violated(&report).into_iter().filter(|property| !graph(property)).collect();
        let found: Vec<_> = PropertyName::ALL
            .iter()
            .copied()
            .filter(|property| !graph(property) && checker.discoveries().contains_key(property.name()))
            .collect();
        assert_eq!(found, mine, "{}", version.name);
        compared += 1;
        violations += mine.len();
    }
    assert!(compared >= 15 && violations >= 10, "{compared} compared, {violations} violations");
}

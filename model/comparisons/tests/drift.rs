//! Two accounts of one protocol: the Promela models, written by hand from the design, and the checker's world around the core.
//! At the same bounds they have the same number of states and violate the same properties; so a change of one is noticed.
//!
//! Without Spin these tests say so and pass, unless `SETTLED_NEED_SPIN=1`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use settled_comparisons::measure::Counted;
use settled_comparisons::spin::{Options, SpinError, check_text};
use settled_comparisons::suite::SPIN_FAULTS;
use settled_comparisons::{Promela, counted};
use settled_model::{Description, Fault, Limits, Reductions, library};

/// What both leave out: messages that can't matter any more. Nothing else.
const SAME: Reductions = Reductions { messages: true, ..Reductions::NONE };

/// The faults that a model knows, with its macro for each.
fn macros(model: Promela) -> Vec<(Fault, String)> {
    let name = |fault: &Fault| fault.name().replace('-', "_").to_uppercase();
    let known = |name: &String| model.text().contains(&format!("#ifndef {name}\n"));
    Fault::ALL.iter().map(|fault| (*fault, name(fault))).filter(|(_, name)| known(name)).collect()
}

fn ours(description: &Description, reductions: Reductions) -> Counted {
    let limits = Limits { reductions, threads: 1, ..Limits::default() };
    counted(&settled_model::check(description, limits, |_| {}).unwrap())
}

/// What Spin finds within the description's bounds. `None`: it is not installed.
fn spins(model: Promela, text: &str, description: &Description, keep: bool) -> Option<Counted> {
    let macros = macros(model);
    let of = |fault: Fault| description.faults.list().into_iter().find(|(its, _)| *its == fault).unwrap().1;
    for (fault, bound) in description.faults.list() {
        assert!(bound == 0 || macros.iter().any(|(its, _)| *its == fault), "{} knows no {fault:?}", model.name());
    }
    let mut bounds: Vec<(&str, u32)> =
        macros.iter().map(|(fault, name)| (name.as_str(), u32::from(of(*fault)))).collect();
    bounds.push(("CALLS", description.caller.calls.into()));
    if model == Promela::Sealable {
        bounds.push(("GUARDS", description.guard.processes.into()));
        bounds.push(("ATTEMPTS", description.tool.attempts.into()));
        bounds.extend(keep.then_some(("KEEPS_ALL", 1)));
    }
    let options = Options {
        memory: 2_048,
        time: Duration::from_secs(120),
        hash_bits: 18,
        optimised: false,
        ..Options::default()
    };
    match check_text(text, &bounds, &options) {
        Err(error @ SpinError::Missing { .. }) if std::env::var_os("SETTLED_NEED_SPIN").is_none_or(|it| it != "1") => {
            eprintln!("not run: {error}");
            None
        }
        other => {
            let its = other.unwrap();
            let mut violated = its.property_names();
            violated.sort();
            Some(Counted { unique_states: its.states, transitions: 0, violated, exhaustive: true })
        }
    }
}

fn agree(model: Promela, description: &Description, reductions: Reductions) -> bool {
    agree_on(model, model.text(), description, reductions)
}

fn agree_on(model: Promela, text: &str, description: &Description, reductions: Reductions) -> bool {
    let Some(theirs) = spins(model, text, description, !reductions.messages) else { return false };
    let ours = ours(description, reductions);
    assert!(ours.exhaustive);
    let what = format!("{}: {:?}, {} calls", model.name(), description.faults, description.caller.calls);
    assert_eq!((ours.unique_states, ours.violated), (theirs.unique_states, theirs.violated), "{what}");
    true
}

fn sealable(processes: u8, faults: &[(Fault, u8)]) -> Description {
    let mut description = settled_model::parse("spin-faults", SPIN_FAULTS).unwrap();
    description.guard.processes = processes;
    description.faults = Default::default();
    for (fault, bound) in faults {
        *description.faults.of(*fault) = *bound;
    }
    description
}

#[test]
fn a_direct_caller_as_it_ships() {
    agree(Promela::Mcp, &library::load("mcp-2025-11-25").unwrap(), Reductions::NONE);
}

#[test]
fn a_direct_caller_with_each_fault_and_with_all() {
    let mut description = library::load("mcp-2025-11-25").unwrap();
    let faults: Vec<_> = macros(Promela::Mcp).into_iter().map(|(fault, _)| fault).collect();
    assert_eq!(faults.len(), 10);
    for fault in &faults {
        description.faults = Default::default();
        *description.faults.of(*fault) = 2;
        if !agree(Promela::Mcp, &description, Reductions::NONE) {
            return;
        }
    }
    faults.iter().for_each(|fault| *description.faults.of(*fault) = 1);
    description.caller.calls = 3;
    assert!(agree(Promela::Mcp, &description, Reductions::NONE));
}

/// Each fault of the Promela model alone, twice where that is possible.
#[test]
fn a_guard_of_a_sealable_tool_with_each_fault() {
    let faults = macros(Promela::Sealable);
    assert_eq!(faults.len(), 14);
    for (fault, _) in faults {
        let processes = if fault == Fault::Takeover { 2 } else { 1 };
        if !agree(Promela::Sealable, &sealable(processes, &[(fault, 2)]), SAME) {
            return;
        }
    }
}

#[test]
fn one_guard_and_all_faults_at_once() {
    let faults: Vec<_> = macros(Promela::Sealable).into_iter().map(|(fault, _)| fault).collect();
    let all: Vec<_> = faults.iter().filter(|fault| **fault != Fault::Takeover).map(|fault| (*fault, 1)).collect();
    // In halves: together they have too many states for a test.
    let (some, others) = all.split_at(all.len() / 2);
    if agree(Promela::Sealable, &sealable(1, some), SAME) {
        assert!(agree(Promela::Sealable, &sealable(1, others), SAME));
    }
}

/// The bounds that the Promela model has by itself.
#[test]
fn two_guards_at_the_bounds_of_the_file() {
    agree(Promela::Sealable, &settled_model::parse("spin-faults", SPIN_FAULTS).unwrap(), SAME);
}

/// Nothing left out on either side: so dropping messages is checked by Spin, too, and changes no verdict.
#[test]
fn with_every_message_kept() {
    for faults in [
        &[(Fault::Timeout, 1), (Fault::GuardCrash, 1)][..],
        &[(Fault::Duplicate, 1), (Fault::Rejection, 1)],
        &[(Fault::ToolCrashAfter, 1), (Fault::Reordering, 1), (Fault::ConcurrentCall, 1)],
    ] {
        if !agree(Promela::Sealable, &sealable(1, faults), Reductions::NONE) {
            return;
        }
    }
}

/// A guard that takes every error for one that proves that its copy did nothing. That is another protocol, in the same way on
/// both sides; and a change of one side alone is noticed.
#[test]
fn a_change_of_both_sides_is_the_same_and_of_one_is_noticed() {
    let doubts = ":: KIND(m) == UNPROVEN && record[k] == DISPATCHED -> unknown(k, ERROR)";
    let text = Promela::Sealable.text();
    assert_eq!(text.matches(doubts).count(), 1);
    let text = text.replace(doubts, &doubts.replace("ERROR)", "REFUSED)"));
    let sound = sealable(1, &[(Fault::ErrorAfter, 1), (Fault::ErrorBefore, 1), (Fault::Timeout, 1)]);
    let mut trusting = sound.clone();
    trusting.guard.rules.doubt_errors = false;
    if agree_on(Promela::Sealable, &text, &trusting, SAME) {
        let theirs = spins(Promela::Sealable, &text, &sound, false).unwrap();
        assert_ne!(theirs.unique_states, ours(&sound, SAME).unique_states);
    }
}

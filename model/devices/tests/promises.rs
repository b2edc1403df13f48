//! What is promised holds, and each broken choice breaks what it is known to break, and nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Found, search};
use settled_devices_model::description::{Apply, Clock, Dating, Merge, OpId, Queue, Redated, Target, Ties};
use settled_devices_model::{DeviceWorld, Devices, FAULTS};
use settled_explorer::PropertyName::{self, AtMostOnce, CanSettle, CausalRespect, Convergence, Settles};
use settled_explorer::{Fault, Faults, PropertySet, Trace};

/// Each of these may happen once.
fn once(which: &[Fault]) -> Faults {
    let mut faults = Faults::default();
    for fault in which {
        *faults.of(*fault) = 1;
    }
    faults
}

fn explore(devices: Devices, faults: &[Fault]) -> Found {
    search(&DeviceWorld::new("devices", &devices, once(faults)).unwrap())
}

fn set(properties: &[PropertyName]) -> PropertySet {
    properties.iter().copied().collect()
}

#[track_caller]
fn holds(devices: Devices, faults: &[Fault]) -> Found {
    let found = explore(devices, faults);
    let violated: Vec<_> = found.violated().iter().collect();
    assert!(violated.is_empty(), "{violated:?} with {faults:?}: {devices:#?}\n{:#?}", found.traces);
    found
}

/// With this fault, and not without it, exactly these properties are violated.
#[track_caller]
fn breaks(devices: Devices, fault: Option<Fault>, properties: &[PropertyName]) -> Found {
    if fault.is_some() {
        holds(devices, &[]);
    }
    let found = explore(devices, fault.as_slice());
    let violated: Vec<_> = found.violated().iter().collect();
    assert_eq!(violated, set(properties).iter().collect::<Vec<_>>(), "with {fault:?}: {devices:#?}");
    for trace in &found.traces {
        assert_eq!(trace.faults, once(fault.as_slice()), "{trace:#?}");
    }
    found
}

fn violation(found: &Found, property: PropertyName) -> &Trace {
    found.traces.iter().find(|trace| trace.property == property).unwrap()
}

fn one_each() -> Devices {
    Devices { operations: 1, ..Devices::default() }
}

fn three() -> Devices {
    Devices { devices: 3, operations: 1, ..Devices::default() }
}

#[test]
fn the_default_keeps_every_promise_under_every_fault() {
    let found = holds(three(), FAULTS);
    assert_eq!(found.states, 143_704);
    for fault in FAULTS {
        assert!(found.faults.contains(fault), "{fault:?} never happened");
    }
    let kinds = [
        "clock-skew",
        "clock-jump",
        "make",
        "send",
        "apply",
        "deduplicate",
        "lose-reply",
        "crash",
        "lose-request",
        "duplicate",
        "restart",
        "pull",
    ];
    for kind in kinds {
        assert!(found.kinds.contains(&kind), "{kind} never happened");
    }
}

#[test]
fn two_operations_each_keep_every_promise() {
    let messages = &FAULTS[2..];
    assert!(!messages.contains(&Fault::ClockSkew) && !messages.contains(&Fault::ClockJump));
    let counter = Devices { target: Target::Counter, ..Devices::default() };
    let logical = Devices { clock: Clock::Logical, ..Devices::default() };
    assert_eq!(holds(counter, FAULTS).states, 6_616);
    assert_eq!(holds(logical, FAULTS).states, 24_823);
    holds(Devices::default(), &[Fault::ClockSkew, Fault::ClockJump]);
    holds(Devices { clock: Clock::Wall, ..Devices::default() }, &[Fault::LostReply, Fault::Duplicate]);
    holds(Devices { merge: Merge::Earliest, ..Devices::default() }, &[Fault::ClockSkew, Fault::ClientCrash]);
    holds(Devices { merge: Merge::Earliest, ..one_each() }, FAULTS);
    holds(Devices { clock: Clock::Wall, ..one_each() }, messages);
}

#[test]
fn what_depends_on_arrival_diverges() {
    for devices in [one_each(), three(), Devices::default()] {
        breaks(Devices { merge: Merge::FirstArrival, ..devices }, None, &[Convergence]);
        breaks(Devices { ties: Ties::Arrival, clock: Clock::Logical, ..devices }, None, &[Convergence]);
        breaks(Devices { ties: Ties::Arrival, ..devices }, None, &[Convergence]);
        breaks(Devices { ties: Ties::Arrival, merge: Merge::Earliest, ..devices }, None, &[Convergence]);
    }
}

/// An update and the one that was made after seeing it can arrive in the wrong order only where one device makes both, or where
/// a third device pulls them.
#[test]
fn where_the_last_arrival_wins_even_what_was_seen_can_win() {
    breaks(Devices { merge: Merge::LastArrival, ..one_each() }, None, &[Convergence]);
    breaks(Devices { merge: Merge::LastArrival, ..three() }, None, &[Convergence, CausalRespect]);
    let two = breaks(Devices { merge: Merge::LastArrival, ..Devices::default() }, None, &[Convergence, CausalRespect]);
    let kinds: Vec<_> = violation(&two, CausalRespect).steps.iter().map(|step| step.kind.as_str()).collect();
    assert_eq!(kinds, ["make", "make", "send", "send", "apply", "apply"]);
}

#[test]
fn a_wall_clock_breaks_causal_respect_alone() {
    for devices in [one_each(), Devices::default(), three()] {
        let devices = Devices { clock: Clock::Wall, ..devices };
        for fault in [Fault::ClockSkew, Fault::ClockJump] {
            breaks(devices, Some(fault), &[CausalRespect]);
        }
    }
}

#[test]
fn a_record_after_the_effect_repeats_the_effect() {
    for devices in [one_each(), Devices::default(), three()] {
        let devices = Devices { apply: Apply::ResultAfter, ..devices };
        breaks(devices, Some(Fault::GuardCrash), &[AtMostOnce]);
        let counter = Devices { target: Target::Counter, ..devices };
        breaks(counter, Some(Fault::GuardCrash), &[AtMostOnce, Convergence]);
        holds(devices, &[Fault::LostReply, Fault::ClientCrash, Fault::Duplicate, Fault::LostRequest]);
    }
}

#[test]
fn a_name_from_the_server_makes_a_resend_another_operation() {
    for target in [Target::Register, Target::Counter] {
        for devices in [one_each(), Devices { devices: 1, ..Devices::default() }, Devices::default(), three()] {
            let devices = Devices { op_id: OpId::Server, target, ..devices };
            for fault in [Fault::LostReply, Fault::ClientCrash, Fault::Duplicate, Fault::GuardCrash] {
                breaks(devices, Some(fault), &[AtMostOnce]);
            }
            holds(devices, &[Fault::LostRequest]);
        }
    }
    let devices = Devices { devices: 1, op_id: OpId::Server, target: Target::Counter, ..Devices::default() };
    let more = Faults { lost_replies: 2, ..Faults::default() };
    let found = search(&DeviceWorld::new("devices", &devices, more).unwrap());
    assert_eq!(found.violated(), set(&[AtMostOnce]));
}

#[test]
fn what_is_sent_once_may_never_arrive() {
    for devices in [one_each(), three()] {
        let devices = Devices { queue: Queue::UntilSent, ..devices };
        breaks(devices, Some(Fault::LostRequest), &[Settles, CanSettle]);
        holds(devices, &[Fault::LostReply, Fault::ClientCrash, Fault::Duplicate, Fault::GuardCrash]);
    }
}

#[test]
fn traces_tell_what_happened() {
    let found = breaks(Devices { op_id: OpId::Server, ..one_each() }, Some(Fault::LostReply), &[AtMostOnce]);
    let trace = violation(&found, AtMostOnce);
    let kinds: Vec<_> = trace.steps.iter().map(|step| step.kind.as_str()).collect();
    assert_eq!(kinds, ["make", "send", "lose-reply", "send", "apply"]);
    assert_eq!(trace.effects, [2, 0]);
    assert_eq!(trace.steps[3].text, "operation 1a again, as it got no answer");

    let found = breaks(Devices { clock: Clock::Wall, ..one_each() }, Some(Fault::ClockSkew), &[CausalRespect]);
    let trace = violation(&found, CausalRespect);
    let last = trace.steps.last().unwrap();
    let steps: Vec<_> = trace.steps.iter().map(|step| format!("{}: {}", step.from, step.text)).collect();
    assert_eq!(
        steps,
        [
            "device 1: its clock is one unit of time behind",
            "device 2: makes operation 2a offline, at event time 5, after seeing nothing",
            "device 2: operation 2a",
            "server: applies 2a; acknowledges it",
            "server: operation 2a",
            "device 1: makes operation 1a offline, at event time 5, after seeing 2a",
        ]
    );
    assert_eq!(last.state.callers[0], "device 1: holds 1a, 2a; shows 2a; not acknowledged: 1a");
    assert_eq!(last.state.ledger, ["2a is recorded as applied"]);
}

fn corrected() -> Devices {
    Devices { dating: Dating::Server, ..Devices::default() }
}

#[test]
fn corrected_times_keep_every_promise() {
    let found = holds(corrected(), &[Fault::ClockSkew, Fault::ClockJump]);
    assert_eq!(found.states, 276_116);
    holds(corrected(), &[Fault::ClockSkew, Fault::LostReply]);
    let three = Devices { dating: Dating::Server, ..three() };
    holds(three, &[Fault::ClockSkew, Fault::LostReply]);
    let one = Devices { operations: 1, ..corrected() };
    for devices in [one, Devices { merge: Merge::Earliest, ..one }] {
        holds(devices, FAULTS);
    }
    let restless = Faults { clock_skews: 1, clock_jumps: 3, lost_replies: 1, ..Faults::default() };
    let alone = Devices { devices: 1, ..corrected() };
    let found = search(&DeviceWorld::new("devices", &alone, restless).unwrap());
    assert!(found.violated().is_empty(), "{:#?}", found.traces);
}

#[test]
fn who_keeps_a_time_that_was_corrected_diverges() {
    for devices in [Devices { operations: 1, ..corrected() }, corrected()] {
        let devices = Devices { redated: Redated::Kept, ..devices };
        for fault in [Fault::ClockSkew, Fault::ClockJump] {
            breaks(devices, Some(fault), &[Convergence, CausalRespect]);
        }
    }
}

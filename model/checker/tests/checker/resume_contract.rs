//! The resume contract of durable agents (Khan, "Resume Means Resume", arXiv:2608.03836) in terms of this model.
//!
//! | resume property | here | why it is the same |
//! | --- | --- | --- |
//! | prefix continuation: a resumed run never enters its durable prefix again | at-most-once | a finished step that is entered again calls again; under the caller's key that is a replay, under a new one a second effect |
//! | effect exactly-once: a task has at most one effect | at-most-once | word for word; that it has at least one can't be promised where an outcome stays unknown, so `settles` says that it ends, settled or in a person's hands |
//! | fork determinism: the value that a run is resumed with decides its outcome | no suppression, faithful replay | another value is another call: under the same key it must get a conflict, never the first one's outcome |
//! | checkpoint validity: whatever is found was written | intent first | an effect's intent is found after any failure: neither half of it nor nothing |
//! | consume-once: a gate's approval has at most one effect | at-most-once | two that resume at once, or a decision and a retry, are two claims on one record |
//! | recovery determinism: equal durable states are recovered alike | the core is a function of record and event | there is nothing else that a decision could depend on, neither memory nor the process that decides |

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{assert_holds, assert_violated, contains, found, limits, protocol, trace, violated, violates};
use settled_explorer::contract::{self, Clause};
use settled_model::PropertyName::*;
use settled_model::machine::{CoreGuard, DescribedCaller, DescribedTool, Guard, GuardStep, Machines, View, Write};
use settled_model::{Description, Fault, Rules, check_rules};
use settled_protocol::{Epoch, Event, Record, What};

#[test]
fn prefix_continuation() {
    let workflow = "caller.operations = 2; caller.sequential = true; faults.client-crashes = 1";
    for checkpoint in ["per-answer", "background", "at-end"] {
        // The process dies between an effect and the checkpoint that tells of it.
        let entered_again = format!("{workflow}; caller.checkpoint = '{checkpoint}'; caller.key = 'per-call'");
        let report = found(&entered_again);
        assert!(contains(trace(&report, AtMostOnce), Fault::ClientCrash), "{checkpoint}");
        assert_holds(&format!("{entered_again}; caller.key = 'caller'"));
    }
    // A checkpoint after each step loses one of them at most, one at the end may lose all.
    let repeated = |checkpoint: &str| {
        let lines = format!("{workflow}; caller.checkpoint = '{checkpoint}'; caller.key = 'per-call'");
        found(&lines).unique_states
    };
    assert!(repeated("per-answer") < repeated("at-end"));
}

#[test]
fn effect_exactly_once() {
    let outcome_lost = "guard.processes = 2; faults.timeouts = 1; faults.guard-crashes = 1";
    let again = found(&format!("{outcome_lost}; guard.rules.hold-unknown = false"));
    assert!(violates(&again, AtMostOnce));
    for kind in ["opaque", "observable", "sealable", "deduplicates", "transactional"] {
        assert_holds(&format!("{outcome_lost}; tool.kind = '{kind}'"));
    }
    let stays_open = found("guard.processes = 2; faults.guard-crashes = 1; guard.gives-up = false");
    assert!(violates(&stays_open, Settles) && !violates(&stays_open, AtMostOnce));
}

#[test]
fn fork_determinism() {
    let forks = "caller.operations = 2; caller.key = 'reused'; caller.calls = 1; faults.timeouts = 1";
    let ignored = found(&format!("{forks}; guard.rules.check-arguments = false"));
    assert!(violates(&ignored, NoSuppression) && violates(&ignored, FaithfulReplay), "{:?}", violated(&ignored));
    assert_holds(forks);
}

#[test]
fn checkpoint_validity() {
    let failure = "faults.unsynced-losses = 1; faults.sync-errors = 1";
    let lost = found(&format!("{failure}; ledger.after-sync-error = 'carries-on'"));
    assert!(violates(&lost, IntentFirst));
    assert_holds(failure);
    let torn = found("faults.torn-writes = 1; ledger.torn = 'erases'");
    assert!(violates(&torn, AtMostOnce), "what is found in place of a torn record is taken for a new wish");
    assert_holds("faults.torn-writes = 1");
}

#[test]
fn consume_once() {
    let resumed_twice = "guard.processes = 2; faults.concurrent-calls = 1";
    let report = found(&format!("{resumed_twice}; guard.claim = 'read-then-write'"));
    assert!(contains(trace(&report, AtMostOnce), Fault::ConcurrentCall));
    assert_holds(resumed_twice);
    let decided = "guard.rules.hold-unknown = false; faults.tool-crashes-before = 1; faults.decisions = 1";
    assert_violated(&format!("{decided}; guard.claim = 'read-then-write'"), &[AtMostOnce, NoFalseFailure]);
    assert_holds(decided);
}

/// The core, and a count of the recoveries that were compared.
struct Watched {
    core: CoreGuard,
    recoveries: Arc<AtomicUsize>,
}

fn swapped(owner: Epoch) -> Epoch {
    match owner.0 {
        1 => Epoch(2),
        2 => Epoch(1),
        _ => owner,
    }
}

impl Watched {
    /// The same recovery by another process from the same record: decided alike, but for names.
    fn compare(&self, record: &Record<u8>, event: &Event<u8>) {
        let name: &dyn Fn(Epoch) -> Epoch = &swapped;
        let other = Event { by: swapped(event.by), ..*event };
        let here = self.core.step(Some(record), event);
        let there = self.core.step(Some(&self.core.with_owner(record, name)), &other);
        let renamed = match here.write {
            Write::Put(record) => Write::Put(self.core.with_owner(&record, name)),
            write => write,
        };
        assert_eq!(GuardStep { write: renamed, acts: here.acts }, there, "{record:?}, {event:?}");
        self.recoveries.fetch_add(1, Ordering::Relaxed);
    }
}

impl Guard for Watched {
    type Record = Record<u8>;

    fn step(&self, record: Option<&Record<u8>>, event: &Event<u8>) -> GuardStep<Record<u8>> {
        if let (Some(record), What::Resume { .. }) = (record, event.what) {
            self.compare(record, event);
        }
        self.core.step(record, event)
    }

    fn view(&self, record: &Record<u8>) -> View {
        self.core.view(record)
    }

    fn with_owner(&self, record: &Record<u8>, name: &dyn Fn(Epoch) -> Epoch) -> Record<u8> {
        self.core.with_owner(record, name)
    }
}

/// A guard that decides by something that is not in the record: who it is.
struct Wilful {
    holds: CoreGuard,
    sends_again: CoreGuard,
}

impl Guard for Wilful {
    type Record = Record<u8>;

    fn step(&self, record: Option<&Record<u8>>, event: &Event<u8>) -> GuardStep<Record<u8>> {
        let core = if event.by == Epoch(2) { &self.sends_again } else { &self.holds };
        core.step(record, event)
    }

    fn view(&self, record: &Record<u8>) -> View {
        self.holds.view(record)
    }

    fn with_owner(&self, record: &Record<u8>, name: &dyn Fn(Epoch) -> Epoch) -> Record<u8> {
        self.holds.with_owner(record, name)
    }
}

fn machines<G: Guard>(description: &Description, guard: G) -> Machines<G> {
    Machines {
        guard,
        caller: Box::new(DescribedCaller { rules: description.caller.clone() }),
        tool: Box::new(DescribedTool { kind: description.tool.kind }),
    }
}

const RECOVERIES: &str = "guard.processes = 2; faults.timeouts = 1; faults.guard-crashes = 1; faults.takeovers = 1";

#[test]
fn recovery_determinism() {
    for kind in ["opaque", "observable", "sealable", "deduplicates", "transactional", "idempotent"] {
        let description = protocol(&format!("{RECOVERIES}; tool.kind = '{kind}'"));
        let recoveries = Arc::new(AtomicUsize::new(0));
        let watched = Watched { core: CoreGuard { policy: description.policy() }, recoveries: Arc::clone(&recoveries) };
        let rules = Rules::with(description.clone(), machines(&description, watched));
        let report = check_rules(&rules, limits(), |_| {}).unwrap();
        assert_eq!(violated(&report), [], "{kind}");
        assert!(report.exhaustive && recoveries.load(Ordering::Relaxed) > 50, "{kind}: {recoveries:?}");
    }
}

#[test]
fn recovery_by_whoever_it_is_breaks_it() {
    let description = protocol(RECOVERIES);
    let with = |lines: &str| CoreGuard { policy: protocol(lines).policy() };
    let wilful = Wilful { holds: with(RECOVERIES), sends_again: with("guard.rules.hold-unknown = false") };
    let rules = Rules::with(description.clone(), machines(&description, wilful));
    // Guards are not alike any more, which their symmetry takes for granted.
    let broken = contract::check(&rules, 20_000).unwrap_err();
    assert!(matches!(broken.clause, Clause::AlikeMoveAlike | Clause::AlikeJudgedAlike), "{broken}");
    let mut apart = limits();
    apart.reductions.symmetry = false;
    let report = check_rules(&rules, apart, |_| {}).unwrap();
    assert!(violates(&report, AtMostOnce), "{:?}", violated(&report));
}

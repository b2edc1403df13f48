//! Each fault bites: for every one of them there is a protocol that is broken by this fault alone, and what handles it is one
//! choice in the protocol's description.

use crate::support::{contains, explored, happens, protocol, trace, violated, violates};
use settled_model::Fault::{self, *};
use settled_model::PropertyName::{self, *};
use settled_model::Rules;

/// A fault, and a choice on which it depends whether the fault breaks a property.
struct Case {
    fault: Fault,
    /// What both protocols have in common.
    setting: &'static str,
    broken: &'static str,
    handled: &'static str,
    violates: PropertyName,
    /// What the broken protocol violates without the fault, since its choice is itself the breach of a promise.
    already: &'static [PropertyName],
}

impl Case {
    fn new(fault: Fault, violates: PropertyName) -> Case {
        Case { fault, setting: "", broken: "", handled: "", violates, already: &[] }
    }

    fn setting(self, setting: &'static str) -> Case {
        Case { setting, ..self }
    }

    fn broken(self, broken: &'static str) -> Case {
        Case { broken, ..self }
    }

    fn handled(self, handled: &'static str) -> Case {
        Case { handled, ..self }
    }

    fn already(self, already: &'static [PropertyName]) -> Case {
        Case { already, ..self }
    }
}

const SENT_AGAIN: &str = "guard.rules.hold-unknown = false";
const HELD: &str = "guard.rules.hold-unknown = true";

fn unknowns() -> Vec<Case> {
    vec![
        Case::new(Timeout, AtMostOnce).broken(SENT_AGAIN).handled(HELD),
        Case::new(ToolCrashAfter, AtMostOnce).broken(SENT_AGAIN).handled(HELD),
        Case::new(LostReply, AtMostOnce).broken(SENT_AGAIN).handled(HELD),
        Case::new(ToolPartition, AtMostOnce).broken(SENT_AGAIN).handled(HELD),
        // Nothing has happened, so that nothing happens twice: but it is sent twice.
        Case::new(ToolCrashBefore, BoundedRetries).setting("budget.operation = 1").broken(SENT_AGAIN).handled(HELD),
        Case::new(LostRequest, Settles).broken("guard.gives-up = false").handled("guard.gives-up = true"),
        Case::new(ErrorAfter, NoFalseFailure)
            .broken("guard.rules.doubt-errors = false")
            .handled("guard.rules.doubt-errors = true"),
        // An error that is final for its own copy says nothing of another copy under way.
        Case::new(ErrorBefore, NoFalseFailure)
            .setting("tool.kind = 'deduplicates'; tool.errors-final = true; faults.duplicates = 1")
            .broken("guard.single-delivery = true")
            .handled("guard.single-delivery = false"),
        Case::new(Rejection, NoFalseFailure)
            .setting("tool.kind = 'deduplicates'; faults.duplicates = 1")
            .broken("guard.single-delivery = true")
            .handled("guard.single-delivery = false"),
        Case::new(Duplicate, AtMostOnce)
            .setting("guard.single-delivery = false")
            .broken("tool.kind = 'opaque'")
            .handled("tool.kind = 'deduplicates'"),
    ]
}

fn callers() -> Vec<Case> {
    let keys = |fault| Case::new(fault, AtMostOnce).broken("caller.key = 'per-call'").handled("caller.key = 'caller'");
    vec![
        keys(ClientCrash),
        keys(Rerun),
        Case::new(Cancel, NoFalseFailure)
            .setting("caller.after-cancel = 'retry'")
            .broken("guard.rules.keep-cancelled = false")
            .handled("guard.rules.keep-cancelled = true"),
        Case::new(ConcurrentCall, AtMostOnce)
            .setting("guard.processes = 2")
            .broken("guard.claim = 'read-then-write'")
            .handled("guard.claim = 'compare-and-set'"),
        Case::new(KeyReuse, NoSuppression)
            .setting("caller.operations = 2")
            .broken("guard.rules.check-arguments = false")
            .handled("guard.rules.check-arguments = true"),
        Case::new(CallerPartition, AtMostOnce)
            .broken("guard.repeat = 'new-after-delivery'")
            .handled("guard.repeat = 'replay'"),
    ]
}

fn guards() -> Vec<Case> {
    let observed = |fault| {
        Case::new(fault, AtMostOnce)
            .broken("guard.rules.wait-for-quiet = false")
            .handled("guard.rules.wait-for-quiet = true")
    };
    vec![
        Case::new(GuardCrash, AtMostOnce).broken("caller.key = 'per-call'").handled("caller.key = 'caller'"),
        observed(Takeover).setting("tool.kind = 'observable'; guard.processes = 2"),
        observed(Reordering).setting("tool.kind = 'observable'; faults.timeouts = 1"),
        // The owner is dead, so what it has sent keeps no order any more: only time tells that it has arrived.
        Case::new(Delay, AtMostOnce)
            .setting("tool.kind = 'observable'; faults.guard-crashes = 1")
            .broken("tool.settling = 1")
            .handled("tool.settling = 2"),
        // The person tells the truth and is believed: but one who had read the record before writes after that.
        Case::new(Decision, NoFalseFailure)
            .setting("guard.rules.hold-unknown = false; faults.tool-crashes-before = 1")
            .broken("guard.claim = 'read-then-write'")
            .handled("guard.claim = 'compare-and-set'"),
    ]
}

fn clocks() -> Vec<Case> {
    let margin = |fault| {
        Case::new(fault, AtMostOnce)
            .setting("tool.kind = 'deduplicates'; tool.remembers = 2; faults.timeouts = 1")
            .broken("guard.margin = 0")
            .handled("guard.margin = 1")
    };
    vec![
        margin(Pause),
        margin(ClockJump),
        margin(ClockSkew)
            .setting("guard.processes = 2; tool.kind = 'deduplicates'; tool.remembers = 2; faults.guard-crashes = 1"),
        Case::new(KeyExpiry, AtMostOnce)
            .setting("tool.kind = 'deduplicates'; tool.keeps = 'shortly'; faults.timeouts = 1")
            .broken("tool.declared = 'deduplicates'")
            .handled("tool.declared = 'opaque'"),
    ]
}

fn ledgers() -> Vec<Case> {
    let writes = |fault| {
        Case::new(fault, IntentFirst)
            .broken("guard.without-ledger = 'sends-anyway'")
            .handled("guard.without-ledger = 'refuses'")
    };
    vec![
        writes(LedgerPartition),
        writes(DiskFull),
        // A record that is not on disk when the effect is made is a breach of itself; the second effect needs the loss.
        Case::new(UnsyncedLoss, AtMostOnce)
            .broken("ledger.acknowledged = 'unsynced'")
            .handled("ledger.acknowledged = 'durable'")
            .already(&[IntentFirst]),
        Case::new(TornWrite, AtMostOnce).broken("ledger.torn = 'erases'").handled("ledger.torn = 'detected'"),
        Case::new(SyncError, AtMostOnce)
            .setting("faults.unsynced-losses = 1")
            .broken("ledger.after-sync-error = 'carries-on'")
            .handled("ledger.after-sync-error = 'stops'"),
    ]
}

fn cases() -> Vec<Case> {
    [unknowns(), callers(), guards(), clocks(), ledgers()].into_iter().flatten().collect()
}

/// The faults that no single choice handles; each has a test of its own.
const OTHERS: [Fault; 1] = [LedgerFailover];

#[test]
fn no_fault_is_missing() {
    let cases = cases();
    for fault in Fault::ALL {
        let mine = cases.iter().filter(|case| case.fault == *fault).count() + usize::from(OTHERS.contains(fault));
        assert_eq!(mine, 1, "{}", fault.name());
    }
}

#[test]
fn each_fault_breaks_what_does_not_handle_it_and_nothing_else() {
    for case in cases() {
        let name = case.fault.name();
        let with = |choice: &str, bound: u8| {
            let mut description = protocol(&format!("{};{choice}", case.setting));
            *description.faults.of(case.fault) = bound;
            explored(&description)
        };
        let without_it = with(case.broken, 0);
        assert_eq!(violated(&without_it), case.already, "{name}, broken, without the fault");

        let broken = with(case.broken, 1);
        let run = trace(&broken, case.violates);
        assert!(contains(run, case.fault), "{name} is not what breaks it:\n{}", run.text());
        assert!(!case.already.contains(&case.violates), "{name}");

        let handled = with(case.handled, 1);
        let runs: Vec<_> = handled.violations().map(|(_, trace)| trace.text()).collect();
        assert_eq!(violated(&handled), [], "{name}, handled\n{}", runs.join("\n"));
        let rules = Rules::new(handled.description);
        assert!(happens(&rules, case.fault), "{name} never happens in the protocol that handles it");
    }
}

/// A failover loses records whatever the guard does, so an effect whose intent was lost is unrecorded; that it isn't repeated
/// is for the tool to see to.
#[test]
fn a_failover_breaks_what_only_the_ledger_remembers() {
    let with = |kind: &str, bound: u8| {
        let mut description =
            protocol(&format!("ledger.acknowledged = 'unreplicated'; tool.kind = '{kind}'; faults.reruns = 1"));
        description.faults.ledger_failovers = bound;
        explored(&description)
    };
    for kind in ["opaque", "observable", "sealable", "deduplicates"] {
        assert_eq!(violated(&with(kind, 0)), [], "{kind}");
        let report = with(kind, 1);
        let forgetful = matches!(kind, "opaque" | "observable");
        assert_eq!(violates(&report, AtMostOnce), forgetful, "{kind}: {:?}", violated(&report));
        assert!(violates(&report, IntentFirst), "{kind}");
        if forgetful {
            assert!(contains(trace(&report, AtMostOnce), LedgerFailover));
        } else {
            assert_eq!(violated(&report), [IntentFirst], "{kind}");
        }
    }
}

/// What a truthful person can be asked, and what follows: the operation ends.
#[test]
fn a_decision_ends_what_was_unknown() {
    for kind in ["opaque", "observable", "sealable", "deduplicates", "transactional", "idempotent"] {
        let mut description = protocol(&format!("tool.kind = '{kind}'; faults.timeouts = 1; faults.lost-replies = 1"));
        let before = explored(&description);
        description.faults.decisions = 2;
        let after = explored(&description);
        assert_eq!(violated(&before), [], "{kind}");
        assert_eq!(violated(&after), [], "{kind}");
        assert!(after.unique_states > before.unique_states, "{kind}: nobody decides");
    }
}

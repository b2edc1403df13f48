//! The whole transition table, generated from the core: every typed state × event × tool kind, not only those that runs
//! reach. It is kept in `proofs/transitions.txt`; a change of the core shows there, in a form that can be held against
//! the design's tables. `UPDATE=1 cargo test -p settled-protocol --test transitions` writes it anew.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write;

use serde_json::{Value, json};
use settled_protocol::*;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proofs/transitions.txt");

fn kinds() -> [(&'static str, ToolKind); 8] {
    let deduplicates = |remembers_rejections| ToolKind::Deduplicates { limit: 1_000, margin: 10, remembers_rejections };
    [
        ("opaque", ToolKind::Opaque),
        ("read-only", ToolKind::ReadOnly),
        ("idempotent", ToolKind::Idempotent),
        ("observable", ToolKind::Observable { settling: 10 }),
        ("sealable", ToolKind::Sealable),
        ("deduplicates", deduplicates(false)),
        ("deduplicates, remembers rejections", deduplicates(true)),
        ("transactional", ToolKind::Transactional),
    ]
}

fn sent(attempt: u32, doubt: bool) -> Value {
    json!({ "attempt": attempt, "owner": 1, "at": 100, "first": 100, "doubt": doubt })
}

/// Every typed state. Records come from here as they come from a ledger: deserialised.
fn states() -> Vec<(String, Option<Record<u8>>)> {
    let causes =
        [("timed out", json!("TimedOut")), ("error", json!({ "Error": 9 })), ("refused", json!({ "Refused": 9 }))];
    let mut states = vec![("created".to_owned(), json!("Created"))];
    for (name, attempt, doubt) in [("1", 1, false), ("2, last", 2, false), ("2, last, earlier may apply", 2, true)] {
        let sent = sent(attempt, doubt);
        states.push((format!("dispatched {name}"), json!({ "Dispatched": sent })));
        for (cause, value) in &causes {
            for (quiet, since) in [("", Value::Null), (", quiet", json!(150))] {
                // Quiet and cause are independent of each other: one cause shows both.
                if *cause != "timed out" && !quiet.is_empty() {
                    continue;
                }
                let unknown = json!({ "sent": sent, "cause": value, "checks": 0, "quiet": since });
                states.push((format!("unknown {name} ({cause}{quiet})"), json!({ "Unknown": unknown })));
            }
            states.push((
                format!("escalated {name} ({cause})"),
                json!({ "Escalated": { "sent": sent, "cause": value } }),
            ));
        }
        for (outcome, value) in [("succeeded", json!({ "Succeeded": 5 })), ("failed", json!({ "Failed": 9 }))] {
            let confirmed = json!({ "sent": sent, "outcome": value });
            states.push((format!("confirmed {name}: {outcome}"), json!({ "Confirmed": confirmed })));
            for (mark, delivered) in [("", None), (", delivered", Some(160)), (", delivered in doubt", Some(250))] {
                let settled = json!({ "verdict": value, "sent": sent, "at": 150, "delivered": delivered });
                states.push((format!("settled {name}: {outcome}{mark}"), json!({ "Settled": settled })));
            }
        }
        let abandoned = json!({ "verdict": { "Abandoned": 9 }, "sent": sent, "at": 150, "delivered": null });
        states.push((format!("settled {name}: abandoned"), json!({ "Settled": abandoned })));
    }
    let abandoned = json!({ "verdict": { "Abandoned": null }, "sent": null, "at": 150, "delivered": null });
    states.push(("settled, never sent: abandoned".to_owned(), json!({ "Settled": abandoned })));

    let record =
        |state: Value| json!({ "version": 7, "generation": 1, "fingerprint": 1, "created": 100, "state": state });
    let mut all = vec![("absent".to_owned(), None)];
    all.extend(
        states
            .into_iter()
            .map(|(name, state)| (name, Some(serde_json::from_value(record(state)).expect("a typed record")))),
    );
    all
}

fn events() -> Vec<(&'static str, What<u8>)> {
    let of = |attempt: u32| AttemptId {
        generation: 1,
        attempt: (1..attempt).fold(Attempt::FIRST, |attempt, _| attempt.next()),
    };
    let mut events = vec![
        ("call, now", What::Call { fingerprint: 1, start: Start::Now }),
        ("call, later", What::Call { fingerprint: 1, start: Start::Later }),
        ("call, other arguments", What::Call { fingerprint: 2, start: Start::Now }),
    ];
    for (name, take_over, sender_done, undisturbed) in [
        ("resume", false, false, false),
        ("resume, undisturbed", false, false, true),
        ("resume, sender done", false, true, false),
        ("resume, owner lost", true, false, false),
        ("resume, owner lost, sender done", true, true, false),
    ] {
        events.push((name, What::Resume { take_over, sender_done, undisturbed }));
    }
    let not_run = Reply::Error(ErrorClass::NotRun, 8);
    let busy = Reply::Error(ErrorClass::Busy, 8);
    let unproven = Reply::Error(ErrorClass::Unproven, 8);
    for (name, attempt, reply) in [
        ("result of 1", 1, Reply::Result(5)),
        ("result of 2", 2, Reply::Result(5)),
        ("error of 1, did not run", 1, not_run),
        ("error of 2, did not run", 2, not_run),
        ("error of 1, busy", 1, busy),
        ("error of 2, busy", 2, busy),
        ("error of 1", 1, unproven),
        ("error of 2", 2, unproven),
    ] {
        events.push((name, What::Reply { of: of(attempt), reply }));
    }
    for (name, attempt, how) in [
        ("no answer to 1", 1, Loss::TimedOut),
        ("no answer to 2", 2, Loss::TimedOut),
        ("connection of 1 lost", 1, Loss::ConnectionLost),
        ("connection of 2 lost", 2, Loss::ConnectionLost),
    ] {
        events.push((name, What::Lost { of: of(attempt), how }));
    }
    for (name, attempt, observation, conclusive) in [
        ("seen of 1: applied", 1, Observation::Applied(5), false),
        ("seen of 2: applied", 2, Observation::Applied(5), false),
        ("seen of 1: not applied, too early", 1, Observation::NotApplied, false),
        ("seen of 1: not applied", 1, Observation::NotApplied, true),
        ("seen of 2: not applied", 2, Observation::NotApplied, true),
        ("seen of 1: sealed", 1, Observation::Sealed(SealScope::Attempts), true),
        ("seen of 2: sealed", 2, Observation::Sealed(SealScope::Attempts), true),
        ("seen of 1: operation sealed", 1, Observation::Sealed(SealScope::Operation), true),
        ("seen of 2: operation sealed", 2, Observation::Sealed(SealScope::Operation), true),
        ("seen of 1: unclear", 1, Observation::Unclear, true),
        ("seen of 2: unclear", 2, Observation::Unclear, true),
    ] {
        events.push((name, What::Observed { of: of(attempt), observation, conclusive }));
    }
    for (name, attempt, owner) in [("commit of 1", 1, 1), ("commit of 2", 2, 1), ("commit of 1 by another", 1, 2)] {
        events.push((name, What::Committed { of: of(attempt), owner: Epoch(owner), result: 5 }));
    }
    events.push(("alerted", What::Alerted));
    for (name, verdict, quiet) in [
        ("person: succeeded", Verdict::Succeeded(6), false),
        ("person: failed", Verdict::Failed(None), false),
        ("person: failed, all quiet", Verdict::Failed(None), true),
        ("person: abandoned", Verdict::Abandoned(None), false),
    ] {
        events.push((name, What::Decide { verdict, quiet }));
    }
    events.extend([
        ("cancel", What::Cancel),
        ("delivered", What::Delivered { generation: 1, from: Time(200) }),
        ("delivered, in doubt", What::Delivered { generation: 1, from: Time(260) }),
        ("delivered, of another operation", What::Delivered { generation: 2, from: Time(200) }),
        ("expire", What::Expire),
    ]);
    events
}

fn state(record: &Record<u8>) -> String {
    let sent = record.sent().map_or(String::new(), |sent| {
        format!(" {}{}", sent.attempt(), if sent.doubt() { " (earlier may apply)" } else { "" })
    });
    let more = match record.state() {
        State::Unknown { cause, checks, quiet, .. } => {
            let quiet = if quiet.is_some() { ", quiet" } else { "" };
            format!(" ({cause:?}, {checks} checks{quiet})")
        }
        State::Escalated { cause, .. } => format!(" ({cause:?})"),
        State::Confirmed { outcome, .. } => format!(": {outcome:?}"),
        State::Settled { verdict, delivered, .. } => {
            let delivered = delivered.map_or(String::new(), |from| format!(", delivered from {from}"));
            format!(": {verdict:?}{delivered}")
        }
        State::Created | State::Dispatched(_) => String::new(),
    };
    let generation =
        if record.generation() == 1 { String::new() } else { format!(" of operation {}", record.generation()) };
    format!("{}{sent}{generation}{more}", record.state().name())
}

fn action(action: Action<u8>) -> String {
    match action {
        Action::Store(store) => format!("store [{}]", state(&store.record)),
        Action::Forget(_) => "forget".to_owned(),
        Action::Dispatch(dispatch) => format!("dispatch {}", dispatch.of().attempt),
        Action::Observe { of, conclusive } => {
            format!("observe {}{}", of.attempt, if conclusive { "" } else { ", inconclusive" })
        }
        Action::Seal { of, scope } => format!("seal {} ({scope:?})", of.attempt),
        Action::Answer(answer) => format!("answer {answer:?}"),
        Action::Wait(Wait::ForAttempt) => "wait for the attempt".to_owned(),
        Action::Wait(Wait::Until(time)) => format!("wait until {time}"),
        Action::Escalate => "escalate".to_owned(),
        Action::Refuse(refusal) => format!("refuse: {refusal:?}"),
    }
}

fn table() -> String {
    let mut text = String::from(
        "Every transition of the protocol core: tool kind, state, events → what the shell does, in order.\n\
         Pairs of state and event that change nothing and ask for nothing are left out. Numbers are attempts; of two\n\
         allowed, 2 is the last. Time is 200; the record was created at 100. Generated: see\n\
         model/protocol/tests/transitions.rs.\n",
    );
    for (name, tool) in kinds() {
        for (ends, repeats) in
            [(Ends::WithWindow, "the caller's own keys"), (Ends::OnDelivery, "derived keys, new after delivery")]
        {
            // What repeats mean does not depend on the kind, so one kind shows it.
            if ends == Ends::OnDelivery && tool != ToolKind::Opaque {
                continue;
            }
            let policy = Policy {
                repeat: Repeat { ends, window: Some(1_000) },
                retry: Retry { attempts: 2, total: 1_000, checks: 2, backoff: Backoff { base: 8, cap: 8 } },
                ..Policy::new(tool)
            };
            writeln!(text, "\n== {name} ({repeats})").unwrap();
            for (from, record) in states() {
                // Events with the same consequence share a line.
                let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
                for (event, what) in events() {
                    let at = Event { now: Time(200), by: Epoch(3), draw: u32::MAX, what };
                    let step = policy.step(record.as_ref(), &at);
                    if step.actions.is_empty() {
                        continue;
                    }
                    let actions = step.actions.iter().map(action).collect::<Vec<_>>().join("; ");
                    match rows.iter_mut().find(|(same, _)| *same == actions) {
                        Some((_, events)) => events.push(event),
                        None => rows.push((actions, vec![event])),
                    }
                }
                if !rows.is_empty() {
                    writeln!(text, "{from}").unwrap();
                }
                for (actions, events) in rows {
                    writeln!(text, "    {} → {actions}", events.join(" / ")).unwrap();
                }
            }
        }
    }
    text
}

#[test]
fn the_table_is_the_one_that_is_published() {
    let table = table();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(FILE, &table).unwrap();
    }
    let published = std::fs::read_to_string(FILE).unwrap_or_default();
    for (line, (is, was)) in (1..).zip(table.lines().zip(published.lines())) {
        assert_eq!(
            is, was,
            "proofs/transitions.txt, line {line}: the core has changed; if it is meant, run with UPDATE=1"
        );
    }
    assert_eq!(table.lines().count(), published.lines().count());
}

/// The heart of the design, on all typed states and not only reachable ones: an opaque tool's open attempt is never
/// followed by another within its operation, unless the tool says of this very attempt that it did not run, and nothing else
/// of the operation can.
#[test]
fn nothing_sends_an_opaque_tools_operation_again() {
    let mut after_busy = 0;
    for (single_delivery, attempts) in [(true, 5), (true, 1), (false, 5)] {
        let retry = Retry { attempts, ..Retry::default() };
        let policy = Policy { single_delivery, retry, ..Policy::new(ToolKind::Opaque) };
        for (from, record) in states() {
            let Some(record) = record.filter(|record| record.sent().is_some()) else { continue };
            for (event, what) in events() {
                let step = policy.step(Some(&record), &Event { now: Time(200), by: Epoch(3), draw: 0, what });
                let dispatches = step.actions.iter().any(|action| matches!(action, Action::Dispatch(_)));
                let busy = match (record.state(), what) {
                    (State::Dispatched(sent), What::Reply { of, reply: Reply::Error(ErrorClass::Busy, _) }) => {
                        record.attempt_id() == Some(of)
                            && single_delivery
                            && !sent.doubt()
                            && sent.attempt().get() < attempts
                    }
                    _ => false,
                };
                assert_eq!(dispatches, busy, "{from} | {event}");
                after_busy += usize::from(dispatches);
            }
        }
    }
    assert!(after_busy > 0);
}

/// What `Policy::essence` makes equal no step can tell apart: from a record and from its essence each event asks for the
/// same and leads to the same essence, for every kind, state and event, with and without windows and budgets of time.
#[test]
fn steps_depend_on_a_records_essence_only() {
    let mut made_equal = 0;
    for (name, tool) in kinds() {
        for (ends, window, total) in [
            (Ends::WithWindow, None, Millis::MAX),
            (Ends::OnDelivery, Some(1_000), 1_000),
            (Ends::OnFailure, None, 1_000),
        ] {
            let policy = Policy {
                repeat: Repeat { ends, window },
                retry: Retry { attempts: 2, total, checks: 2, backoff: Backoff { base: 8, cap: 8 } },
                ..Policy::new(tool)
            };
            let asked = |record: &Record<u8>, what| {
                let step = policy.step(Some(record), &Event { now: Time(200), by: Epoch(3), draw: 7, what });
                let actions = step.actions.iter().map(|asked| match asked {
                    Action::Store(store) => format!("store {:?}", policy.essence(&store.record)),
                    other => action(other),
                });
                actions.collect::<Vec<_>>()
            };
            for (from, record) in states() {
                let Some(record) = record else { continue };
                let essence = policy.essence(&record);
                assert_eq!(policy.essence(&essence), essence);
                made_equal += usize::from(essence != record);
                for (event, what) in events() {
                    assert_eq!(asked(&record, what), asked(&essence, what), "{name} {ends:?}: {from} | {event}");
                }
            }
        }
    }
    assert!(made_equal > 500);
}

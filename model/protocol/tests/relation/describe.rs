//! What a step does, told without concrete data: every field of the new record as a relation to the old one and to the
//! event. A value that is neither is an error of the abstraction and ends the test.

use serde_json::{Map, Value, json};
use settled_protocol::*;

/// The step's consequence; nothing if it changes nothing and asks for nothing.
pub fn describe(old: Option<&Record<u8>>, event: &Event<u8>, step: &Step<u8>) -> Option<Value> {
    let mut actions: Vec<Action<u8>> = step.actions.iter().collect();
    let mut then = Map::new();
    let mut stored = None;
    match actions.first() {
        Some(Action::Store(store)) => {
            assert_eq!(step.record, Some(store.record), "the step's record is not the stored one");
            assert_eq!(store.expected, old.map(Record::version), "not a compare-and-set of this record");
            then.insert("store".into(), record(old, event, &store.record));
            stored = Some(store.record);
            actions.remove(0);
        }
        Some(Action::Forget(version)) => {
            assert_eq!((step.record, Some(*version)), (None, old.map(Record::version)), "forgets another record");
            then.insert("forget".into(), json!(true));
            actions.remove(0);
        }
        _ => assert_eq!(step.record.as_ref(), old, "the record changes without a store"),
    }
    let list: Vec<Value> = actions.into_iter().map(|action| self::action(old, stored, event, action)).collect();
    if !list.is_empty() {
        then.insert("actions".into(), json!(list));
    }
    (!then.is_empty()).then_some(Value::Object(then))
}

/// The new record, field by field.
fn record(old: Option<&Record<u8>>, event: &Event<u8>, new: &Record<u8>) -> Value {
    let mut is = Map::new();
    let mut put = |field: &str, value: &str| {
        is.insert(field.into(), json!(value));
    };
    let begins = old.is_none_or(|old| old.generation() != new.generation());
    // A new operation keeps nothing of the last one.
    let last = old.filter(|_| !begins);
    if let Some(old) = old {
        assert!(
            new.version() > old.version() && new.generation() >= old.generation(),
            "versions and operations only grow"
        );
    }
    put("operation", if begins { "new" } else { "same" });
    let asked = match event.what {
        What::Call { fingerprint, .. } => Some(fingerprint),
        _ => None,
    };
    put("fingerprint", relation(new.fingerprint(), last.map(Record::fingerprint), asked, "arguments"));
    let created = serde_json::to_value(new).expect("a record")["created"].clone();
    let was = last.map(|last| serde_json::to_value(last).expect("a record")["created"].clone());
    put("created", relation(created, was, Some(json!(event.now)), "intent time"));
    put("phase", phase(new));

    let before = last.and_then(Record::sent);
    if let Some(sent) = new.sent() {
        put(
            "attempt",
            match before {
                None if sent.attempt() == Attempt::FIRST => "first",
                Some(before) if sent.attempt() == before.attempt() => "same",
                Some(before) if sent.attempt() == before.attempt().next() => "next",
                _ => panic!("unexplained attempt {}", sent.attempt()),
            },
        );
        put("owner", relation(sent.owner(), before.map(|b| b.owner()), Some(event.by), "owner"));
        put("at", relation(sent.at(), before.map(|b| b.at()), Some(event.now), "time of sending"));
        put("first", relation(sent.first(), before.map(|b| b.first()), Some(event.now), "time of first sending"));
        put(
            "doubt",
            match before {
                Some(before) if before.doubt() == sent.doubt() => "same",
                _ if sent.doubt() => "yes",
                _ => "no",
            },
        );
    }
    put("data", source(data(new), last, event));
    match *new.state() {
        State::Unknown { cause, checks, quiet, .. } => {
            let (was_checks, was_quiet) = match last.map(Record::state) {
                Some(State::Unknown { checks, quiet, .. }) => (Some(*checks), Some(*quiet)),
                _ => (None, None),
            };
            put("cause", relation_of_cause(cause, last));
            put(
                "checks",
                match was_checks {
                    Some(was) if checks == was => "same",
                    Some(was) if checks == was + 1 => "more",
                    _ if checks == 0 => "zero",
                    _ => panic!("unexplained number of checks {checks}"),
                },
            );
            put(
                "quiet",
                match quiet {
                    quiet if was_quiet == Some(quiet) => "same",
                    None => "no",
                    Some(since) if since == event.now => "now",
                    Some(since) => panic!("unexplained quiet time {since}"),
                },
            );
        }
        State::Escalated { cause, .. } => put("cause", relation_of_cause(cause, last)),
        State::Confirmed { outcome, .. } => put("verdict", relation_of_verdict(outcome.into(), last)),
        State::Settled { verdict, at, delivered, .. } => {
            let (was_at, was_delivered) = match last.map(Record::state) {
                Some(State::Settled { at, delivered, .. }) => (Some(*at), Some(*delivered)),
                _ => (None, None),
            };
            let from = match event.what {
                What::Delivered { from, .. } => Some(Some(from)),
                _ => None,
            };
            put("verdict", relation_of_verdict(verdict, last));
            put("settled-at", relation(at, was_at, Some(event.now), "time of settling"));
            put(
                "delivered",
                match delivered {
                    delivered if was_delivered == Some(delivered) => "same",
                    None => "no",
                    delivered => relation(delivered, None, from, "delivery"),
                },
            );
        }
        State::Created | State::Dispatched(_) => {}
    }
    Value::Object(is)
}

fn action(old: Option<&Record<u8>>, stored: Option<Record<u8>>, event: &Event<u8>, action: Action<u8>) -> Value {
    let latest = |of: AttemptId| {
        assert_eq!(Some(of), old.and_then(Record::attempt_id), "it asks about another attempt than the record's");
    };
    match action {
        Action::Dispatch(dispatch) => {
            let stored = stored.expect("a dispatch without a store before it");
            let (of, sent) = dispatch.send(&Durable::attest(&stored)).expect("the dispatch rests on its own record");
            assert_eq!((Some(of), Some(sent)), (stored.attempt_id(), stored.sent()));
            json!({ "do": "dispatch" })
        }
        Action::Observe { of, conclusive } => {
            latest(of);
            json!({ "do": "observe", "conclusive": if conclusive { "yes" } else { "no" } })
        }
        Action::Seal { of, scope } => {
            latest(of);
            json!({ "do": "seal", "scope": if scope == SealScope::Attempts { "attempts" } else { "operation" } })
        }
        Action::Answer(answer) => {
            // What is told must be what is stored, so it is named by the same sources.
            let last = old.filter(|old| stored.is_none_or(|new| new.generation() == old.generation()));
            let (tell, data, replayed) = match answer {
                Answer::Done { result, replayed } => ("done", Some(Some(result)), Some(replayed)),
                Answer::Failed { error, replayed } => ("failed", Some(error), Some(replayed)),
                Answer::Unknown { error } => ("unknown", Some(error), None),
                Answer::InProgress => ("in progress", None, None),
                Answer::Conflict => ("conflict", None, None),
                Answer::Expired => ("expired", None, None),
            };
            let mut answer = json!({ "do": "answer", "tell": tell });
            if let Some(data) = data {
                answer["data"] = json!(source(Some(data), last, event));
            }
            if let Some(replayed) = replayed {
                answer["replayed"] = json!(replayed);
            }
            answer
        }
        Action::Wait(Wait::ForAttempt) => json!({ "do": "wait", "for": "attempt" }),
        Action::Wait(Wait::Until(_)) => json!({ "do": "wait", "for": "time" }),
        Action::Escalate => json!({ "do": "escalate" }),
        Action::Refuse(Refusal::NotUnknown) => json!({ "do": "refuse", "why": "not unknown" }),
        Action::Refuse(Refusal::NotQuiet) => json!({ "do": "refuse", "why": "not quiet" }),
        Action::Store(_) | Action::Forget(_) => panic!("a second write in one step"),
    }
}

/// The result or error that a record holds; `None` if its phase has no place for one.
fn data(record: &Record<u8>) -> Option<Option<u8>> {
    let of_verdict = |verdict| match verdict {
        Verdict::Succeeded(result) => Some(result),
        Verdict::Failed(error) | Verdict::Abandoned(error) => error,
    };
    match *record.state() {
        State::Created | State::Dispatched(_) => None,
        State::Unknown { cause, .. } | State::Escalated { cause, .. } => Some(match cause {
            Cause::Error(error) | Cause::Refused(error) => Some(error),
            Cause::TimedOut | Cause::ConnectionLost | Cause::OwnerLost => None,
        }),
        State::Confirmed { outcome, .. } => Some(of_verdict(outcome.into())),
        State::Settled { verdict, .. } => Some(of_verdict(verdict)),
    }
}

/// Where a result or error comes from.
fn source(is: Option<Option<u8>>, last: Option<&Record<u8>>, event: &Event<u8>) -> &'static str {
    let of_event = match event.what {
        What::Reply { reply: Reply::Result(data) | Reply::Error(_, data), .. }
        | What::Observed { observation: Observation::Applied(data), .. }
        | What::Committed { result: data, .. }
        | What::Decide { verdict: Verdict::Succeeded(data), .. } => Some(Some(data)),
        What::Decide { verdict: Verdict::Failed(data) | Verdict::Abandoned(data), .. } => Some(data),
        _ => None,
    };
    match is {
        None => "nothing",
        Some(_) if is == of_event => "event",
        Some(_) if is == last.and_then(data) => "record",
        Some(None) => "nothing",
        Some(Some(data)) => panic!("unexplained data {data}"),
    }
}

fn relation<T: PartialEq + std::fmt::Debug>(is: T, was: Option<T>, of_event: Option<T>, name: &str) -> &'static str {
    match (was, of_event) {
        (Some(was), _) if was == is => "same",
        (_, Some(given)) if given == is => "event",
        _ => panic!("unexplained {name}: {is:?}"),
    }
}

fn relation_of_cause(is: Cause<u8>, last: Option<&Record<u8>>) -> &'static str {
    match (is, last.map(Record::state)) {
        (_, Some(State::Unknown { cause, .. } | State::Escalated { cause, .. })) if *cause == is => "same",
        (Cause::Error(_), _) => "error",
        (Cause::Refused(_), _) => "refused",
        (Cause::TimedOut | Cause::ConnectionLost | Cause::OwnerLost, _) => "open",
    }
}

fn relation_of_verdict(is: Verdict<u8>, last: Option<&Record<u8>>) -> &'static str {
    let was = match last.map(Record::state) {
        Some(State::Confirmed { outcome, .. }) => Some((*outcome).into()),
        Some(State::Settled { verdict, .. }) => Some(*verdict),
        _ => None,
    };
    match is {
        _ if was == Some(is) => "same",
        Verdict::Succeeded(_) => "succeeded",
        Verdict::Failed(_) => "failed",
        Verdict::Abandoned(_) => "abandoned",
    }
}

fn phase(record: &Record<u8>) -> &'static str {
    match record.state() {
        State::Created => "created",
        state => state.name(),
    }
}

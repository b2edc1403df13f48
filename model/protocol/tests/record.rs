//! Records, waits and budgets at their edges, and what is said of them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::{Value, json};
use settled_protocol::*;

fn sent(attempt: u32) -> Value {
    json!({ "attempt": attempt, "owner": 3, "at": 120, "first": 110, "doubt": attempt > 1 })
}

/// A record as it comes from a ledger: deserialised.
fn record(state: Value) -> Record<u8> {
    let record = json!({ "version": 7, "generation": 2, "fingerprint": 1, "created": 100, "state": state });
    serde_json::from_value(record).unwrap()
}

fn settled(verdict: Value, delivered: Option<u64>) -> Record<u8> {
    record(json!({ "Settled": { "verdict": verdict, "sent": sent(2), "at": 150, "delivered": delivered } }))
}

/// A record of each state, and whether an attempt was sent.
fn each() -> [(&'static str, Record<u8>, bool); 7] {
    let unknown = json!({ "sent": sent(2), "cause": "TimedOut", "checks": 0, "quiet": null });
    let confirmed = json!({ "sent": sent(2), "outcome": { "Succeeded": 5 } });
    let never = json!({ "verdict": { "Abandoned": null }, "sent": null, "at": 150, "delivered": null });
    [
        ("intent created", record(json!("Created")), false),
        ("dispatched", record(json!({ "Dispatched": sent(2) })), true),
        ("unknown", record(json!({ "Unknown": unknown })), true),
        ("escalated", record(json!({ "Escalated": { "sent": sent(2), "cause": "OwnerLost" } })), true),
        ("confirmed", record(json!({ "Confirmed": confirmed })), true),
        ("settled", settled(json!({ "Succeeded": 5 }), None), true),
        ("settled", record(json!({ "Settled": never })), false),
    ]
}

#[test]
fn what_a_record_tells() {
    for (name, record, was_sent) in each() {
        assert_eq!(record.state().name(), name);
        assert_eq!((record.version(), record.generation()), (Version(7), 2));
        assert_eq!((record.fingerprint(), record.created()), (1, Time(100)));
        assert_eq!(record.is_settled(), name == "settled");
        assert_eq!(record.open_owner(), (name == "dispatched").then_some(Epoch(3)), "{name}");
        let of = AttemptId { generation: 2, attempt: Attempt::FIRST.next() };
        assert_eq!(record.attempt_id(), was_sent.then_some(of), "{name}");
        let told =
            record.sent().map(|sent| (sent.attempt().get(), sent.owner(), sent.at(), sent.first(), sent.doubt()));
        assert_eq!(told, was_sent.then_some((2, Epoch(3), Time(120), Time(110), true)), "{name}");
    }
}

#[test]
fn renaming_an_owner_changes_nothing_else() {
    for (name, record, was_sent) in each() {
        let renamed = record.with_owner(|owner| Epoch(owner.0 + 40));
        assert_eq!(renamed.sent().map(|sent| sent.owner()), was_sent.then_some(Epoch(43)), "{name}");
        assert_eq!(renamed.with_owner(|owner| Epoch(owner.0 - 40)), record, "{name}");
    }
}

#[test]
fn a_dispatch_names_its_attempt_and_owner_and_may_be_renamed() {
    let policy = Policy::new(ToolKind::Opaque);
    let call = What::Call { fingerprint: 1u8, start: Start::Now };
    let step = policy.step(None, &Event { now: Time(5_000), by: Epoch(3), draw: 0, what: call });
    let record = step.record.unwrap();
    let dispatch = step.actions.iter().find_map(|action| match action {
        Action::Dispatch(dispatch) => Some(dispatch),
        _ => None,
    });
    let dispatch = dispatch.unwrap();
    assert_eq!(Some(dispatch.of()), record.attempt_id());
    let (_, sent) = dispatch.with_owner(|owner| Epoch(owner.0 + 1)).send(&Durable::attest(&record)).unwrap();
    assert_eq!(sent.owner(), Epoch(4));
    assert!(!step.actions.is_empty());
    let nothing = policy.step(None, &Event { now: Time(5_000), by: Epoch(3), draw: 0, what: What::<u8>::Expire });
    assert!(nothing.actions.is_empty() && nothing.record.is_none());
}

#[test]
fn numbers_and_refusals_in_words() {
    let numbers =
        [Time(12).to_string(), Epoch(3).to_string(), Version(7).to_string(), Attempt::FIRST.next().to_string()];
    assert_eq!(numbers, ["12", "3", "7", "2"]);
    assert!(Refusal::NotUnknown.to_string().contains("not unknown"));
    assert!(Refusal::NotQuiet.to_string().contains("on its way"));
}

#[test]
fn times_saturate() {
    assert_eq!(Time(5).after(7), Time(12));
    assert_eq!(Time(u64::MAX).after(1), Time(u64::MAX));
    assert_eq!((Time(12).since(Time(5)), Time(5).since(Time(12))), (7, 0));
}

#[test]
fn an_operation_is_over_after_its_window_and_not_at_its_end() {
    let policy = |ends| Policy { repeat: Repeat { ends, window: Some(1_000) }, ..Policy::new(ToolKind::Opaque) };
    for ends in [Ends::WithWindow, Ends::OnFailure, Ends::OnDelivery] {
        let success = settled(json!({ "Succeeded": 5 }), None);
        assert!(!policy(ends).is_over(&success, Time(1_150)), "{ends:?}");
        assert!(policy(ends).is_over(&success, Time(1_151)), "{ends:?}");
    }
    let (success, failure) = (json!({ "Succeeded": 5 }), json!({ "Failed": 9 }));
    let abandoned = json!({ "Abandoned": 9 });
    for (ends, verdict, delivered, is_over) in [
        (Ends::WithWindow, &success, Some(160), false),
        (Ends::WithWindow, &failure, Some(160), false),
        (Ends::OnFailure, &success, Some(160), false),
        (Ends::OnFailure, &failure, None, true),
        (Ends::OnFailure, &abandoned, None, true),
        (Ends::OnDelivery, &success, None, false),
        (Ends::OnDelivery, &success, Some(200), true),
        (Ends::OnDelivery, &success, Some(201), false),
        (Ends::OnDelivery, &failure, None, true),
        (Ends::OnDelivery, &abandoned, None, true),
        (Ends::OnDelivery, &abandoned, Some(201), false),
    ] {
        let record = settled(verdict.clone(), delivered);
        assert_eq!(policy(ends).is_over(&record, Time(200)), is_over, "{ends:?}, {verdict}, {delivered:?}");
    }
    for (name, record, _) in each() {
        if name != "settled" {
            assert!(!policy(Ends::OnFailure).is_over(&record, Time(u64::MAX)), "{name}");
        }
    }
}

#[test]
fn what_retention_forgets() {
    let policy =
        Policy { repeat: Repeat { ends: Ends::OnFailure, window: Some(1_000) }, ..Policy::new(ToolKind::Opaque) };
    let success = settled(json!({ "Succeeded": 5 }), None);
    let expire =
        |now| policy.step(Some(&success), &Event { now: Time(now), by: Epoch(1), draw: 0, what: What::Expire });
    assert_eq!(expire(1_150).record, Some(success));
    let forgotten = expire(1_151);
    assert_eq!(forgotten.record, None);
    assert_eq!(forgotten.actions.iter().collect::<Vec<_>>(), [Action::Forget(Version(7))]);
}

#[test]
fn budgets_at_their_edges() {
    let retry = Retry { attempts: 2, total: 1_000, ..Retry::default() };
    let second = Attempt::FIRST.next();
    assert!(retry.allows(Attempt::FIRST, Time(100), Time(1_100)));
    assert!(!retry.allows(Attempt::FIRST, Time(100), Time(1_101)));
    assert!(!retry.allows(second, Time(100), Time(100)));
    let usual = Retry::default();
    assert_eq!((usual.attempts, usual.total, usual.checks), (5, 300_000, 8));
    assert_eq!(usual.backoff, Backoff { base: 100, cap: 10_000 });
}

#[test]
fn waits_double_up_to_the_longest_and_are_a_share_of_it() {
    let backoff = Backoff { base: 100, cap: 1_000 };
    let half = 1 << 31;
    let waits: Vec<u64> = (0..7).map(|failures| backoff.delay(failures, half)).collect();
    assert_eq!(waits, [50, 50, 100, 200, 400, 500, 500]);
    assert_eq!((backoff.delay(1, u32::MAX), backoff.delay(u32::MAX, 1 << 30)), (99, 250));
}

/// Of records that differ only in what no step depends on there is one.
#[test]
fn essence_makes_alike_what_is_alike() {
    let untimed = Retry { total: Millis::MAX, ..Retry::default() };
    let opaque = Policy { retry: untimed, ..Policy::new(ToolKind::Opaque) };
    let changed = |state: Value, with: &dyn Fn(&mut Value)| {
        let mut record = json!({ "version": 7, "generation": 2, "fingerprint": 1, "created": 100, "state": state });
        with(&mut record);
        serde_json::from_value::<Record<u8>>(record).unwrap()
    };
    let unknown = |cause: &str, owner: u32, checks: u32| {
        let sent = json!({ "attempt": 2, "owner": owner, "at": 120, "first": 110, "doubt": true });
        json!({ "Unknown": { "sent": sent, "cause": cause, "checks": checks, "quiet": null } })
    };
    let one = changed(unknown("TimedOut", 3, 0), &|_| {});
    let other = changed(unknown("OwnerLost", 4, 0), &|record| {
        record["version"] = json!(8);
        record["created"] = json!(99);
        record["state"]["Unknown"]["sent"]["at"] = json!(121);
        record["state"]["Unknown"]["sent"]["first"] = json!(111);
    });
    assert_ne!(one, other);
    assert_eq!(opaque.essence(&one), opaque.essence(&other));
    assert_ne!(Policy::new(ToolKind::Opaque).essence(&one), Policy::new(ToolKind::Opaque).essence(&other), "when");
    let observable = Policy { tool: ToolKind::Observable { settling: 10 }, ..opaque };
    assert_ne!(observable.essence(&one), observable.essence(&other), "whose");
    let limited = ToolKind::Deduplicates { limit: 1_000, margin: 10, remembers_rejections: false };
    let limited = Policy { tool: limited, ..opaque };
    assert_ne!(limited.essence(&one), limited.essence(&other), "since when");
    let many = [8, 9].map(|checks| opaque.essence(&changed(unknown("TimedOut", 3, checks), &|_| {})));
    assert_eq!(many[0], many[1]);
    assert_ne!(many[0], opaque.essence(&one));

    // Where there is a window, when it was settled counts.
    let late = settled(json!({ "Succeeded": 5 }), None);
    let later = changed(
        json!({ "Settled": { "verdict": { "Succeeded": 5 }, "sent": sent(2), "at": 151, "delivered": null } }),
        &|_| {},
    );
    assert_eq!(opaque.essence(&late), opaque.essence(&later));
    let windowed = Policy { repeat: Repeat { ends: Ends::OnFailure, window: Some(1_000) }, ..opaque };
    assert_ne!(windowed.essence(&late), windowed.essence(&later));
}

/// A transaction commits for the process that sent it, and for no other, earlier or later.
#[test]
fn a_commit_counts_for_its_own_owner_only() {
    let policy = Policy::new(ToolKind::Transactional);
    let dispatched = record(json!({ "Dispatched": sent(2) }));
    let of = dispatched.attempt_id().unwrap();
    for (owner, counts) in [(2, false), (3, true), (4, false)] {
        let what = What::Committed { of, owner: Epoch(owner), result: 5 };
        let step = policy.step(Some(&dispatched), &Event { now: Time(200), by: Epoch(owner), draw: 0, what });
        assert_eq!(step.record != Some(dispatched), counts, "{owner}");
        assert_eq!(step.actions.is_empty(), !counts, "{owner}");
    }
}

/// What a rule forbids is done without it: the unsafe protocols are made of that.
#[test]
fn each_rule_can_be_broken() {
    let of = AttemptId { generation: 2, attempt: Attempt::FIRST };
    let first = json!({ "attempt": 1, "owner": 3, "at": 120, "first": 110, "doubt": false });
    let dispatched = record(json!({ "Dispatched": first }));
    let unknown = record(json!({ "Unknown": { "sent": first, "cause": "TimedOut", "checks": 0, "quiet": null } }));
    let error = What::Reply { of, reply: Reply::Error(ErrorClass::Unproven, 5) };
    let resume = What::Resume { take_over: false, undisturbed: true, sender_done: false };
    let seen = What::Observed { of, observation: Observation::NotApplied, conclusive: true };
    let other = What::Call { fingerprint: 2, start: Start::Now };
    let observable = ToolKind::Observable { settling: 1_000 };
    let ask = |conclusive| vec![Action::Observe { of, conclusive }];
    let actions = |tool, rules, record: &Record<u8>, what| {
        let policy = Policy { rules, ..Policy::new(tool) };
        let step = policy.step(Some(record), &Event { now: Time(200), by: Epoch(3), draw: 0, what });
        let actions = step.actions.iter().filter(|action| !matches!(action, Action::Store(_)));
        (step.record.map(|record| record.state().name()).unwrap(), actions.collect::<Vec<_>>())
    };
    let state = |tool, rules, record, what| actions(tool, rules, record, what).0;

    let rules = Rules { keep_cancelled: false, ..Rules::SOUND };
    assert_eq!(state(ToolKind::Opaque, rules, &dispatched, What::Cancel), "settled");
    assert_eq!(state(ToolKind::Opaque, Rules::SOUND, &dispatched, What::Cancel), "dispatched");
    let rules = Rules { doubt_errors: false, ..Rules::SOUND };
    assert_eq!(state(ToolKind::Opaque, rules, &dispatched, error), "settled");
    assert_eq!(state(ToolKind::Opaque, Rules::SOUND, &dispatched, error), "unknown");
    let rules = Rules { hold_unknown: false, ..Rules::SOUND };
    assert_eq!(state(ToolKind::Opaque, rules, &unknown, resume), "dispatched");
    assert_eq!(state(ToolKind::Opaque, Rules::SOUND, &unknown, resume), "unknown");
    let rules = Rules { wait_for_quiet: false, ..Rules::SOUND };
    assert_eq!(actions(observable, rules, &unknown, resume).1, ask(true));
    assert_eq!(actions(observable, Rules::SOUND, &unknown, resume).1, ask(false));
    assert_eq!(state(observable, Rules::SOUND, &unknown, seen), "dispatched");
    let rules = Rules { check_arguments: false, ..Rules::SOUND };
    assert_eq!(actions(ToolKind::Opaque, rules, &dispatched, other).1, vec![Action::Wait(Wait::ForAttempt)]);
    assert_eq!(actions(ToolKind::Opaque, Rules::SOUND, &dispatched, other).1, vec![Action::Answer(Answer::Conflict)]);
}

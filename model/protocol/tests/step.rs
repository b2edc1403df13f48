//! Properties of `step` over random policies and random runs of events.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use settled_protocol::*;

fn policies() -> impl Strategy<Value = Policy> {
    let tools = prop_oneof![
        Just(ToolKind::ReadOnly),
        Just(ToolKind::Idempotent),
        Just(ToolKind::Opaque),
        (0u64..50).prop_map(|settling| ToolKind::Observable { settling }),
        Just(ToolKind::Sealable),
        (0u64..200, 0u64..50, any::<bool>()).prop_map(|(limit, margin, remembers_rejections)| {
            ToolKind::Deduplicates { limit, margin, remembers_rejections }
        }),
        Just(ToolKind::Transactional),
    ];
    let ends = prop_oneof![Just(Ends::WithWindow), Just(Ends::OnFailure), Just(Ends::OnDelivery)];
    let window = prop_oneof![Just(None), (0u64..100).prop_map(Some)];
    (tools, any::<bool>(), any::<bool>(), ends, window, 1u32..4, 1u32..3, 0u64..100).prop_map(
        |(tool, errors_final, single_delivery, ends, window, attempts, checks, total)| Policy {
            tool,
            errors_final,
            single_delivery,
            repeat: Repeat { ends, window },
            retry: Retry { attempts, total, checks, backoff: Backoff { base: 3, cap: 20 } },
            rules: Rules::SOUND,
        },
    )
}

/// An event whose attempt may be the record's, an earlier one, or one that never was.
fn whats() -> impl Strategy<Value = (What<u8>, Option<(u32, u32)>)> {
    let of = (1u32..3, 1u32..4);
    let reply = prop_oneof![
        (1u8..4).prop_map(Reply::Result),
        Just(Reply::Error(ErrorClass::NotRun, 9)),
        Just(Reply::Error(ErrorClass::Busy, 9)),
        Just(Reply::Error(ErrorClass::Unproven, 9)),
    ];
    let seen = prop_oneof![
        (1u8..4).prop_map(Observation::Applied),
        Just(Observation::NotApplied),
        Just(Observation::Sealed(SealScope::Attempts)),
        Just(Observation::Sealed(SealScope::Operation)),
        Just(Observation::Unclear),
    ];
    let verdict = prop_oneof![Just(Verdict::Succeeded(7)), Just(Verdict::Failed(None)), Just(Verdict::Abandoned(None))];
    let any_attempt = AttemptId { generation: 1, attempt: Attempt::FIRST };
    prop_oneof![
        4 => (0u8..2, any::<bool>()).prop_map(|(fingerprint, now)| {
            (What::Call { fingerprint, start: if now { Start::Now } else { Start::Later } }, None)
        }),
        4 => any::<(bool, bool, bool)>().prop_map(|(take_over, sender_done, undisturbed)| {
            (What::Resume { take_over, sender_done, undisturbed }, None)
        }),
        4 => (reply, of.clone()).prop_map(move |(reply, of)| (What::Reply { of: any_attempt, reply }, Some(of))),
        3 => (any::<bool>(), of.clone()).prop_map(move |(timed_out, of)| {
            let how = if timed_out { Loss::TimedOut } else { Loss::ConnectionLost };
            (What::Lost { of: any_attempt, how }, Some(of))
        }),
        3 => (seen, any::<bool>(), of.clone()).prop_map(move |(observation, conclusive, of)| {
            (What::Observed { of: any_attempt, observation, conclusive }, Some(of))
        }),
        1 => of.prop_map(move |of| (What::Committed { of: any_attempt, owner: Epoch(1), result: 5 }, Some(of))),
        1 => Just((What::Alerted, None)),
        1 => (verdict, any::<bool>()).prop_map(|(verdict, quiet)| (What::Decide { verdict, quiet }, None)),
        1 => Just((What::Cancel, None)),
        1 => (1u32..3, 0u64..200).prop_map(|(generation, from)| {
            (What::Delivered { generation, from: Time(from) }, None)
        }),
        1 => Just((What::Expire, None)),
    ]
}

fn attempt(n: u32) -> Attempt {
    (1..n).fold(Attempt::FIRST, |attempt, _| attempt.next())
}

fn named(what: What<u8>, of: Option<(u32, u32)>) -> What<u8> {
    let Some((generation, n)) = of else {
        return what;
    };
    let id = AttemptId { generation, attempt: attempt(n) };
    match what {
        What::Reply { reply, .. } => What::Reply { of: id, reply },
        What::Lost { how, .. } => What::Lost { of: id, how },
        What::Observed { observation, conclusive, .. } => What::Observed { of: id, observation, conclusive },
        What::Committed { owner, result, .. } => What::Committed { of: id, owner, result },
        other => other,
    }
}

fn events() -> impl Strategy<Value = Vec<Event<u8>>> {
    let event = (whats(), 0u64..20, any::<u32>(), 1u32..4);
    prop::collection::vec(event, 1..40).prop_map(|events| {
        let mut now = 0;
        events
            .into_iter()
            .map(|((what, of), later, draw, by)| {
                now += later;
                Event { now: Time(now), by: Epoch(by), draw, what: named(what, of) }
            })
            .collect()
    })
}

/// How far an operation has come; it never shrinks within one key.
fn progress(record: &Record<u8>) -> (u32, bool, bool, u32, u8) {
    let rank = match record.state() {
        State::Created => 0,
        State::Dispatched(_) => 1,
        State::Unknown { .. } => 2,
        State::Escalated { .. } => 3,
        State::Confirmed { .. } | State::Settled { .. } => 4,
    };
    let confirmed = matches!(record.state(), State::Confirmed { .. } | State::Settled { .. });
    let attempts = record.sent().map_or(0, |sent| sent.attempt().get());
    (record.generation(), record.is_settled(), confirmed, attempts, rank)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_run_keeps_the_promises_of_step(policy in policies(), events in events()) {
        let mut record: Option<Record<u8>> = None;
        for event in events {
            let step = policy.step(record.as_ref(), &event);
            prop_assert_eq!(&step, &policy.step(record.as_ref(), &event), "not deterministic");

            let mut stored = None;
            for (position, action) in step.actions.iter().enumerate() {
                match action {
                    Action::Store(store) => {
                        prop_assert_eq!(position, 0, "a store is a barrier, so it comes first");
                        prop_assert_eq!(store.expected, record.map(|r| r.version()));
                        prop_assert_eq!(Some(store.record), step.record);
                        if let Some(before) = record {
                            prop_assert_eq!(store.record.version().0, before.version().0 + 1);
                            prop_assert!(progress(&store.record) >= progress(&before), "{before:?} → {:?}", store.record);
                            if before.is_settled() && store.record.generation() == before.generation() {
                                let verdict = |r: &Record<u8>| match r.state() {
                                    State::Settled { verdict, .. } => Some(*verdict),
                                    _ => None,
                                };
                                prop_assert_eq!(verdict(&store.record), verdict(&before), "a verdict is final");
                            }
                        }
                        stored = Some(Durable::attest(&store.record));
                    }
                    Action::Dispatch(dispatch) => {
                        let proof = stored.expect("a dispatch without a store before it");
                        let (of, sent) = dispatch.send(&proof).expect("its own store is the proof");
                        prop_assert_eq!(sent.owner(), event.by);
                        prop_assert_eq!(step.record.and_then(|r| r.attempt_id()), Some(of));
                        if let Some(before) = record {
                            prop_assert!(dispatch.send(&Durable::attest(&before)).is_err(), "an older write is no proof");
                        }
                    }
                    Action::Forget(version) => {
                        prop_assert!(record.is_some_and(|r| r.version() == version && r.is_settled()));
                        prop_assert!(step.record.is_none());
                    }
                    Action::Answer(Answer::Done { result, .. }) => {
                        // What is told rests on what is stored.
                        let told = step.record.expect("an answer is about a record");
                        let rests = match told.state() {
                            State::Settled { verdict: Verdict::Succeeded(its), .. } => *its == result,
                            State::Confirmed { outcome: Outcome::Succeeded(its), .. } => *its == result,
                            _ => false,
                        };
                        prop_assert!(rests, "{told:?}");
                    }
                    Action::Answer(Answer::Failed { .. }) => {
                        let told = step.record.expect("an answer is about a record");
                        let rests = matches!(told.state(), State::Settled { .. } | State::Confirmed { .. });
                        prop_assert!(rests, "{told:?}");
                    }
                    _ => {}
                }
            }
            if stored.is_none() && !matches!(step.actions.iter().next(), Some(Action::Forget(_))) {
                prop_assert_eq!(step.record, record, "what is not stored has not changed");
            }
            record = step.record;
        }
    }

    /// An opaque tool gets one attempt of an operation that may have run, whatever happens: another follows only one of which
    /// the tool says that it did not, and only where one dispatch is one delivery.
    #[test]
    fn an_opaque_tool_is_never_sent_a_second_attempt(mut policy in policies(), events in events()) {
        policy.tool = ToolKind::Opaque;
        let mut record: Option<Record<u8>> = None;
        let mut did_not_run = 0;
        for event in events {
            let step = policy.step(record.as_ref(), &event);
            let begins = step.record.map(|r| r.generation()) != record.map(|r| r.generation());
            let latest = record.and_then(|r| r.attempt_id());
            match event.what {
                _ if begins => did_not_run = 0,
                What::Reply { of, reply: Reply::Error(ErrorClass::Busy, _) }
                    if latest == Some(of) && policy.single_delivery =>
                {
                    did_not_run = of.attempt.get();
                }
                _ => {}
            }
            record = step.record;
            if let Some(sent) = record.and_then(|r| r.sent()) {
                prop_assert!(sent.attempt().get() <= did_not_run + 1 && sent.attempt().get() <= policy.retry.attempts);
            }
        }
    }

    /// Told `failed` only if no attempt can be on its way of which nothing was heard: each was answered with an error that
    /// rules an effect out, was sealed, or was seen not to have applied. (Tools that can't tell, and have no memory.)
    #[test]
    fn failed_needs_news_of_every_attempt(mut policy in policies(), kind in 0..3, events in events()) {
        policy.tool = [
            ToolKind::Opaque,
            ToolKind::Idempotent,
            ToolKind::Deduplicates { limit: 200, margin: 10, remembers_rejections: false },
        ][kind as usize];
        let mut record: Option<Record<u8>> = None;
        let mut ruled_out = std::collections::BTreeSet::new();
        for event in events {
            let step = policy.step(record.as_ref(), &event);
            if let What::Reply { of, reply: Reply::Error(class, _) } = event.what
                && (class != ErrorClass::Unproven || policy.errors_final)
            {
                ruled_out.insert(of);
            }
            let by_person = matches!(event.what, What::Decide { .. });
            let settles = !record.is_some_and(|r| r.is_settled());
            record = step.record;
            let Some(record) = record else { continue };
            if let State::Settled { verdict: Verdict::Failed(_), sent: Some(sent), .. } = *record.state()
                && settles
                && !by_person
            {
                let of = |n| AttemptId { generation: record.generation(), attempt: attempt(n) };
                let open = (1..=sent.attempt().get()).find(|n| !ruled_out.contains(&of(*n)));
                prop_assert_eq!(open, None, "{:?}", record);
            }
        }
    }

    /// Full jitter stays within its ceiling, and neither overflows nor panics.
    #[test]
    fn backoff_is_bounded(base in any::<u64>(), cap in any::<u64>(), failures in any::<u32>(), draw in any::<u32>()) {
        let backoff = Backoff { base, cap };
        prop_assert!(backoff.delay(failures, draw) <= cap);
        prop_assert_eq!(backoff.delay(failures, 0), 0);
    }
}

/// A slow answer may have come too late for its caller: repeats are replays until the doubt is over, or an answer arrives
/// in time.
#[test]
fn a_delivery_in_doubt_counts_later() {
    let policy = Policy { repeat: Repeat { ends: Ends::OnDelivery, window: None }, ..Policy::new(ToolKind::Opaque) };
    let at = |now: u64, what| Event { now: Time(now), by: Epoch(1), draw: 0, what };
    let call = What::Call { fingerprint: 1u8, start: Start::Now };
    for reply in [Reply::Result(7), Reply::Error(ErrorClass::Unproven, 7)] {
        let first = policy.step(None, &at(100, call)).record.unwrap();
        let of = first.attempt_id().unwrap();
        let answered = policy.step(Some(&first), &at(200, What::Reply { of, reply })).record.unwrap();
        let doubted = What::Delivered { generation: of.generation, from: Time(300) };
        let doubted = policy.step(Some(&answered), &at(200, doubted)).record.unwrap();
        let repeated = policy.step(Some(&doubted), &at(299, call)).record.unwrap();
        assert_eq!(repeated.generation(), first.generation(), "a repeat in doubt is no new wish");
        if let Reply::Result(_) = reply {
            // Its answer may be lost, too: until one arrives, every repeat is a retry.
            let later = policy.step(Some(&repeated), &at(10_000, call)).record.unwrap();
            assert_eq!(later.generation(), first.generation());
        }
        assert!(policy.step(Some(&doubted), &at(300, call)).record.unwrap().generation() > first.generation());
        let sooner = What::Delivered { generation: of.generation, from: Time(250) };
        let sooner = policy.step(Some(&doubted), &at(250, sooner)).record.unwrap();
        assert!(policy.step(Some(&sooner), &at(250, call)).record.unwrap().generation() > first.generation());
    }
}

/// A key that was forgotten and claimed again: nothing that is still on its way from before counts for the new operation.
#[test]
fn a_forgotten_key_does_not_begin_its_numbers_again() {
    let window = Some(60_000);
    let policy = Policy { repeat: Repeat { ends: Ends::OnFailure, window }, ..Policy::new(ToolKind::Opaque) };
    let at = |now: u64, what| Event { now: Time(now), by: Epoch(1), draw: 0, what };
    let call = What::Call { fingerprint: 1u8, start: Start::Now };
    let first = policy.step(None, &at(1_000_000, call)).record.unwrap();
    let of = first.attempt_id().unwrap();
    let mut record = Some(first);
    for what in
        [What::Lost { of, how: Loss::TimedOut }, What::Decide { verdict: Verdict::Abandoned(None), quiet: true }]
    {
        record = policy.step(record.as_ref(), &at(1_000_100, what)).record;
    }
    assert!(policy.step(record.as_ref(), &at(1_100_000, What::Expire)).record.is_none());
    let second = policy.step(None, &at(1_100_001, call)).record.unwrap();
    assert!(second.version() > record.unwrap().version(), "versions never restart");
    let late = policy.step(Some(&second), &at(1_100_002, What::Reply { of, reply: Reply::Result(7) }));
    assert_eq!(late.record, Some(second), "the old attempt's reply is not the new one's");
    let delivered = policy
        .step(Some(&second), &at(1_100_002, What::Delivered { generation: of.generation, from: Time(1_100_002) }));
    assert_eq!(delivered.record, Some(second));
}

/// Every state and every action is reached by the random runs: the properties above are not kept by doing nothing.
#[test]
fn random_runs_reach_everything() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20_000 {
        let policy = policies().new_tree(&mut runner).unwrap().current();
        let mut record: Option<Record<u8>> = None;
        for event in events().new_tree(&mut runner).unwrap().current() {
            let step = policy.step(record.as_ref(), &event);
            record = step.record;
            if let Some(record) = record {
                seen.insert(record.state().name().to_owned());
            }
            for action in step.actions.iter() {
                let text = format!("{action:?}");
                seen.insert(text.split([' ', '(']).next().unwrap().to_owned());
                if let Action::Answer(answer) = action {
                    seen.insert(format!("{answer:?}").split([' ', '{']).next().unwrap().to_owned());
                }
            }
        }
        if seen.len() >= 20 {
            break;
        }
    }
    for expected in [
        "intent created",
        "dispatched",
        "unknown",
        "escalated",
        "confirmed",
        "settled",
        "Store",
        "Forget",
        "Dispatch",
        "Observe",
        "Seal",
        "Answer",
        "Wait",
        "Escalate",
        "Refuse",
        "Done",
        "Failed",
        "Unknown",
        "Conflict",
    ] {
        assert!(seen.contains(expected), "never reached: {expected}; reached: {seen:?}");
    }
}

//! The model's counterexamples on real processes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;
use std::time::Duration;

use settled_model::{Limits, PropertyName, Trace, check, library};
use settled_replay::{Options, Program, TraceError, Verdict, all, read, replay, survive, table};

fn options() -> Options {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_settled-replay-part"));
    Options {
        program: Program { path, arguments: Vec::new() },
        patience: Duration::from_secs(60),
        ledger: None,
        keep: None,
        proxy: None,
        mistakes: true,
    }
}

fn traces(name: &str) -> Vec<Trace> {
    let report = check(&library::load(name).unwrap(), Limits::default(), |_| {}).unwrap();
    report.violations().map(|(_, trace)| trace.clone()).collect()
}

fn trace(name: &str, property: PropertyName) -> Trace {
    traces(name).into_iter().find(|trace| trace.property == property).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_counterexample_happens_and_every_sound_protocol_survives_its_schedule() {
    let all = all(&[], &options(), 8, |_| {}).await.unwrap();
    assert!(all.agrees(), "{}", table::wrong(&all).join("\n\n"));
    let replayed = |name: &str| all.rows.iter().any(|row| row.protocol == name);
    for (name, _) in library::SHIPPED {
        assert!(replayed(name) || all.sound.iter().any(|sound| sound == name), "{name} is missing");
    }
    assert!(all.rows.len() >= 98, "{} counterexamples", all.rows.len());
    for row in &all.rows {
        assert!(row.replay.agrees(), "{}: there is nothing to replay it on", row.protocol);
        assert!(row.survival.is_some(), "{}: nothing to compare with", row.protocol);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_that_make_no_mistake_part_from_the_trace() {
    let options = Options { mistakes: false, patience: Duration::from_secs(3), ..options() };
    for (name, property, at) in [
        ("claim-read-then-write", PropertyName::AtMostOnce, 8),
        ("server-error-means-failed", PropertyName::NoFalseFailure, 5),
        ("lease-shorter-than-call", PropertyName::AtMostOnce, 6),
        ("no-fingerprint", PropertyName::NoSuppression, 8),
        ("optimistic-answer", PropertyName::NoPhantomSuccess, 3),
        ("volatile-intent", PropertyName::AtMostOnce, 7),
    ] {
        let outcome = replay(&trace(name, property), &options).await.unwrap();
        match &outcome.verdict {
            Verdict::Parted { step, .. } => assert_eq!(*step, at, "{}", table::outcome(&outcome)),
            other => panic!("{name}: {other:?}"),
        }
        assert!(!outcome.violated, "{name}");
    }
    // Where nothing but the end tells, it is the end that differs.
    for (name, property) in [
        ("volatile-intent", PropertyName::IntentFirst),
        ("ietf-idempotency-key", PropertyName::CanSettle),
        ("in-progress-for-ever", PropertyName::CanSettle),
    ] {
        let outcome = replay(&trace(name, property), &options).await.unwrap();
        assert_eq!(outcome.verdict, Verdict::Differs, "{}", table::outcome(&outcome));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsound_protocol_does_not_survive() {
    for (schedule, property, guard) in [
        ("lease-shorter-than-call", PropertyName::AtMostOnce, "lease-shorter-than-call"),
        ("naive-retry", PropertyName::NoFalseFailure, "server-error-means-failed"),
        ("not-found-means-failed", PropertyName::AtMostOnce, "not-found-means-failed"),
    ] {
        let survival = survive(&trace(schedule, property), &library::load(guard).unwrap(), &options()).await.unwrap();
        assert!(!survival.survived(), "{survival:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_a_replay_can_be_kept() {
    let keep = tempfile::tempdir().unwrap();
    let options = Options { keep: Some(keep.path().to_owned()), ..options() };
    let outcome = replay(&trace("redis-failover", PropertyName::AtMostOnce), &options).await.unwrap();
    assert!(outcome.agrees(), "{}", table::outcome(&outcome));
    let kept = outcome.kept.unwrap();
    for file in ["conductor.log", "effects.jsonl", "guard-1.history.jsonl", "verified.txt", "ledger"] {
        assert!(kept.join(file).exists(), "{file}");
    }
    assert_eq!(outcome.told, Vec::<String>::new(), "its answers were lost");
    assert!(outcome.verified.unwrap().iter().any(|name| name == "at-most-once"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_trace_is_refused() {
    let good = trace("mcp-2025-11-25", PropertyName::AtMostOnce);
    let text = serde_json::to_string(&good).unwrap();
    assert_eq!(read(&text).unwrap(), good);
    let refused = |text: &str| read(text).unwrap_err();
    assert!(matches!(refused(&text[..text.len() / 2]), TraceError::NoTrace(_)));
    assert!(matches!(refused("{\"format\": 2, \"steps\": []}"), TraceError::NoTrace(_)));
    assert!(matches!(refused("[1, 2]"), TraceError::NoTrace(_)));
    assert!(matches!(refused(&text.replacen("\"format\":2", "\"format\":7", 1)), TraceError::Format { found: 7 }));

    let mut swapped = good.clone();
    swapped.steps.swap(1, 2);
    match replay(&swapped, &options()).await.unwrap_err() {
        TraceError::NotARun { step, .. } => assert_eq!(step, 2),
        other => panic!("{other}"),
    }
    let mut other = good.clone();
    other.description["guard"]["processes"] = 1.into();
    assert!(matches!(replay(&other, &options()).await, Err(TraceError::NotARun { step: 1, .. })));
    other.description["guard"]["processes"] = 9.into();
    assert!(matches!(replay(&other, &options()).await, Err(TraceError::Description(_))));
}

#[tokio::test]
async fn what_is_said_of_the_whole_trace_must_be_so() {
    let sound = trace("claim-read-then-write", PropertyName::AtMostOnce);
    let renamed = Trace { protocol: "../../elsewhere".to_owned(), ..sound.clone() };
    assert!(matches!(replay(&renamed, &options()).await, Err(TraceError::Description(_))));
    let rounds = Trace { round: Some(sound.steps.len()), ..sound };
    assert!(matches!(replay(&rounds, &options()).await, Err(TraceError::NoTrace(_))));
}

#[tokio::test]
async fn a_process_that_does_not_start_says_why() {
    let options = Options { ledger: Some("nonsense://somewhere".to_owned()), ..options() };
    let outcome = replay(&trace("claim-read-then-write", PropertyName::AtMostOnce), &options).await.unwrap();
    let Verdict::Parted { step: 0, parted, .. } = outcome.verdict else { panic!("{:?}", outcome.verdict) };
    assert!(parted.seen.contains("nonsense"), "{}", parted.seen);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_engine_refuses_by_design_is_said_to_be_that() {
    let text = library::text("settled-observable").unwrap().replace("settled-observable", "hand-made");
    let text = text.replace("processes = 2", "processes = 2\nrules = { wait-for-quiet = false }");
    let report = check(&settled_model::parse("hand-made", &text).unwrap(), Limits::default(), |_| {}).unwrap();
    let trace =
        |property| report.violations().map(|(_, trace)| trace).find(|trace| trace.property == property).unwrap();
    let options = Options { patience: Duration::from_secs(5), ..options() };
    // Another guard than the one that has recorded the operation as unknown asks about it.
    let outcome = replay(trace(PropertyName::AtMostOnce), &options).await.unwrap();
    let Verdict::NoImplementation { reason } = &outcome.verdict else { panic!("{}", table::outcome(&outcome)) };
    assert!(reason.contains("step 5") && reason.contains("leaves that to guard 1"), "{reason}");
    // That one is no longer there.
    let outcome = replay(trace(PropertyName::UnknownBlocks), &options).await.unwrap();
    assert!(outcome.agrees(), "{}", table::outcome(&outcome));
}

/// A guard may have asked just before its clock goes on, and be heard only after that.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_from_before_the_clock_went_on_is_asked_again() {
    let options = Options { patience: Duration::from_secs(20), ..options() };
    let traces = traces("settling-too-short");
    // A matter of luck: of some hundred replays on a busy machine it is one.
    for _ in 0..8 {
        let all: Vec<_> = std::iter::repeat_n(&traces, 8).flatten().cloned().collect();
        let replays = all.into_iter().map(|trace| {
            let options = options.clone();
            async move { replay(&trace, &options).await.unwrap() }
        });
        for outcome in replays.collect::<tokio::task::JoinSet<_>>().join_all().await {
            assert!(outcome.agrees(), "{}", table::outcome(&outcome));
        }
    }
}

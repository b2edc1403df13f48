//! Functions wrapped by a guard: what they return, what their errors prove, and what a second process makes of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use settled::protocol::{Backoff, Ends, Policy, Repeat, Retry, ToolKind};
use settled::{
    Attempting, Engine, EngineOptions, Failure, Guard, GuardError, Guarded, Handler, Ledger, Limits, MemoryLedger,
    NotDone, Operation, Question, Resource, Seen, applied,
};

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Order {
    customer: String,
    cents: u64,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Receipt {
    number: u32,
}

fn order() -> Order {
    Order { customer: "alice".into(), cents: 4200 }
}

fn policy(tool: ToolKind) -> Policy {
    let retry = Retry { attempts: 3, checks: 3, backoff: Backoff { base: 1, cap: 2 }, ..Retry::default() };
    Policy { retry, ..Policy::new(tool) }
}

fn operation(policy: Policy) -> Operation {
    Guard::operation("shop", "charge").key("order 7").unwrap().arguments(&order()).unwrap().policy(policy).build()
}

async fn guard_on(ledger: &Arc<MemoryLedger>) -> Guard {
    Guard::new(Engine::start(ledger.clone(), EngineOptions::default()).await.unwrap())
}

async fn guard() -> Guard {
    guard_on(&Arc::new(MemoryLedger::new())).await
}

/// Counts calls.
#[derive(Clone, Default)]
struct Till(Arc<AtomicU32>);

impl Till {
    fn charge(&self) -> Receipt {
        Receipt { number: self.0.fetch_add(1, Ordering::SeqCst) + 1 }
    }

    fn charges(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

const fn done(number: u32, replayed: bool) -> Guarded<Receipt> {
    Guarded::Done { value: Receipt { number }, replayed }
}

/// Calls by a function that charges and then returns this error.
async fn call_failing(guard: &Guard, till: &Till, policy: Policy, error: Failure) -> Guarded<Receipt> {
    let till = till.clone();
    let function = move || {
        till.charge();
        std::future::ready(Err(error.clone()))
    };
    guard.call(operation(policy), function).await.unwrap()
}

#[tokio::test]
async fn a_function_runs_once_and_its_result_is_replayed_by_a_later_process() {
    let (ledger, till) = (Arc::new(MemoryLedger::new()), Till::default());
    for (process, replayed) in [(1, false), (2, true)] {
        let guard = guard_on(&ledger).await;
        let charge = till.clone();
        let told = guard
            .call(operation(policy(ToolKind::Opaque)), move || {
                let charge = charge.clone();
                async move { Ok::<_, String>(charge.charge()) }
            })
            .await
            .unwrap();
        assert_eq!(told, done(1, replayed), "process {process}");
        assert_eq!(told.done(), Ok(Receipt { number: 1 }));
    }
    assert_eq!(till.charges(), 1);
}

#[tokio::test]
async fn two_callers_at_once_share_one_run() {
    let (guard, till) = (guard().await, Till::default());
    let call = || {
        let till = till.clone();
        guard.call(operation(policy(ToolKind::Opaque)), move || {
            let till = till.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Ok::<_, String>(till.charge())
            }
        })
    };
    let (one, other) = tokio::join!(call(), call());
    let mut told = [one.unwrap(), other.unwrap()];
    told.sort_by_key(|told| matches!(told, Guarded::Done { replayed: true, .. }));
    assert_eq!(told, [done(1, false), done(1, true)]);
    assert_eq!(till.charges(), 1);
}

#[tokio::test]
async fn any_error_leaves_the_outcome_unknown_and_is_not_tried_again() {
    let (guard, till) = (guard().await, Till::default());
    for _ in 0..2 {
        let charge = till.clone();
        let told: Guarded<Receipt> = guard
            .call(operation(policy(ToolKind::Opaque)), move || {
                charge.charge();
                std::future::ready(Err("the line went dead"))
            })
            .await
            .unwrap();
        let Guarded::Unknown { key, error } = &told else { panic!("{told:?}") };
        assert_eq!((key.id(), error.as_deref()), ("order 7", Some("the line went dead")));
        assert!(matches!(told.done(), Err(NotDone::Unknown(_))));
    }
    assert_eq!(till.charges(), 1);
}

#[tokio::test]
async fn a_panic_leaves_the_outcome_unknown() {
    let guard = guard().await;
    let function = || async { if true { panic!("after the effect") } else { Ok::<_, String>(1) } };
    let told: Guarded<u32> = guard.call(operation(policy(ToolKind::Opaque)), function).await.unwrap();
    assert!(matches!(told, Guarded::Unknown { error: None, .. }), "{told:?}");
}

#[tokio::test]
async fn a_refusal_is_a_failure_and_replayed() {
    let (guard, till) = (guard().await, Till::default());
    for replayed in [false, true] {
        let told = call_failing(&guard, &till, policy(ToolKind::Opaque), Failure::not_run("no such customer")).await;
        assert_eq!(told, Guarded::Failed { error: Some("no such customer".into()), replayed });
    }
    assert_eq!(till.charges(), 1);
}

#[tokio::test]
async fn unproven_errors_are_final_only_if_the_policy_says_so() {
    for errors_final in [false, true] {
        let policy = Policy { errors_final, ..policy(ToolKind::Opaque) };
        let told = call_failing(&guard().await, &Till::default(), policy, Failure::unproven("declined")).await;
        assert_eq!(matches!(told, Guarded::Failed { .. }), errors_final, "{told:?}");
        assert_eq!(matches!(told, Guarded::Unknown { .. }), !errors_final, "{told:?}");
    }
}

#[tokio::test]
async fn a_busy_function_is_called_again_as_another_attempt() {
    let (guard, till) = (guard().await, Till::default());
    let charge = till.clone();
    let told = guard
        .call_with(operation(policy(ToolKind::Opaque)), move |attempting: Attempting| {
            let charge = charge.clone();
            async move {
                assert_eq!(attempting.arguments::<Order>().unwrap(), order());
                assert_eq!(attempting.key.id(), "order 7");
                match attempting.attempt.attempt.get() {
                    1 => Err(Failure::busy("later", Some(Duration::from_millis(20)))),
                    _ => Ok(charge.charge()),
                }
            }
        })
        .await
        .unwrap();
    assert_eq!(told, done(1, false));
    let told = call_failing(
        &self::guard().await,
        &till,
        Policy { retry: Retry { attempts: 1, ..Retry::default() }, ..policy(ToolKind::Opaque) },
        Failure::busy("closed", None),
    )
    .await;
    assert_eq!(told, Guarded::Failed { error: Some("closed".into()), replayed: false });
}

#[tokio::test]
async fn other_arguments_conflict_and_the_order_of_members_does_not_matter() {
    let guard = guard().await;
    let call = |arguments: serde_json::Value| {
        let keyed = Guard::operation("shop", "charge").key("order 7").unwrap();
        guard.call(keyed.arguments(&arguments).unwrap().build(), || async { Ok::<_, String>(1) })
    };
    let first = call(serde_json::json!({"customer": "alice", "cents": 4200})).await.unwrap();
    assert_eq!(first, Guarded::Done { value: 1, replayed: false });
    let again = call(serde_json::json!({"cents": 4200.0, "customer": "alice"})).await.unwrap();
    assert_eq!(again, Guarded::Done { value: 1, replayed: true });
    let other = call(serde_json::json!({"customer": "alice", "cents": 4201})).await.unwrap();
    assert!(matches!(other, Guarded::Conflict { .. }), "{other:?}");
}

#[tokio::test]
async fn an_observer_settles_what_an_error_left_open() {
    let (guard, till) = (guard().await, Till::default());
    let charge = till.clone();
    let handler = Handler::new(move |_| {
        charge.charge();
        std::future::ready(Err::<Receipt, _>("the answer was lost"))
    })
    .observe(|question: Question| async move {
        assert_eq!(serde_json::from_slice::<Order>(&question.arguments).unwrap(), order());
        applied(&Receipt { number: 1 })
    });
    let observable = policy(ToolKind::Observable { settling: 1 });
    let told = guard.call_handler(operation(observable), &handler).await.unwrap();
    assert_eq!(told, done(1, false));
    assert_eq!(till.charges(), 1);
}

#[tokio::test]
async fn a_seal_makes_a_failure_certain() {
    let guard = guard().await;
    let handler = Handler::new(|_| std::future::ready(Err::<Receipt, _>("no answer")))
        .seal(|_, _| std::future::ready(Seen::Sealed));
    let told = guard.call_handler(operation(policy(ToolKind::Sealable)), &handler).await.unwrap();
    assert_eq!(told, Guarded::Failed { error: Some("no answer".into()), replayed: false });
}

#[tokio::test]
async fn a_registered_handler_takes_further_what_a_dead_process_left() {
    let (ledger, till) = (Arc::new(MemoryLedger::new()), Till::default());
    let idempotent = policy(ToolKind::Idempotent);
    // Idempotent only while nothing else is done to the account, which is therefore the operation's alone.
    let operation = move || {
        let resource = Some(Resource { scope: "shop".into(), name: "alice".into() });
        Operation { resource, ..operation(idempotent) }
    };
    let first = guard_on(&ledger).await;
    let dying = first.clone();
    let never =
        tokio::spawn(async move { dying.call(operation(), std::future::pending::<Result<Receipt, String>>).await });
    while ledger.scan(settled::Filter::Unsettled).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    ledger.retire(first.engine().epoch()).await.unwrap();

    let second = guard_on(&ledger).await;
    let charge = till.clone();
    let handler = Handler::new(move |attempting: Attempting| {
        let told = attempting.arguments::<Order>().map(|asked| {
            assert_eq!(asked, order());
            charge.charge()
        });
        std::future::ready(told.map_err(Failure::not_run))
    });
    let limits = Limits { transit: Duration::from_millis(1), ..Limits::default() };
    second.register("charge", idempotent, limits, &handler).unwrap();
    let maintained = second.clone();
    let maintaining = tokio::spawn(async move { maintained.maintain(Duration::from_millis(10)).await });
    let told = tokio::time::timeout(Duration::from_secs(20), async {
        while till.charges() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        second.call_handler(operation(), &handler).await.unwrap()
    });
    assert_eq!(told.await.unwrap(), done(1, true));
    assert_eq!(till.charges(), 1);
    maintaining.abort();
    never.abort();
}

#[tokio::test]
async fn a_result_that_cannot_be_read_is_no_failure() {
    let guard = guard().await;
    let call = || operation(policy(ToolKind::Opaque));
    let told = guard.call(call(), || async { Ok::<_, String>("text".to_owned()) }).await.unwrap();
    assert_eq!(told, Guarded::Done { value: "text".to_owned(), replayed: false });
    let error = guard.call(call(), || async { Ok::<_, String>(7) }).await.unwrap_err();
    assert!(matches!(error, GuardError::Unreadable { .. }), "{error:?}");
    assert!(error.to_string().contains("happened"), "{error}");

    let guard = self::guard().await;
    let unwritable = || async { Ok::<_, String>(BTreeMap::from([((1, 2), 3)])) };
    let error = guard.call(call(), unwritable).await.unwrap_err();
    assert!(matches!(error, GuardError::Unreadable { .. }), "{error:?}");
}

#[tokio::test]
async fn results_that_are_kept_too_shortly_are_refused() {
    let guard = guard().await.callers_retry_for(Duration::from_secs(3_600));
    let handler = Handler::new(|_| async { Ok::<_, String>(Receipt { number: 1 }) });
    let kept = |window| Policy { repeat: Repeat { ends: Ends::WithWindow, window }, ..policy(ToolKind::Opaque) };
    for (window, accepted) in [(None, true), (Some(3_600_000), true), (Some(3_599_999), false)] {
        let registered = guard.register("charge", kept(window), Limits::default(), &handler);
        assert_eq!(registered.is_ok(), accepted, "{window:?}: {registered:?}");
    }
    let refused = guard.call_handler(operation(kept(Some(3_599_999))), &handler).await;
    assert!(matches!(refused, Err(GuardError::RetentionTooShort { .. })), "{refused:?}");
    // The copies that the engine itself may have sent count as well: 300 s of attempts, 600 s of waiting, 60 s of transit.
    let patient = self::guard().await;
    for (window, accepted) in [(960_000, true), (959_999, false)] {
        let registered = patient.register("charge", kept(Some(window)), Limits::default(), &handler);
        assert_eq!(registered.is_ok(), accepted, "{window:?}: {registered:?}");
    }
}

#[test]
fn keys_and_arguments_that_are_none_are_refused() {
    let no_key = Guard::operation("shop", "charge").key("");
    assert!(matches!(no_key, Err(GuardError::Key(_))), "{no_key:?}");
    let keyed = Guard::operation("shop", "charge").key("order 7").unwrap();
    let no_json = keyed.arguments(&BTreeMap::from([((1, 2), 3)]));
    assert!(matches!(no_json, Err(GuardError::Arguments(_))), "{no_json:?}");
}

//! One engine: duplicates, conflicts, timeouts, deliveries.

use std::time::Duration;

use crate::support::*;
use settled::protocol::{Ends, ToolKind};
use settled::{Answer, EngineOptions, Ledger};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_call_takes_effect_once_in_two_durable_writes_and_is_replayed() {
    let world = World::new().await;
    let tool = Script::new([Play::Effect(SECOND, result("charged"))]);
    assert_eq!(call(&world.engine, opaque(), &tool).await, done("charged", false));
    assert_eq!(call(&world.engine, opaque(), &tool).await, done("charged", true));
    assert_eq!(tool.sends(), 1);
    let events: Vec<_> = world.ledger.history(&key()).await.unwrap().into_iter().map(|change| change.event).collect();
    assert_eq!(events, ["call", "result"]);
    world.engine.idle().await;
}

#[tokio::test(start_paused = true)]
async fn a_stampede_of_duplicates_is_one_dispatch_and_one_claim() {
    let world = World::new().await;
    let tool = Script::new([Play::Effect(SECOND, result("charged"))]);
    let calls: Vec<_> = (0..10_000).map(|_| spawn_call(&world.engine, operation(opaque()), &tool)).collect();
    let mut first = 0;
    for call in calls {
        match call.await.unwrap().unwrap().answer {
            Answer::Done { result, replayed } => {
                assert_eq!(result, "charged");
                first += usize::from(!replayed);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((first, tool.sends()), (1, 1));
    assert_eq!(world.ledger.history(&key()).await.unwrap().len(), 2);
}

#[tokio::test]
async fn many_threads_on_few_keys_send_once_per_key() {
    let ledger = std::sync::Arc::new(settled::MemoryLedger::new());
    let runtime = tokio::runtime::Handle::current();
    assert_eq!(runtime.runtime_flavor(), tokio::runtime::RuntimeFlavor::CurrentThread);
    let worked = std::thread::spawn(move || {
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap().block_on(async {
            let engine = settled::Engine::start(ledger, EngineOptions::default()).await.unwrap();
            let tool = Script::new([]);
            let calls: Vec<_> = (0..2_000)
                .map(|n| {
                    let mut operation = operation(opaque());
                    operation.key = settled::protocol::Key::new("test", "charge", format!("{}", n % 20)).unwrap();
                    spawn_call(&engine, operation, &tool)
                })
                .collect();
            for call in calls {
                assert!(matches!(call.await.unwrap().unwrap().answer, Answer::Done { .. }));
            }
            tool.sends()
        })
    });
    assert_eq!(tokio::task::spawn_blocking(|| worked.join().unwrap()).await.unwrap(), 20);
}

#[tokio::test(start_paused = true)]
async fn other_arguments_conflict_at_once_and_learn_nothing() {
    let world = World::new().await;
    let tool = Script::new([Play::Effect(5 * SECOND, result("charged 4200"))]);
    let first = spawn_call(&world.engine, operation(opaque()), &tool);
    world.until("dispatched").await;
    let other = || world.engine.call(with_arguments(opaque(), "{\"cents\":1}"), tool.clone());
    let during = tokio::time::timeout(SECOND, other()).await.expect("a conflict does not wait for the call").unwrap();
    assert_eq!(first.await.unwrap().unwrap().answer, done("charged 4200", false));
    for conflict in [during, other().await.unwrap()] {
        assert_eq!((conflict.answer, conflict.generation, conflict.created), (Answer::Conflict, 0, 0));
    }
    assert_eq!(tool.sends(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_unknown_and_the_late_reply_settles_it() {
    let world = World::new().await;
    let tool = Script::new([Play::Effect(TIMEOUT + 5 * SECOND, result("charged"))]);
    assert_eq!(call(&world.engine, opaque(), &tool).await, unknown(false));
    assert_eq!(call(&world.engine, opaque(), &tool).await, unknown(true));
    assert_eq!((world.state().await, world.alerts.count()), ("escalated", 1));
    world.engine.idle().await;
    assert_eq!(world.state().await, "settled");
    assert_eq!(call(&world.engine, opaque(), &tool).await, done("charged", true));
    assert_eq!(tool.sends(), 1);
}

#[tokio::test(start_paused = true)]
async fn errors_of_an_opaque_tool_are_unknown_unless_the_tool_did_not_run() {
    for (reply, expected) in [
        (error("500"), Answer::Unknown { error: Some("500".into()), replayed: false }),
        (not_run("no such tool"), Answer::Failed { error: Some("no such tool".into()), replayed: false }),
        (settled::ToolReply::ConnectionLost, unknown(false)),
    ] {
        let world = World::new().await;
        let tool = Script::new([Play::Effect(SECOND, reply)]);
        assert_eq!(call(&world.engine, opaque(), &tool).await, expected);
        let again = call(&world.engine, opaque(), &tool).await;
        match (expected, again) {
            (Answer::Unknown { error: first, .. }, Answer::Unknown { error, replayed: true }) => {
                assert_eq!(first, error)
            }
            (Answer::Failed { error: first, .. }, Answer::Failed { error, replayed: true }) => assert_eq!(first, error),
            (first, again) => panic!("{first:?}, then {again:?}"),
        }
        assert_eq!(tool.sends(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_transport_is_a_lost_connection() {
    let world = World::new().await;
    let tool = Script::new([Play::Panic]);
    let start = tokio::time::Instant::now();
    assert_eq!(call(&world.engine, opaque(), &tool).await, unknown(false));
    world.engine.idle().await;
    assert_eq!((tool.sends(), world.state().await), (1, "escalated"));
    assert!(start.elapsed() < TIMEOUT, "the panic was only noticed by the timeout");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_cancels_nothing() {
    let world = World::new().await;
    let tool = Script::new([Play::Effect(5 * SECOND, result("charged"))]);
    let caller = spawn_call(&world.engine, operation(opaque()), &tool);
    world.until("dispatched").await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    let joined = spawn_call(&world.engine, operation(opaque()), &tool);
    world.engine.idle().await;
    assert_eq!(world.state().await, "settled");
    assert_eq!(joined.await.unwrap().unwrap().answer, done("charged", true));
    assert_eq!(tool.sends(), 1);
}

#[tokio::test(start_paused = true)]
async fn patience_ends_in_progress_and_the_call_goes_on() {
    let (options, alerts) = options();
    let world = World::with(EngineOptions { patience: Some(SECOND), ..options }, alerts).await;
    let tool = Script::new([Play::Effect(5 * SECOND, result("charged"))]);
    let first = spawn_call(&world.engine, operation(opaque()), &tool);
    world.until("dispatched").await;
    assert_eq!(call(&world.engine, opaque(), &tool).await, Answer::InProgress);
    assert_eq!(call(&world.another().await, opaque(), &tool).await, Answer::InProgress);
    assert_eq!(first.await.unwrap().unwrap().answer, done("charged", false));
    assert_eq!(tool.sends(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_instead_is_sent_and_recorded() {
    let world = World::new().await;
    let tool = Script::new([]);
    let mut operation = operation(opaque());
    operation.send_instead = Some("{\"cents\":4200,\"key\":\"k\"}".into());
    world.engine.call(operation.clone(), tool.clone()).await.unwrap();
    let entry = world.ledger.get(&key()).await.unwrap().unwrap();
    assert_eq!((entry.asked, entry.sent.clone()), (operation.asked, operation.send_instead));
    assert_eq!(tool.sent()[0].2, entry.sent.unwrap());
}

#[tokio::test(start_paused = true)]
async fn repeats_are_new_wishes_after_a_delivery_and_replays_before_it() {
    let world = World::new().await;
    let tool = Script::new([]);
    let policy = ends(ToolKind::Opaque, Ends::OnDelivery);
    let ask = || world.engine.call(operation(policy), tool.clone());

    let first = ask().await.unwrap();
    drop(world.engine.delivering(&first, policy).await);
    assert_eq!(ask().await.unwrap().answer, done("ok", true));

    let delivery = world.engine.delivering(&first, policy).await;
    let waits = spawn_call(&world.engine, operation(policy), &tool);
    tokio::time::sleep(SECOND).await;
    assert!(!waits.is_finished(), "a call must wait while an answer of its key is being delivered");
    delivery.confirm(Duration::ZERO).await.unwrap();
    let second = waits.await.unwrap().unwrap();
    assert_eq!(second.answer, done("ok", false));
    assert!(second.generation > first.generation);
    assert_eq!(tool.sends(), 2);

    // In doubt, a repeat is a replay, and shows that the answer had not arrived. Unasked for, it ends the operation.
    world.engine.delivering(&second, policy).await.confirm(10 * SECOND).await.unwrap();
    assert_eq!(ask().await.unwrap().answer, done("ok", true));
    tokio::time::sleep(11 * SECOND).await;
    assert_eq!(ask().await.unwrap().answer, done("ok", true));
    world.engine.delivering(&second, policy).await.confirm(10 * SECOND).await.unwrap();
    tokio::time::sleep(11 * SECOND).await;
    assert!(ask().await.unwrap().generation > second.generation);
}

#[tokio::test(start_paused = true)]
async fn a_late_confirmation_does_not_end_a_later_operation() {
    let world = World::new().await;
    let tool = Script::new([Play::NoEffect(SECOND, not_run("no"))]);
    let policy = ends(ToolKind::Opaque, Ends::OnDelivery);
    let failed = world.engine.call(operation(policy), tool.clone()).await.unwrap();
    let second = world.engine.call(operation(policy), tool.clone()).await.unwrap();
    assert_eq!(second.answer, done("ok", false));
    assert!(second.generation > failed.generation);
    world.engine.delivering(&failed, policy).await.confirm(Duration::ZERO).await.unwrap();
    assert_eq!(world.engine.call(operation(policy), tool.clone()).await.unwrap().answer, done("ok", true));
}

#[tokio::test(start_paused = true)]
async fn a_delivered_error_ends_the_operation_of_a_tool_whose_repeats_are_new() {
    let world = World::new().await;
    let tool = Script::new([Play::Effect(SECOND, error("isError"))]);
    let policy = ends(ToolKind::Opaque, Ends::OnDelivery);
    let first = world.engine.call(operation(policy), tool.clone()).await.unwrap();
    assert_eq!(first.answer, Answer::Unknown { error: Some("isError".into()), replayed: false });
    assert_eq!(world.alerts.count(), 0);
    world.engine.delivering(&first, policy).await.confirm(Duration::ZERO).await.unwrap();
    assert_eq!(world.engine.call(operation(policy), tool.clone()).await.unwrap().answer, done("ok", false));
}

#[tokio::test(start_paused = true)]
async fn a_damaged_outcome_is_never_told() {
    let world = World::new().await;
    let tool = Script::new([]);
    let mut other = operation(opaque());
    call(&world.engine, opaque(), &tool).await;
    // Another outcome under the record's name.
    let entry = world.ledger.get(&key()).await.unwrap().unwrap();
    other.key = settled::protocol::Key::new("test", "charge", "damaged").unwrap();
    let change = settled::Change {
        key: other.key.clone(),
        expected: None,
        record: entry.record,
        at: settled::protocol::Time(1),
        by: world.engine.epoch(),
        event: "damage".into(),
        asked: Some(entry.asked),
        sent: None,
        outcome: Some("another result".into()),
        note: None,
        resource: None,
        keep_until: None,
    };
    world.ledger.compare_and_set(change).await.unwrap();
    assert_eq!(world.engine.call(other, tool.clone()).await.unwrap().answer, unknown(true));
    assert_eq!(tool.sends(), 1);
}

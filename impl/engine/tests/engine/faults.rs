//! A ledger that fails at any store, before or after it took effect: never two sends, never a success that did not happen,
//! never a failure that was none, and nobody hangs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::*;
use settled::protocol::{Ends, Key, Policy, ToolKind};
use settled::{Answer, Answered, Engine, EngineError, MemoryLedger, Operation, Seen};

const SECOND: Duration = Duration::from_secs(1);

/// Checks what a caller was told against what the tool did.
fn check(told: &Result<Answered, EngineError>, tool: &Script, doing: &str) {
    match told.as_ref().map(|answered| &answered.answer) {
        Ok(Answer::Done { .. }) => assert!(tool.effects() > 0, "phantom success: {doing}"),
        Ok(Answer::Failed { .. }) => assert_eq!(tool.effects(), 0, "false failure: {doing}"),
        Err(EngineError::NotSent(_)) => assert_eq!(tool.sends(), 0, "it was sent: {doing}"),
        Ok(Answer::Unknown { .. }) => {}
        other => panic!("{other:?}: {doing}"),
    }
}

async fn bounded<T>(doing: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(7_200), future).await.unwrap_or_else(|_| panic!("it hangs: {doing}"))
}

/// One call under a fault, a duplicate beside it, the same call again once the ledger is well, and again in a new process
/// after a recovery. Returns how many stores there were.
async fn scenario(policy: Policy, play: Play, sights: Vec<Seen>, ledger: Faulty, most_effects: usize) -> usize {
    let doing = format!(
        "{:?} from store {} for {} (reads too: {}, permanent: {}), {:?}",
        ledger.fault, ledger.first, ledger.count, ledger.reads_too, ledger.permanent, policy.tool
    );
    let memory = ledger.inner.clone();
    let ledger = Arc::new(ledger);
    let (options, _alerts) = options();
    let engine = Engine::start(ledger.clone(), options.clone()).await.unwrap();
    let tool = Script::seeing([play], sights);
    tool.be_truthful();

    let calls = [0, 1].map(|_| spawn_call(&engine, operation(policy), &tool));
    for call in calls {
        check(&bounded(&doing, call).await.unwrap(), &tool, &doing);
    }
    bounded(&doing, engine.idle()).await;
    let after = bounded(&doing, engine.call(operation(policy), tool.clone())).await;
    check(&after, &tool, &doing);
    bounded(&doing, engine.idle()).await;

    memory.kill(engine.epoch());
    let successor = Engine::start(memory.clone(), options).await.unwrap();
    bounded(&doing, successor.recover(&recoverable(policy, &tool))).await.unwrap();
    let told = bounded(&doing, successor.call(operation(policy), tool.clone())).await;
    assert!(told.is_ok(), "{told:?}: {doing}");
    check(&told, &tool, &doing);
    bounded(&doing, successor.idle()).await;
    assert!(tool.effects() <= most_effects, "{} effects: {doing}", tool.effects());
    ledger.stores.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn any_failing_store_of_an_opaque_call() {
    let plays = [
        Play::Effect(SECOND, result("charged")),
        Play::Effect(SECOND, error("500")),
        Play::NoEffect(SECOND, not_run("no")),
        Play::Effect(TIMEOUT + SECOND, result("late")),
        Play::Hang,
        Play::Panic,
    ];
    let mut scenarios = 0;
    for play in plays {
        // What never answers is never idle: bound it by a reply that takes a day less than the test's patience.
        let play = if matches!(play, Play::Hang) { Play::Effect(3_600 * SECOND, result("very late")) } else { play };
        for fault in [Fault::Before, Fault::After] {
            for (count, reads_too, permanent) in [
                (1, false, false),
                (1, true, false),
                (3, true, false),
                (usize::MAX, false, false),
                (usize::MAX, true, true),
            ] {
                for first in 1..=6 {
                    let memory = Arc::new(MemoryLedger::new());
                    let ledger = Faulty { reads_too, permanent, ..Faulty::new(memory, fault, first, count) };
                    scenario(opaque(), play.clone(), vec![], ledger, 1).await;
                    scenarios += 1;
                }
            }
        }
    }
    assert_eq!(scenarios, 6 * 2 * 5 * 6);
}

#[tokio::test(start_paused = true)]
async fn any_failing_store_of_tools_that_can_find_out() {
    let deduplicates = ToolKind::Deduplicates { limit: 600_000, margin: 1_000, remembers_rejections: false };
    let applied = || vec![Seen::Unclear, Seen::Applied("charged".into()), Seen::Applied("charged".into())];
    for (kind, sights, most_effects) in [
        // It applies a key once, however often it is sent; the script counts what it is sent.
        (deduplicates, vec![], usize::MAX),
        (ToolKind::Sealable, applied(), 1),
        (ToolKind::Observable { settling: 5_000 }, applied(), 1),
    ] {
        for fault in [Fault::Before, Fault::After] {
            for (count, reads_too) in [(1, false), (1, true), (usize::MAX, true)] {
                for first in 1..=8 {
                    let memory = Arc::new(MemoryLedger::new());
                    let ledger = Faulty { reads_too, ..Faulty::new(memory, fault, first, count) };
                    let play = Play::Effect(SECOND, settled::ToolReply::ConnectionLost);
                    scenario(Policy::new(kind), play, sights.clone(), ledger, most_effects).await;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_failing_store_costs_a_caller_nothing() {
    for fault in [Fault::Before, Fault::After] {
        for first in 1..=2 {
            let ledger = Arc::new(Faulty::new(Arc::new(MemoryLedger::new()), fault, first, 1));
            let engine = Engine::start(ledger.clone(), options().0).await.unwrap();
            let tool = Script::new([]);
            assert_eq!(call(&engine, opaque(), &tool).await, done("ok", false));
            let stores = if fault == Fault::Before { 3 } else { 2 };
            assert_eq!((tool.sends(), ledger.stores.load(Ordering::SeqCst)), (1, stores));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_stored_but_never_sent_is_known_not_to_have_run() {
    let memory = Arc::new(MemoryLedger::new());
    let ledger = Arc::new(Faulty { reads_too: true, ..Faulty::new(memory, Fault::After, 1, 1_000) });
    let engine = Engine::start(ledger.clone(), options().0).await.unwrap();
    let tool = Script::new([]);
    let policy = ends(ToolKind::Opaque, Ends::OnFailure);
    let told = engine.call(operation(policy), tool.clone()).await;
    assert!(matches!(told, Err(EngineError::NotSent(_))));
    assert_eq!(tool.sends(), 0);

    ledger.stores.store(5_000, Ordering::SeqCst);
    let told = engine.call(operation(policy), tool.clone()).await.unwrap();
    assert!(matches!(told.answer, Answer::Failed { replayed: true, .. }), "{told:?}");
    let told = engine.call(operation(policy), tool.clone()).await.unwrap();
    assert_eq!((told.answer, tool.sends()), (done("ok", false), 1));
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_kept_until_the_ledger_can_store_it() {
    let memory = Arc::new(MemoryLedger::new());
    let ledger = Arc::new(Faulty::new(memory, Fault::Before, 2, 1_000));
    let engine = Engine::start(ledger.clone(), options().0).await.unwrap();
    let tool = Script::new([]);
    assert_eq!(call(&engine, opaque(), &tool).await, unknown(false));
    ledger.stores.store(5_000, Ordering::SeqCst);
    // Before the reply is stored, nobody may take it for an attempt that was never sent.
    assert_eq!(call(&engine, opaque(), &tool).await, unknown(true));
    engine.idle().await;
    assert_eq!(call(&engine, opaque(), &tool).await, done("ok", true));
    assert_eq!(tool.sends(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_gave_up_keeps_no_later_caller_waiting_for_ever() {
    // The store of the timeout fails; the tool never answers; the process lives.
    let memory = Arc::new(MemoryLedger::new());
    let ledger = Arc::new(Faulty::new(memory.clone(), Fault::Before, 2, 1_000));
    let engine = Engine::start(ledger.clone(), options().0).await.unwrap();
    let tool = Script::new([Play::Hang]);
    assert_eq!(call(&engine, opaque(), &tool).await, unknown(false));
    ledger.stores.store(5_000, Ordering::SeqCst);
    let other = Engine::start(memory.clone(), options().0).await.unwrap();
    for engine in [&other, &engine] {
        let told = tokio::time::timeout(180 * SECOND, call(engine, opaque(), &tool)).await;
        assert_eq!(told.expect("it hangs"), unknown(true));
    }

    // In the same process.
    let ledger = Arc::new(Faulty::new(Arc::new(MemoryLedger::new()), Fault::Before, 2, 1_000));
    let engine = Engine::start(ledger.clone(), options().0).await.unwrap();
    let tool = Script::new([Play::Hang]);
    assert_eq!(call(&engine, opaque(), &tool).await, unknown(false));
    ledger.stores.store(5_000, Ordering::SeqCst);
    let told = tokio::time::timeout(180 * SECOND, call(&engine, opaque(), &tool)).await;
    assert_eq!(told.expect("it hangs"), unknown(true));
    assert_eq!(tool.sends(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_whose_driver_gave_up_is_still_waited_for() {
    let ledger = Arc::new(Faulty::new(Arc::new(MemoryLedger::new()), Fault::Before, 2, 1_000));
    let engine = Engine::start(ledger.clone(), options().0).await.unwrap();
    let tool = Script::new([Play::Effect(TIMEOUT + 20 * SECOND, result("late"))]);
    assert_eq!(call(&engine, opaque(), &tool).await, unknown(false));
    ledger.stores.store(5_000, Ordering::SeqCst);
    assert_eq!(call(&engine, opaque(), &tool).await, done("late", true));
    assert_eq!(tool.sends(), 1);
}

/// A recovery sends an attempt and is given up; a caller waits for that attempt; then nothing can be stored or read any more.
#[tokio::test(start_paused = true)]
async fn what_was_seen_to_be_sent_is_not_forgotten_when_the_ledger_fails() {
    let world = World::new().await;
    let tool = ToolKind::Deduplicates { limit: 600_000, margin: 1_000, remembers_rejections: false };
    let policy = Policy::new(tool);
    left(&world, "unknown", policy).await;
    let ledger = Faulty { reads_too: true, ..Faulty::new(world.ledger.clone(), Fault::Before, 2, usize::MAX) };
    let engine = Engine::start(Arc::new(ledger), world.options.clone()).await.unwrap();
    let tool = Script::new([Play::Effect(5 * SECOND, settled::ToolReply::ConnectionLost)]);
    let recovery = tokio::spawn({
        let (engine, resolve) = (engine.clone(), recoverable(policy, &tool));
        async move { engine.recover(&resolve).await }
    });
    while tool.sends() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    recovery.abort();
    let told = spawn_call(&engine, operation(policy), &tool);
    tokio::time::sleep(SECOND).await;
    let other = Operation { key: Key::new("test", "charge", "other").unwrap(), ..operation(policy) };
    assert!(matches!(bounded("another call", engine.call(other, tool.clone())).await, Err(EngineError::NotSent(_))));
    check(&bounded("a call", told).await.unwrap(), &tool, "a call");
}

/// Whoever drove it is cut off (its proxy ends), and the ledger can't be read any more by those who come after.
#[tokio::test(start_paused = true)]
async fn that_it_was_sent_is_known_here_although_its_driver_is_gone_and_the_ledger_too() {
    let world = World::new().await;
    let policy = Policy::new(ToolKind::Deduplicates { limit: 600_000, margin: 1_000, remembers_rejections: false });
    left(&world, "dispatched", policy).await;
    let ledger = Arc::new(Faulty::new(world.ledger.clone(), Fault::Before, usize::MAX, 0));
    let engine = Engine::start(ledger.clone(), world.options.clone()).await.unwrap();
    let tool = Script::new([Play::Effect(60 * SECOND, settled::ToolReply::ConnectionLost)]);
    let recovering = {
        let (engine, tool) = (engine.clone(), tool.clone());
        tokio::spawn(async move { engine.recover(&recoverable(policy, &tool)).await })
    };
    while tool.sends() == 0 {
        tokio::time::sleep(SECOND / 100).await;
    }
    let joined = spawn_call(&engine, operation(policy), &tool);
    tokio::time::sleep(SECOND).await;
    ledger.down.store(true, Ordering::SeqCst);
    recovering.abort();
    for told in [joined.await.unwrap(), engine.call(operation(policy), tool.clone()).await] {
        check(&told, &tool, "while the attempt is out");
    }
    bounded("the attempt", engine.idle()).await;
    let told = engine.call(operation(policy), tool.clone()).await;
    check(&told, &tool, "after the attempt");
    assert!(matches!(told.unwrap().answer, Answer::Unknown { .. }));
}

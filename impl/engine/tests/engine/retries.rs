//! Retries: what did not run is sent again, within budgets.

use std::time::Duration;

use crate::support::{Play, Script, World, call, done, error, opaque, operation, options, result, unknown};
use bytes::Bytes;
use settled::protocol::{Backoff, Policy, Retry, ToolKind};
use settled::{Answer, EngineOptions, Ledger, Operation, RetryBudget, ToolReply};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

fn busy(retry_after: Option<Duration>) -> Play {
    Play::NoEffect(Duration::ZERO, ToolReply::Busy { retry_after, body: Bytes::from_static(b"429") })
}

fn failed() -> Answer {
    Answer::Failed { error: Some("429".into()), replayed: false }
}

#[tokio::test(start_paused = true)]
async fn a_busy_tool_is_asked_again_when_it_wants_to_be() {
    let world = World::new().await;
    let tool = Script::new([busy(Some(20 * SECOND)), busy(None)]);
    let begun = Instant::now();
    assert_eq!(call(&world.engine, opaque(), &tool).await, done("ok", false));
    assert_eq!((tool.sends(), tool.effects()), (3, 1));
    assert!(begun.elapsed() >= 20 * SECOND && begun.elapsed() < 30 * SECOND, "{:?}", begun.elapsed());
    let attempts: Vec<u32> = tool.sent().iter().map(|(of, ..)| of.attempt.get()).collect();
    assert_eq!(attempts, [1, 2, 3]);
    let history = world.ledger.history(&crate::support::key()).await.unwrap();
    let events: Vec<&str> = history.iter().map(|change| change.event.as_str()).collect();
    assert_eq!(events, ["call", "busy", "busy", "result"]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_stays_busy_did_not_run() {
    let world = World::new().await;
    let tool = Script::new((0..50).map(|_| busy(None)));
    assert_eq!(call(&world.engine, opaque(), &tool).await, failed());
    assert_eq!(tool.sends(), 5, "as often as its budget allows");

    // One that wants to be left alone for longer than the call may take isn't waited for.
    let world = World::new().await;
    let tool = Script::new([busy(Some(600 * SECOND))]);
    let begun = Instant::now();
    assert_eq!(call(&world.engine, opaque(), &tool).await, failed());
    assert!(begun.elapsed() < SECOND);
    assert_eq!(tool.sends(), 1);

    // Nor is one that won't be asked again.
    let world = World::new().await;
    let tool = Script::new([busy(Some(20 * SECOND))]);
    let begun = Instant::now();
    let once = Policy { retry: Retry { attempts: 1, ..Retry::default() }, ..opaque() };
    assert_eq!(call(&world.engine, once, &tool).await, failed());
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    assert_eq!(tool.sends(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_run_is_not_busy() {
    let world = World::new().await;
    let tool = Script::new([busy(None), Play::Effect(SECOND, ToolReply::ConnectionLost)]);
    assert_eq!(call(&world.engine, opaque(), &tool).await, unknown(false));
    assert_eq!((tool.sends(), tool.effects()), (2, 1));
}

fn deduplicates() -> Policy {
    let retry =
        Retry { attempts: 100, total: 3_600_000, backoff: Backoff { base: 100, cap: 1_000 }, ..Retry::default() };
    let tool = ToolKind::Deduplicates { limit: 86_400_000, margin: 60_000, remembers_rejections: false };
    Policy { retry, ..Policy::new(tool) }
}

#[tokio::test(start_paused = true)]
async fn the_fleet_has_one_budget() {
    let (options, alerts) = options();
    let retry_budget = RetryBudget { per_mille: 100, burst: 3 };
    let world = World::with(EngineOptions { retry_budget, ..options }, alerts).await;
    let engines = [world.engine.clone(), world.another().await];
    let tool = Script::new((0..1_000).map(|_| Play::NoEffect(Duration::ZERO, ToolReply::ConnectionLost)));
    let stuck = |n: usize| {
        let key = settled::protocol::Key::new("test", "charge", n.to_string()).unwrap();
        Operation { key, ..operation(deduplicates()) }
    };
    for (n, engine) in engines.iter().enumerate() {
        let (engine, tool, operation) = (engine.clone(), tool.clone(), stuck(n));
        tokio::spawn(async move { engine.call(operation, tool).await });
    }
    tokio::time::sleep(600 * SECOND).await;
    assert_eq!(tool.sends(), 2 + 3, "two requests, and the three retries that may come at once");
    // A hundred requests that go well allow ten more. (They are told of by renewals at the latest, and no more than three
    // tokens are ever kept.)
    let well = Script::new([]);
    for n in 100..200 {
        engines[n % 2].call(stuck(n), well.clone()).await.unwrap();
        tokio::time::sleep(SECOND).await;
    }
    tokio::time::sleep(600 * SECOND).await;
    assert_eq!(tool.sends(), 2 + 3 + 10);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_fails_persistently_is_told_of_once_and_so_is_its_recovery() {
    let world = World::new().await;
    let tool = Script::new((0..7).map(|_| Play::NoEffect(Duration::ZERO, error("500"))));
    for n in 0..9 {
        let key = settled::protocol::Key::new("test", "charge", n.to_string()).unwrap();
        world.engine.call(Operation { key, ..operation(opaque()) }, tool.clone()).await.unwrap();
    }
    assert_eq!(world.alerts.health(), ["charge failed 5 times", "charge recovered"]);
    let _ = result("");
}

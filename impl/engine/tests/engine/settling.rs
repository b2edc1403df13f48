//! Settling unknowns: callers are told in time, the work goes on, and a person is asked last.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Play, Script, World, call, done, recoverable, spawn_call, unknown};
use bytes::Bytes;
use settled::protocol::{Backoff, Policy, Retry, ToolKind};
use settled::{Limits, Operation, Seen, ToolReply};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// An observer is asked after 1 s, 2 s, 4 s … up to 10 minutes, at most.
fn observable(checks: u32) -> Policy {
    let retry = Retry { checks, backoff: Backoff { base: 1_000, cap: 600_000 }, ..Retry::default() };
    Policy { retry, ..Policy::new(ToolKind::Observable { settling: 5_000 }) }
}

fn operation(policy: Policy) -> Operation {
    Operation {
        limits: Limits { settle: 10 * SECOND, ..crate::support::limits() },
        ..crate::support::operation(policy)
    }
}

fn lost() -> Play {
    Play::Effect(SECOND, ToolReply::ConnectionLost)
}

#[tokio::test(start_paused = true)]
async fn the_caller_is_told_in_time_and_the_sweep_settles_it() {
    let world = World::new().await;
    let tool = Script::seeing([lost()], []);
    let begun = Instant::now();
    let told = world.engine.call(operation(observable(20)), tool.clone()).await.unwrap().answer;
    assert_eq!(told, unknown(false));
    assert!(begun.elapsed() >= 10 * SECOND && begun.elapsed() < 13 * SECOND, "{:?}", begun.elapsed());
    // So is one who asks meanwhile.
    let begun = Instant::now();
    assert_eq!(world.engine.call(operation(observable(20)), tool.clone()).await.unwrap().answer, unknown(true));
    assert!(begun.elapsed() <= 11 * SECOND, "{:?}", begun.elapsed());
    tool.sees([Seen::Applied(Bytes::from_static(b"seen"))]);
    world.until("settled").await;
    assert_eq!(call(&world.engine, observable(20), &tool).await, done("seen", true));
    assert_eq!((tool.sends(), world.alerts.count()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_no_observer_can_settle_goes_to_a_person_and_is_still_looked_at() {
    let world = World::new().await;
    let tool = Script::seeing([lost()], []);
    assert_eq!(world.engine.call(operation(observable(4)), tool.clone()).await.unwrap().answer, unknown(false));
    world.until("escalated").await;
    let looks = tool.looks();
    assert!(looks >= 4, "{looks}");
    assert_eq!(world.alerts.count(), 1);
    tool.sees([Seen::NotApplied, Seen::Applied("late".into())]);
    let resolve: Arc<settled::Resolve> = Arc::new(recoverable(observable(4), &tool));
    let engine = world.engine.clone();
    let keeper = tokio::spawn(async move { engine.maintain(resolve, 10 * SECOND).await });
    tokio::time::sleep(400 * SECOND).await;
    assert_eq!((world.state().await, tool.looks()), ("escalated", looks + 1), "not applied is not enough now");
    world.until("settled").await;
    assert_eq!(call(&world.engine, observable(4), &tool).await, done("late", true));
    assert_eq!(tool.sends(), 1);
    keeper.abort();
}

#[tokio::test(start_paused = true)]
async fn the_intervals_grow() {
    let world = World::new().await;
    let tool = Script::seeing([lost()], []);
    spawn_call(&world.engine, operation(observable(30)), &tool);
    world.until("unknown").await;
    // Full jitter: half of the longest wait on average, so that there are few looks in a long time.
    tokio::time::sleep(3_600 * SECOND).await;
    // Without growth there would be thousands.
    assert!((5..100).contains(&tool.looks()), "{}", tool.looks());
}

//! After an unknown, each kind of tool gets exactly what it declares (the design's table).

use std::time::Duration;

use crate::support::*;
use settled::protocol::{Policy, ToolKind};
use settled::{Answer, Seen};

const SECOND: Duration = Duration::from_secs(1);

fn deduplicates(limit: Duration) -> Policy {
    let kind = ToolKind::Deduplicates { limit: limit.as_millis() as u64, margin: 1_000, remembers_rejections: false };
    Policy::new(kind)
}

fn attempts(tool: &Script) -> Vec<u32> {
    tool.sent().iter().map(|(of, ..)| of.attempt.get()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_deduplicating_tool_is_sent_the_same_again_within_its_limit() {
    let world = World::new().await;
    let tool = Script::new([Play::Hang, Play::Effect(SECOND, error("503"))]);
    assert_eq!(call(&world.engine, deduplicates(600 * SECOND), &tool).await, done("ok", false));
    assert_eq!(attempts(&tool), [1, 2, 3]);
    let bodies: Vec<_> = tool.sent().into_iter().map(|(_, _, body)| body).collect();
    assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test(start_paused = true)]
async fn a_late_reply_of_an_earlier_attempt_settles_while_the_next_is_awaited() {
    let world = World::new().await;
    let tool = Script::new([Play::Effect(TIMEOUT + 3 * SECOND, result("first")), Play::Hang]);
    assert_eq!(call(&world.engine, deduplicates(600 * SECOND), &tool).await, done("first", false));
    assert_eq!(attempts(&tool), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_deduplicating_tool_is_not_trusted_beyond_its_limit() {
    let world = World::new().await;
    let tool = Script::new([Play::Hang]);
    assert_eq!(call(&world.engine, deduplicates(TIMEOUT), &tool).await, unknown(false));
    assert_eq!((attempts(&tool), world.alerts.count()), (vec![1], 1));
}

#[tokio::test(start_paused = true)]
async fn a_sealable_tool_is_sealed_before_it_is_sent_again() {
    let world = World::new().await;
    let tool = Script::seeing([Play::Hang], [Seen::Unclear, Seen::NotApplied, Seen::Sealed]);
    assert_eq!(call(&world.engine, Policy::new(ToolKind::Sealable), &tool).await, done("ok", false));
    assert_eq!((attempts(&tool), tool.looks()), (vec![1, 2], 3));
}

#[tokio::test(start_paused = true)]
async fn a_sealable_tool_that_has_applied_it_is_believed() {
    let world = World::new().await;
    let tool = Script::seeing([Play::Effect(Duration::MAX, result("never"))], [Seen::Applied("charged".into())]);
    assert_eq!(call(&world.engine, Policy::new(ToolKind::Sealable), &tool).await, done("charged", false));
    assert_eq!((attempts(&tool), tool.looks()), (vec![1], 1));
}

#[tokio::test(start_paused = true)]
async fn a_sealable_tool_fails_only_once_the_whole_operation_is_sealed() {
    let world = World::new().await;
    let mut policy = Policy::new(ToolKind::Sealable);
    policy.retry.attempts = 1;
    let tool = Script::seeing([Play::NoEffect(SECOND, error("500"))], [Seen::Sealed]);
    let answer = call(&world.engine, policy, &tool).await;
    assert_eq!(answer, Answer::Failed { error: Some("500".into()), replayed: false });
    assert_eq!((attempts(&tool), tool.effects()), (vec![1], 0));
}

#[tokio::test(start_paused = true)]
async fn an_observable_tool_is_asked_when_nothing_can_be_on_its_way() {
    let world = World::new().await;
    let policy = Policy::new(ToolKind::Observable { settling: 60_000 });
    let start = tokio::time::Instant::now();
    let tool = Script::seeing([Play::NoEffect(SECOND, error("500"))], vec![Seen::NotApplied; 100]);
    assert_eq!(call(&world.engine, policy, &tool).await, done("ok", false));
    assert!(start.elapsed() >= 60 * SECOND, "\"not applied\" was believed before the settling time");
    assert_eq!(attempts(&tool), [1, 2]);
    assert!(tool.looks() > 2, "it is asked early, too");
}

#[tokio::test(start_paused = true)]
async fn what_an_early_look_shows_is_told_before_the_settling_time_is_over() {
    let world = World::new().await;
    let policy = Policy::new(ToolKind::Observable { settling: 600_000 });
    let start = tokio::time::Instant::now();
    let sights = [Seen::NotApplied, Seen::Unclear, Seen::Applied("charged".into())];
    let tool = Script::seeing([Play::Effect(SECOND, settled::ToolReply::ConnectionLost)], sights);
    assert_eq!(call(&world.engine, policy, &tool).await, done("charged", false));
    assert!(start.elapsed() < 60 * SECOND, "{:?}", start.elapsed());
    assert_eq!((tool.sends(), tool.looks()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn early_looks_and_those_of_other_processes_do_not_use_up_the_questions() {
    let world = World::new().await;
    let mut policy = Policy::new(ToolKind::Observable { settling: 60_000 });
    policy.retry.checks = 2;
    let tool = Script::seeing([], vec![Seen::NotApplied; 1_000]);
    left(&world, "dispatched", policy).await;
    let mut callers = Vec::new();
    for _ in 0..5 {
        let engine = world.another().await;
        callers.push(spawn_call(&engine, operation(policy), &tool));
    }
    for caller in callers {
        assert!(matches!(caller.await.unwrap().unwrap().answer, Answer::Done { .. }));
    }
    assert_eq!((tool.sends(), world.alerts.count()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_observable_tool_that_has_applied_it_is_believed_and_one_that_cannot_say_is_for_a_person() {
    for (sights, expected, alerts) in [
        (vec![Seen::Unclear, Seen::Applied("charged".into())], done("charged", false), 0),
        (vec![Seen::Sealed; 20], unknown(false), 1),
    ] {
        let world = World::new().await;
        let policy = Policy::new(ToolKind::Observable { settling: 1_000 });
        let tool = Script::seeing([Play::Effect(SECOND, settled::ToolReply::ConnectionLost)], sights);
        assert_eq!(call(&world.engine, policy, &tool).await, expected);
        world.engine.idle().await;
        assert_eq!((tool.sends(), world.alerts.count()), (1, alerts));
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_is_sent_again_and_an_idempotent_tool_only_if_nothing_can_have_come_in_between() {
    let world = World::new().await;
    let tool = Script::new([Play::NoEffect(SECOND, error("500"))]);
    assert_eq!(call(&world.engine, Policy::new(ToolKind::ReadOnly), &tool).await, done("ok", false));
    assert_eq!(tool.sends(), 2);

    let world = World::new().await;
    let tool = Script::new([Play::Effect(SECOND, error("500"))]);
    let answer = call(&world.engine, Policy::new(ToolKind::Idempotent), &tool).await;
    assert_eq!(answer, Answer::Unknown { error: Some("500".into()), replayed: false });
    assert_eq!(tool.sends(), 1);
}

#[tokio::test(start_paused = true)]
async fn final_errors_fail_and_the_next_call_is_a_new_operation_where_failures_end() {
    let world = World::new().await;
    let policy = Policy { errors_final: true, ..ends(ToolKind::Opaque, settled::protocol::Ends::OnFailure) };
    let tool = Script::new([Play::NoEffect(SECOND, error("declined"))]);
    let first = world.engine.call(operation(policy), tool.clone()).await.unwrap();
    assert_eq!(first.answer, Answer::Failed { error: Some("declined".into()), replayed: false });
    let second = world.engine.call(operation(policy), tool.clone()).await.unwrap();
    assert_eq!(second.answer, done("ok", false));
    assert!(second.generation > first.generation);
}

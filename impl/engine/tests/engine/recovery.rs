//! Several owners of one ledger: recovery, takeover, people, retention.

use std::sync::Arc;
use std::time::Duration;

use crate::support::*;
use settled::protocol::{Ends, Policy, ToolKind};
use settled::{Answer, Entry, Recoverable, Recovered, Seen};

const SECOND: Duration = Duration::from_secs(1);

async fn recover(world: &World, policy: Policy, tool: &Arc<Script>) -> Recovered {
    world.engine.recover(&recoverable(policy, tool)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_opaque_operation_found_dispatched_is_unknown_and_never_sent_again() {
    let world = World::new().await;
    let tool = Script::new([]);
    left(&world, "dispatched", opaque()).await;
    // An opaque tool needs no handle.
    let resolve = |_: &Entry| Some(Recoverable { policy: opaque(), tool: None, limits: limits() });
    let recovered = world.engine.recover(&resolve).await.unwrap();
    assert_eq!(recovered, Recovered { found: 1, escalated: 1, ..Recovered::default() });
    assert_eq!((world.state().await, world.alerts.count()), ("escalated", 1));
    assert_eq!(world.engine.recover(&resolve).await.unwrap(), recovered);
    assert_eq!(world.alerts.count(), 1);
    for _ in 0..3 {
        assert_eq!(call(&world.engine, opaque(), &tool).await, unknown(true));
    }
    assert_eq!(tool.sends(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_finds_a_dead_owners_dispatch_takes_it_over_without_sending() {
    let world = World::new().await;
    let tool = Script::new([]);
    left(&world, "dispatched", opaque()).await;
    assert_eq!(call(&world.engine, opaque(), &tool).await, unknown(true));
    world.engine.idle().await;
    assert_eq!((tool.sends(), world.state().await, world.alerts.count()), (0, "escalated", 1));
}

#[tokio::test(start_paused = true)]
async fn a_result_of_what_another_process_began_is_marked_as_replayed() {
    let world = World::new().await;
    let tool = Script::new([]);
    let deduplicates = ToolKind::Deduplicates { limit: 600_000, margin: 1_000, remembers_rejections: false };
    left(&world, "dispatched", Policy::new(deduplicates)).await;
    assert_eq!(call(&world.engine, Policy::new(deduplicates), &tool).await, done("ok", true));
    assert_eq!(tool.sends(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_that_nobody_was_alerted_of_is_escalated() {
    let world = World::new().await;
    left(&world, "unknown", opaque()).await;
    recover(&world, opaque(), &Script::new([])).await;
    assert_eq!((world.state().await, world.alerts.count()), ("escalated", 1));
}

#[tokio::test(start_paused = true)]
async fn what_was_only_created_is_sent_with_its_own_arguments() {
    let world = World::new().await;
    let tool = Script::new([]);
    left(&world, "intent created", opaque()).await;
    let unresolved = world.engine.recover(&|_: &Entry| None).await.unwrap();
    assert_eq!((unresolved.unresolved, world.state().await), (1, "intent created"));
    let recovered = recover(&world, opaque(), &tool).await;
    assert_eq!(recovered, Recovered { found: 1, settled: 1, ..Recovered::default() });
    let (of, epoch, arguments) = tool.sent().pop().unwrap();
    assert_eq!((of.attempt.get(), epoch, arguments), (1, world.engine.epoch(), operation(opaque()).asked));
    assert_eq!(call(&world.engine, opaque(), &tool).await, done("ok", true));
    assert_eq!(tool.sends(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_confirmed_is_settled_and_what_was_escalated_stays() {
    let world = World::new().await;
    let tool = Script::new([]);
    let transactional = Policy::new(ToolKind::Transactional);
    left(&world, "confirmed", transactional).await;
    recover(&world, transactional, &tool).await;
    assert_eq!(world.state().await, "settled");
    assert_eq!(call(&world.engine, transactional, &tool).await, done("charged", true));

    let world = World::new().await;
    left(&world, "escalated", opaque()).await;
    let recovered = recover(&world, opaque(), &tool).await;
    assert_eq!((recovered.escalated, world.alerts.count(), tool.sends()), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn kinds_that_can_find_out_recover_by_themselves() {
    let deduplicates = ToolKind::Deduplicates { limit: 600_000, margin: 1_000, remembers_rejections: false };
    for (kind, sights, sends, body) in [
        (deduplicates, vec![], 1, "ok"),
        (ToolKind::Sealable, vec![Seen::Applied("charged".into())], 0, "charged"),
        (ToolKind::Sealable, vec![Seen::Sealed], 1, "ok"),
        (ToolKind::Observable { settling: 5_000 }, vec![Seen::Applied("charged".into())], 0, "charged"),
        (ToolKind::Observable { settling: 5_000 }, vec![Seen::NotApplied; 100], 1, "ok"),
    ] {
        let world = World::new().await;
        let policy = Policy::new(kind);
        left(&world, "dispatched", policy).await;
        let tool = Script::seeing([], sights);
        assert_eq!(recover(&world, policy, &tool).await.settled, 1, "{kind:?}");
        assert_eq!(tool.sends(), sends, "{kind:?}");
        assert!(tool.sent().iter().all(|(of, ..)| of.attempt.get() == 2));
        assert_eq!(call(&world.engine, policy, &tool).await, done(body, true), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_live_owner_has_under_way_is_left_alone() {
    let world = World::new().await;
    let other = world.another().await;
    let tool = Script::new([Play::Effect(5 * SECOND, result("charged"))]);
    let running = spawn_call(&other, operation(opaque()), &tool);
    world.until("dispatched").await;
    for engine in [&world.engine, &other] {
        let recovered = engine.recover(&recoverable(opaque(), &tool)).await.unwrap();
        assert_eq!(recovered, Recovered { found: 1, alive: 1, ..Recovered::default() });
    }
    assert_eq!(running.await.unwrap().unwrap().answer, done("charged", false));
    assert_eq!(tool.sends(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_same_call_in_two_processes_is_sent_once_and_both_are_answered() {
    for policy in [opaque(), ends(ToolKind::Opaque, Ends::OnDelivery), ends(ToolKind::Opaque, Ends::OnFailure)] {
        for reply in [result("charged"), not_run("no")] {
            let world = World::new().await;
            let other = world.another().await;
            let tool = Script::new([Play::Effect(SECOND, reply)]);
            let calls = [&world.engine, &other].map(|engine| spawn_call(engine, operation(policy), &tool));
            let mut replays = Vec::new();
            for call in calls {
                match call.await.unwrap().unwrap().answer {
                    Answer::Done { replayed, .. } | Answer::Failed { replayed, .. } => replays.push(replayed),
                    answer => panic!("{answer:?}"),
                }
            }
            replays.sort();
            assert_eq!((replays, tool.sends()), (vec![false, true], 1), "{policy:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_for_an_operation_begins_no_other() {
    let world = World::new().await;
    let other = world.another().await;
    let policy = ends(ToolKind::Opaque, Ends::OnDelivery);
    let tool = Script::new([Play::Effect(SECOND, result("first")), Play::Effect(SECOND, result("second"))]);
    let first = spawn_call(&other, operation(policy), &tool);
    world.until("dispatched").await;
    let waits = spawn_call(&world.engine, operation(policy), &tool);
    let first = first.await.unwrap().unwrap();
    other.delivering(&first, policy).await.confirm(std::time::Duration::ZERO).await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap().answer, done("first", true));
    assert_eq!(tool.sends(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_operation_is_over_and_followed_by_another_is_not_sent_for() {
    let world = World::new().await;
    let other = world.another().await;
    let policy = ends(ToolKind::Opaque, Ends::OnDelivery);
    let tool = Script::new([Play::Effect(SECOND, result("first"))]);
    let first = spawn_call(&other, operation(policy), &tool);
    world.until("dispatched").await;
    let waits = spawn_call(&world.engine, operation(policy), &tool);
    // All of this comes before the waiting process has had a look.
    let first = first.await.unwrap().unwrap();
    other.delivering(&first, policy).await.confirm(std::time::Duration::ZERO).await.unwrap();
    let second = other.call(operation(policy), tool.clone()).await.unwrap();
    other.delivering(&second, policy).await.confirm(std::time::Duration::ZERO).await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap().answer, Answer::Expired);
    assert_eq!(tool.sends(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_process_takes_over_when_the_owner_dies() {
    let world = World::new().await;
    let other = world.another().await;
    let tool = Script::new([Play::Hang]);
    let _lost = spawn_call(&other, operation(opaque()), &tool);
    world.until("dispatched").await;
    let waits = spawn_call(&world.engine, operation(opaque()), &tool);
    tokio::time::sleep(SECOND).await;
    assert!(!waits.is_finished());
    world.ledger.kill(other.epoch());
    assert_eq!(waits.await.unwrap().unwrap().answer, unknown(true));
    assert_eq!((tool.sends(), world.state().await), (1, "escalated"));
}

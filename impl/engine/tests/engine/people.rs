//! What people decide, and what retention removes.

use std::sync::Arc;
use std::time::Duration;

use crate::support::*;
use settled::protocol::{Ends, Policy, Refusal, ToolKind};
use settled::{Answer, DecidedAs, Decision, Engine, EngineError, Entry, Ledger, Recoverable};

const SECOND: Duration = Duration::from_secs(1);

fn decision(decided_as: DecidedAs, body: Option<&'static str>) -> Decision {
    Decision { decided_as, body: body.map(Into::into), note: Some("looked at the till".into()) }
}

#[tokio::test(start_paused = true)]
async fn a_person_decides_what_is_unknown_and_nothing_else() {
    let world = World::new().await;
    let tool = Script::new([]);
    let succeeded = || decision(DecidedAs::Succeeded, Some("charged"));
    assert!(matches!(world.engine.decide(&key(), succeeded(), true).await, Err(EngineError::NoSuchKey(_))));

    left(&world, "escalated", opaque()).await;
    let failed = decision(DecidedAs::Failed, None);
    let refused = world.engine.decide(&key(), failed, false).await;
    assert!(matches!(refused, Err(EngineError::Refused(Refusal::NotQuiet))));
    let decided = world.engine.decide(&key(), succeeded(), false).await.unwrap();
    assert_eq!(decided.entry.note.as_deref(), Some("looked at the till"));
    assert_eq!(call(&world.engine, opaque(), &tool).await, done("charged", true));
    let again = world.engine.decide(&key(), succeeded(), true).await;
    assert!(matches!(again, Err(EngineError::Refused(Refusal::NotUnknown))));
    assert_eq!(tool.sends(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_person_decides_a_dead_owners_dispatch_but_not_a_live_ones() {
    let world = World::new().await;
    left(&world, "dispatched", opaque()).await;
    world.engine.decide(&key(), decision(DecidedAs::Failed, Some("no")), true).await.unwrap();
    let answer = call(&world.engine, opaque(), &Script::new([])).await;
    assert_eq!((answer, world.alerts.count()), (Answer::Failed { error: Some("no".into()), replayed: true }, 0));

    let world = World::new().await;
    let tool = Script::new([Play::Effect(5 * SECOND, result("charged"))]);
    let running = spawn_call(&world.another().await, operation(opaque()), &tool);
    world.until("dispatched").await;
    for engine in [world.engine.clone(), world.another().await] {
        let refused = engine.decide(&key(), decision(DecidedAs::Abandoned, None), true).await;
        assert!(matches!(refused, Err(EngineError::Refused(Refusal::NotUnknown))));
    }
    assert_eq!(running.await.unwrap().unwrap().answer, done("charged", false));
}

#[tokio::test(start_paused = true)]
async fn a_decision_reaches_a_caller_whose_call_is_being_reconciled() {
    let world = World::new().await;
    let policy = Policy::new(ToolKind::Observable { settling: 600_000 });
    let tool = Script::new([Play::NoEffect(SECOND, error("500"))]);
    let waits = spawn_call(&world.engine, operation(policy), &tool);
    world.until("unknown").await;
    world.engine.decide(&key(), decision(DecidedAs::Succeeded, Some("seen")), false).await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap().answer, done("seen", true));
}

/// The decision is stored, word of that is lost, and before it is tried again another operation begins under the key.
#[tokio::test(start_paused = true)]
async fn a_decision_is_not_carried_over_to_the_next_operation_under_the_key() {
    let world = World::new().await;
    left(&world, "escalated", opaque()).await;
    let ledger = Faulty { reads_too: true, ..Faulty::new(world.ledger.clone(), Fault::After, 1, 1) };
    let decides = Engine::start(Arc::new(ledger), world.options.clone()).await.unwrap();
    let first = world.ledger.get(&key()).await.unwrap().unwrap();
    let said = tokio::spawn({
        let (decides, first) = (decides.clone(), first.clone());
        async move { decides.decide_on(&first, decision(DecidedAs::Failed, None), true).await }
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let tool = Script::new([Play::Effect(60 * SECOND, result("charged"))]);
    let next = spawn_call(&world.engine, operation(ends(ToolKind::Opaque, Ends::OnFailure)), &tool);
    world.until("escalated").await;
    assert!(matches!(said.await.unwrap(), Err(EngineError::AnotherOperation(other)) if other == key()));
    assert_eq!((world.state().await, next.await.unwrap().unwrap().answer), ("escalated", unknown(false)));
    // Nor is one about what somebody saw long ago.
    let late = world.engine.decide_on(&first, decision(DecidedAs::Failed, None), true).await;
    assert!(matches!(late, Err(EngineError::AnotherOperation(_))));
    assert_eq!(world.state().await, "escalated");
}

#[tokio::test(start_paused = true)]
async fn records_are_removed_after_their_window_only() {
    let world = World::new().await;
    let policy = ends(ToolKind::Opaque, Ends::WithWindow);
    let tool = Script::new([]);
    call(&world.engine, policy, &tool).await;
    let known = move |_: &Entry| Some(Recoverable { policy, tool: None, limits: limits() });
    let expire = || world.engine.expire(&known);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(expire().await.unwrap(), 0);
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.engine.expire(&|_: &Entry| None).await.unwrap(), 0);
    assert_eq!(expire().await.unwrap(), 1);
    assert_eq!(world.state().await, "absent");
}

#[tokio::test(start_paused = true)]
async fn a_record_is_kept_while_an_attempt_of_it_is_out() {
    let world = World::new().await;
    let policy = ends(ToolKind::Opaque, Ends::WithWindow);
    let tool = Script::new([Play::Effect(40 * 86_400 * SECOND, result("late"))]);
    assert_eq!(call(&world.engine, policy, &tool).await, unknown(false));
    world.until("escalated").await;
    world.engine.decide(&key(), decision(DecidedAs::Abandoned, None), true).await.unwrap();
    // What a person decided is kept for a month at least.
    tokio::time::sleep(31 * 86_400 * SECOND).await;
    let known = move |_: &Entry| Some(Recoverable { policy, tool: None, limits: limits() });
    assert_eq!(world.engine.expire(&known).await.unwrap(), 0);
    world.engine.idle().await;
    assert_eq!(world.engine.expire(&known).await.unwrap(), 1);
}

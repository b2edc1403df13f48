//! Callers: they ask, give up, ask again elsewhere, cancel, and lose answers on the way.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use settled::protocol::{Ends, Key};
use settled::{Answer, Answered, Engine, EngineError, Operation};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::guard::limits;
use crate::plan::CallPlan;
use crate::process::Process;
use crate::proxy;
use crate::tool::SimulatedTool;
use crate::truth::Told;
use crate::world::World;

/// The arguments of a wish.
pub(crate) fn arguments(wish: u32, other: bool) -> Bytes {
    Bytes::from(if other { format!("{{\"wish\":{wish},\"other\":true}}") } else { format!("{{\"wish\":{wish}}}") })
}

/// One caller, from its first question until it has an answer or gives up for good.
pub(crate) async fn call(world: Arc<World>, call: CallPlan) {
    world.until(call.at).await;
    if let Some(after) = call.cancels.filter(|_| !world.plan.proxied) {
        tokio::spawn(cancel(world.clone(), call.clone(), after));
    }
    for ask in 0..call.asks as usize {
        // Whoever asks later than that might ask for something that has been forgotten.
        if world.now() > call.at + crate::plan::HORIZON {
            return;
        }
        if ask > 0 {
            world.delay(50..=1_000).await;
        }
        let guard = (call.guard + ask) % world.plan.guards;
        let patience = Duration::from_millis(call.patience);
        if let Some(Ok(answered)) = once(&world, guard, &call, patience, false).await {
            match answered.answer {
                Answer::Done { .. } | Answer::Failed { .. } | Answer::Conflict | Answer::Expired => return,
                Answer::Unknown { .. } | Answer::InProgress => {}
            }
        }
    }
}

/// Asks one guard once; none: no answer came.
pub(crate) async fn once(
    world: &Arc<World>,
    guard: usize,
    call: &CallPlan,
    patience: Duration,
    audit: bool,
) -> Option<Result<Answered, EngineError>> {
    if world.plan.proxied {
        return proxy::once(world, guard, call, patience, audit).await.map(Ok);
    }
    let lost = world.happens(|rates| rates.call_lost, "call or answer lost");
    world.delay(0..=20).await;
    let place = world.guard(guard);
    let (process, engine) = (place.process.filter(|process| process.is_alive())?, place.engine?);
    if lost && world.draw(|random| random.bool()) {
        tokio::time::sleep(patience).await;
        return None;
    }
    let (reply, answer) = oneshot::channel();
    let handler = Handler {
        world: world.clone(),
        process: process.clone(),
        engine,
        tool: call.tool,
        wish: call.wish,
        other: call.other,
        answer_lost: lost,
        audit,
    };
    let task = process.spawn(handler.handle(reply));
    match timeout(patience, answer).await {
        Ok(Ok(answered)) => Some(answered),
        Ok(Err(_)) => None,
        Err(_) => {
            if world.draw(|random| random.bool()) {
                // The guard notices that nobody waits any more.
                task.abort();
            }
            None
        }
    }
}

/// A guard's side of a call.
struct Handler {
    world: Arc<World>,
    process: Arc<Process>,
    engine: Engine,
    tool: usize,
    wish: u32,
    other: bool,
    answer_lost: bool,
    audit: bool,
}

impl Handler {
    async fn handle(self, reply: oneshot::Sender<Result<Answered, EngineError>>) {
        let Handler { world, process, engine, tool, wish, other, answer_lost, audit } = self;
        let Some(plan) = world.plan.tools.get(tool) else { return };
        let (key, policy) = (world.key(tool, wish), plan.policy(world.plan.plant));
        let asked = arguments(wish, other);
        let operation = Operation {
            resource: world.resource(tool, wish),
            limits: limits(&world, tool),
            ..Operation::new(key.clone(), asked.clone(), policy)
        };
        world.truth(|truth| truth.calls += 1);
        let way = Arc::new(SimulatedTool { world: world.clone(), process, tool });
        let answered = engine.call(operation, way).await;
        if let Ok(Answered { generation, answer, .. }) = &answered {
            let (generation, answer, at) = (*generation, answer.clone(), world.now());
            world.coverage(|coverage| coverage.answer(&answer));
            world.truth(|truth| truth.told.push(Told { key, tool, asked, generation, at, audit, answer }));
        } else {
            world.coverage(|coverage| coverage.step("answered: not sent"));
        }
        let delivering = match &answered {
            Ok(answered) if plan.ends == Ends::OnDelivery => Some(engine.delivering(answered, policy).await),
            _ => None,
        };
        world.delay(0..=20).await;
        if answer_lost {
            return;
        }
        let doubt = if reply.is_closed() { 5_000 } else { 0 };
        if reply.send(answered).is_ok()
            && let Some(delivering) = delivering
        {
            // What can't be recorded is as good as not delivered.
            let _ = delivering.confirm(Duration::from_millis(doubt)).await;
        }
    }
}

async fn cancel(world: Arc<World>, call: CallPlan, after: u64) {
    tokio::time::sleep(Duration::from_millis(after)).await;
    let key = world.key(call.tool, call.wish);
    let Some((process, engine)) = running(&world, call.guard) else { return };
    world.note(format_args!("caller cancels {key}"));
    let task = process.spawn({
        let (engine, key) = (engine.clone(), key.clone());
        async move { engine.cancel(&key).await }
    });
    if let Ok(Ok(true)) = task.await {
        world.coverage(|coverage| coverage.step("cancelled"));
        cancelled(&world, &key);
    }
}

/// A call that was cancelled before it was sent has no effect, now or later.
fn cancelled(world: &World, key: &Key) {
    world.truth(|truth| truth.cancelled.push(key.clone()));
}

/// A guard that can be asked.
pub(crate) fn running(world: &World, guard: usize) -> Option<(Arc<Process>, Engine)> {
    let place = world.guard(guard);
    Some((place.process.filter(|process| process.is_running())?, place.engine?))
}

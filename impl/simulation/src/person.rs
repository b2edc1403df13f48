//! People: they look at what has been handed to them, and say what they see in the tools' own books.

use std::sync::Arc;

use bytes::Bytes;
use settled::protocol::{Cause, Ends, Key, Record, State};
use settled::{DecidedAs, Decision, Engine, EngineError, Entry};

use crate::caller::running;
use crate::plan::Kind;
use crate::process::Process;
use crate::truth::tool_of;
use crate::world::World;

/// What a person sees in the tools' books.
enum Books {
    Happened(Bytes),
    /// It happened, and another copy of it may still come: nobody calls that over.
    HappenedAndGoesOn,
    Nothing {
        quiet: bool,
    },
}

fn look(world: &World, key: &Key, generation: u32) -> Books {
    let (applied, possible, out) = world.truth(|truth| {
        let applied = truth.effects_of(key, generation).next().map(|effect| effect.receipt.clone());
        let possible = truth.possible.iter().any(|(other, _)| other == key);
        let all = truth.out.range((key.clone(), 0, 0)..).take_while(|((other, ..), _)| other == key);
        (applied, possible, all.map(|(_, owner)| *owner).collect::<Vec<_>>())
    });
    let is_out = || out.into_iter().any(|owner| world.owner(owner).is_some_and(|process| process.is_alive()));
    let alone = tool_of(key).and_then(|tool| world.plan.tools.get(tool)).is_some_and(|tool| tool.resource);
    match applied {
        Some(_) if alone && possible => Books::HappenedAndGoesOn,
        Some(receipt) => Books::Happened(receipt),
        None => Books::Nothing { quiet: !possible && !is_out() },
    }
}

/// Now and then somebody decides what can be decided while things still go wrong.
pub(crate) async fn now_and_then(world: Arc<World>) {
    loop {
        world.delay(500..=4_000).await;
        let guard = world.draw(|random| random.usize(..world.plan.guards));
        let Some((process, engine)) = running(&world, guard) else { continue };
        let Some(entries) = unsettled(&world, &process, &engine).await else { continue };
        for entry in entries {
            if world.draw(|random| random.u8(..3)) == 0 {
                decide(&world, &process, &engine, &entry).await;
            }
        }
    }
}

/// Decides all that was handed over. Returns how many operations are neither settled nor handed over; none if the ledger can't
/// be read.
pub(crate) async fn decide_all(world: &Arc<World>) -> Option<usize> {
    let (process, engine) = (0..world.plan.guards).find_map(|guard| running(world, guard))?;
    let mut open = 0;
    for entry in unsettled(world, &process, &engine).await? {
        if !decide(world, &process, &engine, &entry).await && !waits_for_its_caller(world, &entry) {
            open += 1;
        }
    }
    Some(open)
}

/// An opaque tool's error that has not reached its caller, where a delivered one would end the operation: it is told again
/// when it is asked for again, and nobody else is asked.
fn waits_for_its_caller(world: &World, entry: &Entry) -> bool {
    let tool = tool_of(&entry.key).and_then(|tool| world.plan.tools.get(tool));
    let ends_so = tool.is_some_and(|tool| tool.kind == Kind::Opaque && tool.ends == Ends::OnDelivery);
    ends_so && matches!(entry.record.state(), State::Unknown { cause: Cause::Error(_), .. })
}

/// What is not settled.
pub(crate) async fn unsettled(world: &Arc<World>, process: &Arc<Process>, engine: &Engine) -> Option<Vec<Entry>> {
    let _ = world;
    let ledger = engine.ledger().clone();
    process.spawn(async move { ledger.scan(settled::Filter::Unsettled).await }).await.ok()?.ok()
}

/// Decides an operation that was handed over; `false` if it wasn't, or can't be decided yet.
async fn decide(world: &Arc<World>, process: &Arc<Process>, engine: &Engine, entry: &Entry) -> bool {
    let record: &Record<_> = &entry.record;
    if !matches!(record.state(), State::Escalated { .. }) {
        return false;
    }
    let (decision, quiet) = match look(world, &entry.key, record.generation()) {
        Books::Happened(receipt) => {
            (Decision { decided_as: DecidedAs::Succeeded, body: Some(receipt), note: None }, false)
        }
        Books::HappenedAndGoesOn => return false,
        Books::Nothing { quiet } => {
            let decided_as =
                if world.draw(|random| random.u8(..4)) == 0 { DecidedAs::Abandoned } else { DecidedAs::Failed };
            // Who says so without having made sure is refused.
            let quiet = quiet && world.draw(|random| random.u8(..8)) > 0;
            (Decision { decided_as, body: None, note: Some("not in the books".to_owned()) }, quiet)
        }
    };
    world.note(format_args!("a person decides {}: {:?}, quiet: {quiet}", entry.key, decision.decided_as));
    let said = decision.decided_as;
    let (engine, seen) = (engine.clone(), entry.clone());
    let decided = process.spawn(async move { engine.decide_on(&seen, decision, quiet).await }).await;
    match decided {
        Ok(Ok(_)) => {
            world.coverage(|coverage| {
                coverage.step(match said {
                    DecidedAs::Succeeded => "decided: succeeded",
                    DecidedAs::Failed => "decided: failed",
                    DecidedAs::Abandoned => "decided: abandoned",
                })
            });
            true
        }
        Ok(Err(EngineError::Refused(_) | EngineError::AnotherOperation(_))) => {
            world.coverage(|coverage| coverage.step("decision refused"));
            false
        }
        Ok(Err(_)) | Err(_) => false,
    }
}

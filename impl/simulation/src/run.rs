//! One run: a plan, carried out on a clock that only goes on when nothing is left to do.

use std::sync::Arc;
use std::time::Duration;

use settled_protocol::{Ends, Key};
use settled_verify::{Options, Verifier};
use tokio::runtime::Builder;

use crate::coverage::{self, Coverage};
use crate::plan::{CallPlan, Plan};
use crate::truth::{Held, tool_of};
use crate::violation::{Property, Violation};
use crate::world::World;
use crate::{caller, faults, guard, person};

/// How long after the last fault everything must have ended: an operation whose owner gave up, but lives, is left to it for a
/// quarter of an hour.
const TO_SETTLE: u64 = 2_500_000;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// How much time went by on its clock.
    pub simulated: Duration,
    /// How much happened.
    pub events: u64,
    /// A digest of all that happened, in order: equal for equal plans.
    pub digest: u64,
    /// Calls that guards were asked.
    pub calls: u64,
    /// Attempts that were sent.
    pub sends: u64,
    /// Effects of tools.
    pub effects: u64,
    /// What was covered.
    pub coverage: Coverage,
    /// What was not as it must be.
    pub violations: Vec<Violation>,
    /// All that happened, if it was to be told.
    pub story: Vec<String>,
}

/// Why a run can't be begun.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The operating system gives no runtime.
    #[error("a simulation can't be begun: {0}")]
    Runtime(#[from] std::io::Error),
}

impl Plan {
    /// Carries it out; tells the story if it is wanted.
    ///
    /// # Errors
    /// If the runtime can't be built.
    pub fn run(&self, told: bool) -> Result<Outcome, SimulationError> {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
        // All jitter of the engine comes from here.
        fastrand::seed(self.seed);
        let outcome = runtime.block_on(run(self.clone(), told));
        Ok(outcome)
    }
}

async fn run(plan: Plan, told: bool) -> Outcome {
    let world = World::new(plan.clone(), told);
    (0..plan.guards).for_each(|guard| guard::start(&world, guard));
    let faults: Vec<_> =
        plan.faults.iter().map(|fault| tokio::spawn(faults::happen(world.clone(), fault.clone()))).collect();
    let callers: Vec<_> =
        plan.calls.iter().map(|call| tokio::spawn(caller::call(world.clone(), call.clone()))).collect();
    let person = tokio::spawn(person::now_and_then(world.clone()));
    world.until(plan.load).await;
    for fault in faults {
        let _ = fault.await;
    }
    person.abort();
    world.calm_down();
    world.note(format_args!("faults stop"));
    // Whoever was killed and not started again is started now.
    for guard in 0..plan.guards {
        guard::start_again(&world, guard);
    }
    let deadline = world.now() + TO_SETTLE;
    for caller in callers {
        // Callers give up by themselves.
        let _ = caller.await;
    }
    settle(&world, deadline).await;
    audit(&world).await;
    retain(&world).await;
    history(&world).await;
    finish(&world, plan.seed)
}

/// Waits until everything has ended, people's decisions included.
async fn settle(world: &Arc<World>, deadline: u64) {
    let mut pause = 500;
    let mut before = None;
    loop {
        match person::decide_all(world).await {
            // What was asked by those who gave up may only just begin.
            Some(0) => {
                let sends = world.truth(|truth| truth.sends);
                if before.replace(sends) == Some(sends) {
                    return;
                }
            }
            open if world.now() > deadline => {
                let what = match open {
                    Some(open) => format!("{open} operations are neither settled nor handed to a person"),
                    None => "no guard can be asked, or the ledger can't be read".to_owned(),
                };
                world.violated(Property::Settles, what);
                return;
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(pause)).await;
        pause = (pause * 3 / 2).min(20_000);
    }
}

/// Waits until every guard can be asked.
async fn ready(world: &Arc<World>) {
    let deadline = world.now() + TO_SETTLE;
    while (0..world.plan.guards).any(|guard| caller::running(world, guard).is_none()) {
        if world.now() > deadline {
            return world.violated(Property::Settles, "a guard does not come up again".to_owned());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Asks for everything once more, everywhere.
async fn audit(world: &Arc<World>) {
    let mut asked: Vec<&CallPlan> = world.plan.calls.iter().collect();
    asked.sort_by_key(|call| (call.tool, call.wish, call.other));
    asked.dedup_by_key(|call| (call.tool, call.wish, call.other));
    for call in asked {
        let always =
            world.plan.tools.get(call.tool).is_some_and(|tool| tool.ends == Ends::WithWindow && tool.window.is_none());
        if !always {
            continue;
        }
        for guard in 0..world.plan.guards {
            let mut answered = false;
            // A holder whose disk has failed before is found out, ended and started again only when it is asked to write.
            for _ in 0..3 {
                ready(world).await;
                answered =
                    answered || caller::once(world, guard, call, Duration::from_secs(2_000), true).await.is_some();
            }
            if !answered {
                world.violated(Property::Settles, format!("guard {guard} does not answer for wish {}", call.wish));
            }
        }
    }
    settle(world, world.now() + TO_SETTLE).await;
}

/// Waits until everything whose retention is over must be gone.
async fn retain(world: &Arc<World>) {
    let tools = world.plan.tools.iter();
    let Some(longest) = tools.filter_map(|tool| Some(tool.window? + tool.tombstone.unwrap_or(0))).max() else { return };
    // An attempt whose answer never comes is waited for, so that its late answer isn't taken for another's.
    tokio::time::sleep(Duration::from_millis(longest + 75_000)).await;
    let windowed =
        |key: &Key| tool_of(key).and_then(|tool| world.plan.tools.get(tool)).is_some_and(|tool| tool.window.is_some());
    let now = world.time();
    let left = world.truth(|truth| {
        // What people decided, or was never sent, is kept for longer.
        let over =
            |held: &Held| held.state == "settled" && held.keep_until.is_none_or(|until| until.after(75_000) < now);
        let left = truth.held.iter().filter(|(key, held)| windowed(key) && over(held));
        left.map(|(key, _)| key.clone()).collect::<Vec<_>>()
    });
    if let Some(key) = left.first() {
        world.violated(Property::BoundedMemory, format!("{} records remain, {key} among them", left.len()));
    }
}

/// Holds the recorded histories, and what the ledger kept of them, against the protocol.
async fn history(world: &Arc<World>) {
    let Some((process, engine)) = (0..world.plan.guards).find_map(|guard| caller::running(world, guard)) else {
        return;
    };
    let mut verifier = Verifier::new(Options { ended: false, effects_known: true, margin: 3_600_000 });
    // What has been forgotten can't be read again where word of it was lost.
    let forgotten =
        |key: &Key| tool_of(key).and_then(|tool| world.plan.tools.get(tool)).is_none_or(|tool| tool.window.is_some());
    for line in world.take_lines() {
        if !line.key.as_ref().is_some_and(forgotten) {
            verifier.line(line);
        }
    }
    for effect in world.truth(|truth| truth.as_one(&world.plan)) {
        if forgotten(&effect.key) {
            continue;
        }
        verifier.effect(settled_verify::Effect {
            key: effect.key,
            generation: Some(effect.generation),
            attempt: effect.attempt,
            resource: effect.resource,
            begun: Some(effect.begun),
            ended: Some(effect.at),
        });
    }
    let keys: Vec<Key> = verifier.keys().cloned().collect();
    let ledger = engine.ledger().clone();
    let kept = process.spawn(async move {
        let mut kept = Vec::new();
        for key in keys {
            let entry = ledger.get(&key).await;
            let changes = ledger.history(&key).await;
            // It may just have been forgotten.
            if matches!((&entry, &ledger.get(&key).await), (Ok(before), Ok(after)) if before == after) {
                kept.push((entry, changes, key));
            }
        }
        kept
    });
    let Ok(kept) = kept.await else { return };
    for (entry, changes, key) in kept {
        if let (Ok(entry), Ok(changes)) = (entry, changes) {
            verifier.kept(&key, entry, changes);
        }
    }
    for violation in verifier.finish().violations() {
        world.violated(Property::HistoryHolds, format!("{}: {}", violation.property.name(), violation.text));
    }
}

fn finish(world: &Arc<World>, seed: u64) -> Outcome {
    let wrong = world.truth(|truth| truth.check(&world.plan));
    for (property, what) in wrong {
        world.violated(property, what);
    }
    world.coverage(|coverage| coverage::of_plan(&world.plan, coverage));
    let (calls, sends, effects) = world.truth(|truth| (truth.calls, truth.sends, truth.effects.len() as u64));
    let came = world.end();
    Outcome {
        seed,
        simulated: came.simulated,
        events: came.events,
        digest: came.digest,
        calls,
        sends,
        effects,
        coverage: came.coverage,
        violations: came.violations,
        story: came.story,
    }
}

//! Guards: processes that are started, stopped, killed and started again, each with an engine of its own.

use std::sync::Arc;
use std::time::Duration;

use settled::protocol::{Cause, Digest};
use settled::{Alerts, Engine, EngineOptions, Entry, Ledger, Limits, Recoverable, RetryBudget};

use crate::process::Process;
use crate::proxy;
use crate::remote::Remote;
use crate::tool::SimulatedTool;
use crate::truth::tool_of;
use crate::world::{Recorder, SimulatedClock, World};

/// How often a guard looks after what was left.
const MAINTENANCE: Duration = Duration::from_secs(2);

/// Starts a guard's next process.
pub(crate) fn start(world: &Arc<World>, guard: usize) {
    let life = world.with_guard(guard, |guard| guard.next_life()).unwrap_or_default();
    let process = Process::new(world, guard, life);
    world.with_guard(guard, |place| {
        place.process = Some(process.clone());
        place.engine = None;
    });
    world.note(format_args!("guard {guard} starts (life {life})"));
    process.spawn(run(world.clone(), process.clone()));
}

/// Kills a guard's process. Returns whether there was one.
pub(crate) fn kill(world: &Arc<World>, guard: usize) -> bool {
    let Some(process) = world.guard(guard).process.filter(|process| process.is_alive()) else {
        return false;
    };
    kill_process(world, &process);
    true
}

pub(crate) fn kill_process(world: &Arc<World>, process: &Arc<Process>) {
    world.note(format_args!("guard {} is killed (life {})", process.guard, process.life));
    let holds = world.server.disk().and_then(|disk| disk.holder()).is_some_and(|holder| Arc::ptr_eq(&holder, process));
    process.kill();
    if holds && let Some(disk) = world.server.disk() {
        disk.disk.kill();
    }
    world.with_guard(process.guard, |place| {
        if place.process.as_ref().is_some_and(|now| Arc::ptr_eq(now, process)) {
            place.engine = None;
        }
    });
}

/// The guards' host loses its power.
pub(crate) fn power_fails(world: &Arc<World>) {
    for guard in 0..world.plan.guards {
        kill(world, guard);
    }
    if let Some(disk) = world.server.disk() {
        disk.disk.crash();
    }
}

/// Starts a guard again, unless it runs.
pub(crate) fn start_again(world: &Arc<World>, guard: usize) {
    if !world.guard(guard).process.is_some_and(|process| process.is_alive()) {
        start(world, guard);
    }
}

/// A process whose ledger refuses all writes is ended, and started again, by whoever looks after it.
pub(crate) fn broken(world: &Arc<World>, process: &Arc<Process>) {
    let (world, process) = (world.clone(), process.clone());
    // Not a task of the process.
    tokio::spawn(async move {
        world.delay(5..=300).await;
        if !process.is_alive() {
            return;
        }
        let power = world.server.disk().is_some_and(|disk| disk.takes_power());
        if power {
            world.fault("power failed at a disk operation");
            power_fails(&world);
        } else {
            world.fault("holder ended with a failed disk");
            kill_process(&world, &process);
        }
        world.delay(50..=1_000).await;
        for guard in 0..world.plan.guards {
            start_again(&world, guard);
        }
    });
}

async fn run(world: Arc<World>, process: Arc<Process>) {
    let ledger: Arc<dyn Ledger> = Arc::new(Remote { world: world.clone(), process: process.clone() });
    let engine = loop {
        match Engine::start(ledger.clone(), options(&world, process.guard)).await {
            Ok(engine) => break engine,
            Err(error) => {
                world.note(format_args!("guard {} can't start: {error}", process.guard));
                world.delay(50..=400).await;
            }
        }
    };
    world.with_guard(process.guard, |place| {
        if place.process.as_ref().is_some_and(|now| Arc::ptr_eq(now, &process)) {
            place.engine = Some(engine.clone());
        }
    });
    if world.plan.proxied {
        return proxy::run(world, process, engine).await;
    }
    let resolve = {
        let (world, process) = (Arc::downgrade(&world), Arc::downgrade(&process));
        move |entry: &Entry| {
            let (world, process) = (world.upgrade()?, process.upgrade()?);
            let tool = tool_of(&entry.key)?;
            let policy = world.plan.tools.get(tool)?.policy(world.plan.plant);
            let limits = limits(&world, tool);
            Some(Recoverable { policy, tool: Some(Arc::new(SimulatedTool { world, process, tool })), limits })
        }
    };
    engine.maintain(Arc::new(resolve), MAINTENANCE).await;
}

fn options(world: &Arc<World>, guard: usize) -> EngineOptions {
    let weak = Arc::downgrade(world);
    let skew = match world.plan.ledger {
        crate::plan::LedgerKind::Memory => 0,
        _ => world.guard(guard).skew(),
    };
    EngineOptions {
        clock: Arc::new(SimulatedClock { world: weak.clone(), skew }),
        history: Arc::new(Recorder { world: weak, guard }),
        alerts: Arc::new(Quiet),
        patience: None,
        ledger_patience: Duration::from_secs(2),
        lease: Duration::from_millis(world.plan.lease),
        retry_budget: RetryBudget { per_mille: 300, burst: 20 },
        failing_after: 5,
        reply_patience: Duration::from_secs(120),
    }
}

/// Alerts that nobody hears: people look at the ledger.
struct Quiet;

impl Alerts for Quiet {
    fn raise(&self, _entry: &Entry, _cause: &Cause<Digest>) {}
    fn failing(&self, _scope: &str, _tool: &str, _attempts: u32) {}
    fn recovered(&self, _scope: &str, _tool: &str) {}
}

/// How long things may take with a tool.
pub(crate) fn limits(world: &World, tool: usize) -> Limits {
    let Some(plan) = world.plan.tools.get(tool) else { return Limits::default() };
    Limits {
        attempt: Duration::from_millis(plan.timeout),
        settle: Duration::from_millis(plan.settle),
        queue: Duration::from_secs(20),
        transit: Duration::from_millis(plan.transit + plan.takes),
        tombstone: plan.tombstone.map(Duration::from_millis),
    }
}

//! The tools, the way to them, and what they really did.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use settled::protocol::{Action, AttemptId, Digest, ErrorClass, Event, Key, Policy, SealScope, ToolKind, What};
use settled::{Change, Ledger, Outgoing, Question, Seen, Stored, Tool, ToolReply};
use tokio::sync::oneshot;

use crate::plan::{Kind, LONGEST_QUEUE, ToolPlan};
use crate::process::Process;
use crate::server::Server;
use crate::truth::{Effect, wish_of};
use crate::violation::Property;
use crate::world::World;

/// A process's way to a tool.
pub(crate) struct SimulatedTool {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
    pub(crate) tool: usize,
}

/// An attempt that may still take effect, until this is dropped.
pub(crate) struct Possible {
    world: Arc<World>,
    key: Key,
    of: AttemptId,
}

impl Possible {
    /// Notes an attempt, and whether it may be made.
    pub(crate) fn begin(world: &Arc<World>, tool: usize, key: &Key, of: AttemptId) -> Possible {
        let plan = world.plan.tools.get(tool);
        let alone = plan.is_some_and(|plan| matches!(plan.kind, Kind::Opaque | Kind::Observable));
        let (intended, others) = world.truth(|truth| {
            truth.sends += 1;
            *truth.sent.entry((key.clone(), of.generation)).or_insert(0) += 1;
            let intended = truth.intents.get(key).is_some_and(|latest| *latest >= of);
            let range =
                (key.clone(), AttemptId { generation: of.generation, attempt: settled::protocol::Attempt::FIRST })..;
            let others = truth
                .possible
                .range(range)
                .filter(|(other, attempt)| other == key && attempt.generation == of.generation && *attempt != of);
            (intended, others.count())
        });
        if !intended {
            let what = format!("attempt {} of operation {} of {key} is not recorded", of.attempt, of.generation);
            world.violated(Property::IntentFirst, what);
        }
        if alone && others > 0 {
            let what = format!(
                "attempt {} of operation {} of {key} is sent while another one may still take effect",
                of.attempt, of.generation
            );
            world.violated(Property::UnknownBlocks, what);
        }
        Possible::new(world, key, of)
    }

    fn new(world: &Arc<World>, key: &Key, of: AttemptId) -> Possible {
        world.truth(|truth| truth.possible.insert((key.clone(), of)));
        Possible { world: world.clone(), key: key.clone(), of }
    }
}

impl Drop for Possible {
    fn drop(&mut self) {
        self.world.truth(|truth| truth.possible.remove(&(self.key.clone(), self.of)));
    }
}

/// A request on its way.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) key: Key,
    pub(crate) of: AttemptId,
    pub(crate) epoch: settled::protocol::Epoch,
    pub(crate) arguments: Bytes,
    pub(crate) possible: Arc<Possible>,
}

/// Where a tool's answer goes.
pub(crate) type Reply = Arc<Mutex<Option<oneshot::Sender<ToolReply>>>>;

fn answer(reply: &Reply, with: ToolReply) {
    if let Some(reply) = reply.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // Whoever asked may be gone.
        let _ = reply.send(with);
    }
}

#[async_trait]
impl Tool for SimulatedTool {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        let world = &self.world;
        let not_run = |why: &'static str| ToolReply::Error(ErrorClass::NotRun, Bytes::from_static(why.as_bytes()));
        let possible = Arc::new(Possible::begin(world, self.tool, &outgoing.key, outgoing.attempt));
        // Queued in the process.
        let long = world.happens(|rates| rates.gap, "queued for long");
        world.delay(0..=if long { LONGEST_QUEUE } else { 3 }).await;
        if !outgoing.permit().holds() {
            world.fault("fenced before the first byte");
            return not_run("fenced");
        }
        if world.happens(|rates| rates.gap, "hangs before the first byte") {
            world.delay(1..=400).await;
        }
        if !world.reaches_tools(self.process.guard)
            || world.happens(|rates| rates.refused, "tool refuses the connection")
        {
            return not_run("the connection was refused");
        }
        let (done, reply) = oneshot::channel();
        let done: Reply = Arc::new(Mutex::new(Some(done)));
        let duplicated = self.plan().is_some_and(ToolPlan::duplicates)
            && world.happens(|rates| rates.duplicated, "request duplicated");
        let request = Request {
            key: outgoing.key.clone(),
            of: outgoing.attempt,
            epoch: outgoing.epoch,
            arguments: outgoing.arguments.clone(),
            possible,
        };
        outgoing.sent();
        for _ in 0..1 + u32::from(duplicated) {
            // Not tasks of the process.
            tokio::spawn(deliver(world.clone(), self.tool, request.clone(), done.clone()));
        }
        drop((request, done));
        match reply.await {
            Ok(reply) if world.reaches_tools(self.process.guard) => reply,
            Ok(_) | Err(_) => ToolReply::ConnectionLost,
        }
    }

    async fn observe(&self, question: &Question) -> Seen {
        if !self.question_arrives().await {
            return Seen::Unclear;
        }
        let seen = self.world.truth(|truth| {
            let applied = truth.effects_of(&question.key, question.attempt.generation).next();
            applied.map_or(Seen::NotApplied, |effect| Seen::Applied(effect.receipt.clone()))
        });
        self.question_answered(seen).await
    }

    async fn seal(&self, question: &Question, scope: SealScope) -> Seen {
        if !self.question_arrives().await {
            return Seen::Unclear;
        }
        let of = question.attempt;
        let seen = self.world.truth(|truth| {
            if let Some(applied) = truth.effects_of(&question.key, of.generation).next() {
                return Seen::Applied(applied.receipt.clone());
            }
            let up_to = if scope == SealScope::Operation { u32::MAX } else { of.attempt.get() };
            let seal = truth.sealed.entry((question.key.clone(), of.generation)).or_insert(0);
            *seal = (*seal).max(up_to);
            Seen::Sealed
        });
        self.world.note(format_args!("seal of {} up to {scope:?} {}: {seen:?}", question.key, of.attempt));
        self.question_answered(seen).await
    }
}

impl SimulatedTool {
    fn plan(&self) -> Option<&ToolPlan> {
        self.world.plan.tools.get(self.tool)
    }

    async fn question_arrives(&self) -> bool {
        let world = &self.world;
        world.delay(1..=self.plan().map_or(1, |plan| plan.transit)).await;
        world.reaches_tools(self.process.guard) && !world.happens(|rates| rates.question_fails, "question fails")
    }

    async fn question_answered(&self, seen: Seen) -> Seen {
        self.world.delay(1..=self.plan().map_or(1, |plan| plan.transit)).await;
        if self.world.reaches_tools(self.process.guard) { seen } else { Seen::Unclear }
    }
}

/// What a tool does with one request.
pub(crate) async fn deliver(world: Arc<World>, tool: usize, request: Request, reply: Reply) {
    let Some(plan) = world.plan.tools.get(tool).cloned() else { return };
    world.delay(1..=plan.transit).await;
    let (key, of) = (&request.key, request.of);
    world.note(format_args!("tool {tool}: {key} attempt {} of {} arrives", of.attempt, of.generation));
    if world.happens(|rates| rates.tool_dies_before, "tool dies before the effect") {
        return;
    }
    let slow = world.happens(|rates| rates.slow, "tool is slow");
    if world.happens(|rates| rates.busy, "tool is busy") {
        let retry_after = world.draw(|random| random.bool()).then(|| Duration::from_millis(300));
        // Also what says that it is busy can come late.
        let slowly = if slow { plan.takes } else { 0 };
        tokio::time::sleep(Duration::from_millis(slowly)).await;
        world.delay(1..=plan.transit).await;
        return answer(&reply, ToolReply::Busy { retry_after, body: Bytes::from_static(b"busy") });
    }
    let begun = world.now();
    let takes = match slow {
        true => plan.takes,
        false => world.draw(|random| random.u64(1..=plan.takes.div_ceil(4))),
    };
    tokio::time::sleep(Duration::from_millis(takes)).await;
    if world.happens(|rates| rates.error_before, "error without effect") {
        world.truth(|truth| {
            if plan.kind == Kind::Deduplicates && plan.remembers {
                // Only the first answer to a key is remembered.
                if truth.effects_of(key, of.generation).next().is_none() {
                    truth.rejected.insert((key.clone(), of.generation));
                }
            }
        });
        let applied = world.truth(|truth| truth.effects_of(key, of.generation).next().is_some());
        // A tool whose errors are final gives none about what has happened.
        if !applied || !plan.errors_final && plan.kind != Kind::Deduplicates {
            world.delay(1..=plan.transit).await;
            return answer(&reply, ToolReply::Error(ErrorClass::Unproven, Bytes::from_static(b"rejected")));
        }
    }
    let done = apply(&world, tool, &plan, &request, begun).await;
    // Whatever comes now, nothing more of this copy can take effect.
    drop(request.possible);
    if !plan.errors_final && world.happens(|rates| rates.error_after, "error after the effect") {
        world.delay(1..=plan.transit).await;
        return answer(&reply, ToolReply::Error(ErrorClass::Unproven, Bytes::from_static(b"500")));
    }
    if world.happens(|rates| rates.tool_dies_after, "tool dies after the effect") {
        return;
    }
    if world.happens(|rates| rates.reply_lost, "reply lost") {
        tokio::time::sleep(Duration::from_secs(60)).await;
        return;
    }
    world.delay(1..=plan.transit).await;
    answer(&reply, done);
}

/// The effect, if there is one now.
async fn apply(world: &Arc<World>, tool: usize, plan: &ToolPlan, request: &Request, begun: u64) -> ToolReply {
    let Request { key, of, arguments, .. } = request;
    let before = world.truth(|truth| {
        let sealed = truth.sealed.get(&(key.clone(), of.generation)).is_some_and(|up_to| *up_to >= of.attempt.get());
        let applied = truth.effects_of(key, of.generation).next();
        match plan.kind {
            Kind::ReadOnly => Some(ToolReply::Result(Bytes::from_static(b"read"))),
            Kind::Sealable if applied.is_some() => applied.map(|effect| ToolReply::Result(effect.receipt.clone())),
            Kind::Sealable if sealed => Some(ToolReply::Error(ErrorClass::Unproven, Bytes::from_static(b"sealed"))),
            Kind::Deduplicates if truth.rejected.contains(&(key.clone(), of.generation)) => {
                Some(ToolReply::Error(ErrorClass::Unproven, Bytes::from_static(b"rejected")))
            }
            // It remembers a key for so long from when it took effect.
            Kind::Deduplicates => applied
                .filter(|effect| world.now() - effect.at <= plan.limit)
                .map(|effect| ToolReply::Result(effect.receipt.clone())),
            Kind::Opaque | Kind::Idempotent | Kind::Observable | Kind::Transactional | Kind::Sealable => None,
        }
    });
    if let Some(reply) = before {
        return reply;
    }
    let receipt = Bytes::from(format!("receipt-{}", world.truth(|truth| truth.effects.len())));
    if plan.kind == Kind::Transactional && !commits(world, request, &receipt).await {
        return ToolReply::Error(ErrorClass::NotRun, Bytes::from_static(b"no longer this attempt's"));
    }
    let resource = wish_of(key).and_then(|wish| world.resource(tool, wish)).map(|resource| resource.to_string());
    let (at, key, of, asked) = (world.now(), key.clone(), *of, arguments.clone());
    world
        .note(format_args!("tool {tool}: {key} attempt {} of {} takes effect: {receipt:?}", of.attempt, of.generation));
    world.truth(|truth| {
        truth.effects.push(Effect { key, of, tool, asked, receipt: receipt.clone(), resource, begun, at });
    });
    ToolReply::Result(receipt)
}

/// Commits effect and record together; `false`: neither.
async fn commits(world: &Arc<World>, request: &Request, receipt: &Bytes) -> bool {
    let Server::Shared(ledger) = &world.server else { return false };
    let Ok(Some(entry)) = ledger.get(&request.key).await else { return false };
    let now = world.time();
    let what = What::Committed { of: request.of, owner: request.epoch, result: Digest::of(receipt) };
    let event = Event { now, by: request.epoch, draw: 0, what };
    let step = Policy::new(ToolKind::Transactional).step(Some(&entry.record), &event);
    let store = step.actions.iter().find_map(|action| match action {
        Action::Store(store) => Some(store),
        _ => None,
    });
    let Some(store) = store else { return false };
    let change = Change {
        key: request.key.clone(),
        expected: store.expected,
        record: store.record,
        at: now,
        by: request.epoch,
        event: "committed".to_owned(),
        asked: None,
        sent: None,
        outcome: Some(receipt.clone()),
        note: None,
        resource: None,
        keep_until: None,
    };
    let committed = matches!(ledger.compare_and_set(change.clone()).await, Ok(Stored::Durable(_)));
    if committed {
        world.stored(&change);
    }
    committed
}

//! A scripted tool, a ledger that fails on demand, and the rest of a small world for the engine's tests.
#![allow(dead_code, unused_imports, clippy::unwrap_used, clippy::expect_used)]

mod faulty;
mod left;

pub use faulty::{Fault, Faulty};
pub use left::left;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use settled::protocol::{
    AttemptId, Cause, Digest, Ends, Epoch, ErrorClass, Key, Policy, Repeat, SealScope, Time, ToolKind,
};
use settled::{
    Alerts, Answer, Answered, Clock, Engine, EngineError, EngineOptions, Entry, Ledger, Limits, MemoryLedger,
    Operation, Outgoing, Question, Recoverable, Seen, Tool, ToolReply,
};
use tokio::time::Instant;

pub const TIMEOUT: Duration = Duration::from_secs(10);

/// The time of tokio's (paused) clock.
pub struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Time {
        Time(1_000_000 + self.0.elapsed().as_millis() as u64)
    }
}

/// Counts alerts.
#[derive(Default)]
pub struct CountedAlerts(pub AtomicUsize, pub Mutex<Vec<String>>);

impl CountedAlerts {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// What was told of the tool's health.
    pub fn health(&self) -> Vec<String> {
        self.1.lock().unwrap().clone()
    }
}

impl Alerts for CountedAlerts {
    fn raise(&self, _entry: &Entry, _cause: &Cause<Digest>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn failing(&self, _scope: &str, tool: &str, attempts: u32) {
        self.1.lock().unwrap().push(format!("{tool} failed {attempts} times"));
    }

    fn recovered(&self, _scope: &str, tool: &str) {
        self.1.lock().unwrap().push(format!("{tool} recovered"));
    }
}

/// What the tool does with one dispatch.
#[derive(Clone)]
pub enum Play {
    /// Takes this long, takes effect, and answers so.
    Effect(Duration, ToolReply),
    /// Takes this long, and answers so without an effect.
    NoEffect(Duration, ToolReply),
    /// Never answers; no effect.
    Hang,
    /// Its transport panics, after the effect.
    Panic,
}

pub fn result(text: &'static str) -> ToolReply {
    ToolReply::Result(Bytes::from_static(text.as_bytes()))
}

pub fn error(text: &'static str) -> ToolReply {
    ToolReply::Error(ErrorClass::Unproven, Bytes::from_static(text.as_bytes()))
}

pub fn not_run(text: &'static str) -> ToolReply {
    ToolReply::Error(ErrorClass::NotRun, Bytes::from_static(text.as_bytes()))
}

/// A tool that plays a script; when it is used up, every dispatch takes effect and answers `ok`.
#[derive(Default)]
pub struct Script {
    plays: Mutex<VecDeque<Play>>,
    sights: Mutex<VecDeque<Seen>>,
    sends: Mutex<Vec<(AttemptId, Epoch, Bytes)>>,
    effects: AtomicUsize,
    looks: AtomicUsize,
    truthful: AtomicBool,
}

impl Script {
    pub fn new(plays: impl IntoIterator<Item = Play>) -> Arc<Script> {
        Script::seeing(plays, [])
    }

    pub fn seeing(plays: impl IntoIterator<Item = Play>, sights: impl IntoIterator<Item = Seen>) -> Arc<Script> {
        Arc::new(Script {
            plays: Mutex::new(plays.into_iter().collect()),
            sights: Mutex::new(sights.into_iter().collect()),
            ..Script::default()
        })
    }

    /// What is seen next.
    pub fn sees(&self, sights: impl IntoIterator<Item = Seen>) {
        self.sights.lock().unwrap().extend(sights);
    }

    pub fn sends(&self) -> usize {
        self.sends.lock().unwrap().len()
    }

    pub fn sent(&self) -> Vec<(AttemptId, Epoch, Bytes)> {
        self.sends.lock().unwrap().clone()
    }

    pub fn effects(&self) -> usize {
        self.effects.load(Ordering::SeqCst)
    }

    pub fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }

    /// The next sight; what would be a lie, because there was no effect, becomes the truth.
    fn look(&self, truth: Seen) -> Seen {
        self.looks.fetch_add(1, Ordering::SeqCst);
        match self.sights.lock().unwrap().pop_front().unwrap_or(Seen::Unclear) {
            Seen::Applied(_) if self.truthful.load(Ordering::SeqCst) && self.effects() == 0 => truth,
            seen => seen,
        }
    }

    /// From now on it never claims an effect that did not happen.
    pub fn be_truthful(&self) {
        self.truthful.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl Tool for Script {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        self.sends.lock().unwrap().push((outgoing.attempt, outgoing.epoch, outgoing.arguments.clone()));
        outgoing.sent();
        let play = self.plays.lock().unwrap().pop_front();
        match play.unwrap_or(Play::Effect(Duration::ZERO, result("ok"))) {
            Play::Effect(time, reply) => {
                self.effects.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(time).await;
                reply
            }
            Play::NoEffect(time, reply) => {
                tokio::time::sleep(time).await;
                reply
            }
            Play::Hang => std::future::pending().await,
            Play::Panic => {
                self.effects.fetch_add(1, Ordering::SeqCst);
                panic!("the transport broke")
            }
        }
    }

    async fn observe(&self, _question: &Question) -> Seen {
        self.look(Seen::NotApplied)
    }

    async fn seal(&self, _question: &Question, _scope: SealScope) -> Seen {
        self.look(Seen::Sealed)
    }
}

pub fn key() -> Key {
    Key::new("test", "charge", "order 7").unwrap()
}

pub fn operation(policy: Policy) -> Operation {
    with_arguments(policy, "{\"cents\":4200}")
}

pub fn with_arguments(policy: Policy, arguments: &'static str) -> Operation {
    Operation { limits: limits(), ..Operation::new(key(), arguments, policy) }
}

pub fn limits() -> Limits {
    Limits { attempt: TIMEOUT, settle: Duration::from_secs(86_400), ..Limits::default() }
}

pub fn opaque() -> Policy {
    Policy::new(ToolKind::Opaque)
}

pub fn ends(kind: ToolKind, ends: Ends) -> Policy {
    Policy { repeat: Repeat { ends, window: Some(60_000) }, ..Policy::new(kind) }
}

/// Options on tokio's clock, and the alerts that they count.
pub fn options() -> (EngineOptions, Arc<CountedAlerts>) {
    let alerts = Arc::new(CountedAlerts::default());
    let options = EngineOptions {
        clock: Arc::new(TokioClock(Instant::now())),
        alerts: alerts.clone(),
        // Long waits on a paused clock would be made of nothing but renewals.
        lease: Duration::from_secs(1_000_000),
        ..EngineOptions::default()
    };
    (options, alerts)
}

/// A ledger and one engine on it.
pub struct World {
    pub ledger: Arc<MemoryLedger>,
    pub engine: Engine,
    pub options: EngineOptions,
    pub alerts: Arc<CountedAlerts>,
}

impl World {
    pub async fn new() -> World {
        let (options, alerts) = options();
        World::with(options, alerts).await
    }

    pub async fn with(options: EngineOptions, alerts: Arc<CountedAlerts>) -> World {
        let ledger = Arc::new(MemoryLedger::new());
        let engine = Engine::start(ledger.clone(), options.clone()).await.unwrap();
        World { ledger, engine, options, alerts }
    }

    pub async fn another(&self) -> Engine {
        Engine::start(self.ledger.clone(), self.options.clone()).await.unwrap()
    }

    pub async fn state(&self) -> &'static str {
        self.ledger.get(&key()).await.unwrap().map_or("absent", |entry| entry.record.state().name())
    }

    /// Waits until the record is in this state.
    pub async fn until(&self, state: &str) {
        tokio::time::timeout(Duration::from_secs(3_600), async {
            while self.state().await != state {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("it never became {state}"));
    }
}

pub async fn call(engine: &Engine, policy: Policy, tool: &Arc<Script>) -> Answer {
    engine.call(operation(policy), tool.clone()).await.unwrap().answer
}

/// Calls in a task of its own.
pub fn spawn_call(
    engine: &Engine,
    operation: Operation,
    tool: &Arc<Script>,
) -> tokio::task::JoinHandle<Result<Answered, EngineError>> {
    let (engine, tool) = (engine.clone(), tool.clone());
    tokio::spawn(async move { engine.call(operation, tool).await })
}

pub fn done(text: &'static str, replayed: bool) -> Answer {
    Answer::Done { result: Bytes::from_static(text.as_bytes()), replayed }
}

pub fn unknown(replayed: bool) -> Answer {
    Answer::Unknown { error: None, replayed }
}

pub fn recoverable(policy: Policy, tool: &Arc<Script>) -> impl Fn(&Entry) -> Option<Recoverable> + Send + Sync + use<> {
    let tool = tool.clone();
    move |_| Some(Recoverable { policy, tool: Some(tool.clone()), limits: limits() })
}

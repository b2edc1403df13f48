//! The system: real engines on a real ledger, each in a runtime of its own. A process that is killed loses its runtime; one that
//! is frozen has a runtime that nobody drives.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest_state_machine::StateMachineTest;
use settled::protocol::{Digest, Epoch, Key, State, Time};
use settled::{
    Answer, Answered, Clock, DecidedAs, Decision, Engine, EngineError, EngineOptions, Entry, Ledger, Operation,
    Recoverable, Resource, RetryBudget,
};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::backend::Backend;
use crate::moves::{self, As, BEGIN, DECIDED, End, JUMP, KEYS, Move, Point, STEP, Script, declared, limits, name};
use crate::reference::{Came, Reference, Told, World};
use crate::seen::{Owners, Watched};
use crate::tool::Scripted;

/// How long anything may take, on however busy a machine.
const LONGEST: Duration = Duration::from_secs(20);

/// The test's clock: it goes on, and jumps when it is told to.
struct Jumping {
    begun: Instant,
    ahead: AtomicU64,
}

impl Clock for Jumping {
    fn now(&self) -> Time {
        let elapsed = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Time(BEGIN + self.ahead.load(Ordering::SeqCst) + elapsed)
    }
}

/// A process.
struct Process {
    runtime: Option<Runtime>,
    engine: Engine,
    watched: Arc<Watched>,
    tools: Vec<Arc<Scripted>>,
    reached: Arc<Notify>,
    epoch: Epoch,
}

impl Process {
    fn start(backend: &Backend, owners: &Arc<Owners>, clock: &Arc<Jumping>) -> Process {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reached = Arc::new(Notify::new());
        let (engine, watched) = runtime.block_on(async {
            let watched = Arc::new(Watched {
                ledger: backend.open(),
                owners: Arc::clone(owners),
                stop_after: Mutex::new(None),
                reached: Arc::clone(&reached),
            });
            let options = EngineOptions {
                clock: Arc::clone(clock) as Arc<dyn Clock>,
                ledger_patience: LONGEST,
                lease: Duration::from_secs(1_000_000),
                retry_budget: RetryBudget { per_mille: 1_000_000, burst: 1_000_000 },
                ..EngineOptions::default()
            };
            let ledger: Arc<dyn Ledger> = Arc::clone(&watched) as Arc<dyn Ledger>;
            (Engine::start(ledger, options).await.unwrap(), watched)
        });
        let tool = |_| Arc::new(Scripted::new(&reached));
        let tools = (0..KEYS).map(tool).collect();
        let epoch = engine.epoch();
        Process { runtime: Some(runtime), engine, watched, tools, reached, epoch }
    }

    /// Runs it until the future is ready.
    fn run<T>(&self, what: &str, future: impl Future<Output = T>) -> T {
        let runtime = self.runtime.as_ref().expect("it lives");
        let bounded = async { tokio::time::timeout(LONGEST, future).await };
        runtime.block_on(bounded).unwrap_or_else(|_| panic!("{what}: nobody is ever told"))
    }

    fn resolve(&self) -> impl Fn(&Entry) -> Option<Recoverable> + Send + Sync + use<> {
        let tools = self.tools.clone();
        move |entry| {
            let key = (0..KEYS).find(|key| name(*key) == entry.key)?;
            let tool = Arc::clone(tools.get(key)?);
            Some(Recoverable { policy: declared(key).policy, tool: Some(tool), limits: limits(key) })
        }
    }

    fn plays(&self, key: usize, script: &Script, point: Option<Point>) {
        for (of, tool) in self.tools.iter().enumerate() {
            tool.plays(script, point.filter(|_| of == key));
        }
        *self.watched.stop_after.lock().unwrap() = match point {
            Some(Point::Stored(count)) => Some((name(key), count)),
            _ => None,
        };
    }

    fn rests(&self) {
        self.tools.iter().for_each(|tool| tool.rests());
        *self.watched.stop_after.lock().unwrap() = None;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// All processes, and the ledger.
pub struct System {
    backend: Backend,
    owners: Arc<Owners>,
    clock: Arc<Jumping>,
    process: Process,
    /// The frozen process, and of which key it has a call.
    frozen: Option<(Process, usize)>,
    /// What was sent by processes that are gone.
    sent: Vec<usize>,
    answered: BTreeMap<usize, Answered>,
}

impl System {
    pub fn new(backend: Backend) -> System {
        moves::next_case();
        let owners = Arc::new(Owners::default());
        let clock = Arc::new(Jumping { begun: Instant::now(), ahead: AtomicU64::new(0) });
        let process = Process::start(&backend, &owners, &clock);
        let (sent, answered) = (vec![0; KEYS], BTreeMap::new());
        System { backend, owners, clock, process, frozen: None, sent, answered }
    }

    /// Another process is started in the place of the one in charge, which is returned.
    fn another(&mut self) -> Process {
        std::mem::replace(&mut self.process, Process::start(&self.backend, &self.owners, &self.clock))
    }

    fn bury(&mut self, process: Process) {
        for (sent, tool) in self.sent.iter_mut().zip(&process.tools) {
            *sent += tool.sent();
        }
    }

    fn killed(&mut self) {
        self.owners.gone.lock().unwrap().insert(self.process.epoch);
        let process = self.another();
        self.bury(process);
    }

    fn call(
        &mut self,
        key: usize,
        other: bool,
        twice: bool,
        script: &Script,
        end: End,
        expected: Option<&Came>,
    ) -> Came {
        let point = match end {
            End::Answer => None,
            End::Killed(point) | End::Frozen(point) => Some(point),
        };
        self.process.plays(key, script, point);
        let Process { engine, tools, reached, .. } = &self.process;
        let call = || {
            let (engine, tool) = (engine.clone(), Arc::clone(&tools[key]));
            let operation = operation(key, other);
            async move { engine.call(operation, tool).await }
        };
        if expected == Some(&Came::Stopped) {
            let reached = Arc::clone(reached);
            let call = call();
            self.process.run("it does not get there", async move {
                drop(tokio::spawn(call));
                reached.notified().await;
            });
            match end {
                End::Frozen(_) => {
                    self.owners.lapsed.lock().unwrap().insert(self.process.epoch);
                    self.frozen = Some((self.another(), key));
                }
                _ => self.killed(),
            }
            return Came::Stopped;
        }
        let told: Vec<Result<Answered, EngineError>> = self.process.run("a call", async {
            let first: JoinHandle<_> = tokio::spawn(call());
            let second = twice.then(|| tokio::spawn(call()));
            let mut told = vec![first.await.unwrap()];
            if let Some(second) = second {
                told.push(second.await.unwrap());
            }
            told
        });
        let told: Vec<Answered> = told.into_iter().map(|told| told.expect("the ledger works")).collect();
        self.answered.insert(key, told[0].clone());
        Came::Told(told.iter().map(|answered| say(&answered.answer)).collect())
    }

    fn apply(&mut self, what: &Move, expected: &World) -> Came {
        self.clock.ahead.fetch_add(STEP, Ordering::SeqCst);
        let process = &self.process;
        match what {
            Move::Call { key, other, twice, script, end } => {
                return self.call(*key, *other, *twice, script, *end, expected.came.as_ref());
            }
            Move::Late { key, play } => process.tools[*key].answers(*play),
            Move::Restart => self.killed(),
            Move::Recover { script } => {
                process.plays(0, script, None);
                process.run("recovery", process.engine.recover(&process.resolve())).unwrap();
            }
            Move::Wake => {
                let Some((frozen, key)) = &self.frozen else { return Came::Nothing };
                frozen.tools[*key].answers(moves::Play::Result);
                self.compare(expected);
                if let Some((frozen, _)) = self.frozen.take() {
                    self.bury(frozen);
                }
            }
            Move::Cancel { key } => {
                let cancelled = process.run("a cancel", process.engine.cancel(&name(*key))).unwrap();
                return Came::Cancelled(cancelled);
            }
            Move::Decide { key, decided, quiet } => {
                let decided_as = match decided {
                    As::Succeeded => DecidedAs::Succeeded,
                    As::Failed => DecidedAs::Failed,
                    As::Abandoned => DecidedAs::Abandoned,
                };
                let body = (*decided != As::Abandoned).then(|| Bytes::from_static(DECIDED));
                let decision = Decision { decided_as, body, note: None };
                let key = name(*key);
                let done = process.run("a decision", process.engine.decide(&key, decision, *quiet));
                return match done {
                    Ok(_) => Came::Decided(true),
                    Err(EngineError::NoSuchKey(_) | EngineError::Refused(_) | EngineError::AnotherOperation(_)) => {
                        Came::Decided(false)
                    }
                    Err(error) => panic!("{error}"),
                };
            }
            Move::Deliver { key } => {
                if let Some(answered) = self.answered.get(key) {
                    process.run("a delivery", async {
                        let delivery = process.engine.delivering(answered, declared(*key).policy).await;
                        delivery.confirm(Duration::ZERO).await.unwrap();
                    });
                }
            }
            Move::Jump => drop(self.clock.ahead.fetch_add(JUMP, Ordering::SeqCst)),
            Move::Expire => {
                let resolve = process.resolve();
                return Came::Expired(process.run("forgetting", process.engine.expire(&resolve)).unwrap());
            }
        }
        Came::Nothing
    }

    /// Waits until the ledger holds what the reference does; what was sent must be the same then, too.
    fn compare(&self, expected: &World) {
        let driven = self.frozen.as_ref().filter(|_| expected.frozen.is_none());
        let process = driven.map_or(&self.process, |(frozen, _)| frozen);
        let runtime = process.runtime.as_ref().expect("it lives");
        runtime.block_on(async {
            let until = Instant::now() + LONGEST;
            for key in 0..KEYS {
                let wanted = view_of_reference(expected, key);
                loop {
                    let found = self.view(&process.watched.ledger, key).await;
                    let sent = self.sent(key);
                    let same = found == wanted && sent == expected.sent.get(&key).copied().unwrap_or(0);
                    if same {
                        break;
                    }
                    if Instant::now() >= until {
                        assert_eq!(found, wanted, "key {key}: the ledger's, and the reference's");
                        assert_eq!(Some(&sent), expected.sent.get(&key), "key {key}: what was sent");
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        });
    }

    fn sent(&self, key: usize) -> usize {
        let frozen = self.frozen.as_ref().map_or(0, |(frozen, _)| frozen.tools[key].sent());
        self.sent[key] + self.process.tools[key].sent() + frozen
    }

    async fn view(&self, ledger: &Arc<dyn Ledger>, key: usize) -> Option<View> {
        let entry = ledger.get(&name(key)).await.unwrap()?;
        let history = ledger.history(&name(key)).await.unwrap();
        let first = history.first().filter(|first| first.expected.is_none());
        let stores = first.map(|first| entry.record.version().0 - first.record.version().0);
        Some(View {
            state: state(entry.record.state()),
            fingerprint: entry.record.fingerprint(),
            stores,
            tombstone: entry.tombstone,
        })
    }
}

/// A record without times and names of owners.
#[derive(Debug, PartialEq, Eq)]
struct View {
    state: String,
    fingerprint: Digest,
    /// How many changes there have been since the key was free, if it ever was.
    stores: Option<u64>,
    tombstone: bool,
}

fn view_of_reference(world: &World, key: usize) -> Option<View> {
    let kept = world.kept.get(&key)?;
    let record = &kept.record;
    let stores = kept.base.map(|base| record.version().0 - base);
    Some(View { state: state(record.state()), fingerprint: record.fingerprint(), stores, tombstone: kept.tombstone })
}

fn state(state: &State<Digest>) -> String {
    let name = state.name();
    match state {
        State::Created => name.to_owned(),
        State::Dispatched(sent) => format!("{name} {} {}", sent.attempt(), sent.doubt()),
        State::Unknown { sent, cause, checks, quiet } => {
            format!("{name} {} {cause:?} {checks} {}", sent.attempt(), quiet.is_some())
        }
        State::Escalated { sent, cause } => format!("{name} {} {cause:?}", sent.attempt()),
        State::Confirmed { sent, outcome } => format!("{name} {} {outcome:?}", sent.attempt()),
        State::Settled { verdict, sent, delivered, .. } => {
            format!("{name} {:?} {verdict:?} {}", sent.map(|sent| sent.attempt()), delivered.is_some())
        }
    }
}

fn operation(key: usize, other: bool) -> Operation {
    let declared = declared(key);
    let resource = declared.resource.then(|| Resource { scope: moves::scope(), name: format!("r{key}") });
    let key_name: Key = name(key);
    Operation { resource, limits: limits(key), ..Operation::new(key_name, moves::arguments(other), declared.policy) }
}

fn say(answer: &Answer) -> Told {
    let digest = |body: &Bytes| Digest::of(body);
    match answer {
        Answer::Done { result, replayed } => Told::Done(digest(result), *replayed),
        Answer::Failed { error, replayed } => Told::Failed(error.as_ref().map(digest), *replayed),
        Answer::Unknown { error, replayed } => Told::Unknown(error.as_ref().map(digest), *replayed),
        Answer::InProgress => Told::InProgress,
        Answer::Conflict => Told::Conflict,
        Answer::Expired => Told::Expired,
    }
}

impl StateMachineTest for System {
    type SystemUnderTest = System;
    type Reference = Reference;

    fn init_test(_: &World) -> System {
        System::new(Backend::here())
    }

    fn apply(mut system: System, expected: &World, what: Move) -> System {
        let came = System::apply(&mut system, &what, expected);
        assert_eq!(
            Some(&came),
            expected.came.as_ref(),
            "{what:?}: what it came to, in the system and in the reference"
        );
        system.compare(expected);
        system.process.rests();
        crate::count(&expected.notes);
        system
    }
}

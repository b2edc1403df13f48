//! The engine's own tasks under random schedules: at every point where a task waits, any other may come first. Callers join
//! and leave, replies come late, others take over, people cancel and decide, processes are shut down.
//!
//! An attempt is sent once at most, everyone is answered, and nobody waits for ever. A schedule is drawn from its seed, on
//! tokio's paused clock, so that it can be had again: `SETTLED_SCHEDULE=SEED cargo test -p settled-engine --test engine schedules`. What
//! happens between two such points of different threads is explored by the models in `loom_*.rs`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Context;
use std::time::Duration;

use crate::support::{ends, limits, operation, options};
use async_trait::async_trait;
use bytes::Bytes;
use settled::protocol::{AttemptId, Ends, Epoch, ErrorClass, Key, Policy, SealScope, Time, ToolKind, Version};
use settled::task::{self, Group};
use settled::{
    Answer, Change, DecidedAs, Decision, Draw, Engine, Entry, Filter, Ledger, LedgerError, Liveness, MemoryLedger,
    Outgoing, Question, Recoverable, Remains, Renewal, Resource, Seen, Stored, Tool, ToolReply,
};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::sleep;

/// How many schedules, unless one is asked for.
const SCHEDULES: u64 = 4_000;

/// Far more than all that is waited for takes by the paused clock, and far less than what ends a wait that nobody ended.
const LONGEST: Duration = Duration::from_secs(20_000);

type Random = Arc<Mutex<fastrand::Rng>>;

fn below(random: &Random, limit: u64) -> u64 {
    random.lock().unwrap().u64(..limit)
}

/// Tasks whose turns come in random order: each is passed over so many times in a hundred.
struct Shuffled {
    random: Random,
    passed_over: u64,
}

impl Group for Shuffled {
    fn turn(&self, context: &mut Context<'_>, poll: &mut dyn FnMut(&mut Context<'_>)) {
        if below(&self.random, 100) < self.passed_over {
            context.waker().wake_by_ref();
        } else {
            poll(context);
        }
    }

    fn begun(&self, _task: AbortHandle) {}
}

/// A ledger on which other tasks may have their turn before and after everything.
struct Slow {
    ledger: MemoryLedger,
    random: Random,
}

impl Slow {
    async fn pause(&self) {
        for _ in 0..below(&self.random, 3) {
            yield_now().await;
        }
        if below(&self.random, 8) == 0 {
            sleep(Duration::from_millis(below(&self.random, 40))).await;
        }
    }

    async fn around<T>(&self, what: impl Future<Output = T>) -> T {
        self.pause().await;
        let done = what.await;
        self.pause().await;
        done
    }
}

#[async_trait]
impl Ledger for Slow {
    async fn register(&self, lease: Duration) -> Result<Epoch, LedgerError> {
        self.around(self.ledger.register(lease)).await
    }
    async fn renew(&self, epoch: Epoch, lease: Duration) -> Result<Renewal, LedgerError> {
        self.around(self.ledger.renew(epoch, lease)).await
    }
    async fn retire(&self, epoch: Epoch) -> Result<(), LedgerError> {
        self.around(self.ledger.retire(epoch)).await
    }
    async fn liveness(&self, epoch: Epoch) -> Result<Liveness, LedgerError> {
        self.around(self.ledger.liveness(epoch)).await
    }
    async fn time(&self) -> Result<Option<Time>, LedgerError> {
        self.ledger.time().await
    }
    async fn compare_and_set(&self, change: Change) -> Result<Stored, LedgerError> {
        self.around(self.ledger.compare_and_set(change)).await
    }
    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        self.around(self.ledger.get(key)).await
    }
    async fn scan(&self, filter: Filter) -> Result<Vec<Entry>, LedgerError> {
        self.around(self.ledger.scan(filter)).await
    }
    async fn line(&self, resource: &Resource) -> Result<Vec<Entry>, LedgerError> {
        self.around(self.ledger.line(resource)).await
    }
    async fn due(&self, now: Time, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        self.around(self.ledger.due(now, after, limit)).await
    }
    async fn history(&self, key: &Key) -> Result<Vec<Change>, LedgerError> {
        self.around(self.ledger.history(key)).await
    }
    async fn forget(&self, key: &Key, expected: Version, remains: Remains) -> Result<bool, LedgerError> {
        self.around(self.ledger.forget(key, expected, remains)).await
    }
    async fn changed(&self, key: &Key, seen: Option<Version>) -> Result<(), LedgerError> {
        self.pause().await;
        self.ledger.changed(key, seen).await
    }
    async fn draw(&self, draw: Draw) -> Result<bool, LedgerError> {
        self.ledger.draw(draw).await
    }
}

/// A tool that answers when and how it likes, and takes note of what reaches it.
struct Moody {
    random: Random,
    seen: Mutex<BTreeSet<AttemptId>>,
    effects: AtomicUsize,
    /// It applies an operation once.
    once: bool,
    sealed: Mutex<u32>,
}

impl Moody {
    fn effect(&self) {
        if !self.once || self.effects.load(Ordering::SeqCst) == 0 {
            self.effects.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[async_trait]
impl Tool for Moody {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        assert!(
            self.seen.lock().unwrap().insert(outgoing.attempt),
            "an attempt was sent twice: {:?}",
            outgoing.attempt
        );
        if below(&self.random, 2) == 0 {
            sleep(Duration::from_millis(below(&self.random, 30))).await;
        }
        outgoing.sent();
        if *self.sealed.lock().unwrap() >= outgoing.attempt.attempt.get() && self.once {
            return ToolReply::Error(ErrorClass::NotRun, Bytes::from_static(b"sealed"));
        }
        let reply = below(&self.random, 6);
        if reply < 4 {
            self.effect();
        }
        // Before, at, or after the time for an answer.
        let late = [0, 5, 9_990, 10_000, 12_000, 25_000][below(&self.random, 6) as usize];
        sleep(Duration::from_millis(late)).await;
        match reply {
            0 | 1 => ToolReply::Result(Bytes::from_static(b"done")),
            2 => ToolReply::Error(ErrorClass::Unproven, Bytes::from_static(b"after it")),
            3 => ToolReply::ConnectionLost,
            4 => ToolReply::Error(ErrorClass::NotRun, Bytes::from_static(b"not run")),
            _ => ToolReply::Busy { retry_after: None, body: Bytes::from_static(b"busy") },
        }
    }

    async fn seal(&self, question: &Question, scope: SealScope) -> Seen {
        sleep(Duration::from_millis(below(&self.random, 20))).await;
        let upto = if scope == SealScope::Operation { u32::MAX } else { question.attempt.attempt.get() };
        let mut sealed = self.sealed.lock().unwrap();
        if self.effects.load(Ordering::SeqCst) > 0 {
            return Seen::Applied(Bytes::from_static(b"done"));
        }
        *sealed = (*sealed).max(upto);
        Seen::Sealed
    }
}

/// What was met, to see that the schedules come to something.
#[derive(Default)]
struct Met {
    answers: BTreeSet<&'static str>,
    cancelled: usize,
    decided: usize,
    left: usize,
}

fn word(answer: &Answer) -> &'static str {
    match answer {
        Answer::Done { replayed: false, .. } => "done",
        Answer::Done { replayed: true, .. } => "replayed",
        Answer::Failed { .. } => "failed",
        Answer::Unknown { .. } => "unknown",
        Answer::InProgress => "in progress",
        Answer::Conflict => "conflict",
        Answer::Expired => "expired",
    }
}

async fn one(seed: u64, met: &mut Met) {
    fastrand::seed(seed);
    let random: Random = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
    let group: Arc<dyn Group> =
        Arc::new(Shuffled { random: Arc::clone(&random), passed_over: [10, 50, 80][(seed % 3) as usize] });
    let ledger = Arc::new(Slow { ledger: MemoryLedger::new(), random: Arc::clone(&random) });
    let (mut options, _alerts) = options();
    options.lease = Duration::from_secs(2_000);
    let once = seed.is_multiple_of(2);
    let policy = if once { Policy::new(ToolKind::Sealable) } else { ends(ToolKind::Opaque, Ends::WithWindow) };
    let policy = Policy { repeat: settled::protocol::Repeat::ALWAYS_REPLAY, ..policy };
    let tool = Arc::new(Moody {
        random: Arc::clone(&random),
        seen: Mutex::default(),
        effects: AtomicUsize::new(0),
        once,
        sealed: Mutex::new(0),
    });
    let mut engines = Vec::new();
    for _ in 0..1 + below(&random, 2) {
        let (ledger, options) = (Arc::clone(&ledger) as Arc<dyn Ledger>, options.clone());
        let start = async move { Engine::start(ledger, options).await.unwrap() };
        engines.push(task::spawn_in(Arc::clone(&group), start).await.unwrap());
    }
    let engine = |random: &Random| engines[below(random, engines.len() as u64) as usize].clone();
    let mut callers = Vec::new();
    for _ in 0..2 + below(&random, 4) {
        let (engine, tool) = (engine(&random), Arc::clone(&tool));
        let wait = [0, 0, 3, 9_995, 10_005, 13_000][below(&random, 6) as usize];
        let leaves = (below(&random, 5) == 0).then(|| Duration::from_millis(below(&random, 12_000)));
        let call = async move {
            sleep(Duration::from_millis(wait)).await;
            let mut operation = operation(policy);
            operation.limits = limits();
            let call = engine.call(operation, tool);
            match leaves {
                Some(after) => tokio::time::timeout(after, call).await.ok(),
                None => Some(call.await),
            }
        };
        callers.push(task::spawn_in(Arc::clone(&group), call));
    }
    for _ in 0..below(&random, 4) {
        let (what, after) = (below(&random, 5), [0, 4, 9_999, 11_000, 16_000][below(&random, 5) as usize]);
        let (engine, ledger, tool, random) =
            (engine(&random), Arc::clone(&ledger), Arc::clone(&tool), Arc::clone(&random));
        let event = async move {
            sleep(Duration::from_millis(after)).await;
            match what {
                0 => usize::from(engine.cancel(&crate::support::key()).await.unwrap()),
                1 => {
                    let happened = tool.effects.load(Ordering::SeqCst) > 0;
                    // A person says only what is so.
                    let decided_as = if happened { DecidedAs::Succeeded } else { DecidedAs::Abandoned };
                    let decision = Decision { decided_as, body: Some(Bytes::from_static(b"done")), note: None };
                    let decided = engine.decide(&crate::support::key(), decision, happened).await;
                    10 * usize::from(decided.is_ok())
                }
                2 => {
                    ledger.ledger.freeze(engine.epoch());
                    0
                }
                3 => {
                    engine.retire().await.unwrap();
                    0
                }
                _ => {
                    let tool: Arc<dyn Tool> = tool;
                    sleep(Duration::from_millis(below(&random, 10))).await;
                    let known =
                        move |_: &Entry| Some(Recoverable { policy, tool: Some(Arc::clone(&tool)), limits: limits() });
                    engine.recover(&known).await.unwrap();
                    0
                }
            }
        };
        callers.push(task::spawn_in(Arc::clone(&group), async move {
            let came = event.await;
            assert!(came <= 10);
            None
        }));
    }
    let mut results: BTreeSet<Bytes> = BTreeSet::new();
    for caller in callers {
        let told = tokio::time::timeout(LONGEST, caller).await.expect("a caller waits for ever").unwrap();
        let Some(told) = told else {
            met.left += 1;
            continue;
        };
        // Where its process was shut down, nothing is sent.
        let Ok(answered) = told else { continue };
        met.answers.insert(word(&answered.answer));
        let effects = tool.effects.load(Ordering::SeqCst);
        match answered.answer {
            Answer::Done { result, .. } => {
                assert!(effects > 0, "told done without an effect");
                results.insert(result);
            }
            Answer::Failed { .. } => assert_eq!(effects, 0, "told failed after an effect"),
            _ => {}
        }
    }
    assert!(tool.effects.load(Ordering::SeqCst) <= 1, "two effects");
    assert!(results.len() <= 1, "two results: {results:?}");
    for engine in &engines {
        tokio::time::timeout(LONGEST, engine.idle()).await.expect("a task never ends");
    }
    let entry = ledger.ledger.get(&crate::support::key()).await.unwrap();
    met.cancelled += usize::from(entry.as_ref().is_some_and(|entry| entry.record.is_settled()));
    met.decided += usize::from(entry.is_some_and(|entry| entry.note.is_some()));
}

fn run(seed: u64, met: &mut Met) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(one(seed, met))));
    if let Err(panic) = done {
        eprintln!("SETTLED_SCHEDULE={seed}");
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn under_any_schedule_an_attempt_is_sent_once_and_everyone_is_answered() {
    let mut met = Met::default();
    if let Ok(seed) = std::env::var("SETTLED_SCHEDULE") {
        return run(seed.parse().unwrap(), &mut met);
    }
    (0..SCHEDULES).for_each(|seed| run(seed, &mut met));
    let expected = ["done", "failed", "replayed", "unknown"];
    assert!(expected.iter().all(|answer| met.answers.contains(answer)), "only {:?}", met.answers);
    assert!(met.left > 0 && met.cancelled > 0, "{} left, {} settled", met.left, met.cancelled);
}

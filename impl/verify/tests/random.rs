//! Random interleavings of calls, crashes, recoveries, deliveries and ledger errors: whatever happens, the history of it holds.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use common::*;
use proptest::prelude::*;
use settled::protocol::{AttemptId, Ends, ErrorClass, Key, Policy, SealScope, ToolKind};
use settled::{
    Engine, EngineOptions, Entry, HistoryLine, MemoryLedger, Operation, Outgoing, Question, Recoverable, Resource,
    Seen, Tool, ToolReply,
};
use settled_verify::{Effect, Lines, Options, Verifier};

#[derive(Clone, Copy, Debug)]
enum Reply {
    Result,
    ErrorAfterEffect,
    ErrorWithoutEffect,
    NotRun,
    Busy,
    LostAfterEffect,
    LostWithoutEffect,
}

#[derive(Clone, Debug)]
enum Op {
    Call { engine: usize, key: usize },
    Delivered { engine: usize, key: usize },
    Conflict { engine: usize, key: usize },
    Leave { engine: usize, key: usize, after: u64 },
    Replace { engine: usize },
    Freeze { engine: usize },
    Cancel { engine: usize, key: usize },
    Expire { engine: usize },
    Pause(u64),
}

fn reply() -> impl Strategy<Value = (u64, Reply)> {
    let time = prop_oneof![0_u64..50, 9_900_u64..10_100, 15_000_u64..30_000];
    let reply = prop_oneof![
        4 => Just(Reply::Result),
        1 => Just(Reply::ErrorAfterEffect),
        1 => Just(Reply::ErrorWithoutEffect),
        1 => Just(Reply::NotRun),
        1 => Just(Reply::Busy),
        1 => Just(Reply::LostAfterEffect),
        1 => Just(Reply::LostWithoutEffect),
    ];
    (time, reply)
}

fn op() -> impl Strategy<Value = Op> {
    let at = || (0_usize..2, 0_usize..2);
    let engine = || 0_usize..2;
    prop_oneof![
        4 => at().prop_map(|(engine, key)| Op::Call { engine, key }),
        2 => at().prop_map(|(engine, key)| Op::Delivered { engine, key }),
        1 => at().prop_map(|(engine, key)| Op::Conflict { engine, key }),
        1 => (at(), 0_u64..200).prop_map(|((engine, key), after)| Op::Leave { engine, key, after }),
        2 => engine().prop_map(|engine| Op::Replace { engine }),
        1 => engine().prop_map(|engine| Op::Freeze { engine }),
        1 => at().prop_map(|(engine, key)| Op::Cancel { engine, key }),
        1 => engine().prop_map(|engine| Op::Expire { engine }),
        3 => (0_u64..12_000).prop_map(Op::Pause),
        1 => (50_000_u64..70_000).prop_map(Op::Pause),
    ]
}

/// For each operation the attempts that had an effect, and their results.
type Applied = BTreeMap<(Key, u32), Vec<(u32, Bytes)>>;

/// Applies each operation as the replies say; keeps its own truth.
struct Shop {
    replies: Mutex<Vec<(u64, Reply)>>,
    effects: Mutex<Applied>,
    /// The attempts up to this one are refused.
    sealed: Mutex<BTreeMap<(Key, u32), u32>>,
    /// Only one effect for each operation.
    once: bool,
    sends: AtomicUsize,
}

impl Shop {
    fn first(&self, key: &Key, generation: u32) -> Option<Bytes> {
        self.effects.lock().unwrap().get(&(key.clone(), generation))?.first().map(|(_, body)| body.clone())
    }

    /// The body of the operation's result, if this attempt had an effect or finds one.
    fn apply(&self, key: &Key, of: AttemptId, body: &Bytes) -> Option<Bytes> {
        let name = (key.clone(), of.generation);
        if self.sealed.lock().unwrap().get(&name).is_some_and(|up_to| of.attempt.get() <= *up_to) {
            return None;
        }
        let mut effects = self.effects.lock().unwrap();
        let effects = effects.entry(name).or_default();
        if self.once && !effects.is_empty() {
            return effects.first().map(|(_, body)| body.clone());
        }
        effects.push((of.attempt.get(), body.clone()));
        Some(body.clone())
    }
}

#[async_trait]
impl Tool for Shop {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        let send = self.sends.fetch_add(1, Ordering::SeqCst);
        let (time, reply) = self.replies.lock().unwrap().pop().unwrap_or((0, Reply::Result));
        let body = Bytes::from(format!("receipt {send}"));
        outgoing.sent();
        let takes_effect = matches!(reply, Reply::Result | Reply::ErrorAfterEffect | Reply::LostAfterEffect);
        let applied = if takes_effect { self.apply(&outgoing.key, outgoing.attempt, &body) } else { None };
        tokio::time::sleep(Duration::from_millis(time)).await;
        match (reply, applied) {
            (Reply::Result, Some(body)) => ToolReply::Result(body),
            (Reply::Result | Reply::LostAfterEffect | Reply::LostWithoutEffect, _) => ToolReply::ConnectionLost,
            (Reply::ErrorAfterEffect | Reply::ErrorWithoutEffect, _) => {
                ToolReply::Error(ErrorClass::Unproven, "500".into())
            }
            (Reply::NotRun, _) => ToolReply::Error(ErrorClass::NotRun, "404".into()),
            (Reply::Busy, _) => ToolReply::Busy { retry_after: None, body: "429".into() },
        }
    }

    async fn observe(&self, question: &Question) -> Seen {
        self.first(&question.key, question.attempt.generation).map_or(Seen::NotApplied, Seen::Applied)
    }

    async fn seal(&self, question: &Question, scope: SealScope) -> Seen {
        let of = question.attempt;
        if let Some(body) = self.first(&question.key, of.generation) {
            return Seen::Applied(body);
        }
        let up_to = if scope == SealScope::Operation { u32::MAX } else { of.attempt.get() };
        self.sealed.lock().unwrap().insert((question.key.clone(), of.generation), up_to);
        Seen::Sealed
    }
}

fn key_of(number: usize) -> Key {
    Key::new("test", "charge", format!("order {number}")).unwrap()
}

/// What a run leaves.
struct Left {
    lines: Vec<HistoryLine>,
    ledger: Arc<MemoryLedger>,
    effects: Vec<Effect>,
}

async fn play(
    policy: Policy,
    resource: bool,
    ops: Vec<Op>,
    replies: Vec<(u64, Reply)>,
    faults: Vec<(usize, Fault)>,
) -> Left {
    let lines = Lines::default();
    let memory = Arc::new(MemoryLedger::new());
    let (options, _alerts) = options();
    let options = EngineOptions { history: Arc::new(lines.clone()), ..options };
    let start = async |n: usize| {
        let (first, fault) = faults.get(n).copied().unwrap_or((usize::MAX, Fault::Before));
        let ledger = Faulty { reads_too: n.is_multiple_of(2), ..Faulty::new(memory.clone(), fault, first, 2) };
        Engine::start(Arc::new(ledger), options.clone()).await.unwrap()
    };
    let mut engines = [start(0).await, start(1).await];
    let shop = Arc::new(Shop {
        replies: Mutex::new(replies),
        effects: Mutex::default(),
        sealed: Mutex::default(),
        once: matches!(policy.tool, ToolKind::Sealable | ToolKind::Deduplicates { .. }),
        sends: AtomicUsize::new(0),
    });
    let resolve = {
        let shop = shop.clone();
        move |_: &Entry| Some(Recoverable { policy, tool: Some(shop.clone()), limits: limits() })
    };
    let asks = |key: usize| {
        let resource = resource.then(|| Resource { scope: "test".to_owned(), name: "account 1".to_owned() });
        Operation { resource, key: key_of(key), ..operation(policy) }
    };
    let mut callers = Vec::new();
    for (n, op) in ops.into_iter().enumerate() {
        match op {
            Op::Pause(time) => tokio::time::sleep(Duration::from_millis(time)).await,
            Op::Freeze { engine } => memory.freeze(engines[engine].epoch()),
            Op::Cancel { engine, key } => {
                let engine = engines[engine].clone();
                callers.push(tokio::spawn(async move {
                    // A ledger that fails leaves it open whether it was cancelled.
                    let _ = engine.cancel(&key_of(key)).await;
                }));
            }
            Op::Expire { engine } => {
                let (engine, resolve) = (engines[engine].clone(), resolve.clone());
                callers.push(tokio::spawn(async move {
                    // Nor is it of any matter whether this was of use.
                    let _ = engine.expire(&resolve).await;
                }));
            }
            Op::Replace { engine } => {
                memory.kill(engines[engine].epoch());
                engines[engine] = start(n + 2).await;
                let (engine, resolve) = (engines[engine].clone(), resolve.clone());
                callers.push(tokio::spawn(async move {
                    engine.recover(&resolve).await.unwrap();
                }));
            }
            Op::Conflict { engine, key } => {
                let (engine, shop) = (engines[engine].clone(), shop.clone());
                let asked = Operation { key: key_of(key), ..with_arguments(policy, "{\"cents\":1}") };
                callers.push(tokio::spawn(async move {
                    let _ = engine.call(asked, shop).await;
                }));
            }
            Op::Call { engine, key } | Op::Delivered { engine, key } | Op::Leave { engine, key, .. } => {
                let (engine, shop, asked) = (engines[engine].clone(), shop.clone(), asks(key));
                callers.push(tokio::spawn(async move {
                    let call = engine.call(asked, shop);
                    let answered = match op {
                        Op::Leave { after, .. } => {
                            let Ok(answered) = tokio::time::timeout(Duration::from_millis(after), call).await else {
                                return;
                            };
                            answered
                        }
                        _ => call.await,
                    };
                    if matches!(op, Op::Delivered { .. })
                        && let Ok(answered) = &answered
                    {
                        // A delivery that can't be recorded is as good as none.
                        let _ = engine.delivering(answered, policy).await.confirm(Duration::ZERO).await;
                    }
                }));
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for caller in callers {
        tokio::time::timeout(Duration::from_secs(7_200), caller).await.expect("a caller hangs").unwrap();
    }
    for engine in engines {
        tokio::time::timeout(Duration::from_secs(7_200), engine.idle()).await.expect("an engine is never idle");
    }
    let effects = shop.effects.lock().unwrap();
    let of = |((key, generation), applied): (&(Key, u32), &Vec<(u32, Bytes)>)| {
        let effect = |attempt: &(u32, Bytes)| Effect {
            key: key.clone(),
            generation: Some(*generation),
            attempt: Some(attempt.0),
            resource: None,
            begun: None,
            ended: None,
        };
        applied.iter().map(effect).collect::<Vec<_>>()
    };
    let effects = effects.iter().flat_map(of).collect();
    Left { lines: lines.lines(), ledger: memory, effects }
}

fn kind() -> impl Strategy<Value = Policy> {
    let deduplicates = ToolKind::Deduplicates { limit: 3_600_000, margin: 1_000, remembers_rejections: false };
    prop_oneof![
        Just(ends(ToolKind::Opaque, Ends::WithWindow)),
        Just(ends(ToolKind::Opaque, Ends::OnFailure)),
        Just(ends(ToolKind::Opaque, Ends::OnDelivery)),
        Just(ends(ToolKind::Sealable, Ends::WithWindow)),
        Just(ends(ToolKind::Observable { settling: 100 }, Ends::OnFailure)),
        Just(ends(ToolKind::Idempotent, Ends::WithWindow)),
        Just(ends(ToolKind::ReadOnly, Ends::WithWindow)),
        Just(ends(deduplicates, Ends::OnFailure)),
    ]
}

fn run(
    policy: Policy,
    resource: bool,
    ops: Vec<Op>,
    replies: Vec<(u64, Reply)>,
    faults: Vec<(usize, Fault)>,
    judge: impl AsyncFnOnce(Left),
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async { judge(play(policy, resource, ops, replies, faults).await).await });
}

async fn verifier(left: &Left, with_ledger: bool, lines: impl IntoIterator<Item = HistoryLine>) -> Verifier {
    let mut verifier = Verifier::new(Options { effects_known: true, ..Options::default() });
    lines.into_iter().for_each(|line| verifier.line(line));
    left.effects.iter().cloned().for_each(|effect| verifier.effect(effect));
    if with_ledger {
        verifier.read_ledger(&*left.ledger).await.unwrap();
    }
    verifier
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("CASES").map_or(250, |cases| cases.parse().unwrap()), ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_its_history_holds(
        policy in kind(),
        resource in any::<bool>(),
        ops in prop::collection::vec(op(), 1..25),
        replies in prop::collection::vec(reply(), 0..8),
        faults in prop::collection::vec((1_usize..8, prop_oneof![Just(Fault::Before), Just(Fault::After)]), 0..6),
    ) {
        run(policy, resource, ops, replies, faults, async |left: Left| {
            verifier(&left, true, left.lines.clone()).await.finish().assert_sound();
            verifier(&left, false, left.lines.clone()).await.finish().assert_sound();
            verifier(&left, true, []).await.finish().assert_sound();
        });
    }

    /// A process that was killed has lost its last lines: the ledger has what was stored.
    #[test]
    fn a_history_that_ends_early_says_nothing_false(
        policy in kind(),
        ops in prop::collection::vec(op(), 1..25),
        replies in prop::collection::vec(reply(), 0..8),
        cut in 0_usize..100,
    ) {
        run(policy, false, ops, replies, Vec::new(), async |left: Left| {
            let shortest = |line: &HistoryLine| left.lines.iter().filter(|other| other.run == line.run).count() * cut / 100;
            let lines: Vec<_> = left.lines.iter().filter(|line| line.n as usize <= shortest(line)).cloned().collect();
            verifier(&left, true, lines.clone()).await.finish().assert_sound();
            verifier(&left, false, lines).await.finish().assert_sound();
        });
    }
}

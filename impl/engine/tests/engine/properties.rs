//! Random interleavings of calls, crashes, recoveries, deliveries and ledger errors, on tools that reply as they like:
//! at most once, no phantom success, no false failure, faithful replay, and everyone is answered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Fault, Faulty, ends, limits, operation, options};
use async_trait::async_trait;
use bytes::Bytes;
use proptest::prelude::*;
use settled::protocol::{AttemptId, Ends, ErrorClass, Policy, SealScope, ToolKind};
use settled::{Answer, Answered, Engine, EngineError, MemoryLedger, Outgoing, Question, Seen, Tool, ToolReply};

#[derive(Clone, Debug)]
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
    Call {
        engine: usize,
    },
    /// A call whose answer is delivered.
    Delivered {
        engine: usize,
    },
    /// A caller who goes away after this many milliseconds.
    Leave {
        engine: usize,
        after: u64,
    },
    /// A process dies; another takes its place and recovers.
    Replace {
        engine: usize,
    },
    /// A process finds that it was frozen for longer than its lease.
    Freeze {
        engine: usize,
    },
    /// A caller cancels.
    Cancel {
        engine: usize,
    },
    Pause(u64),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Opaque(Ends),
    Sealable,
    Observable,
}

impl Kind {
    fn policy(self) -> Policy {
        match self {
            Kind::Opaque(when) => ends(ToolKind::Opaque, when),
            Kind::Sealable => ends(ToolKind::Sealable, Ends::WithWindow),
            Kind::Observable => ends(ToolKind::Observable { settling: 100 }, Ends::WithWindow),
        }
    }
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
    let engine = || 0_usize..2;
    prop_oneof![
        4 => engine().prop_map(|engine| Op::Call { engine }),
        2 => engine().prop_map(|engine| Op::Delivered { engine }),
        1 => (engine(), 0_u64..200).prop_map(|(engine, after)| Op::Leave { engine, after }),
        2 => engine().prop_map(|engine| Op::Replace { engine }),
        1 => engine().prop_map(|engine| Op::Freeze { engine }),
        1 => engine().prop_map(|engine| Op::Cancel { engine }),
        3 => (0_u64..12_000).prop_map(Op::Pause),
    ]
}

/// Applies each operation as the replies say; keeps its own truth, per generation of the key.
struct Shop {
    replies: Mutex<Vec<(u64, Reply)>>,
    effects: Mutex<BTreeMap<u32, Vec<Bytes>>>,
    /// Per generation, the attempts up to this one are refused.
    sealed: Mutex<BTreeMap<u32, u32>>,
    seals: bool,
    sends: AtomicUsize,
}

impl Shop {
    fn effects(&self, generation: u32) -> Vec<Bytes> {
        self.effects.lock().unwrap().get(&generation).cloned().unwrap_or_default()
    }

    fn apply(&self, of: AttemptId, body: &Bytes) -> bool {
        let refused = self.sealed.lock().unwrap().get(&of.generation).is_some_and(|up_to| of.attempt.get() <= *up_to);
        let mut effects = self.effects.lock().unwrap();
        let effects = effects.entry(of.generation).or_default();
        if refused || self.seals && !effects.is_empty() {
            return false;
        }
        effects.push(body.clone());
        true
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
        let applied = takes_effect && self.apply(outgoing.attempt, &body);
        tokio::time::sleep(Duration::from_millis(time)).await;
        match reply {
            Reply::Result if applied => ToolReply::Result(body),
            // Refused by a seal, or applied by an attempt before: nothing definite about the operation.
            Reply::Result | Reply::LostAfterEffect | Reply::LostWithoutEffect => ToolReply::ConnectionLost,
            Reply::ErrorAfterEffect | Reply::ErrorWithoutEffect => ToolReply::Error(ErrorClass::Unproven, "500".into()),
            Reply::NotRun => ToolReply::Error(ErrorClass::NotRun, "404".into()),
            Reply::Busy => ToolReply::Busy { retry_after: None, body: "429".into() },
        }
    }

    async fn observe(&self, question: &Question) -> Seen {
        self.effects(question.attempt.generation).first().map_or(Seen::NotApplied, |body| Seen::Applied(body.clone()))
    }

    async fn seal(&self, question: &Question, scope: SealScope) -> Seen {
        let of = question.attempt;
        if let Some(body) = self.effects(of.generation).first() {
            return Seen::Applied(body.clone());
        }
        let up_to = if scope == SealScope::Operation { u32::MAX } else { of.attempt.get() };
        self.sealed.lock().unwrap().insert(of.generation, up_to);
        Seen::Sealed
    }
}

type Told = Arc<Mutex<Vec<Result<Answered, EngineError>>>>;

async fn play(kind: Kind, resource: bool, ops: Vec<Op>, replies: Vec<(u64, Reply)>, faults: Vec<(usize, Fault)>) {
    let policy = kind.policy();
    let memory = Arc::new(MemoryLedger::new());
    let (options, _alerts) = options();
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
        seals: matches!(kind, Kind::Sealable),
        sends: AtomicUsize::new(0),
    });
    let told: Told = Arc::default();
    let mut callers = Vec::new();
    let resolve = {
        let shop = shop.clone();
        move |_: &settled::Entry| Some(settled::Recoverable { policy, tool: Some(shop.clone()), limits: limits() })
    };
    for (n, op) in ops.into_iter().enumerate() {
        match op {
            Op::Pause(time) => tokio::time::sleep(Duration::from_millis(time)).await,
            Op::Freeze { engine } => memory.freeze(engines[engine].epoch()),
            Op::Cancel { engine } => {
                let engine = engines[engine].clone();
                callers.push(tokio::spawn(async move {
                    // A ledger that fails leaves it open whether it was cancelled.
                    let _ = engine.cancel(&operation(policy).key).await;
                }));
            }
            Op::Replace { engine } => {
                // A process that is killed takes its own requests in flight to the tool with it or not; here not.
                memory.kill(engines[engine].epoch());
                engines[engine] = start(n + 2).await;
                let (engine, resolve) = (engines[engine].clone(), resolve.clone());
                callers.push(tokio::spawn(async move {
                    engine.recover(&resolve).await.unwrap();
                }));
            }
            Op::Call { engine } | Op::Delivered { engine } | Op::Leave { engine, .. } => {
                let (engine, shop, told) = (engines[engine].clone(), shop.clone(), told.clone());
                callers.push(tokio::spawn(async move {
                    let resource =
                        resource.then(|| settled::Resource { scope: "test".to_owned(), name: "account 1".to_owned() });
                    let call = engine.call(settled::Operation { resource, ..operation(policy) }, shop);
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
                        let _ = engine.delivering(answered, policy).await.confirm(std::time::Duration::ZERO).await;
                    }
                    told.lock().unwrap().push(answered);
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

    for (generation, effects) in shop.effects.lock().unwrap().iter() {
        assert!(effects.len() <= 1, "operation {generation} has {} effects", effects.len());
    }
    for answered in told.lock().unwrap().iter().flatten() {
        let effects = shop.effects(answered.generation);
        match &answered.answer {
            Answer::Done { result, .. } => {
                assert_eq!(effects, std::slice::from_ref(result), "a phantom success, or another's")
            }
            Answer::Failed { .. } => assert!(effects.is_empty(), "a false failure"),
            Answer::Unknown { .. } => {}
            // A waiting call whose operation has ended and was followed by another.
            Answer::Expired => assert!(matches!(kind, Kind::Opaque(Ends::OnDelivery | Ends::OnFailure))),
            Answer::InProgress | Answer::Conflict => panic!("{answered:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_callers_are_told_the_truth(
        kind in prop_oneof![
            Just(Kind::Opaque(Ends::WithWindow)),
            Just(Kind::Opaque(Ends::OnFailure)),
            Just(Kind::Opaque(Ends::OnDelivery)),
            Just(Kind::Sealable),
            Just(Kind::Observable),
        ],
        resource in any::<bool>(),
        ops in prop::collection::vec(op(), 1..25),
        replies in prop::collection::vec(reply(), 0..8),
        faults in prop::collection::vec((1_usize..8, prop_oneof![Just(Fault::Before), Just(Fault::After)]), 0..6),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(play(kind, resource, ops, replies, faults));
    }
}

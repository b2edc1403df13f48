//! Calls through the engine, and the same writes on its ledger without it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use settled::protocol::{Digest, Event, Key, KeyError, Policy, Reply, Start, Time, ToolKind, What, fingerprint};
use settled::{Answer, Change, Engine, EngineOptions, History, Ledger, Operation, Outgoing, Stored, Tool, ToolReply};

use crate::error::BenchError;
use crate::load::{Measured, closed_loop};

/// The scope of all keys of a run: another one for each, so that nothing is found that an earlier one has left.
#[derive(Clone, Debug)]
pub struct Scope(Arc<str>);

impl Scope {
    /// A new one.
    pub fn new() -> Scope {
        use std::hash::{BuildHasher, RandomState};
        Scope(format!("bench-{:016x}", RandomState::new().hash_one(std::process::id())).into())
    }

    /// The key of a call.
    pub fn key(&self, number: u64) -> Result<Key, BenchError> {
        let id = format!("order-{number:016x}");
        Key::new(&*self.0, "charge", id).map_err(|error: KeyError| BenchError::Other(error.to_string()))
    }
}

impl Default for Scope {
    fn default() -> Self {
        Scope::new()
    }
}

/// The arguments of a call: 100 bytes of JSON.
pub fn arguments(number: u64) -> Bytes {
    format!(r#"{{"order":"{number:016x}","account":"DE02120300000000202051","amount":1999,"currency":"EUR","n":1}}"#)
        .into()
}

/// The result of every call: 100 bytes.
pub const RESULT: &[u8] =
    br#"{"content":[{"type":"text","text":"charged EUR 19.99, receipt 4711-0815-2"}],"isError":false,"v":10}"#;

/// A tool that does nothing, at once.
pub struct Nothing;

#[async_trait]
impl Tool for Nothing {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        outgoing.sent();
        ToolReply::Result(Bytes::from_static(RESULT))
    }
}

/// An operation as front doors make it: a key, and the canonical fingerprint of its arguments.
pub fn operation(scope: &Scope, number: u64) -> Result<Operation, BenchError> {
    let arguments = arguments(number);
    let fingerprint = fingerprint(&arguments).map_err(|error| BenchError::Other(error.to_string()))?;
    let operation = Operation::new(scope.key(number)?, arguments, policy());
    Ok(Operation { fingerprint, ..operation })
}

fn policy() -> Policy {
    Policy::new(ToolKind::Opaque)
}

/// An engine on this ledger, with this history.
pub async fn engine(ledger: Arc<dyn Ledger>, history: Arc<dyn History>) -> Result<Engine, BenchError> {
    let options = EngineOptions { history, ..EngineOptions::default() };
    Ok(Engine::start(ledger, options).await?)
}

/// New calls: each has a key of its own.
///
/// # Errors
/// If a call does not end as it should.
pub async fn new_calls(engine: &Engine, callers: usize, span: Duration) -> Result<Measured, BenchError> {
    let scope = Scope::new();
    let tool: Arc<dyn Tool> = Arc::new(Nothing);
    closed_loop(callers, span, |_| {
        let (engine, scope, tool) = (engine.clone(), scope.clone(), tool.clone());
        move |number| {
            let (engine, tool, operation) = (engine.clone(), tool.clone(), operation(&scope, number));
            async move { expect(engine.call(operation?, tool).await?.answer, false) }
        }
    })
    .await
}

/// How many keys are called again and again.
const KNOWN: u64 = 1_000;

/// Calls with keys that are known: each is answered from what is stored.
///
/// # Errors
/// If a call does not end as it should.
pub async fn duplicates(engine: &Engine, callers: usize, span: Duration) -> Result<Measured, BenchError> {
    let scope = Scope::new();
    let tool: Arc<dyn Tool> = Arc::new(Nothing);
    fill(engine, &scope, 0..KNOWN).await?;
    let operations: Arc<Vec<Operation>> =
        Arc::new((0..KNOWN).map(|number| operation(&scope, number)).collect::<Result<_, _>>()?);
    closed_loop(callers, span, |_| {
        let (engine, tool, operations) = (engine.clone(), tool.clone(), operations.clone());
        move |number| {
            let (engine, tool) = (engine.clone(), tool.clone());
            let operation = usize::try_from(number % KNOWN).ok().and_then(|at| operations.get(at)).cloned();
            async move {
                let operation = operation.ok_or(BenchError::Ended("a list of operations"))?;
                expect(engine.call(operation, tool).await?.answer, true)
            }
        }
    })
    .await
}

/// How many callers fill a ledger.
const FILLERS: u64 = 256;

/// Makes the calls of these numbers, many at once.
///
/// # Errors
/// If a call does not end as it should.
pub async fn fill(engine: &Engine, scope: &Scope, numbers: std::ops::Range<u64>) -> Result<(), BenchError> {
    let tool: Arc<dyn Tool> = Arc::new(Nothing);
    let mut filling = tokio::task::JoinSet::new();
    for first in 0..FILLERS {
        let (engine, scope, tool, numbers) = (engine.clone(), scope.clone(), tool.clone(), numbers.clone());
        filling.spawn(async move {
            let mut number = numbers.start + first;
            while number < numbers.end {
                let told = engine.call(operation(&scope, number)?, tool.clone()).await?;
                expect(told.answer, false)?;
                number += FILLERS;
            }
            Ok::<(), BenchError>(())
        });
    }
    while let Some(ended) = filling.join_next().await {
        ended.map_err(|_| BenchError::Ended("a caller"))??;
    }
    Ok(())
}

fn expect(answer: Answer, replay: bool) -> Result<(), BenchError> {
    match answer {
        Answer::Done { replayed, .. } if replayed == replay => Ok(()),
        other => Err(BenchError::Answer(format!("{other:?}"))),
    }
}

/// The two writes of a new call on the ledger alone. The records come from the core, as the engine's do.
///
/// # Errors
/// If the ledger refuses.
pub async fn bare_ledger(
    ledger: &Arc<dyn Ledger>,
    name: &str,
    callers: usize,
    span: Duration,
) -> Result<Measured, BenchError> {
    let scope = Scope::new();
    let epoch = ledger.register(Duration::from_secs(3_600)).await.map_err(BenchError::ledger(name))?;
    let fingerprint = Digest::of(&arguments(0));
    let digest = Digest::of(RESULT);
    let measured = closed_loop(callers, span, |_| {
        let (ledger, scope, name) = (ledger.clone(), scope.clone(), name.to_owned());
        move |number| {
            let (ledger, key, name) = (ledger.clone(), scope.key(number), name.clone());
            async move {
                let key = key?;
                let event = |what| Event { now: Time(1), by: epoch, draw: 0, what };
                let call = event(What::Call { fingerprint, start: Start::Now });
                let begun = policy().step(None, &call);
                let begun = stored_by(&begun)?;
                let of = begun.record.attempt_id().ok_or(BenchError::Ended("the core"))?;
                let reply = event(What::Reply { of, reply: Reply::Result(digest) });
                let ended = policy().step(Some(&begun.record), &reply);
                let ended = stored_by(&ended)?;
                for (store, asked, outcome) in
                    [(begun, Some(arguments(number)), None), (ended, None, Some(Bytes::from_static(RESULT)))]
                {
                    let change = Change {
                        key: key.clone(),
                        expected: store.expected,
                        record: store.record,
                        at: Time(1),
                        by: epoch,
                        event: "bench".to_owned(),
                        asked,
                        sent: None,
                        outcome,
                        note: None,
                        resource: None,
                        keep_until: None,
                    };
                    match ledger.compare_and_set(change).await.map_err(BenchError::ledger(name.as_str()))? {
                        Stored::Durable(_) => {}
                        Stored::Refused => return Err(BenchError::Answer("a refusal".to_owned())),
                    }
                }
                Ok(())
            }
        }
    })
    .await;
    ledger.retire(epoch).await.map_err(BenchError::ledger(name))?;
    measured
}

pub(crate) fn stored_by(
    step: &settled::protocol::Step<Digest>,
) -> Result<settled::protocol::Store<Digest>, BenchError> {
    let store = step.actions.iter().find_map(|action| match action {
        settled::protocol::Action::Store(store) => Some(store),
        _ => None,
    });
    store.ok_or(BenchError::Ended("the core"))
}

#[cfg(test)]
mod tests {
    use settled::{MemoryLedger, NoHistory};

    use super::*;

    #[test]
    fn arguments_and_results_have_a_hundred_bytes() {
        assert_eq!(arguments(7).len(), 100);
        assert_eq!(RESULT.len(), 100);
        assert!(fingerprint(&arguments(7)).is_ok());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn calls_are_made_and_repeated() {
        let ledger: Arc<dyn Ledger> = Arc::new(MemoryLedger::new());
        let engine = engine(ledger.clone(), Arc::new(NoHistory)).await.unwrap();
        let span = Duration::from_millis(50);
        let new = new_calls(&engine, 4, span).await.unwrap();
        let stored = ledger.scan(settled::Filter::All).await.unwrap();
        assert!(new.calls > 0 && stored.len() as u64 >= new.calls, "{new:?}");
        assert!(stored.iter().all(|entry| entry.record.is_settled()));
        let again = duplicates(&engine, 4, span).await.unwrap();
        assert!(again.calls > 0);
        let bare = bare_ledger(&ledger, "memory", 4, span).await.unwrap();
        let all = ledger.scan(settled::Filter::All).await.unwrap();
        let settled = all.iter().filter(|entry| entry.outcome.is_some() && entry.record.is_settled()).count();
        assert_eq!(settled, all.len());
        assert!(settled as u64 >= new.calls + KNOWN + bare.calls);
    }
}

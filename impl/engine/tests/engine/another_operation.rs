//! A key begins another operation, with other arguments, while a call's own operation still waits to be sent.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::support::{
    Fault, Faulty, Play, Script, done, ends, error, key, operation, options, result, spawn_call, with_arguments,
};
use settled::protocol::{
    Cause, Digest, Ends, Epoch, Event, Key, Loss, Policy, Record, Retry, Start, State, Time, ToolKind, What,
};
use settled::{
    Alerts, Answer, Change, Engine, EngineOptions, Entry, Ledger, Limits, MemoryLedger, Operation, Resource, Stored,
    ToolReply,
};

fn waiting(arguments: &'static str) -> Operation {
    let resource = Some(Resource { scope: "test".to_owned(), name: "account 1".to_owned() });
    Operation { resource, ..with_arguments(ends(ToolKind::Opaque, Ends::OnFailure), arguments) }
}

#[tokio::test(start_paused = true)]
async fn a_caller_is_not_told_the_outcome_of_another_operation() {
    let memory = Arc::new(MemoryLedger::new());
    let (options, _alerts) = options();
    let start = async |failing| {
        let ledger = Faulty::new(memory.clone(), Fault::Before, failing, 1);
        Engine::start(Arc::new(ledger), options.clone()).await.unwrap()
    };
    // Of each, the store fails that is to send the operation in its turn; a few milliseconds later it is tried again.
    let (first, second) = (start(2).await, start(3).await);
    let (tool_of_first, tool_of_second) = (Script::new([]), Script::new([]));

    let told_first = spawn_call(&first, waiting("{\"cents\":4200}"), &tool_of_first);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert!(second.cancel(&key()).await.unwrap());
    let told_second = spawn_call(&second, waiting("{\"cents\":7}"), &tool_of_second);

    assert_eq!(told_first.await.unwrap().unwrap().answer, Answer::Expired);
    assert_eq!(told_second.await.unwrap().unwrap().answer, done("ok", false));
    assert_eq!((tool_of_first.sends(), tool_of_second.sends()), (0, 1));
}

/// The cancel is stored, word of that is lost, and before it is tried again another operation begins under the key.
#[tokio::test(start_paused = true)]
async fn a_cancel_is_not_carried_over_to_the_next_operation_under_the_key() {
    let memory = Arc::new(MemoryLedger::new());
    let (options, _alerts) = options();
    let start = async |ledger: Arc<dyn Ledger>| Engine::start(ledger, options.clone()).await.unwrap();
    let (first, second) = (start(memory.clone()).await, start(memory.clone()).await);
    let failing = Faulty { reads_too: true, ..Faulty::new(memory.clone(), Fault::After, 1, 1) };
    let cancels = start(Arc::new(failing)).await;
    let tool = Script::new([Play::Effect(Duration::from_secs(5), result("held"))]);
    let holds = Operation { key: Key::new("test", "charge", "before").unwrap(), ..waiting("{}") };
    let held = spawn_call(&first, holds, &tool);
    tokio::time::sleep(Duration::from_millis(2)).await;

    let told_first = spawn_call(&first, waiting("{\"cents\":4200}"), &tool);
    tokio::time::sleep(Duration::from_millis(2)).await;
    let cancelled = tokio::spawn(async move { cancels.cancel(&key()).await });
    assert!(matches!(told_first.await.unwrap().unwrap().answer, Answer::Failed { .. }));
    let told_second = spawn_call(&second, waiting("{\"cents\":7}"), &tool);

    assert!(!cancelled.await.unwrap().unwrap());
    assert_eq!(held.await.unwrap().unwrap().answer, done("held", false));
    assert_eq!((told_second.await.unwrap().unwrap().answer, tool.sends()), (done("ok", false), 2));
}

/// Another process, to which the answer was delivered, and which then makes a call of its own under the key, whose outcome is
/// unknown as well: all while a person is told of the first one.
struct Overtakes {
    memory: Arc<MemoryLedger>,
    policy: Policy,
    by: Epoch,
}

impl Alerts for Overtakes {
    fn raise(&self, entry: &Entry, _cause: &Cause<Digest>) {
        let asked = operation(self.policy);
        let (now, mut record) = (Time(2_000_000), entry.record);
        let mut take = |what: &dyn Fn(&Record<Digest>) -> What<Digest>, begins: bool| {
            let event = Event { now, by: self.by, draw: 0, what: what(&record) };
            let expected = Some(record.version());
            record = self.policy.step(Some(&record), &event).record.unwrap();
            let change = Change {
                key: key(),
                expected,
                record,
                at: now,
                by: self.by,
                event: "another process".into(),
                asked: begins.then(|| asked.asked.clone()),
                sent: None,
                outcome: None,
                note: None,
                resource: None,
                keep_until: None,
            };
            let stored = pin!(self.memory.compare_and_set(change)).poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(stored, Poll::Ready(Ok(Stored::Durable(_)))), "{stored:?}");
        };
        take(&|record| What::Delivered { generation: record.generation(), from: now }, false);
        take(&|_| What::Call { fingerprint: asked.fingerprint, start: Start::Now }, true);
        take(&|record| What::Lost { of: record.attempt_id().unwrap(), how: Loss::TimedOut }, false);
    }
}

#[tokio::test(start_paused = true)]
async fn that_a_person_was_told_is_not_carried_over_to_the_next_operation_under_the_key() {
    let memory = Arc::new(MemoryLedger::new());
    let by = memory.register(Duration::from_secs(1_000_000)).await.unwrap();
    let kind = ToolKind::Deduplicates { limit: 600_000, margin: 1_000, remembers_rejections: false };
    let retry = Retry { attempts: 1, ..Retry::default() };
    let policy = Policy { retry, ..ends(kind, Ends::OnDelivery) };
    let (options, _alerts) = options();
    let alerts = Arc::new(Overtakes { memory: memory.clone(), policy, by });
    let engine = Engine::start(memory.clone(), EngineOptions { alerts, ..options }).await.unwrap();
    let tool = Script::new([Play::Effect(Duration::ZERO, error("500"))]);
    let first = spawn_call(&engine, operation(policy), &tool).await.unwrap().unwrap();
    engine.idle().await;
    let entry = memory.get(&key()).await.unwrap().unwrap();
    assert_ne!(entry.record.generation(), first.generation);
    assert!(matches!(entry.record.state(), State::Unknown { .. }), "nobody was told of it: {:?}", entry.record);
}

/// Two calls wait for the ledger to take their intent; meanwhile another process has begun another call under the key, whose
/// outcome is unknown.
#[tokio::test(start_paused = true)]
async fn who_waits_with_another_caller_is_not_told_the_outcome_of_a_call_with_other_arguments() {
    let memory = Arc::new(MemoryLedger::new());
    let (options, _alerts) = options();
    let refuses = Arc::new(Faulty::new(memory.clone(), Fault::Before, 1, usize::MAX));
    let patient = EngineOptions { ledger_patience: Duration::from_secs(60), ..options.clone() };
    let first = Engine::start(refuses.clone(), patient).await.unwrap();
    let second = Engine::start(memory.clone(), options).await.unwrap();
    let tool = Script::new([Play::Effect(Duration::ZERO, ToolReply::ConnectionLost)]);
    let limits = Limits { settle: Duration::from_millis(200), ..crate::support::limits() };
    let asked = |arguments| Operation { limits, ..with_arguments(crate::support::opaque(), arguments) };
    let leads = spawn_call(&first, asked("{\"cents\":4200}"), &tool);
    tokio::time::sleep(Duration::from_millis(2)).await;
    let joins = spawn_call(&first, asked("{\"cents\":4200}"), &tool);
    // By now the first one tries once in a second.
    tokio::time::sleep(Duration::from_millis(3_400)).await;
    spawn_call(&second, asked("{\"cents\":7}"), &tool).await.unwrap().unwrap();
    for told in [joins, leads] {
        assert_eq!(told.await.unwrap().unwrap().answer, Answer::Conflict);
    }
    assert_eq!(tool.sends(), 1);
}

//! Ownership: leases, takeover, fencing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{
    Fault, Faulty, Play, Script, World, call, done, error, key, limits, opaque, operation, options, recoverable,
    result, spawn_call, unknown,
};
use settled::protocol::{Policy, ToolKind};
use settled::{Answer, Engine, EngineOptions, Ledger, Limits, Liveness, MemoryLedger, Operation, Seen};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_millis(300);

/// Waits, on the host's clock, until something holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..1_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} never came");
}

/// An engine whose lease runs out between the record of its dispatch and its send.
struct Frozen {
    memory: Arc<MemoryLedger>,
    ledger: Arc<Faulty>,
    engine: Engine,
}

impl Frozen {
    async fn new() -> Frozen {
        let memory = Arc::new(MemoryLedger::new());
        let ledger = Arc::new(Faulty::new(memory.clone(), Fault::Before, usize::MAX, 0));
        let options = EngineOptions { lease: LEASE, ..EngineOptions::default() };
        let engine = Engine::start(ledger.clone(), options).await.unwrap();
        *ledger.slow.lock().unwrap() = 3 * LEASE;
        ledger.cut_off.store(true, Ordering::SeqCst);
        Frozen { memory, ledger, engine }
    }

    fn wakes(&self) {
        *self.ledger.slow.lock().unwrap() = Duration::ZERO;
        self.ledger.cut_off.store(false, Ordering::SeqCst);
    }
}

/// The ledger counts a lease from when it renewed it, which may be long before that is heard of.
#[tokio::test]
async fn a_lease_is_over_here_before_it_is_over_at_the_ledger_however_late_its_renewal_is_answered() {
    let ledger = Arc::new(Faulty::new(Arc::new(MemoryLedger::new()), Fault::Before, usize::MAX, 0));
    let options = EngineOptions { lease: LEASE, ..EngineOptions::default() };
    let engine = Engine::start(ledger.clone(), options).await.unwrap();
    *ledger.late.lock().unwrap() = LEASE * 2 / 3;
    let epoch = engine.epoch();
    until("the end of the lease", async || ledger.liveness(epoch).await.unwrap() != Liveness::Alive).await;
    let tool = Script::new([]);
    let told = call(&engine, opaque(), &tool).await;
    assert!(matches!(told, Answer::Failed { .. }), "{told:?}");
    assert_eq!(tool.sends(), 0, "nothing is sent under a lease that is over");
}

#[tokio::test]
async fn who_is_frozen_past_its_lease_sends_nothing_says_so_and_goes_on_under_a_new_epoch() {
    let frozen = Frozen::new().await;
    let tool = Script::new([]);
    let before = frozen.engine.epoch();
    let Answer::Failed { error: Some(told), replayed: false } = call(&frozen.engine, opaque(), &tool).await else {
        panic!("it must say that nothing was sent");
    };
    assert!(String::from_utf8_lossy(&told).contains("fenced"), "{told:?}");
    assert_eq!(tool.sends(), 0);

    frozen.wakes();
    until("a new epoch", async || frozen.engine.epoch() != before).await;
    until("the end of the old one", async || frozen.memory.liveness(before).await.unwrap() == Liveness::Gone).await;
    let next =
        Operation { key: settled::protocol::Key::new("test", "charge", "order 8").unwrap(), ..operation(opaque()) };
    assert_eq!(frozen.engine.call(next, tool.clone()).await.unwrap().answer, done("ok", false));
    assert_eq!(tool.sends(), 1);
}

#[tokio::test]
async fn what_an_owner_sent_whose_lease_is_over_is_recovered() {
    let memory = Arc::new(MemoryLedger::new());
    let ledger = Arc::new(Faulty::new(memory.clone(), Fault::Before, usize::MAX, 0));
    let options = EngineOptions { lease: LEASE, ..EngineOptions::default() };
    let engine = Engine::start(ledger.clone(), options).await.unwrap();
    let tool = Script::new([Play::Hang]);
    let waits = spawn_call(&engine, operation(opaque()), &tool);
    until("the send", async || tool.sends() == 1).await;
    ledger.cut_off.store(true, Ordering::SeqCst);
    until("the end of the lease", async || memory.liveness(engine.epoch()).await.unwrap() == Liveness::Lapsed).await;
    let other = Engine::start(memory.clone(), EngineOptions::default()).await.unwrap();
    let recovered = other.recover(&recoverable(opaque(), &tool)).await.unwrap();
    assert_eq!((recovered.found, recovered.alive, recovered.escalated), (1, 0, 1));
    waits.abort();
}

#[tokio::test]
async fn an_operation_taken_over_meanwhile_is_settled_by_what_its_first_owner_knows() {
    let frozen = Frozen::new().await;
    let tool = Script::new([]);
    let waits = spawn_call(&frozen.engine, operation(opaque()), &tool);
    until("the record", async || frozen.memory.get(&key()).await.unwrap().is_some()).await;
    until("the end of the lease", async || {
        frozen.memory.liveness(frozen.engine.epoch()).await.unwrap() == Liveness::Lapsed
    })
    .await;
    let other = Engine::start(frozen.memory.clone(), EngineOptions::default()).await.unwrap();
    assert_eq!(call(&other, opaque(), &tool).await, unknown(true));
    assert!(matches!(waits.await.unwrap().unwrap().answer, Answer::Failed { .. }), "it knows that it did not send");
    assert_eq!(tool.sends(), 0);
    assert!(matches!(call(&other, opaque(), &tool).await, Answer::Failed { .. }));
}

#[tokio::test(start_paused = true)]
async fn of_a_frozen_owner_not_applied_concludes_nothing() {
    // It may still send what it had queued.
    for (kill, sends) in [(false, 1), (true, 2)] {
        let world = World::new().await;
        let policy = Policy::new(ToolKind::Observable { settling: 1_000 });
        let tool = Script::seeing(
            [Play::Hang, Play::Effect(Duration::ZERO, result("second"))],
            std::iter::repeat_n(Seen::NotApplied, 100),
        );
        let first = spawn_call(&world.engine, operation(policy), &tool);
        world.until("dispatched").await;
        // As its process would: with everything in it.
        first.abort();
        if kill {
            world.ledger.kill(world.engine.epoch());
        } else {
            world.ledger.freeze(world.engine.epoch());
        }
        let other = world.another().await;
        let answer = call(&other, policy, &tool).await;
        assert_eq!(tool.sends(), sends, "killed: {kill}");
        assert_eq!(answer, if kill { done("second", true) } else { unknown(true) });
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_processes_with_one_call_one_sends_and_both_are_told() {
    let world = World::new().await;
    let other = world.another().await;
    let tool = Script::new([Play::Effect(5 * SECOND, result("receipt"))]);
    let one = spawn_call(&world.engine, operation(opaque()), &tool);
    let two = spawn_call(&other, operation(opaque()), &tool);
    let (one, two) = (one.await.unwrap().unwrap().answer, two.await.unwrap().unwrap().answer);
    assert_eq!(
        [one, two]
            .map(|answer| matches!(answer, Answer::Done { replayed: false, .. }))
            .iter()
            .filter(|own| **own)
            .count(),
        1
    );
    assert_eq!((tool.sends(), tool.effects()), (1, 1));

    // Or, by policy, the second one isn't kept waiting.
    let (options, alerts) = options();
    let world = World::with(EngineOptions { patience: Some(SECOND), ..options }, alerts).await;
    let other = world.another().await;
    let tool = Script::new([Play::Effect(5 * SECOND, result("receipt"))]);
    let one = spawn_call(&world.engine, operation(opaque()), &tool);
    world.until("dispatched").await;
    assert_eq!(call(&other, opaque(), &tool).await, Answer::InProgress);
    assert_eq!(one.await.unwrap().unwrap().answer, done("receipt", false));
}

#[tokio::test(start_paused = true)]
async fn who_has_retired_is_not_waited_for() {
    let world = World::new().await;
    let tool = Script::new([Play::Effect(SECOND, error("500"))]);
    // Held, because it is opaque, and its alert can't be recorded any more.
    call(&world.engine, opaque(), &tool).await;
    world.engine.retire().await.unwrap();
    assert_eq!(world.ledger.liveness(world.engine.epoch()).await.unwrap(), Liveness::Gone);
    let refused = Operation { key: settled::protocol::Key::new("test", "charge", "9").unwrap(), ..operation(opaque()) };
    assert!(matches!(world.engine.call(refused, tool.clone()).await.unwrap().answer, Answer::Failed { .. }));
    assert_eq!(tool.sends(), 1);
    let other = world.another().await;
    let recovered = other.recover(&recoverable(opaque(), &tool)).await.unwrap();
    assert_eq!((recovered.found, recovered.escalated), (1, 1));
    let _ = limits();
}

/// A transport that queues what it is to send, and asks right before the first byte.
struct Queues {
    sent: std::sync::atomic::AtomicUsize,
}

#[async_trait::async_trait]
impl settled::Tool for Queues {
    async fn dispatch(&self, outgoing: &settled::Outgoing) -> settled::ToolReply {
        tokio::time::sleep(3 * LEASE).await;
        if !outgoing.permit().holds() {
            return settled::ToolReply::Error(settled::protocol::ErrorClass::NotRun, "not sent".into());
        }
        self.sent.fetch_add(1, Ordering::SeqCst);
        settled::ToolReply::Result("sent".into())
    }
}

#[tokio::test]
async fn what_a_transport_has_queued_is_not_sent_once_its_process_is_fenced() {
    for fenced in [false, true] {
        let memory = Arc::new(MemoryLedger::new());
        let ledger = Arc::new(Faulty::new(memory.clone(), Fault::Before, usize::MAX, 0));
        let engine_options = EngineOptions { lease: LEASE, ..EngineOptions::default() };
        let engine = Engine::start(ledger.clone(), engine_options).await.unwrap();
        let tool = Arc::new(Queues { sent: Default::default() });
        let calling = {
            let (engine, tool) = (engine.clone(), tool.clone());
            tokio::spawn(async move { engine.call(operation(opaque()), tool).await.unwrap().answer })
        };
        until("the record", async || memory.get(&key()).await.unwrap().is_some()).await;
        ledger.cut_off.store(fenced, Ordering::SeqCst);
        let answer = calling.await.unwrap();
        assert_eq!(matches!(answer, Answer::Failed { .. }), fenced, "{answer:?}");
        assert_eq!(tool.sent.load(Ordering::SeqCst), usize::from(!fenced));
    }
}

/// The operation may be settled without it by then (it was sealed, say, or a person has decided).
#[tokio::test]
async fn what_was_not_sent_in_its_time_never_is() {
    let lease = Duration::from_secs(1);
    let memory = Arc::new(MemoryLedger::new());
    let ledger = Arc::new(Faulty::new(memory.clone(), Fault::Before, usize::MAX, 0));
    let engine = Engine::start(ledger.clone(), EngineOptions { lease, ..EngineOptions::default() }).await.unwrap();
    // While the record is stored the lease runs out here, though not at the ledger, and that is heard late.
    *ledger.slow.lock().unwrap() = lease * 6 / 5;
    ledger.unheard.store(true, Ordering::SeqCst);
    let tool = Script::new([]);
    let limits = Limits { attempt: Duration::from_millis(100), ..limits() };
    let calling = spawn_call(&engine, Operation { limits, ..operation(opaque()) }, &tool);
    until("the record", async || memory.get(&key()).await.unwrap().is_some()).await;
    *ledger.slow.lock().unwrap() = Duration::ZERO;
    *ledger.late.lock().unwrap() = lease * 3 / 5;
    tokio::time::sleep(lease * 11 / 10).await;
    ledger.unheard.store(false, Ordering::SeqCst);
    calling.await.unwrap().unwrap();
    until("the end", async || memory.get(&key()).await.unwrap().unwrap().record.is_settled()).await;
    assert_eq!(tool.sends(), 0);
    assert!(matches!(call(&engine, opaque(), &tool).await, Answer::Failed { .. }));
    assert_eq!(tool.sends(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_transport_still_has_queued_when_its_time_is_over_is_not_sent() {
    let world = World::new().await;
    let tool = Arc::new(Queues { sent: Default::default() });
    let limits = Limits { attempt: LEASE, settle: Duration::ZERO, ..limits() };
    let operation = Operation { limits, ..operation(opaque()) };
    let answered = world.engine.call(operation, tool.clone()).await.unwrap();
    assert!(matches!(answered.answer, Answer::Unknown { .. }), "{answered:?}");
    world.until("settled").await;
    assert_eq!(tool.sent.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_step_of_the_shared_clock_concludes_nothing() {
    // By the record's times the settling time is over at once; by this process's own clock it is not.
    struct Steps(tokio::time::Instant);
    impl settled::Clock for Steps {
        fn now(&self) -> settled::protocol::Time {
            let passed = self.0.elapsed();
            let step = if passed > 10 * SECOND { 3_600 * SECOND } else { Duration::ZERO };
            settled::protocol::Time(1_000_000 + (passed + step).as_millis() as u64)
        }
    }
    let (options, alerts) = options();
    let begun = tokio::time::Instant::now();
    let world = World::with(EngineOptions { clock: Arc::new(Steps(begun)), ..options }, alerts).await;
    let mut policy = Policy::new(ToolKind::Observable { settling: 60_000 });
    policy.retry.total = 86_400_000;
    let tool = Script::seeing([Play::NoEffect(SECOND, error("500"))], vec![Seen::NotApplied; 1_000]);
    assert_eq!(call(&world.engine, policy, &tool).await, done("ok", false));
    assert!(begun.elapsed() >= 60 * SECOND, "{:?}", begun.elapsed());
    assert_eq!(tool.sends(), 2);
}

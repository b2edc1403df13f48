//! Resources: one after the other, in order, whatever happens to those who wait and those who hold.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Fault, Faulty, World, opaque, recoverable};
use async_trait::async_trait;
use settled::protocol::{Event, Key, Policy, Start, Time, ToolKind, What};
use settled::{Answer, Change, Engine, Ledger, Limits, Operation, Outgoing, Resource, Tool, ToolReply};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

fn resource(name: &str) -> Option<Resource> {
    Some(Resource { scope: "test".into(), name: name.into() })
}

fn wants(id: &str, name: &str) -> Operation {
    let key = Key::new("test", "move", id).unwrap();
    let limits = Limits { attempt: 60 * SECOND, queue: 3_600 * SECOND, ..Limits::default() };
    Operation { resource: resource(name), limits, ..Operation::new(key, "{}", opaque()) }
}

/// Takes its time; knows which operations were under way together, and in which order they began.
#[derive(Default)]
struct Robot {
    takes: Duration,
    busy: AtomicUsize,
    most: AtomicUsize,
    begun: Mutex<Vec<String>>,
    never_answers: bool,
}

impl Robot {
    fn taking(takes: Duration) -> Arc<Robot> {
        Arc::new(Robot { takes, ..Robot::default() })
    }

    fn begun(&self) -> Vec<String> {
        self.begun.lock().unwrap().clone()
    }
}

#[async_trait]
impl Tool for Robot {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        outgoing.sent();
        self.begun.lock().unwrap().push(outgoing.key.id().to_owned());
        let busy = self.busy.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(busy, Ordering::SeqCst);
        tokio::time::sleep(self.takes).await;
        if self.never_answers {
            std::future::pending::<()>().await;
        }
        self.busy.fetch_sub(1, Ordering::SeqCst);
        ToolReply::Result("moved".into())
    }
}

fn spawn(engine: &Engine, operation: Operation, tool: &Arc<Robot>) -> tokio::task::JoinHandle<Answer> {
    let (engine, tool) = (engine.clone(), tool.clone());
    tokio::spawn(async move { engine.call(operation, tool).await.unwrap().answer })
}

fn moved() -> Answer {
    Answer::Done { result: "moved".into(), replayed: false }
}

async fn a_while() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

#[tokio::test(start_paused = true)]
async fn one_at_a_time_and_in_order_across_processes() {
    let world = World::new().await;
    let engines = [world.engine.clone(), world.another().await, world.another().await];
    let robot = Robot::taking(SECOND);
    let mut waits = Vec::new();
    for n in 0..9 {
        waits.push(spawn(&engines[n % 3], wants(&n.to_string(), "arm"), &robot));
        a_while().await;
    }
    for waiting in waits {
        assert_eq!(waiting.await.unwrap(), moved());
    }
    assert_eq!(robot.begun(), (0..9).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(robot.most.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn different_resources_are_used_at_once() {
    let world = World::new().await;
    let robot = Robot::taking(10 * SECOND);
    let begun = Instant::now();
    let waits: Vec<_> = (0..5).map(|n| spawn(&world.engine, wants(&n.to_string(), &n.to_string()), &robot)).collect();
    for waiting in waits {
        assert_eq!(waiting.await.unwrap(), moved());
    }
    assert!(begun.elapsed() < 20 * SECOND, "{:?}", begun.elapsed());
    assert_eq!(robot.most.load(Ordering::SeqCst), 5);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_can_be_cancelled_and_one_that_was_sent_cannot() {
    let world = World::new().await;
    let robot = Robot::taking(10 * SECOND);
    let first = spawn(&world.engine, wants("1", "arm"), &robot);
    a_while().await;
    let second = spawn(&world.engine, wants("2", "arm"), &robot);
    a_while().await;
    let other = world.another().await;
    assert!(!other.cancel(&wants("1", "arm").key).await.unwrap());
    assert!(other.cancel(&wants("2", "arm").key).await.unwrap());
    assert!(!other.cancel(&wants("none", "arm").key).await.unwrap());
    assert!(matches!(second.await.unwrap(), Answer::Failed { error: None, .. }));
    assert_eq!(first.await.unwrap(), moved());
    assert_eq!(robot.begun(), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_kept_by_what_its_dead_owner_sent_until_a_person_decides() {
    let world = World::new().await;
    let stuck = Arc::new(Robot { never_answers: true, ..Robot::default() });
    let _lost = spawn(&world.engine, wants("1", "arm"), &stuck);
    a_while().await;
    let other = world.another().await;
    let robot = Robot::taking(SECOND);
    let second = spawn(&other, wants("2", "arm"), &robot);
    a_while().await;
    world.ledger.kill(world.engine.epoch());
    tokio::time::sleep(30 * SECOND).await;
    assert!(robot.begun().is_empty(), "the effect of the first may still be going on");

    // Once somebody looks after it, it is with a person, and nobody has to wait for one in line.
    let none = crate::support::Script::new([]);
    other.recover(&recoverable(opaque(), &none)).await.unwrap();
    let Answer::Failed { error: Some(why), .. } = second.await.unwrap() else { panic!("it was not sent") };
    assert!(String::from_utf8_lossy(&why).contains("a person has been asked"), "{why:?}");
    let third = spawn(&other, wants("3", "arm"), &robot);
    assert!(matches!(third.await.unwrap(), Answer::Failed { error: Some(_), .. }));
    let decision = settled::Decision { decided_as: settled::DecidedAs::Failed, body: None, note: None };
    other.decide(&wants("1", "arm").key, decision, true).await.unwrap();
    assert_eq!(spawn(&other, wants("4", "arm"), &robot).await.unwrap(), moved());
    assert_eq!(robot.begun(), ["4"]);
}

/// What a process leaves that is killed while its call waits.
async fn left_waiting(world: &World, id: &str) {
    let dead = world.ledger.register(SECOND).await.unwrap();
    let wanted = wants(id, "arm");
    let what = What::Call { fingerprint: wanted.fingerprint, start: Start::Later };
    let record = wanted.policy.step(None, &Event { now: Time(1_000_000), by: dead, draw: 0, what }).record.unwrap();
    let change = Change {
        key: wanted.key,
        expected: None,
        record,
        at: Time(1_000_000),
        by: dead,
        event: "left".into(),
        asked: Some(wanted.asked),
        sent: None,
        outcome: None,
        note: None,
        resource: wanted.resource,
        keep_until: None,
    };
    world.ledger.compare_and_set(change).await.unwrap();
    world.ledger.kill(dead);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_one_who_died_waiting() {
    let world = World::new().await;
    left_waiting(&world, "dead").await;
    let robot = Robot::taking(SECOND);
    assert_eq!(spawn(&world.engine, wants("2", "arm"), &robot).await.unwrap(), moved());
    assert_eq!(robot.begun(), ["2"]);
    // Whoever asks for it again begins anew or is told that nothing was sent; here, by its own key, the latter.
    assert!(matches!(spawn(&world.engine, wants("dead", "arm"), &robot).await.unwrap(), Answer::Failed { .. }));
}

#[tokio::test(start_paused = true)]
async fn one_that_was_left_waiting_is_recovered_in_its_turn_only() {
    let world = World::new().await;
    let robot = Robot::taking(10 * SECOND);
    let first = spawn(&world.engine, wants("1", "arm"), &robot);
    a_while().await;
    left_waiting(&world, "left").await;
    let other = world.another().await;
    let resolve = {
        let robot = robot.clone();
        move |_: &settled::Entry| {
            let limits = wants("any", "arm").limits;
            Some(settled::Recoverable { policy: opaque(), tool: Some(robot.clone()), limits })
        }
    };
    let recovered = other.recover(&resolve).await.unwrap();
    assert_eq!((recovered.alive, recovered.settled), (1, 1));
    assert_eq!(first.await.unwrap(), moved());
    assert_eq!(robot.begun(), ["1", "left"]);
    assert_eq!(robot.most.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_ends() {
    let world = World::new().await;
    let robot = Robot::taking(50 * SECOND);
    let first = spawn(&world.engine, wants("1", "arm"), &robot);
    a_while().await;
    let limits = Limits { queue: 5 * SECOND, ..wants("2", "arm").limits };
    let begun = Instant::now();
    let second = spawn(&world.engine, Operation { limits, ..wants("2", "arm") }, &robot).await.unwrap();
    assert!(begun.elapsed() < 7 * SECOND);
    let Answer::Failed { error: Some(why), .. } = second else { panic!("it was not sent") };
    assert!(String::from_utf8_lossy(&why).contains("not free in time"), "{why:?}");
    assert_eq!(first.await.unwrap(), moved());
    assert_eq!(robot.begun(), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn an_idempotent_tools_resource_is_free_once_its_copies_must_have_arrived() {
    let world = World::new().await;
    let policy = Policy::new(ToolKind::Idempotent);
    let limits = Limits { transit: 30 * SECOND, ..crate::support::limits() };
    let wants = |id: &str| {
        let key = Key::new("test", "set", id).unwrap();
        Operation { resource: resource("lamp"), limits, ..Operation::new(key, "{}", policy) }
    };
    // The answer to the first copy is lost: it may be anywhere.
    let tool = crate::support::Script::new([crate::support::Play::NoEffect(SECOND, ToolReply::ConnectionLost)]);
    let begun = Instant::now();
    let told = world.engine.call(wants("on"), tool.clone()).await.unwrap().answer;
    assert_eq!(told, crate::support::done("ok", false));
    assert_eq!(tool.sends(), 2);
    assert!(begun.elapsed() >= 31 * SECOND, "{:?}", begun.elapsed());
    // Where nothing was lost, nobody waits.
    let begun = Instant::now();
    assert_eq!(world.engine.call(wants("off"), tool.clone()).await.unwrap().answer, crate::support::done("ok", false));
    assert!(begun.elapsed() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_idempotent_operation_of_a_frozen_owner_is_not_sent_again() {
    // What that owner has queued could arrive after the next operation.
    for (kill, sends) in [(false, 1), (true, 2)] {
        let world = World::new().await;
        let policy = Policy::new(ToolKind::Idempotent);
        let limits = Limits { transit: SECOND, ..crate::support::limits() };
        let key = Key::new("test", "set", "on").unwrap();
        let wanted = Operation { resource: resource("lamp"), limits, ..Operation::new(key.clone(), "{}", policy) };
        let tool = crate::support::Script::new([crate::support::Play::Hang]);
        let _stuck = crate::support::spawn_call(&world.engine, wanted.clone(), &tool);
        a_while().await;
        let epoch = world.engine.epoch();
        if kill {
            world.ledger.kill(epoch)
        } else {
            world.ledger.freeze(epoch)
        }
        let other = world.another().await;
        let told = other.call(wanted, tool.clone()).await.unwrap().answer;
        assert_eq!(tool.sends(), sends, "killed: {kill}");
        assert_eq!(matches!(told, Answer::Unknown { .. }), !kill, "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_was_left_waiting_may_wait_long_and_be_cancelled_by_others() {
    let world = World::new().await;
    let robot = Robot::taking(100_000 * SECOND);
    let _first = spawn(
        &world.engine,
        Operation { limits: Limits { attempt: 1_000_000 * SECOND, ..wants("1", "arm").limits }, ..wants("1", "arm") },
        &robot,
    );
    a_while().await;
    left_waiting(&world, "left").await;
    let other = world.another().await;
    let resolve = {
        let robot = robot.clone();
        move |_: &settled::Entry| {
            let limits = Limits { queue: 1_000_000 * SECOND, ..wants("any", "arm").limits };
            Some(settled::Recoverable { policy: opaque(), tool: Some(robot.clone()), limits })
        }
    };
    let recovering = {
        let other = other.clone();
        tokio::spawn(async move { other.recover(&resolve).await.unwrap() })
    };
    // Each second it looks again: thousands of times.
    tokio::time::sleep(50_000 * SECOND).await;
    assert!(world.engine.cancel(&wants("left", "arm").key).await.unwrap());
    let recovered = tokio::time::timeout(10 * SECOND, recovering).await.expect("it ends").unwrap();
    assert_eq!((recovered.alive, recovered.settled + recovered.open), (1, 1), "{recovered:?}");
    assert_eq!(robot.begun(), ["1"]);
}

/// What two processes store of one call in the same millisecond is equal to the last byte.
#[tokio::test(start_paused = true)]
async fn an_equal_record_of_another_process_is_not_ones_own() {
    let world = World::new().await;
    let stuck = Arc::new(Robot { never_answers: true, ..Robot::default() });
    // Its outcome is unknown, so that nobody else gets the arm.
    assert!(matches!(spawn(&world.engine, wants("1", "arm"), &stuck).await.unwrap(), Answer::Unknown { .. }));
    let robot = Robot::taking(SECOND);
    // The first to store hears of it after the other has tried.
    let slow = Faulty::new(world.ledger.clone(), Fault::Before, usize::MAX, 0);
    *slow.slow.lock().unwrap() = Duration::from_millis(5);
    let first = Engine::start(Arc::new(slow), world.options.clone()).await.unwrap();
    let told = [first, world.another().await].map(|engine| spawn(&engine, wants("2", "arm"), &robot));
    for (stored, told) in [true, false].into_iter().zip(told) {
        let Answer::Failed { replayed, .. } = told.await.unwrap() else { panic!("nobody got the arm") };
        assert!(stored || replayed, "it took the other's record for its own");
    }
}

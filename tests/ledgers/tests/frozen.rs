//! An owner that is stopped between its durable `dispatched` and the send, for longer than its lease: another takes over, and
//! the one that wakes up sends nothing, and says so.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::thread;
use std::time::{Duration, Instant};

use settled_ledger_tests::stage::truth::Reader;
use settled_ledger_tests::stage::{Answer, Backend, Behaviour, Guard, Request, Settings, ToolServer};
use settled_protocol::{State, Verdict};

const WAIT: Duration = Duration::from_secs(60);
const LEASE: u64 = 1_000;

struct Stage {
    tool: ToolServer,
    settings: Settings,
}

impl Stage {
    fn set(backend: &Backend) -> Stage {
        let tool = ToolServer::start(Behaviour::reliable());
        let settings = Settings { lease: LEASE, settle: 1_000, ..Settings::new(backend.url(), tool.socket()) };
        Stage { tool, settings }
    }

    fn guard(&self, stop_at: Option<&str>) -> (Guard, u32) {
        let settings = Settings { stop_at: stop_at.map(str::to_owned), ..self.settings.clone() };
        let guard = Guard::start(env!("CARGO_BIN_EXE_ledger_worker"), &settings, self.tool.directory(), None);
        let epoch = guard.ready();
        (guard, epoch)
    }
}

fn takes_over_and_fences(backend: &Backend, holder: bool) {
    let stage = Stage::set(backend);
    // Who comes first holds the directory, where it is one.
    let other = holder.then(|| stage.guard(None));
    let (frozen, epoch) = stage.guard(Some("one"));
    let (other, _) = other.unwrap_or_else(|| stage.guard(None));
    let one = Request::opaque("one");
    let asked = frozen.call(&one);
    frozen.stopped(WAIT);
    // Its lease runs on without it.
    let begun = Instant::now();
    let told = other.call(&one).recv_timeout(WAIT).unwrap();
    println!("{}: the other is told {:?} after {:.1} s", backend.name(), told.answer, begun.elapsed().as_secs_f64());
    assert_eq!(told.answer, Answer::Unknown, "{}", other.log());
    assert_eq!(stage.tool.effects().len(), 0);
    thread::sleep(Duration::from_millis(2 * LEASE));
    frozen.go_on();
    let told = asked.recv_timeout(WAIT).unwrap();
    assert!(matches!(told.answer, Answer::Failed | Answer::Unknown), "{told:?}");
    assert!(frozen.log().contains("fenced"), "it doesn't say so:\n{}", frozen.log());
    // Whatever it had queued would be sent by now.
    thread::sleep(Duration::from_secs(1));
    assert_eq!(stage.tool.effects().len(), 0, "it has sent what it had queued");
    let reader = Reader::open(&backend.url());
    reader.quiet(WAIT);
    match reader.get(&one.key()).unwrap().record.state() {
        State::Settled { verdict: Verdict::Failed(_), .. } | State::Escalated { .. } => {}
        state => panic!("{state:?}"),
    }
    // It goes on under a new epoch.
    let two = Request::opaque("two");
    let told = frozen.call(&two).recv_timeout(WAIT).unwrap();
    assert_eq!(told.answer, Answer::Done, "{told:?}\n{}", frozen.log());
    let owner = reader.get(&two.key()).unwrap().record.sent().unwrap().owner();
    assert_ne!(owner.0, epoch, "a fenced epoch is over");
    assert_eq!(stage.tool.counts(), [("two".to_owned(), 1)].into());
    for guard in [&frozen, &other] {
        let told = guard.call(&one).recv_timeout(WAIT).unwrap();
        assert!(matches!(told.answer, Answer::Failed | Answer::Unknown), "{told:?}");
    }
    assert_eq!(stage.tool.counts().get("one"), None);
}

#[test]
fn postgres() {
    takes_over_and_fences(&Backend::postgres(), false);
}

#[test]
fn redis() {
    takes_over_and_fences(&Backend::redis(), false);
}

#[test]
fn a_guest_of_a_directory() {
    takes_over_and_fences(&Backend::file(), true);
}

/// Whoever holds a directory takes its ledger with it while it is stopped: the others can't know, and say so.
#[test]
fn the_holder_of_a_directory() {
    let backend = Backend::file();
    let stage = Stage::set(&backend);
    let (frozen, epoch) = stage.guard(Some("one"));
    let (other, _) = stage.guard(None);
    let (one, three) = (Request::opaque("one"), Request::opaque("three"));
    let asked = frozen.call(&one);
    frozen.stopped(WAIT);
    let begun = Instant::now();
    let (first, second) = (other.call(&one), other.call(&three));
    for told in [first, second] {
        let told = told.recv_timeout(WAIT).unwrap();
        println!("file, holder: the other is told {:?} after {:.1} s", told.answer, begun.elapsed().as_secs_f64());
        assert_eq!(told.answer, Answer::NotSent, "{told:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(30));
    frozen.go_on();
    let told = asked.recv_timeout(WAIT).unwrap();
    // Nobody could take anything over meanwhile; but its lease is over, and it keeps to that.
    assert_eq!(told.answer, Answer::Failed, "{told:?}\n{}", frozen.log());
    assert!(frozen.log().contains("fenced"), "it doesn't say so:\n{}", frozen.log());
    assert_eq!(stage.tool.effects().len(), 0);
    // The other's lease ran out as well, while there was no ledger: it may not have noticed yet.
    let told = other.call(&three).recv_timeout(WAIT).unwrap();
    assert!(matches!(told.answer, Answer::Done | Answer::Failed), "{told:?}");
    let threes = usize::from(told.answer == Answer::Done);
    thread::sleep(Duration::from_millis(2 * LEASE));
    for (guard, id) in [(&frozen, "two"), (&other, "four")] {
        let told = guard.call(&Request::opaque(id)).recv_timeout(WAIT).unwrap();
        assert_eq!(told.answer, Answer::Done, "{told:?}\n{}", guard.log());
    }
    let reader = Reader::open(&backend.url());
    let owner = reader.get(&Request::opaque("two").key()).unwrap().record.sent().unwrap().owner();
    assert_ne!(owner.0, epoch, "a fenced epoch is over");
    let counts = stage.tool.counts();
    let effects = ["one", "two", "three", "four"].map(|id| counts.get(id).copied().unwrap_or_default());
    assert_eq!(effects, [0, 1, threes, 1]);
}

//! Guards whose clocks are an hour slow and an hour fast: no second effect, no wrong "it did not happen".
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::thread;
use std::time::{Duration, Instant};

use settled_ledger_tests::stage::truth::{Reader, compare};
use settled_ledger_tests::stage::{Answer, Backend, Behaviour, Guard, Request, Settings, ToolServer};

const WAIT: Duration = Duration::from_secs(60);

fn guards(tool: &ToolServer, settings: &Settings) -> [Guard; 2] {
    let program = env!("CARGO_BIN_EXE_ledger_worker");
    let guards = ["-3600s", "+3600s"].map(|clock| Guard::start(program, settings, tool.directory(), Some(clock)));
    for guard in &guards {
        guard.ready();
    }
    guards
}

/// The tool lets a request lie around for a second and a half, and nobody hears of it: an observation that came sooner, or counted
/// sooner, would lead to a second effect. One guard sends and dies, the other takes it further.
fn late_effects_are_waited_for(backend: &Backend) {
    let tool = ToolServer::start(Behaviour { late: 1_300..1_600, lost_early: 100, ..Behaviour::reliable() });
    let settings = Settings { settling: 2_000, settle: 20_000, ..Settings::new(backend.url(), tool.socket()) };
    let mut told = Vec::new();
    for sender in 0..2 {
        let guards = guards(&tool, &settings);
        // Also without anybody's death: each waits by the ledger's time.
        for (i, guard) in guards.iter().enumerate() {
            let request = Request::observable(format!("alone {sender}.{i}"));
            told.push((request.clone(), guard.call(&request).recv_timeout(WAIT).unwrap()));
        }
        let requests: Vec<_> = (0..6).map(|i| Request::observable(format!("left {sender}.{i}"))).collect();
        let unheard: Vec<_> = requests.iter().map(|request| guards[sender].call(request)).collect();
        // They are on their way, and have had no effect.
        thread::sleep(Duration::from_millis(600));
        guards[sender].kill();
        drop(unheard);
        let asked: Vec<_> = requests.iter().map(|request| (request, guards[1 - sender].call(request))).collect();
        for (request, asked) in asked {
            told.push((request.clone(), asked.recv_timeout(WAIT).unwrap()));
        }
    }
    for (request, told) in &told {
        assert_eq!(told.answer, Answer::Done, "{}", request.id);
    }
    ends_well(backend, &tool, &told);
}

/// The tool forgets a key after four seconds, and never answers: what is sent again after that happens again. One guard sends
/// first; the other, whose clock is two hours off, takes it further.
fn a_key_is_not_used_after_its_time(backend: &Backend) {
    let remembers = Duration::from_secs(4);
    let tool = ToolServer::start(Behaviour { lost_after: 100, remembers, ..Behaviour::reliable() });
    let settings =
        Settings { attempts: 1_000, limit: 4_000, margin: 500, ..Settings::new(backend.url(), tool.socket()) };
    let mut told = Vec::new();
    for sender in 0..2 {
        let guards = guards(&tool, &settings);
        let requests: Vec<_> = (0..4).map(|i| Request::deduplicates(format!("forgotten {sender}.{i}"))).collect();
        let unheard: Vec<_> = requests.iter().map(|request| guards[sender].call(request)).collect();
        let begun = Instant::now();
        while tool.effects().len() < (sender + 1) * requests.len() {
            assert!(begun.elapsed() < WAIT);
            thread::sleep(Duration::from_millis(20));
        }
        guards[sender].kill();
        drop(unheard);
        let asked: Vec<_> = requests.iter().map(|request| (request, guards[1 - sender].call(request))).collect();
        for (request, asked) in asked {
            told.push((request.clone(), asked.recv_timeout(WAIT).unwrap()));
        }
        // Long after the tool has forgotten.
        thread::sleep(remembers + Duration::from_secs(3));
    }
    for (request, told) in &told {
        assert_eq!(told.answer, Answer::Unknown, "{}", request.id);
    }
    ends_well(backend, &tool, &told);
}

fn ends_well(backend: &Backend, tool: &ToolServer, told: &[(Request, settled_ledger_tests::stage::Told)]) {
    let reader = Reader::open(&backend.url());
    let truth = compare(&reader, tool, told);
    println!(
        "{}: {} effects, answers {:?}, with a person {}",
        backend.name(),
        tool.effects().len(),
        truth.answers,
        truth.escalated
    );
    assert_eq!((truth.losses, truth.repeats, truth.lies), (vec![], vec![], vec![]));
    assert!(tool.effects().len() >= told.len(), "too little happened");
}

#[test]
fn late_effects_on_postgres() {
    late_effects_are_waited_for(&Backend::postgres());
}

#[test]
fn late_effects_on_redis() {
    late_effects_are_waited_for(&Backend::redis());
}

#[test]
fn a_limit_on_postgres() {
    a_key_is_not_used_after_its_time(&Backend::postgres());
}

#[test]
fn a_limit_on_redis() {
    a_key_is_not_used_after_its_time(&Backend::redis());
}

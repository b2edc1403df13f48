//! The engine on every ledger against the core: random moves of callers, tools, processes, people and time, each of which
//! leaves the ledger with the record, the callers with the answers and the tools with the attempts that the core's `step`
//! alone leads to. It goes on until every kind of operation has succeeded and failed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod backend;
mod moves;
mod reference;
mod seen;
mod shell;
mod system;
mod tool;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::test_runner::{Config, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use settled::Ledger;
use settled_ledger_postgres::{PostgresLedger, PostgresOptions};
use settled_ledger_redis::{RedisLedger, RedisOptions};
use settled_test_services::postgres::Postgres;
use settled_test_services::redis::Redis;

use backend::{Backend, Place};
use moves::MOVES;
use reference::Reference;
use system::System;

/// How often each kind of operation succeeded and failed.
type Counts = BTreeMap<&'static str, (usize, usize)>;

thread_local! {
    static COUNTS: RefCell<Counts> = const { RefCell::new(Counts::new()) };
}

/// Notes what came of a move, once system and reference agree on it.
fn count(notes: &[(&'static str, bool)]) {
    COUNTS.with_borrow_mut(|counts| {
        for (what, succeeded) in notes {
            let (successes, failures) = counts.entry(what).or_default();
            *(if *succeeded { successes } else { failures }) += 1;
        }
    });
}

/// What must have succeeded and failed.
const KINDS: [&str; 21] = [
    "begin an operation",
    "cancel",
    "decide",
    "definite failure",
    "deliver",
    "duplicate call",
    "expire",
    "expiry of a key",
    "first call",
    "late error",
    "late result",
    "observe",
    "other arguments",
    "recover",
    "replay",
    "reply to a process that was frozen",
    "seal attempts",
    "seal operation",
    "stop at a point",
    "take over by a call",
    "time out",
];

/// No run needs so many cases, unless something can't happen.
const MOST: usize = 3_000;

fn is_complete() -> bool {
    COUNTS.with_borrow(|counts| {
        let both = |kind: &&str| counts.get(*kind).is_some_and(|(successes, failures)| *successes > 0 && *failures > 0);
        KINDS.iter().all(both)
    })
}

/// At least so many cases.
fn run(place: Place, least: usize) {
    Backend::set(place);
    let config = Config { max_shrink_iters: 100, failure_persistence: None, ..Config::default() };
    let moves = Reference::sequential_strategy(1..MOVES);
    let mut cases = 0;
    while cases < least || !is_complete() && cases < MOST {
        let mut runner = TestRunner::new(Config { cases: 1, ..config.clone() });
        let tried = runner.run(&moves, |(initial, moves, seen)| {
            System::test_sequential(config.clone(), initial, moves, seen);
            Ok(())
        });
        if let Err(error) = tried {
            panic!("{error}");
        }
        cases += 1;
    }
    let counts = COUNTS.take();
    println!("{cases} cases");
    for (what, (successes, failures)) in &counts {
        println!("{what:<36} succeeded {successes:>6}  failed {failures:>6}");
    }
    for kind in KINDS {
        let (successes, failures) = counts.get(kind).copied().unwrap_or_default();
        assert!(
            successes > 0 && failures > 0,
            "in {cases} cases {kind} succeeded {successes} and failed {failures} times"
        );
    }
}

#[test]
fn on_memory() {
    run(Place::Memory, 100);
}

#[test]
fn on_files() {
    run(Place::File, 20);
}

/// The connections of a server's ledger are served apart from the processes that use it.
fn run_on_server<L: Ledger>(connect: impl Future<Output = L>, least: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let ledger = runtime.block_on(connect);
    run(Place::Server(Arc::new(ledger)), least);
    Backend::set(Place::Memory);
}

#[test]
fn on_postgresql() {
    let server = Postgres::start().unwrap();
    let url = server.url();
    let connect = async { PostgresLedger::connect(&url, PostgresOptions::default()).await.unwrap() };
    run_on_server(connect, 10);
}

#[test]
fn on_redis() {
    let server = Redis::start().unwrap();
    let url = server.url();
    run_on_server(async { RedisLedger::connect(&url, RedisOptions::default()).await.unwrap() }, 10);
}

//! Exactly once: money moves between two accounts while connections and processes are killed.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use settled::protocol::{Backoff, Digest, Key, Policy, Retry, ToolKind};
use settled::{Answer, Engine, EngineOptions, Ledger, Limits, Operation, Outgoing, RetryBudget, Tool};
use settled_ledger_postgres::tokio_postgres::Transaction;
use settled_ledger_postgres::{Effecting, PostgresLedger, Undo, transactional};
use settled_test_services::postgres::Postgres;

use crate::support::*;

const URL: &str = "SETTLED_TEST_TRANSFERS_AT";
const TRANSFERS: usize = 150;
const START: &str = "CREATE TABLE accounts (name text PRIMARY KEY, cents bigint);
    INSERT INTO accounts VALUES ('a', 1000000), ('b', 0);
    CREATE TABLE transfers (id text);
    GRANT ALL ON accounts, transfers TO settled";

fn bank() -> Postgres {
    let server = server();
    server.sql(START).unwrap();
    server
}

/// Nothing here keeps it from happening twice.
fn transfer<'a>(transaction: &'a Transaction<'a>, attempt: &'a Outgoing) -> Effecting<'a> {
    Box::pin(async move {
        let id = attempt.key.id();
        transaction.execute("INSERT INTO transfers VALUES ($1)", &[&id]).await?;
        transaction.execute("UPDATE accounts SET cents = cents - 10 WHERE name = 'a'", &[]).await?;
        transaction.batch_execute(&format!("SELECT pg_sleep({})", fastrand::f64() / 50.0)).await?;
        transaction.execute("UPDATE accounts SET cents = cents + 10 WHERE name = 'b'", &[]).await?;
        Ok(Bytes::from(format!("moved by {id}")))
    })
}

fn policy() -> Policy {
    let backoff = Backoff { base: 20, cap: 200 };
    Policy { retry: Retry { attempts: 100, backoff, ..Retry::default() }, ..Policy::new(ToolKind::Transactional) }
}

fn operation(key: Key) -> Operation {
    Operation { fingerprint: Digest::of(b"{}"), ..Operation::new(key, Bytes::from_static(b"{}"), policy()) }
}

async fn engine(ledger: &Arc<PostgresLedger>) -> Engine {
    let retry_budget = RetryBudget { per_mille: 1_000, burst: 100_000 };
    let options = EngineOptions { retry_budget, ledger_patience: 20 * SECOND, ..EngineOptions::default() };
    Engine::start(ledger.clone() as Arc<dyn Ledger>, options).await.unwrap()
}

async fn call(engine: &Engine, operation: Operation, tool: Arc<dyn Tool>) -> Answer {
    engine.call(operation, tool).await.unwrap().answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by other tests, in a process of its own"]
async fn a_process_that_transfers() {
    let Ok(url) = std::env::var(URL) else {
        return;
    };
    let ledger = loop {
        // Its connections are being killed, too.
        if let Ok(ledger) = PostgresLedger::connect(&url, Default::default()).await {
            break Arc::new(ledger);
        }
    };
    let engine = loop {
        let options = EngineOptions {
            retry_budget: RetryBudget { per_mille: 1_000, burst: 100_000 },
            ledger_patience: 20 * SECOND,
            ..EngineOptions::default()
        };
        if let Ok(engine) = Engine::start(ledger.clone() as Arc<dyn Ledger>, options).await {
            break engine;
        }
    };
    let tool: Arc<dyn Tool> = Arc::new(transactional(ledger, transfer));
    let next = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..6)
        .map(|_| {
            let (engine, tool, next) = (engine.clone(), tool.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    if id >= TRANSFERS {
                        return;
                    }
                    let expected = Bytes::from(format!("moved by {id}"));
                    loop {
                        match engine.call(operation(key(id)), tool.clone()).await {
                            Ok(answered) => match answered.answer {
                                Answer::Done { result, .. } if result == expected => break,
                                other => println!("not yet: {other:?}"),
                            },
                            Err(error) => println!("not yet: {error}"),
                        }
                        tokio::time::sleep(SECOND / 20).await;
                    }
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

fn process(url: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "transactional::a_process_that_transfers", "--ignored", "--nocapture"]);
    command.env(URL, url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn money_moves_exactly_once_while_connections_and_processes_are_killed() {
    let server = bank();
    let (mut kills, mut terminations) = (0, 0);
    let mut running = process(&server.url());
    let done = "SELECT count(*) FROM settled.records WHERE settled";
    let started = std::time::Instant::now();
    let status = loop {
        if let Some(status) = running.try_wait().unwrap() {
            break status;
        }
        assert!(started.elapsed() < 200 * SECOND, "it does not come to an end: {}", server.sql(done).unwrap());
        std::thread::sleep(Duration::from_millis(fastrand::u64(20..250)));
        // Connections are killed as long as processes are.
        if kills >= 6 {
            continue;
        }
        if fastrand::u32(..6) == 0 {
            running.kill().unwrap();
            running.wait().unwrap();
            kills += 1;
            running = process(&server.url());
        } else {
            let terminate = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                             WHERE usename = 'settled' AND random() < 0.4";
            terminations += server.sql(terminate).unwrap().parse::<usize>().unwrap();
        }
    };
    assert!(status.success());
    let all = TRANSFERS.to_string();
    assert_eq!(server.sql("SELECT count(*) FROM transfers").unwrap(), all, "transfers");
    assert_eq!(server.sql("SELECT count(DISTINCT id) FROM transfers").unwrap(), all, "different transfers");
    let moved = 10 * TRANSFERS as i64;
    let sums = format!("{}|{moved}", 1_000_000 - moved);
    let accounts = "SELECT max(cents) FILTER (WHERE name = 'a'), max(cents) FILTER (WHERE name = 'b') FROM accounts";
    assert_eq!(server.sql(accounts).unwrap(), sums);
    let again = server.sql("SELECT count(*) - 3 * count(DISTINCT hash) FROM settled.history").unwrap();
    println!(
        "{TRANSFERS} transfers, {kills} processes and {terminations} connections killed, {again} changes more than needed"
    );
    assert!(terminations > 5 && again != "0", "nothing was disturbed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_lost_its_record_cannot_commit_any_more() {
    let server = bank();
    let ledger = shared(&server.url()).await;
    let engine = engine(&ledger).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let tool = transactional(ledger.clone(), {
        let runs = runs.clone();
        move |transaction, attempt| {
            let runs = runs.clone();
            Box::pin(async move {
                let first = runs.fetch_add(1, Ordering::SeqCst) == 0;
                transaction.execute("INSERT INTO transfers VALUES ($1)", &[&attempt.key.id()]).await?;
                if first {
                    tokio::time::sleep(2 * SECOND).await;
                }
                Ok("moved".into())
            })
        }
    });
    let limits = Limits { attempt: SECOND / 2, ..Limits::default() };
    let answer = call(&engine, Operation { limits, ..operation(key(1)) }, Arc::new(tool)).await;
    assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
    engine.idle().await;
    assert_eq!(runs.load(Ordering::SeqCst), 2, "the first attempt was not given up");
    assert_eq!(server.sql("SELECT count(*) FROM transfers").unwrap(), "1");
    let events = "SELECT string_agg(state, ',') FROM settled.records";
    assert_eq!(server.sql(events).unwrap(), "settled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_effect_refuses_is_undone_and_what_passes_is_tried_again() {
    let server = bank();
    let ledger = shared(&server.url()).await;
    let engine = engine(&ledger).await;
    let count = || server.sql("SELECT count(*) FROM transfers").unwrap();

    let refusing = transactional(ledger.clone(), |transaction, _| {
        Box::pin(async move {
            transaction.execute("INSERT INTO transfers VALUES ('refused')", &[]).await?;
            Err(Undo::Refused("no money".into()))
        })
    });
    let answer = call(&engine, operation(key("refused")), Arc::new(refusing)).await;
    assert_eq!(answer, Answer::Failed { error: Some("no money".into()), replayed: false });

    let wrong = transactional(ledger.clone(), |transaction, _| {
        Box::pin(async move {
            transaction.execute("INSERT INTO transfers VALUES ('wrong')", &[]).await?;
            transaction.execute("UPDATE accounts SET name = 'b'", &[]).await?;
            Ok("never".into())
        })
    });
    let answer = call(&engine, operation(key("wrong")), Arc::new(wrong)).await;
    let Answer::Failed { error: Some(error), .. } = answer else { panic!("{answer:?}") };
    assert!(String::from_utf8_lossy(&error).contains("23505"), "{error:?}");
    assert_eq!(count(), "0", "what was refused was not undone");

    let tries = Arc::new(AtomicUsize::new(0));
    let passing = transactional(ledger.clone(), {
        let tries = tries.clone();
        move |transaction, attempt| {
            let again = tries.fetch_add(1, Ordering::SeqCst) > 0;
            Box::pin(async move {
                transaction.execute("INSERT INTO transfers VALUES ($1)", &[&attempt.key.id()]).await?;
                if !again {
                    let fail = "DO $$ BEGIN RAISE EXCEPTION 'in the way' USING ERRCODE = '40001'; END $$";
                    transaction.batch_execute(fail).await?;
                }
                Ok("moved".into())
            })
        }
    });
    let answer = call(&engine, operation(key("passing")), Arc::new(passing)).await;
    assert_eq!(answer, Answer::Done { result: "moved".into(), replayed: false });
    assert_eq!((tries.load(Ordering::SeqCst), count()), (2, "1".to_owned()));
}

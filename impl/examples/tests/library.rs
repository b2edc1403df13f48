//! The examples of the library do what they say.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use settled::{Engine, EngineOptions, Guarded, MemoryLedger};
use std::sync::Arc;
use tokio::net::TcpListener;

#[allow(dead_code, missing_docs)]
#[path = "../examples/guard_a_function.rs"]
mod guard_a_function;
#[allow(dead_code, missing_docs)]
#[path = "../examples/postgres_transaction.rs"]
mod postgres_transaction;
#[allow(dead_code, missing_docs)]
#[path = "../examples/reqwest_client.rs"]
mod reqwest_client;
#[allow(dead_code, missing_docs)]
#[path = "../examples/tower_service.rs"]
mod tower_service;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_is_guarded_across_restarts() {
    use guard_a_function::{Charge, Receipt, guard, pay};
    let dir = tempfile::tempdir().unwrap();
    let asked = Charge { customer: "alice".into(), cents: 4200 };
    for replayed in [false, true] {
        let guard = guard(dir.path()).await.unwrap();
        let told = pay(&guard, "order 7", &asked).await.unwrap();
        assert_eq!(told, Guarded::Done { value: Receipt { number: 4200 }, replayed });
    }
    let guard = guard(dir.path()).await.unwrap();
    let other = pay(&guard, "order 7", &Charge { cents: 1, ..asked }).await.unwrap();
    assert!(matches!(other, Guarded::Conflict { .. }), "{other:?}");
}

async fn service() -> String {
    let engine = Engine::start(Arc::new(MemoryLedger::new()), EngineOptions::default()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, tower_service::app(engine)).await });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_and_a_client_charge_once_across_restarts_of_the_client() {
    let url = service().await;
    let charges = format!("{url}/charges");
    let dir = tempfile::tempdir().unwrap();
    for replayed in [false, true] {
        let client = reqwest_client::client(dir.path()).await.unwrap();
        let (answer, told_again) = reqwest_client::pay(&client, &charges, "order 7").await.unwrap();
        assert_eq!((&*answer, told_again), ("4200 cents in all\n", replayed));
    }
    // A client that has lost its records sends again, with the same key: the service replays.
    let empty = tempfile::tempdir().unwrap();
    let forgetful = reqwest_client::client(empty.path()).await.unwrap();
    let (answer, _) = reqwest_client::pay(&forgetful, &charges, "order 7").await.unwrap();
    assert_eq!(answer, "4200 cents in all\n");
    let charged = reqwest::get(format!("{url}/charged")).await.unwrap().text().await.unwrap();
    assert_eq!(charged, "4200");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_commits_once_with_its_record() {
    use postgres_transaction::{Transfer, transfer};
    let server = settled_test_services::postgres::Postgres::start().unwrap();
    server.sql("CREATE TABLE accounts (name text PRIMARY KEY, cents bigint)").unwrap();
    server.sql("INSERT INTO accounts VALUES ('alice', 150), ('bob', 0)").unwrap();
    server.sql("GRANT ALL ON accounts TO PUBLIC").unwrap();
    let asked = Transfer { from: "alice".into(), to: "bob".into(), cents: 100 };
    for replayed in [false, true] {
        let told = transfer(&server.url(), "order 7", &asked).await.unwrap();
        assert_eq!(told, Guarded::Done { value: "moved".into(), replayed });
    }
    let refused = transfer(&server.url(), "order 8", &asked).await.unwrap();
    let error = Some("not enough in the account".into());
    assert_eq!(refused, Guarded::Failed { error, replayed: false });
    let balances = server.sql("SELECT string_agg(name || ' ' || cents, ', ' ORDER BY name) FROM accounts").unwrap();
    assert_eq!(balances.trim(), "alice 50, bob 100");
}

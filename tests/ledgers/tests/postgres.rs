//! The ledger in PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use settled::Ledger;
use settled_ledger_postgres::{PostgresLedger, PostgresOptions};
use settled_ledger_tests::{SOON, Shared, Views};
use settled_test_services::postgres::Postgres;

static SERVER: Shared<Postgres> = Shared::new();

async fn connect(url: &str) -> Arc<dyn Ledger> {
    Arc::new(PostgresLedger::connect(url, PostgresOptions::default()).await.unwrap())
}

async fn views() -> Views {
    let server = SERVER.get(|| Postgres::start().unwrap());
    let url = format!("{}&schema=case{}", server.url(), fastrand::u64(..));
    Views { a: connect(&url).await, b: connect(&url).await, soon: SOON, keep: Box::new(server) }
}

settled_ledger_tests::conformance!(crate::views);

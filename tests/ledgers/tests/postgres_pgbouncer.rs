//! The ledger in PostgreSQL behind PgBouncer in transaction mode.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use settled::Ledger;
use settled_ledger_postgres::{PostgresLedger, PostgresOptions};
use settled_ledger_tests::{Shared, Views};
use settled_test_services::pgbouncer::PgBouncer;
use settled_test_services::postgres::Postgres;

/// First the one that is stopped first.
static SERVERS: Shared<(PgBouncer, Postgres)> = Shared::new();

async fn connect(url: &str) -> Arc<dyn Ledger> {
    Arc::new(PostgresLedger::connect(url, PostgresOptions::default()).await.unwrap())
}

async fn views() -> Views {
    let servers = SERVERS.get(|| {
        let server = Postgres::start().unwrap();
        (PgBouncer::start(&server, 8).unwrap(), server)
    });
    let url = format!("{}&schema=case{}", servers.0.url(&servers.1), fastrand::u64(..));
    // Nobody tells of changes here: whoever waits looks again and again.
    let soon = Duration::from_secs(3);
    Views { a: connect(&url).await, b: connect(&url).await, soon, keep: Box::new(servers) }
}

settled_ledger_tests::conformance!(crate::views);

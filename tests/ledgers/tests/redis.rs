//! The ledger in Redis.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use settled::Ledger;
use settled_ledger_redis::{RedisLedger, RedisOptions};
use settled_ledger_tests::{SOON, Shared, Views};
use settled_test_services::redis::Redis;

static SERVER: Shared<Redis> = Shared::new();

async fn connect(url: &str) -> Arc<dyn Ledger> {
    Arc::new(RedisLedger::connect(url, RedisOptions::default()).await.unwrap())
}

async fn views() -> Views {
    let server = SERVER.get(|| Redis::start().unwrap());
    let url = format!("{}?prefix=case{}", server.url(), fastrand::u64(..));
    Views { a: connect(&url).await, b: connect(&url).await, soon: SOON, keep: Box::new(server) }
}

settled_ledger_tests::conformance!(crate::views);

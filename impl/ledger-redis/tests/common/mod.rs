//! What the tests share: a server, ledgers on it, and changes to try them with.
#![allow(dead_code, unused_imports, clippy::unwrap_used, clippy::expect_used)]

#[path = "../../../../tests/ledgers/src/make.rs"]
mod make;

use std::time::Duration;

use settled::protocol::Key;
use settled::{Change, Ledger, LedgerError, Stored};
use settled_ledger_redis::{RedisLedger, RedisOptions};
use settled_test_services::redis::Redis;

pub use make::{change, claim, record, settled};

/// A ledger at this URL that waits for a second at most.
pub async fn open(url: &str) -> Result<RedisLedger, LedgerError> {
    let mut options = RedisOptions::default();
    options.patience = Duration::from_secs(1);
    options.connect_timeout = Duration::from_millis(500);
    RedisLedger::connect(url, options).await
}

/// A server, and a ledger on it.
pub async fn begin() -> (Redis, RedisLedger) {
    let server = Redis::start().unwrap();
    let ledger = open(&server.url()).await.unwrap();
    (server, ledger)
}

pub fn key(id: impl std::fmt::Display) -> Key {
    make::key("scope", id)
}

/// Stores, and says whether it was done; panics if it is not known.
pub async fn store(ledger: &RedisLedger, change: Change) -> bool {
    matches!(ledger.compare_and_set(change).await.unwrap(), Stored::Durable(_))
}

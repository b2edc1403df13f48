//! What the tests share: a server, ledgers on it, and changes to try them with.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use bytes::Bytes;
use settled::protocol::{Digest, Epoch, Key, Record, State, Time, Verdict, Version};
use settled::{Change, Ledger, LedgerError, Stored};
use settled_ledger_redis::{RedisLedger, RedisOptions};
use settled_test_services::redis::Redis;

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
    Key::new("scope", "tool", id.to_string()).unwrap()
}

/// A record as a ledger would have stored it. (Only the protocol's steps make records, or reading one back.)
pub fn record(version: u64, generation: u32, state: State<Digest>) -> Record<Digest> {
    let fields = (Version(version), generation, Digest::of(b"{}"), Time(5), state);
    postcard::from_bytes(&postcard::to_stdvec(&fields).unwrap()).unwrap()
}

pub fn settled() -> State<Digest> {
    State::Settled { verdict: Verdict::Succeeded(Digest::of(b"done")), sent: None, at: Time(9), delivered: None }
}

/// The change that makes version `version` of a key, from the one before.
pub fn change(key: &Key, version: u64, state: State<Digest>) -> Change {
    Change {
        key: key.clone(),
        expected: version.checked_sub(1).filter(|v| *v > 0).map(Version),
        record: record(version, 1, state),
        at: Time(100 + version),
        by: Epoch(1),
        event: format!("event {version}"),
        asked: (version == 1).then(|| Bytes::from_static(b"{\"asked\":1}")),
        sent: None,
        outcome: None,
        note: None,
        resource: None,
        keep_until: None,
    }
}

pub fn claim(key: &Key) -> Change {
    change(key, 1, State::Created)
}

/// Stores, and says whether it was done; panics if it is not known.
pub async fn store(ledger: &RedisLedger, change: Change) -> bool {
    matches!(ledger.compare_and_set(change).await.unwrap(), Stored::Durable(_))
}

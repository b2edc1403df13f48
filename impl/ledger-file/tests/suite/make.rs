//! Changes to try a ledger with.
#![allow(dead_code)] // each test binary uses a part

use std::time::Duration;

use bytes::Bytes;
use settled::{Change, Ledger, Liveness};
use settled_protocol::{Digest, Epoch, Key, Record, State, Time, Verdict, Version};

/// A lease that lasts for longer than any test.
pub const LEASE: Duration = Duration::from_secs(600);

/// Whether an owner's process may still send something.
pub async fn alive(ledger: &dyn Ledger, epoch: Epoch) -> bool {
    ledger.liveness(epoch).await.unwrap() != Liveness::Gone
}

pub fn key(scope: &str, id: impl std::fmt::Display) -> Key {
    Key::new(scope, "tool", id.to_string()).unwrap()
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

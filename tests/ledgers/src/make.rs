//! Changes to try a ledger with.

use std::num::NonZeroU32;

use bytes::Bytes;
use settled::{Change, Entry, Resource};
use settled_protocol::{Cause, Digest, Epoch, Key, Record, State, Time, Verdict, Version};

/// The key `scope / tool / id`.
pub fn key(scope: &str, id: impl std::fmt::Display) -> Key {
    Key::new(scope, "tool", id.to_string()).unwrap()
}

/// A resource with this name.
pub fn resource(name: &str) -> Resource {
    Resource { scope: "scope".to_owned(), name: name.to_owned() }
}

/// A record as a ledger would have stored it. (Only the protocol's steps make records, or reading one back.)
pub fn record(version: u64, generation: u32, state: State<Digest>) -> Record<Digest> {
    read_back(&(Version(version), generation, Digest::of(b"{}"), Time(5), state))
}

fn read_back<T: serde::de::DeserializeOwned>(fields: &impl serde::Serialize) -> T {
    postcard::from_bytes(&postcard::to_stdvec(fields).unwrap()).unwrap()
}

/// Settled as succeeded.
pub fn settled() -> State<Digest> {
    State::Settled { verdict: Verdict::Succeeded(Digest::of(b"done")), sent: None, at: Time(9), delivered: None }
}

/// Every state that is not settled.
pub fn unsettled() -> Vec<State<Digest>> {
    let attempt = NonZeroU32::MIN.saturating_add(2);
    let sent: settled_protocol::Sent = read_back(&(attempt, Epoch(7), Time(6), Time(4), true));
    let cause = Cause::Error(Digest::of(b"error"));
    vec![
        State::Created,
        State::Dispatched(sent),
        State::Unknown { sent, cause, checks: 3, quiet: Some(Time(8)) },
        State::Escalated { sent, cause: Cause::OwnerLost },
        State::Confirmed { sent, outcome: settled_protocol::Outcome::Failed(None) },
    ]
}

/// The change that makes version `version` of a key, from the one before, in generation 1.
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

/// The first change of a key.
pub fn claim(key: &Key) -> Change {
    change(key, 1, State::Created)
}

/// The first change of a key whose operation wants a resource.
pub fn claim_of(key: &Key, wanted: &Resource) -> Change {
    Change { resource: Some(wanted.clone()), ..claim(key) }
}

/// The change that settles a key at this version, to be kept until then.
pub fn settle(key: &Key, version: u64, keep_until: Option<u64>) -> Change {
    Change { keep_until: keep_until.map(Time), ..change(key, version, settled()) }
}

/// The change that begins the next operation under a key.
pub fn next_generation(before: &Entry, state: State<Digest>) -> Change {
    let version = before.record.version().0 + 1;
    Change {
        record: record(version, before.record.generation() + 1, state),
        asked: Some(Bytes::from(format!("asked by {version}"))),
        ..change(&before.key, version, state)
    }
}

/// What is stored after these changes of a key, if the operation's place is this one.
pub fn entry_after(changes: &[Change], place: u64) -> Entry {
    let stored =
        changes.iter().fold(None, |before: Option<Entry>, change| Some(change.apply(before.as_ref(), |_| place)));
    stored.expect("a change")
}

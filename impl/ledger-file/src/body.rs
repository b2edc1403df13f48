//! What frames hold of changes and tombstones.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use settled::{Change, Entry, Resource};
use settled_protocol::{Digest, Epoch, Key, Record, Time, Version};

use crate::frame::Token;

/// A change as its frame's body holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Body {
    /// `None`: see an earlier frame of the chain.
    pub key: Option<Key>,
    pub expected: Option<Version>,
    pub record: Record<Digest>,
    pub at: Time,
    pub by: Epoch,
    pub event: String,
    pub asked: Option<Bytes>,
    pub sent: Option<Bytes>,
    pub outcome: Option<Bytes>,
    pub note: Option<String>,
    pub resource: Option<Resource>,
    pub keep_until: Option<Time>,
}

impl Body {
    /// Which operation under the key it belongs to.
    pub fn generation(&self) -> u32 {
        self.record.generation()
    }

    pub fn into_change(self, key: Key) -> Change {
        Change {
            key,
            expected: self.expected,
            record: self.record,
            at: self.at,
            by: self.by,
            event: self.event,
            asked: self.asked,
            sent: self.sent,
            outcome: self.outcome,
            note: self.note,
            resource: self.resource,
            keep_until: self.keep_until,
        }
    }
}

/// The same as [`Body`], to write.
#[derive(Serialize)]
pub(crate) struct BodyRef<'a> {
    key: Option<&'a Key>,
    expected: Option<Version>,
    record: &'a Record<Digest>,
    at: Time,
    by: Epoch,
    event: &'a str,
    asked: Option<&'a Bytes>,
    sent: Option<&'a Bytes>,
    outcome: Option<&'a Bytes>,
    note: Option<&'a str>,
    resource: Option<&'a Resource>,
    keep_until: Option<Time>,
}

impl<'a> BodyRef<'a> {
    pub fn of(change: &'a Change) -> BodyRef<'a> {
        BodyRef {
            // Readers of the chain stop at the frame that holds the last thing that they look for.
            key: (change.expected.is_none() || change.asked.is_some()).then_some(&change.key),
            expected: change.expected,
            record: &change.record,
            at: change.at,
            by: change.by,
            event: &change.event,
            asked: change.asked.as_ref(),
            sent: change.sent.as_ref(),
            outcome: change.outcome.as_ref(),
            note: change.note.as_deref(),
            resource: change.resource.as_ref(),
            keep_until: change.keep_until,
        }
    }
}

/// One change of a chain, with where and by which request it was first written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Link {
    pub token: Token,
    pub position: u64,
    pub step: Step,
}

/// What a link says of the key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Step {
    Changed(Box<Body>),
    Buried(Box<Tombstone>),
}

/// What is left of an entry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tombstone {
    pub key: Key,
    pub record: Record<Digest>,
    pub resource: Option<Resource>,
    pub place: u64,
    pub by: Epoch,
    pub keep_until: Time,
}

impl Tombstone {
    pub fn of(entry: Entry, keep_until: Time) -> Tombstone {
        let Entry { key, record, resource, place, by, .. } = entry;
        Tombstone { key, record, resource, place, by, keep_until }
    }

    pub fn into_entry(self) -> Entry {
        let Tombstone { key, record, resource, place, by, keep_until } = self;
        let bare = Entry {
            key,
            record,
            asked: Bytes::new(),
            sent: None,
            outcome: None,
            note: None,
            resource,
            place,
            by,
            keep_until: None,
            tombstone: false,
        };
        bare.buried(keep_until)
    }
}

/// The requests that led to a key's being forgotten, latest first, each with the version that it stored, if it stored one.
pub(crate) type Requests = Vec<(Token, Option<Version>)>;

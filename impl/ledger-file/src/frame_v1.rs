//! Frames as the first released version wrote them. They are only read.

use bytes::Bytes;
use serde::Deserialize;
use settled_protocol::{Digest, Epoch, Key, Record, Time, Version};

use crate::body::Body;
use crate::frame::{FrameError, Head, KeyHash, Kind, Stand};

pub(crate) const FORMAT: u8 = 1;

#[derive(Deserialize)]
struct OldHead {
    previous: [u8; 8],
    token: [u8; 8],
    kind: OldKind,
}

#[derive(Deserialize)]
enum OldKind {
    Change { key: KeyHash, version: Version, settled: bool },
    Registered { epoch: Epoch },
    Forgotten { key: KeyHash },
}

#[derive(Deserialize)]
struct OldBody {
    key: Option<Key>,
    expected: Option<Version>,
    record: Record<Digest>,
    at: Time,
    by: Epoch,
    event: String,
    asked: Option<Bytes>,
    sent: Option<Bytes>,
    outcome: Option<Bytes>,
    note: Option<String>,
}

/// What a body begins with.
#[derive(Deserialize)]
struct Beginning {
    _key: Option<Key>,
    _expected: Option<Version>,
    record: Record<Digest>,
}

/// Reads a head, and returns what follows it.
pub(crate) fn head(bytes: &[u8]) -> Result<(Head, &[u8]), FrameError> {
    let (OldHead { previous, token, kind }, rest) = postcard::take_from_bytes(bytes)?;
    let kind = match kind {
        OldKind::Change { key, version, settled } => {
            let (Beginning { record, .. }, _) = postcard::take_from_bytes(rest)?;
            let of = Stand { version, generation: record.generation(), settled, keep_until: None };
            Kind::Change { key, of, line: None }
        }
        // Leases were unknown.
        OldKind::Registered { epoch } => Kind::Registered { epoch, lease: 0 },
        OldKind::Forgotten { key } => Kind::Forgotten { key },
    };
    let previous = u64::from_le_bytes(previous).checked_sub(1);
    Ok((Head::new(previous, u64::from_le_bytes(token), kind), rest))
}

/// Reads a change's body.
pub(crate) fn body(bytes: &[u8]) -> Result<Body, FrameError> {
    let OldBody { key, expected, record, at, by, event, asked, sent, outcome, note } = postcard::from_bytes(bytes)?;
    let (resource, keep_until) = (None, None);
    Ok(Body { key, expected, record, at, by, event, asked, sent, outcome, note, resource, keep_until })
}

//! What a frame of the log holds.
//!
//! ```text
//! frame = format version (1 byte) · head (postcard) · body (postcard, changes only)
//! ```
//!
//! The head is all that recovery needs, so it is kept apart and small; its first field has a fixed place and size, because
//! the committer fills it in last. Of a key only a digest is in the head, and the body names the key only where an operation
//! begins: the frames of a key are a chain, and the rest is found by walking it back.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use settled::Change;
use settled_protocol::{Digest, Epoch, Key, Record, Time, Version};

/// The version this code writes, and the only one it reads.
const FORMAT: u8 = 1;
/// Where `previous` stands in a frame.
const PREVIOUS: std::ops::Range<usize> = 1..9;

/// The first half of a key's digest: what stands for the key in frames and in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct KeyHash([u8; 16]);

impl KeyHash {
    /// Stands for no key where one must be named.
    pub const NONE: KeyHash = KeyHash([0; 16]);

    pub fn of(key: &Key) -> KeyHash {
        let mut half = [0; 16];
        half.copy_from_slice(&key.digest().as_bytes()[..16]);
        KeyHash(half)
    }

    /// A byte to spread keys by.
    pub fn byte(self) -> u8 {
        self.0[15]
    }
}

/// Names one request to write, so that one whose answer was lost can be recognised: no two have the same.
pub(crate) type Token = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Position of the same key's frame before, plus one; 0: none. Little-endian.
    previous: [u8; 8],
    token: [u8; 8],
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// A record was stored. The body follows.
    Change { key: KeyHash, version: Version, settled: bool },
    /// An epoch was given away.
    Registered { epoch: Epoch },
    /// A key was forgotten.
    Forgotten { key: KeyHash },
}

impl Head {
    pub fn previous(&self) -> Option<u64> {
        u64::from_le_bytes(self.previous).checked_sub(1)
    }

    pub fn token(&self) -> Token {
        u64::from_le_bytes(self.token)
    }
}

/// A change as its frame's body holds it.
#[derive(Deserialize)]
pub(crate) struct Body {
    /// `None`: see an earlier frame of the chain.
    pub key: Option<Key>,
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
        }
    }
}

/// The same as [`Body`], to write.
#[derive(Serialize)]
struct BodyRef<'a> {
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
}

/// The bytes are not a frame that this version knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("record format {0} is unknown to this version; use the version that wrote it, or a newer one")]
    Format(u8),
    #[error("it is no record of a ledger ({0})")]
    Malformed(postcard::Error),
}

impl From<postcard::Error> for FrameError {
    fn from(error: postcard::Error) -> FrameError {
        FrameError::Malformed(error)
    }
}

/// The frame of a change, without its place in the chain: see [`link`].
pub(crate) fn change(change: &Change, key: KeyHash, token: Token) -> Result<Vec<u8>, FrameError> {
    let kind = Kind::Change { key, version: change.record.version(), settled: change.record.is_settled() };
    let body = BodyRef {
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
    };
    Ok(postcard::to_extend(&body, head(kind, token)?)?)
}

/// The frame that registers an epoch.
pub(crate) fn registered(epoch: Epoch, token: Token) -> Result<Vec<u8>, FrameError> {
    head(Kind::Registered { epoch }, token)
}

/// The frame that forgets a key, without its place in the chain: see [`link`].
pub(crate) fn forgotten(key: KeyHash, token: Token) -> Result<Vec<u8>, FrameError> {
    head(Kind::Forgotten { key }, token)
}

fn head(kind: Kind, token: Token) -> Result<Vec<u8>, FrameError> {
    let head = Head { previous: [0; 8], token: token.to_le_bytes(), kind };
    Ok(postcard::to_extend(&head, vec![FORMAT])?)
}

/// Gives a frame its place in its key's chain.
pub(crate) fn link(frame: &mut [u8], previous: Option<u64>) {
    let previous = previous.map_or(0, |position| position + 1);
    if let Some(field) = frame.get_mut(PREVIOUS) {
        field.copy_from_slice(&previous.to_le_bytes());
    }
}

/// Reads a frame's head, and returns what follows it.
pub(crate) fn read(frame: &[u8]) -> Result<(Head, &[u8]), FrameError> {
    match frame.split_first() {
        Some((&FORMAT, rest)) => Ok(postcard::take_from_bytes(rest)?),
        Some((&other, _)) => Err(FrameError::Format(other)),
        None => Err(FrameError::Malformed(postcard::Error::DeserializeUnexpectedEnd)),
    }
}

/// Reads a change's body.
pub(crate) fn body(bytes: &[u8]) -> Result<Body, FrameError> {
    Ok(postcard::from_bytes(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_can_be_linked_after_it_was_made() {
        let key = KeyHash([7; 16]);
        let mut frame = forgotten(key, 9).unwrap();
        for previous in [None, Some(0), Some(1 << 40)] {
            link(&mut frame, previous);
            let (head, rest) = read(&frame).unwrap();
            assert_eq!(head.previous(), previous);
            assert_eq!((head.token(), head.kind), (9, Kind::Forgotten { key }));
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        assert!(matches!(read(&[]), Err(FrameError::Malformed(_))));
        assert!(matches!(read(&[FORMAT, 1, 2]), Err(FrameError::Malformed(_))));
        assert_eq!(read(&[200, 1, 2]), Err(FrameError::Format(200)));
    }
}

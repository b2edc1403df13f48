//! What a frame of the log holds.
//!
//! ```text
//! frame = format version (1 byte) · head · body (postcard)
//! ```
//!
//! The head is all that recovery needs, so it is kept apart and small; its first fields have a fixed place and size, because
//! the committer fills them in last. Of a key only a digest is in the head, and the body names the key only where an operation
//! begins: the frames of a key are a chain, and the rest is found by walking it back. Compaction copies a chain into one frame
//! (`Whole`), or several if it is long (`Part`s before it).

use serde::{Deserialize, Serialize};
use settled::{Change, Resource};
use settled_protocol::{Digest, Epoch, Key, Record, Time, Version};

use crate::body::{Body, BodyRef, Tombstone};
use crate::frame_v1;

/// The version this code writes. It reads the one before, too.
const FORMAT: u8 = 2;
/// Where `previous` stands in a frame.
const PREVIOUS: std::ops::Range<usize> = 1..9;
/// Where `chain` stands in a frame.
const CHAIN: std::ops::Range<usize> = 17..21;

/// The first half of a digest: what stands for a key, or for a resource, in frames and in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct KeyHash(pub [u8; 16]);

impl KeyHash {
    /// Stands for no key where one must be named.
    pub const NONE: KeyHash = KeyHash([0; 16]);

    pub fn of(key: &Key) -> KeyHash {
        KeyHash::half(&key.digest())
    }

    /// What stands for a resource.
    pub fn of_resource(resource: &Resource) -> KeyHash {
        KeyHash::half(&Digest::of_parts(&[resource.scope.as_bytes(), resource.name.as_bytes()]))
    }

    fn half(digest: &Digest) -> KeyHash {
        let mut half = [0; 16];
        half.copy_from_slice(&digest.as_bytes()[..16]);
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
    /// Bytes of the chain's frames before this one, as far as they fit.
    chain: [u8; 4],
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// A record was stored. The body follows.
    Change {
        key: KeyHash,
        of: Stand,
        /// The resource that the change names.
        line: Option<KeyHash>,
    },
    /// An epoch was given away, with a lease of this many milliseconds.
    Registered { epoch: Epoch, lease: u64 },
    /// An owner's lease has run out for good, or it has retired.
    Ended { epoch: Epoch, retired: bool },
    /// A key was forgotten.
    Forgotten { key: KeyHash },
    /// All but a tombstone of a key was forgotten. The tombstone follows.
    Buried {
        key: KeyHash,
        of: Stand,
        /// As below.
        line: Option<(KeyHash, u64)>,
    },
    /// A copy of a key's chain, or of its end. The links follow.
    Whole {
        key: KeyHash,
        of: Stand,
        /// The resource that an unsettled operation wants, and its place in that line.
        line: Option<(KeyHash, u64)>,
    },
    /// A copy of a part of a key's chain, to which a later copy leads. The links follow.
    Part { key: KeyHash },
    /// A copy of what is remembered of a forgotten key: the requests that led there follow.
    Remembered { key: KeyHash },
}

impl Kind {
    /// The key whose chain this may be in.
    pub fn key(&self) -> Option<KeyHash> {
        match *self {
            Kind::Change { key, .. } | Kind::Buried { key, .. } | Kind::Whole { key, .. } | Kind::Part { key } => {
                Some(key)
            }
            Kind::Registered { .. } | Kind::Ended { .. } | Kind::Forgotten { .. } | Kind::Remembered { .. } => None,
        }
    }
}

impl Kind {
    /// The key whose latest frame this is at first, or that it makes absent.
    pub fn ends(&self) -> Option<KeyHash> {
        match *self {
            Kind::Change { key, .. } | Kind::Buried { key, .. } | Kind::Whole { key, .. } | Kind::Forgotten { key } => {
                Some(key)
            }
            Kind::Registered { .. } | Kind::Ended { .. } | Kind::Part { .. } | Kind::Remembered { .. } => None,
        }
    }
}

/// How things stand with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stand {
    pub version: Version,
    pub generation: u32,
    pub settled: bool,
    /// From when on it may be forgotten, if it is settled.
    pub keep_until: Option<Time>,
}

impl Stand {
    pub fn of(record: &Record<Digest>, keep_until: Option<Time>) -> Stand {
        Stand {
            version: record.version(),
            generation: record.generation(),
            settled: record.is_settled(),
            keep_until: keep_until.filter(|_| record.is_settled()),
        }
    }
}

impl Head {
    pub fn new(previous: Option<u64>, token: Token, kind: Kind) -> Head {
        Head { previous: link_field(previous), token: token.to_le_bytes(), chain: [0; 4], kind }
    }

    pub fn previous(&self) -> Option<u64> {
        u64::from_le_bytes(self.previous).checked_sub(1)
    }

    pub fn token(&self) -> Token {
        u64::from_le_bytes(self.token)
    }

    /// Bytes of the chain before this frame.
    pub fn chain(&self) -> u64 {
        u64::from(u32::from_le_bytes(self.chain))
    }
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
    let of = Stand::of(&change.record, change.keep_until);
    let line = change.resource.as_ref().map(KeyHash::of_resource);
    let body = BodyRef::of(change);
    with_body(&Head::new(None, token, Kind::Change { key, of, line }), &body)
}

/// The frame of a tombstone, without its place in the chain: see [`link`].
pub(crate) fn buried(tombstone: &Tombstone, key: KeyHash, token: Token) -> Result<Vec<u8>, FrameError> {
    let of = Stand::of(&tombstone.record, Some(tombstone.keep_until));
    let wants = tombstone.resource.as_ref().filter(|_| !of.settled);
    let line = wants.map(|resource| (KeyHash::of_resource(resource), tombstone.place));
    with_body(&Head::new(None, token, Kind::Buried { key, of, line }), tombstone)
}

/// A frame with nothing but a head.
pub(crate) fn bare(kind: Kind, token: Token) -> Result<Vec<u8>, FrameError> {
    Ok(postcard::to_extend(&Head::new(None, token, kind), vec![FORMAT])?)
}

/// A frame with this head and body.
pub(crate) fn with_body(head: &Head, body: &impl Serialize) -> Result<Vec<u8>, FrameError> {
    let head = postcard::to_extend(head, vec![FORMAT])?;
    Ok(postcard::to_extend(body, head)?)
}

fn link_field(previous: Option<u64>) -> [u8; 8] {
    previous.map_or(0, |position| position.saturating_add(1)).to_le_bytes()
}

/// Gives a frame its place in its key's chain, the rest of which has so many bytes.
pub(crate) fn link(frame: &mut [u8], previous: Option<u64>, chain: u64) {
    if let Some(field) = frame.get_mut(PREVIOUS) {
        field.copy_from_slice(&link_field(previous));
    }
    if let Some(field) = frame.get_mut(CHAIN) {
        field.copy_from_slice(&u32::try_from(chain).unwrap_or(u32::MAX).to_le_bytes());
    }
}

/// Reads a frame's head, and returns what follows it.
pub(crate) fn read(frame: &[u8]) -> Result<(Head, Rest<'_>), FrameError> {
    match frame.split_first() {
        Some((&FORMAT, rest)) => {
            let (head, rest) = postcard::take_from_bytes(rest)?;
            Ok((head, Rest { bytes: rest, format: FORMAT }))
        }
        Some((&frame_v1::FORMAT, rest)) => {
            let (head, rest) = frame_v1::head(rest)?;
            Ok((head, Rest { bytes: rest, format: frame_v1::FORMAT }))
        }
        Some((&other, _)) => Err(FrameError::Format(other)),
        None => Err(FrameError::Malformed(postcard::Error::DeserializeUnexpectedEnd)),
    }
}

/// What follows a frame's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest<'a> {
    pub bytes: &'a [u8],
    format: u8,
}

impl<'a> Rest<'a> {
    /// A change's body.
    pub fn body(self) -> Result<Body, FrameError> {
        match self.format {
            frame_v1::FORMAT => frame_v1::body(self.bytes),
            _ => Ok(postcard::from_bytes(self.bytes)?),
        }
    }

    /// What follows any other head.
    pub fn parse<T: Deserialize<'a>>(self) -> Result<T, FrameError> {
        Ok(postcard::from_bytes(self.bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_can_be_linked_after_it_was_made() {
        let key = KeyHash([7; 16]);
        let mut frame = bare(Kind::Forgotten { key }, 9).unwrap();
        for (previous, chain) in [(None, 0), (Some(0), 1), (Some(1 << 40), 70_000)] {
            link(&mut frame, previous, chain);
            let (head, rest) = read(&frame).unwrap();
            assert_eq!((head.previous(), head.chain()), (previous, chain));
            assert_eq!((head.token(), head.kind), (9, Kind::Forgotten { key }));
            assert!(rest.bytes.is_empty());
        }
        link(&mut frame, None, u64::MAX);
        assert_eq!(read(&frame).unwrap().0.chain(), u64::from(u32::MAX));
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        assert!(matches!(read(&[]), Err(FrameError::Malformed(_))));
        for format in [FORMAT, frame_v1::FORMAT] {
            assert!(matches!(read(&[format, 1, 2]), Err(FrameError::Malformed(_))));
        }
        assert_eq!(read(&[200, 1, 2]).unwrap_err(), FrameError::Format(200));
    }
}

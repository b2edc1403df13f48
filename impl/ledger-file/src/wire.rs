//! What the processes on one directory say to each other over its socket.
//!
//! Each side first sends [`HELLO`]. Then frames follow: a length (4 bytes, little-endian) and that many bytes of postcard, a
//! [`Call`] one way and an [`Answer`] the other. Answers come in any order. All of it stays on one host and within one
//! user's processes; a version in the greeting tells apart those that don't understand each other.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use settled::{Change, Draw, Entry, Filter, LedgerError, Liveness, Remains, Renewal, Resource};
use settled_protocol::{Epoch, Key, Time, Version};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::frame::Token;
use crate::size::LedgerSize;
use crate::store::MAX_RECORD;

/// The greeting; its last byte is the version of what follows.
pub(crate) const HELLO: &[u8; 8] = b"settled\x03";

/// The longest frame of a call, in bytes: a record and what goes with it.
pub(crate) const MAX_CALL: usize = MAX_RECORD + (64 << 10);

/// The longest frame of an answer, in bytes. An entry may hold several fields that were stored one by one.
pub(crate) const MAX_ANSWER: usize = 5 * MAX_CALL;

/// Answers with lists are split into parts of about this many bytes.
pub(crate) const PART: usize = 1 << 20;

/// A [`Request`], numbered by the one who asks.
#[derive(Serialize, Deserialize)]
pub(crate) struct Call<R> {
    pub id: u64,
    pub request: R,
}

/// The methods of the ledger.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Register {
        lease: Duration,
    },
    Renew {
        epoch: Epoch,
        lease: Duration,
    },
    Retire(Epoch),
    Liveness(Epoch),
    Time,
    CompareAndSet {
        change: Box<Change>,
        token: Token,
        again: bool,
    },
    Get(Key),
    Scan(Filter),
    Line(Resource),
    Due {
        now: Time,
        after: Option<Box<Entry>>,
        limit: u64,
    },
    History(Key),
    Forget {
        key: Key,
        expected: Version,
        remains: Remains,
        token: Token,
        again: bool,
    },
    Changed {
        key: Key,
        seen: Option<Version>,
    },
    /// Tells which owners the guest is, for as long as it is connected.
    Owns(Vec<Epoch>),
    Draw(Draw),
    Size,
}

impl Request {
    /// Marks a request to write as one that may have been carried out already.
    pub fn mark_again(&mut self) {
        if let Request::CompareAndSet { again, .. } | Request::Forget { again, .. } = self {
            *again = true;
        }
    }
}

/// The id of answers to nobody, sent to show that the holder is alive.
pub(crate) const ALIVE: u64 = 0;

/// An answer, or a part of one.
#[derive(Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The id of the call, or [`ALIVE`].
    pub id: u64,
    /// Whether another part follows.
    pub more: bool,
    pub reply: Reply,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Epoch(Epoch),
    /// Whether a compare-and-set or a forgetting found the version that it expected.
    Accepted(bool),
    Entry(Option<Box<Entry>>),
    Entries(Vec<Entry>),
    Changes(Vec<Change>),
    Renewed(Renewal),
    Liveness(Liveness),
    Time(Time),
    /// Whether there was a token of the retry budget.
    Drawn(bool),
    Size(LedgerSize),
    Done,
    Failed(Failure),
}

impl Reply {
    /// Whether it holds whoever holds the directory meanwhile: what was decided on a write, and is durable.
    pub fn is_certain(&self) -> bool {
        matches!(self, Reply::Accepted(_) | Reply::Epoch(_))
    }
}

/// A [`LedgerError`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Failure {
    Unavailable(String),
    Poisoned(String),
    Corrupt(String),
    TooLarge(String),
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Failure {
        match error {
            LedgerError::Unavailable(why) => Failure::Unavailable(why),
            LedgerError::Poisoned(why) => Failure::Poisoned(why),
            LedgerError::Corrupt(why) => Failure::Corrupt(why),
            LedgerError::TooLarge(why) => Failure::TooLarge(why),
        }
    }
}

impl From<Failure> for LedgerError {
    fn from(failure: Failure) -> LedgerError {
        match failure {
            Failure::Unavailable(why) => LedgerError::Unavailable(why),
            Failure::Poisoned(why) => LedgerError::Poisoned(why),
            Failure::Corrupt(why) => LedgerError::Corrupt(why),
            Failure::TooLarge(why) => LedgerError::TooLarge(why),
        }
    }
}

/// A frame with its length in front.
pub(crate) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = postcard::to_extend(message, vec![0; 4]).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
    if let Some(head) = bytes.first_chunk_mut() {
        *head = length.to_le_bytes();
    }
    Ok(bytes)
}

/// Reads one frame of at most `limit` bytes; `None` at an orderly end. Not to be cancelled half-way.
pub(crate) async fn read<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
    limit: usize,
) -> io::Result<Option<T>> {
    let length = match from.read_u32_le().await {
        Ok(length) => length as usize,
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(e) => return Err(e),
    };
    if length > limit {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {length} bytes, more than {limit}"),
        ));
    }
    let mut bytes = Vec::new();
    // Grows with what really comes, whatever the length says.
    from.take(length as u64).read_to_end(&mut bytes).await?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&bytes).map(Some).map_err(io::Error::other)
}

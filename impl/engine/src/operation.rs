//! What a caller asks for, and what it is told.

use std::time::Duration;

use bytes::Bytes;
use settled_protocol::{Digest, Key, Policy};

use crate::ledger::Resource;

/// One logical call: what the caller means to happen once.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its idempotency key.
    pub key: Key,
    /// Of the arguments that the caller asked with.
    pub fingerprint: Digest,
    /// The arguments that the caller asked with, as they came.
    pub asked: Bytes,
    /// The arguments to send, if they are not those asked with.
    pub send_instead: Option<Bytes>,
    /// What the tool declares.
    pub policy: Policy,
    /// What the operation must have to itself while it is under way. Operations that want the same resource are carried out
    /// one after the other, in the order in which they were asked for.
    pub resource: Option<Resource>,
    /// How long things may take.
    pub limits: Limits,
}

impl Operation {
    /// An operation with these arguments, sent as they are, without a resource, within the default limits. The
    /// fingerprint is that of the arguments' bytes: where two spellings of the same arguments are possible, set
    /// [`fingerprint`](Operation::fingerprint) to [`settled_protocol::fingerprint()`] of them.
    pub fn new(key: Key, arguments: impl Into<Bytes>, policy: Policy) -> Operation {
        let asked = arguments.into();
        let fingerprint = Digest::of(&asked);
        Operation { key, fingerprint, asked, send_instead: None, policy, resource: None, limits: Limits::default() }
    }
}

/// How long things may take that an operation goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long to wait for an attempt's answer before the outcome counts as unknown. A late answer still settles it.
    pub attempt: Duration,
    /// How long a caller waits for an unknown outcome to be established before it is told "unknown". The work goes on.
    pub settle: Duration,
    /// How long a call waits for its resource before it is given up, unsent.
    pub queue: Duration,
    /// How long a copy of a request can be under way to the tool: an idempotent tool's resource is not given to the next
    /// operation before the copies of this one must have arrived.
    pub transit: Duration,
    /// How long, once its replay window is over, a key is still answered "expired" rather than taken for a new
    /// operation. `None`: a later call is a new one.
    pub tombstone: Option<Duration>,
}

impl Default for Limits {
    /// 10 minutes for an answer and in the queue, 30 seconds for an unknown to settle, a minute of transit, no tombstones.
    fn default() -> Self {
        Limits {
            attempt: Duration::from_secs(600),
            settle: Duration::from_secs(30),
            queue: Duration::from_secs(600),
            transit: Duration::from_secs(60),
            tombstone: None,
        }
    }
}

/// What a caller is told. The bodies are the tool's own, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It happened.
    Done {
        /// The body of the first and only result.
        result: Bytes,
        /// Whether it is told again, or to another caller than the one who started it.
        replayed: bool,
    },
    /// It did not happen and never will: a licence to retry.
    Failed {
        /// The body of the tool's error, if there was one.
        error: Option<Bytes>,
        /// As above.
        replayed: bool,
    },
    /// Do not repeat this; its outcome is being established, or a person has been asked.
    Unknown {
        /// The body of the error that left it open, if it was an error.
        error: Option<Bytes>,
        /// Whether this caller is told of an earlier call's attempt, and nothing was sent for its own.
        replayed: bool,
    },
    /// It is being carried out now.
    InProgress,
    /// The key was used with other arguments. Nothing is said of those.
    Conflict,
    /// The key's record is no longer kept.
    Expired,
}

/// An answer, and the operation that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The operation's key.
    pub key: Key,
    /// Which operation under the key (see [`settled_protocol::Record::generation`]); 0 if there is none.
    pub generation: u32,
    /// When that operation was first asked for, in milliseconds since the Unix epoch.
    pub created: u64,
    /// The answer.
    pub answer: Answer,
}

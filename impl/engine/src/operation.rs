//! What a caller asks for, and what it is told.

use std::time::Duration;

use bytes::Bytes;
use settled_protocol::{Digest, Key, Policy};

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
    /// How long to wait for an attempt's answer before the outcome counts as unknown. A late answer still settles it.
    pub timeout: Duration,
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

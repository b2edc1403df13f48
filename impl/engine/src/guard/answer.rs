//! What a caller of a guarded function is told.

use serde::de::DeserializeOwned;
use settled_protocol::Key;

use super::GuardError;
use crate::operation::{Answer, Answered};

/// What a guarded call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "only `Done` means that it happened"]
pub enum Guarded<T> {
    /// It happened.
    Done {
        /// What the function returned, the first and only time.
        value: T,
        /// Whether this is told again, or to another caller than the one who started it.
        replayed: bool,
    },
    /// It did not happen and never will under this key: a licence to retry.
    Failed {
        /// The function's error, as text.
        error: Option<String>,
        /// As above.
        replayed: bool,
    },
    /// Do not repeat this: it may have happened. The outcome is being established, or a person has been asked.
    Unknown {
        /// The operation's key, under which to ask again.
        key: Key,
        /// The function's error, as text, if it was one that left it open.
        error: Option<String>,
    },
    /// It is being carried out now, for another caller.
    InProgress {
        /// The operation's key.
        key: Key,
    },
    /// The key was used with other arguments.
    Conflict {
        /// The operation's key.
        key: Key,
    },
    /// The key's result is no longer kept.
    Expired {
        /// The operation's key.
        key: Key,
    },
}

/// All the answers that give no value, as an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotDone {
    /// [`Guarded::Failed`].
    #[error("it did not happen: {}", .0.as_deref().unwrap_or("it was given up before it was sent"))]
    Failed(Option<String>),
    /// [`Guarded::Unknown`].
    #[error("it is not known whether {0} happened; do not repeat it, ask again with the same key")]
    Unknown(Key),
    /// [`Guarded::InProgress`].
    #[error("{0} is being carried out; ask again with the same key")]
    InProgress(Key),
    /// [`Guarded::Conflict`].
    #[error("the key {0} was used with other arguments; use a key of its own for each operation")]
    Conflict(Key),
    /// [`Guarded::Expired`].
    #[error("the result of {0} is no longer kept; look up what it did before you use a new key")]
    Expired(Key),
}

impl<T> Guarded<T> {
    /// The value, whether replayed or not.
    ///
    /// # Errors
    /// Every other answer.
    pub fn done(self) -> Result<T, NotDone> {
        match self {
            Guarded::Done { value, .. } => Ok(value),
            Guarded::Failed { error, .. } => Err(NotDone::Failed(error)),
            Guarded::Unknown { key, .. } => Err(NotDone::Unknown(key)),
            Guarded::InProgress { key } => Err(NotDone::InProgress(key)),
            Guarded::Conflict { key } => Err(NotDone::Conflict(key)),
            Guarded::Expired { key } => Err(NotDone::Expired(key)),
        }
    }
}

/// The engine's answer, with the stored result read.
pub(super) fn read<T: DeserializeOwned>(answered: Answered) -> Result<Guarded<T>, GuardError> {
    let Answered { key, answer, .. } = answered;
    let text = |error: bytes::Bytes| String::from_utf8_lossy(&error).into_owned();
    Ok(match answer {
        Answer::Done { result, replayed } => match serde_json::from_slice(&result) {
            Ok(value) => Guarded::Done { value, replayed },
            Err(source) => return Err(GuardError::Unreadable { key, source }),
        },
        Answer::Failed { error, replayed } => Guarded::Failed { error: error.map(text), replayed },
        Answer::Unknown { error, .. } => Guarded::Unknown { key, error: error.map(text) },
        Answer::InProgress => Guarded::InProgress { key },
        Answer::Conflict => Guarded::Conflict { key },
        Answer::Expired => Guarded::Expired { key },
    })
}

//! What an error of a guarded function proves.

use std::fmt::Display;
use std::time::Duration;

use bytes::Bytes;
use settled_protocol::ErrorClass;

use crate::tool::ToolReply;

/// An error of a guarded function, and what it proves. `?` makes an [`Unproven`](Failure::Unproven) one of any error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing happened and nothing will: what was asked for was refused, or never sent.
    NotRun(String),
    /// Nothing happened now, but it may be tried again, after this long at least.
    Busy {
        /// The error, for the caller if it is not tried again.
        error: String,
        /// How long to wait at least.
        retry_after: Option<Duration>,
    },
    /// It may have happened: nothing is proved, unless the policy declares errors final.
    Unproven(String),
}

impl Failure {
    /// Nothing happened and nothing will.
    pub fn not_run(error: impl Display) -> Failure {
        Failure::NotRun(error.to_string())
    }

    /// Nothing happened now; it may be tried again.
    pub fn busy(error: impl Display, retry_after: Option<Duration>) -> Failure {
        Failure::Busy { error: error.to_string(), retry_after }
    }

    /// It may have happened.
    pub fn unproven(error: impl Display) -> Failure {
        Failure::Unproven(error.to_string())
    }

    pub(super) fn into_reply(self) -> ToolReply {
        match self {
            Failure::NotRun(error) => ToolReply::Error(ErrorClass::NotRun, Bytes::from(error)),
            Failure::Busy { error, retry_after } => ToolReply::Busy { retry_after, body: Bytes::from(error) },
            Failure::Unproven(error) => ToolReply::Error(ErrorClass::Unproven, Bytes::from(error)),
        }
    }
}

// As anyhow does it: `Failure` must not be an `Error` itself, or this would overlap with `From<Failure>`.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::unproven(error)
    }
}

/// What a guarded function may return as an error: a [`Failure`], or anything that can be shown, which is then unproven.
pub trait IntoFailure: Send + 'static {
    /// What it proves.
    fn into_failure(self) -> Failure;
}

impl IntoFailure for Failure {
    fn into_failure(self) -> Failure {
        self
    }
}

impl<E: Display + Send + 'static> IntoFailure for E {
    fn into_failure(self) -> Failure {
        Failure::unproven(self)
    }
}

//! What an HTTP answer, or the lack of one, proves.
//!
//! | heard | what it means |
//! | --- | --- |
//! | 2xx | it happened |
//! | 425, 429 | it did not run now; ask again after `Retry-After` (seconds or a date) |
//! | 408 | nothing: the server gave up waiting, perhaps for itself |
//! | any other 4xx | it was rejected: proof that nothing happened only if the tool's errors are declared final |
//! | 1xx, 3xx | nothing: redirects are not followed |
//! | 5xx, with `Retry-After` or without | nothing: each of them can follow an effect |
//! | connection refused, no such host, TLS failed, connecting timed out | it was never sent; ask again |
//! | the request can't be built | it was never sent, and never can be |
//! | timeout, reset or end of the connection after sending | nothing; the outcome is unknown |
//!
//! A [`Declared`] meaning of a status goes before this table.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use settled::ToolReply;
use settled_protocol::{ErrorClass, Policy};

use crate::retry_after;

/// What was heard of a request.
#[derive(Clone, Copy, Debug)]
pub enum Heard<'a> {
    /// An answer, whole.
    Response {
        /// Its status.
        status: StatusCode,
        /// Its headers.
        headers: &'a HeaderMap,
    },
    /// Nothing of it was sent: there was no connection.
    NoConnection,
    /// Nothing of it was sent: it is not a request.
    NoRequest,
    /// It was sent, perhaps in part, and no whole answer came.
    NoAnswer,
}

/// What a status means at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// It happened.
    Done,
    /// It did not happen, and asking again is of no use.
    NotRun,
    /// It did not happen now; ask again.
    Busy,
    /// An error that is final if the tool's errors are declared so.
    Rejected,
    /// Nothing.
    Nothing,
}

/// What a server declares of its own statuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared(Vec<(StatusCode, Means)>);

impl Declared {
    /// Nothing declared: the table counts.
    pub fn new() -> Declared {
        Declared::default()
    }

    /// Declares what a status means.
    #[must_use]
    pub fn status(mut self, status: StatusCode, means: Means) -> Declared {
        self.0.retain(|(declared, _)| *declared != status);
        self.0.push((status, means));
        self
    }

    /// What is declared of a status.
    pub fn means(&self, status: StatusCode) -> Option<Means> {
        self.0.iter().find(|(declared, _)| *declared == status).map(|(_, means)| *means)
    }
}

/// What follows from what was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It happened.
    Done,
    /// It did not happen and won't: definite for every tool.
    NotRun,
    /// It did not happen now; ask again, after this long at least.
    Busy {
        /// How long the server wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// An error that is final if the tool's errors are declared so.
    Rejected,
    /// An answer that proves nothing, whatever is declared of errors in general.
    Unproven,
    /// No answer.
    Lost,
}

/// Classifies what was heard at this time; see the [module](self) for the table.
pub fn classify(heard: Heard<'_>, declared: &Declared, now: SystemTime) -> Class {
    match heard {
        Heard::NoConnection => Class::Busy { retry_after: None },
        Heard::NoRequest => Class::NotRun,
        Heard::NoAnswer => Class::Lost,
        Heard::Response { status, headers } => {
            declared.means(status).unwrap_or_else(|| usual(status)).class(headers, now)
        }
    }
}

impl Means {
    /// What follows from it, for an answer with these headers.
    pub fn class(self, headers: &HeaderMap, now: SystemTime) -> Class {
        match self {
            Means::Done => Class::Done,
            Means::NotRun => Class::NotRun,
            Means::Busy => Class::Busy { retry_after: retry_after::parse(headers, now) },
            Means::Rejected => Class::Rejected,
            Means::Nothing => Class::Unproven,
        }
    }
}

fn usual(status: StatusCode) -> Means {
    match status.as_u16() {
        200..=299 => Means::Done,
        408 => Means::Nothing,
        425 | 429 => Means::Busy,
        400..=499 => Means::Rejected,
        _ => Means::Nothing,
    }
}

/// What was heard, if sending ended with this error.
pub fn heard_of(error: &reqwest::Error) -> Heard<'static> {
    if error.is_builder() {
        Heard::NoRequest
    } else if error.is_connect() {
        Heard::NoConnection
    } else {
        Heard::NoAnswer
    }
}

impl Class {
    /// The reply for the engine. `body` is what the caller is told.
    pub fn into_reply(self, body: Bytes, policy: &Policy) -> ToolReply {
        match self {
            Class::Done => ToolReply::Result(body),
            Class::NotRun => ToolReply::Error(ErrorClass::NotRun, body),
            Class::Busy { retry_after } => ToolReply::Busy { retry_after, body },
            Class::Rejected => ToolReply::Error(ErrorClass::Unproven, body),
            // For the core, `errors_final` covers every error that the tool answers with. This one it doesn't.
            Class::Unproven if policy.errors_final => ToolReply::ConnectionLost,
            Class::Unproven => ToolReply::Error(ErrorClass::Unproven, body),
            Class::Lost => ToolReply::ConnectionLost,
        }
    }
}

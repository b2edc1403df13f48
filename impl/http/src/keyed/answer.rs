//! What a call is told.

use reqwest::Response;

/// What came of an operation.
#[derive(Debug)]
#[must_use]
pub enum Answer {
    /// It happened; what the server answered, now or before.
    Done(Response),
    /// It did not happen, and nothing that was sent can make it happen any more: it may be tried anew, under another key.
    NotDone(NotDone),
    /// It may have happened, or may still. It must not be repeated under another key; who asks again uses the same one
    /// ([`Call::key`](super::Call::key)).
    Unknown {
        /// The operation's key.
        key: String,
        /// What was heard last.
        why: WhyUnknown,
    },
}

/// Why an operation did not happen.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotDone {
    /// It can't be sent, for this reason.
    NotARequest(String),
    /// The server could not be reached, for this reason.
    NotSent(String),
    /// The server had no time for it.
    Busy(Response),
    /// The server says that it did not carry it out, or won't.
    Refused(Response),
    /// The server rejected it, and [`Rejections`](super::Rejections) says that this counts.
    Rejected(Response),
    /// The key was used with another request.
    Conflict(Response),
}

/// What an operation was answered with, that it is not known to have happened or not.
#[derive(Debug)]
#[non_exhaustive]
pub enum WhyUnknown {
    /// This time, nothing was sent; but something may have been before.
    NotSent(String),
    /// It was sent, and no whole answer came.
    NoAnswer(String),
    /// The answer proves nothing of the operation, or nothing of an earlier attempt.
    Answered(Response),
}

impl From<NotDone> for WhyUnknown {
    fn from(why: NotDone) -> WhyUnknown {
        match why {
            NotDone::NotARequest(why) | NotDone::NotSent(why) => WhyUnknown::NotSent(why),
            NotDone::Busy(response)
            | NotDone::Refused(response)
            | NotDone::Rejected(response)
            | NotDone::Conflict(response) => WhyUnknown::Answered(response),
        }
    }
}

impl std::fmt::Display for NotDone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotDone::NotARequest(why) => write!(f, "it can't be sent: {why}"),
            NotDone::NotSent(why) => write!(f, "nothing was sent: {why}"),
            NotDone::Busy(response) => write!(f, "the server is busy ({})", response.status()),
            NotDone::Refused(response) => write!(f, "the server did not carry it out ({})", response.status()),
            NotDone::Rejected(response) => write!(f, "the server rejected it ({})", response.status()),
            NotDone::Conflict(response) => write!(f, "its key was used with another request ({})", response.status()),
        }
    }
}

impl std::fmt::Display for WhyUnknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WhyUnknown::NotSent(why) => {
                write!(f, "nothing was sent this time, but something may have been before: {why}")
            }
            WhyUnknown::NoAnswer(why) => write!(f, "no answer came: {why}"),
            WhyUnknown::Answered(response) => write!(f, "the answer leaves it open ({})", response.status()),
        }
    }
}

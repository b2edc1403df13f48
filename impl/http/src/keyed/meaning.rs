//! What one attempt proves.
//!
//! | heard | what it means of this attempt | then |
//! | --- | --- | --- |
//! | no connection | nothing was sent | again |
//! | 2xx | it happened | |
//! | a problem of `urn:settled:` | as that says | |
//! | 425, 429 | it did not run | again, after `Retry-After` |
//! | 409 with `Retry-After` | it is being carried out (as draft-ietf-httpapi-idempotency-key-header says) | again |
//! | any other 4xx but 408 | it was rejected: what that proves is declared | |
//! | 408, 5xx, no whole answer | nothing | again, under the same key |
//! | 1xx, 3xx | nothing: redirects are not followed | |
//!
//! A declared meaning of a status goes before the usual one, but not before a problem's own word.

use std::time::{Duration, SystemTime};

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use reqwest::Response;
use serde::Deserialize;

use super::{ClientOptions, NotDone, Whole, WhyUnknown};
use crate::classify::{Class, Heard, Means, classify, heard_of};
use crate::problem::Problem;
use crate::retry_after;

/// What it proves that a server rejects a request (a 4xx).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rejections {
    /// Nothing: it may have rejected what comes after an effect.
    #[default]
    ProveNothing,
    /// That this attempt had no effect.
    AreFinal,
    /// That the operation has none: the server remembers rejections under the key, and rejects every other copy as well.
    AreRemembered,
}

/// Whether it is of use to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is not.
    Stop,
    /// After this long at least.
    Again(Option<Duration>),
}

/// What one attempt proves of an operation.
#[derive(Debug)]
pub(super) enum Meaning {
    /// It happened.
    Done(Response),
    /// It did not happen, by whatever attempt.
    Remembered(Response),
    /// This attempt did nothing.
    NothingBy(NotDone, Next),
    /// Nothing.
    Open(WhyUnknown, Next),
}

/// Nothing was heard of what was sent.
pub(super) fn lost(why: String) -> Meaning {
    Meaning::Open(WhyUnknown::NoAnswer(why), Next::Again(None))
}

/// What it means that sending ended with this error.
pub(super) fn of_error(error: &reqwest_middleware::Error) -> Meaning {
    match error {
        reqwest_middleware::Error::Middleware(error) => lost(format!("{error:#}")),
        reqwest_middleware::Error::Reqwest(error) => match heard_of(error) {
            Heard::NoRequest => Meaning::NothingBy(NotDone::NotARequest(causes(error)), Next::Stop),
            Heard::NoConnection => Meaning::NothingBy(NotDone::NotSent(causes(error)), Next::Again(None)),
            Heard::NoAnswer | Heard::Response { .. } => lost(causes(error)),
        },
    }
}

/// The causes of an error. Its own text has the URL in it, which may have a secret in it.
pub(super) fn causes(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    causes.join(": ")
}

/// What an answer means.
pub(super) fn meaning((parts, body): Whole, options: &ClientOptions) -> Meaning {
    let (status, headers) = (parts.status, parts.headers.clone());
    let after = retry_after::parse(&headers, SystemTime::now());
    let problem = body.as_deref().and_then(|body| problem(&headers, body));
    let declared = options.declared.means(status);
    let is_kept = body.is_some();
    let response = || Response::from(http::Response::from_parts(parts, body.unwrap_or_default()));
    if let Some(problem) = problem {
        return of_problem(&problem, response(), after);
    }
    // The draft's answer to a key that is being dealt with.
    if status == StatusCode::CONFLICT && after.is_some() && declared.is_none() {
        return Meaning::Open(WhyUnknown::Answered(response()), Next::Again(after));
    }
    match classify(Heard::Response { status, headers: &headers }, &options.declared, SystemTime::now()) {
        Class::Done if is_kept => Meaning::Done(response()),
        Class::Done => Meaning::Done(Response::from(Problem::AnswerNotKept.response())),
        Class::NotRun => Meaning::NothingBy(NotDone::Refused(response()), Next::Stop),
        Class::Busy { retry_after } => Meaning::NothingBy(NotDone::Busy(response()), Next::Again(retry_after)),
        Class::Rejected => match options.rejections {
            Rejections::ProveNothing => Meaning::Open(WhyUnknown::Answered(response()), Next::Stop),
            Rejections::AreFinal => Meaning::NothingBy(NotDone::Rejected(response()), Next::Stop),
            Rejections::AreRemembered => Meaning::Remembered(response()),
        },
        Class::Unproven if status.is_redirection() && declared != Some(Means::Nothing) => {
            Meaning::Open(WhyUnknown::Answered(response()), Next::Stop)
        }
        Class::Unproven | Class::Lost => Meaning::Open(WhyUnknown::Answered(response()), Next::Again(after)),
    }
}

/// The name of a problem of `settled`'s own.
fn problem(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Document {
        r#type: String,
    }
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    if !kind.split(';').next()?.trim().eq_ignore_ascii_case("application/problem+json") {
        return None;
    }
    let document: Document = serde_json::from_slice(body).ok()?;
    document.r#type.strip_prefix("urn:settled:").map(str::to_owned)
}

fn of_problem(name: &str, response: Response, after: Option<Duration>) -> Meaning {
    match name {
        "answer-not-kept" | "answer-unreadable" => Meaning::Done(response),
        "conflict" | "idempotency_conflict" => Meaning::NothingBy(NotDone::Conflict(response), Next::Stop),
        "not-sent" | "unavailable" | "too-many" | "ending" | "body-incomplete" | "too-slow" => {
            Meaning::NothingBy(NotDone::Busy(response), Next::Again(after))
        }
        "failed" | "key-missing" | "key-invalid" | "too-large" | "bad-request" | "ambiguous-path" | "upgrade"
        | "unreachable" => Meaning::NothingBy(NotDone::Refused(response), Next::Stop),
        "expired" => Meaning::Open(WhyUnknown::Answered(response), Next::Stop),
        // In progress, unknown, and what is not known here.
        _ => Meaning::Open(WhyUnknown::Answered(response), Next::Again(after)),
    }
}

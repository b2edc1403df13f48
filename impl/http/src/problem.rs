//! Problem details (RFC 9457) for the answers that are not the service's own.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde_json::Value;

/// An answer that is not the service's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem<'a> {
    /// The key is missing where one is required.
    KeyMissing,
    /// The key header can't be read, for this reason.
    KeyInvalid(&'a str),
    /// The request's body is larger than what is taken.
    TooLarge(usize),
    /// The request's body did not come whole.
    BodyIncomplete,
    /// The key was used with another request.
    Conflict,
    /// The request with this key is being carried out.
    InProgress,
    /// It is not known whether it happened.
    Unknown,
    /// It did not happen and won't, for this reason if there is one.
    Failed(Option<&'a str>),
    /// The key's result is no longer kept.
    Expired,
    /// Nothing was done, because the ledger is not available.
    Unavailable,
    /// It happened, but its answer is not kept.
    AnswerNotKept,
}

impl Problem<'_> {
    /// Its status, its name as the last part of the type's URN, and what it says.
    fn parts(self) -> (StatusCode, &'static str, String) {
        let (status, name, detail) = match self {
            Problem::KeyMissing => (
                StatusCode::BAD_REQUEST,
                "key-missing",
                "This request needs an Idempotency-Key header: a string that names the operation, the same in every \
                 repeat of it.",
            ),
            Problem::KeyInvalid(why) => return (StatusCode::BAD_REQUEST, "key-invalid", why.to_owned()),
            Problem::TooLarge(limit) => {
                let detail = format!("The body has more than {limit} bytes, the most that is taken here.");
                return (StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail);
            }
            Problem::BodyIncomplete => {
                (StatusCode::BAD_REQUEST, "body-incomplete", "The body did not come whole; nothing was done.")
            }
            Problem::Conflict => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "conflict",
                "This Idempotency-Key was used with another request. Use a key of its own for each operation.",
            ),
            Problem::InProgress => (
                StatusCode::CONFLICT,
                "in-progress",
                "The request with this Idempotency-Key is being carried out. Ask again with the same key.",
            ),
            Problem::Unknown => (
                StatusCode::BAD_GATEWAY,
                "unknown",
                "It is not known whether this operation happened. Do not repeat it with another key: its outcome is \
                 being established; ask again with the same key.",
            ),
            Problem::Failed(Some(why)) => {
                let detail = format!("The operation did not happen, and will not under this key: {why}");
                return (StatusCode::SERVICE_UNAVAILABLE, "failed", detail);
            }
            Problem::Failed(None) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "failed",
                "The operation did not happen, and will not under this key. It may be tried with a new one.",
            ),
            Problem::Expired => (
                StatusCode::GONE,
                "expired",
                "The result for this Idempotency-Key is no longer kept. Look up what it did before you use a new key.",
            ),
            Problem::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "Nothing was done for this request: what is needed to do it at most once is not available. Repeat it \
                 with the same key.",
            ),
            Problem::AnswerNotKept => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "answer-not-kept",
                "The operation happened, but its answer was larger than what is kept. Do not repeat it.",
            ),
        };
        (status, name, detail.to_owned())
    }

    /// The response, as `application/problem+json`.
    pub fn response(self) -> Response<Bytes> {
        self.response_with([])
    }

    /// The response, with more members than every problem has.
    pub fn response_with<const N: usize>(self, more: [(&str, Value); N]) -> Response<Bytes> {
        let (status, name, detail) = self.parts();
        let mut response = document(status, name, &detail, more);
        if matches!(self, Problem::InProgress | Problem::Unavailable) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// Marks a response, among its extensions, that [`document`] made: it is nobody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own;

/// A problem's document: `urn:settled:` and its name, what it says, and more members.
pub fn document<const N: usize>(
    status: StatusCode,
    name: &str,
    detail: &str,
    more: [(&str, Value); N],
) -> Response<Bytes> {
    let title = status.canonical_reason().unwrap_or_default();
    let mut body = serde_json::json!({
        "type": format!("urn:settled:{name}"), "title": title, "status": status.as_u16(), "detail": detail,
    });
    if let Some(members) = body.as_object_mut() {
        members.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = status;
    response.extensions_mut().insert(Own);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

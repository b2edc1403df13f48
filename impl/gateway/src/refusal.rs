//! The gateway's own answers to what it does not do.

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderValue, Response, StatusCode};
use settled_http::problem::document;

fn plain(status: StatusCode, name: &str, detail: &str) -> Response<Bytes> {
    document(status, name, detail, [])
}

fn later(mut response: Response<Bytes>, seconds: u32) -> Response<Bytes> {
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// The upstream can't be reached.
pub(crate) fn not_sent() -> Response<Bytes> {
    let detail = "The server behind the gateway could not be reached: nothing was sent to it. Repeat the request with the same key.";
    later(plain(StatusCode::SERVICE_UNAVAILABLE, "not-sent", detail), 1)
}

/// An unguarded request has no answer.
pub(crate) fn no_answer() -> Response<Bytes> {
    let detail = "The server behind the gateway gave no answer. This request had no Idempotency-Key, so it is not known here \
                  whether it was carried out.";
    plain(StatusCode::BAD_GATEWAY, "no-answer", detail)
}

/// An unguarded request could not be sent.
pub(crate) fn unreachable() -> Response<Bytes> {
    let detail = "The server behind the gateway could not be reached: nothing was sent to it.";
    plain(StatusCode::BAD_GATEWAY, "unreachable", detail)
}

/// Too many requests of one principal are under way.
pub(crate) fn too_many() -> Response<Bytes> {
    let detail = "Too many of your requests are being carried out: nothing was done for this one.";
    later(plain(StatusCode::TOO_MANY_REQUESTS, "too-many", detail), 1)
}

/// The path can be read in several ways.
pub(crate) fn ambiguous() -> Response<Bytes> {
    let detail = "The path has segments such as `.` and `..`, or an encoded slash, which servers read in different ways: write it \
                  without them.";
    plain(StatusCode::BAD_REQUEST, "ambiguous-path", detail)
}

/// The request is not one that can be passed on.
pub(crate) fn bad(detail: &str) -> Response<Bytes> {
    plain(StatusCode::BAD_REQUEST, "bad-request", detail)
}

/// Another protocol is asked for.
pub(crate) fn upgrade() -> Response<Bytes> {
    plain(StatusCode::NOT_IMPLEMENTED, "upgrade", "This gateway passes on HTTP only, no WebSocket or other protocol.")
}

/// The body came too slowly.
pub(crate) fn too_slow() -> Response<Bytes> {
    plain(StatusCode::REQUEST_TIMEOUT, "too-slow", "The body did not come in time; nothing was done.")
}

/// The process ends.
pub(crate) fn draining() -> Response<Bytes> {
    later(plain(StatusCode::SERVICE_UNAVAILABLE, "ending", "This gateway is about to end: nothing was done."), 1)
}

/// There is no such page of the gateway, or nothing that this principal may see.
pub(crate) fn not_found() -> Response<Bytes> {
    plain(StatusCode::NOT_FOUND, "not-found", "There is no operation with this key.")
}

/// A method that a page of the gateway does not have.
pub(crate) fn method() -> Response<Bytes> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "method", "This is only to be read, by GET.");
    response.headers_mut().insert(http::header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

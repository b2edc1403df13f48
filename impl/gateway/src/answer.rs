//! The engine's answers as HTTP responses.
//!
//! | it | is answered by |
//! | --- | --- |
//! | happened, now or before | the upstream's answer; `Idempotency-Replayed: true` if it was before |
//! | did not happen | the upstream's refusal, or 503 `urn:settled:not-sent` or `urn:settled:failed` |
//! | is not known to have happened | 502 `urn:settled:unknown`, with the operation's address |
//! | is being carried out | 409 `urn:settled:in-progress`, with `Retry-After` and the operation's address |
//! | was another request's key | 422 `urn:settled:conflict`, or 409 `urn:settled:idempotency_conflict` |
//! | is no longer kept | 410 `urn:settled:expired` |

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LINK, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde_json::Value;
use settled::{Answer, Answered};
use settled_http::REPLAYED;
use settled_http::message;
use settled_http::problem::{Problem, document};
use settled_protocol::Key;

use crate::config::{ConflictStatus, RouteConfig};
use crate::live;
use crate::operations;
use crate::payload::{Payload, whole};
use crate::progress::First;
use crate::refusal;
use crate::routes::Route;
use crate::setup::Setup;

/// For how many seconds after its answer a key is known, as a structured field's integer.
pub(crate) const RETENTION: HeaderName = HeaderName::from_static("idempotency-retention");

/// What answers depend on, besides the answer.
pub(crate) struct Telling<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) route: &'a Route,
    pub(crate) key: &'a Key,
    /// The last event of the stream that the caller has got.
    pub(crate) last_event: Option<&'a str>,
}

impl Telling<'_> {
    /// The response. `first`: the upstream's answer as it came, if this caller's request is the one that it answers.
    pub(crate) fn answer(&self, answered: Answered, first: Option<First>) -> Response<Payload> {
        let (mut response, replayed) = match answered.answer {
            Answer::Done { result, replayed } => (self.result(&result, first), replayed),
            Answer::Failed { error, replayed } => (self.error(error, first), replayed),
            Answer::Unknown { error, .. } => return self.unknown(error),
            Answer::InProgress => (Problem::InProgress.response_with([self.address()]), false),
            Answer::Conflict => (self.conflict(), false),
            Answer::Expired => (Problem::Expired.response(), false),
        };
        if response.status() == StatusCode::CONFLICT && !response.headers().contains_key(LINK) {
            // As below: who asks again later may look there.
            self.link(&mut response);
        }
        marked(&mut response, replayed, &self.route.config);
        whole(response)
    }

    /// It is not known whether it happened. `error`: the upstream's answer that left it open.
    pub(crate) fn unknown(&self, error: Option<Bytes>) -> Response<Payload> {
        let error = error.and_then(|error| message::read_response(&self.setup.kept.read(self.key, &error)?).ok());
        let status = error.map_or(Value::Null, |error| error.status.as_u16().into());
        let mut response = Problem::Unknown.response_with([self.address(), ("upstreamStatus", status)]);
        self.link(&mut response);
        marked(&mut response, false, &self.route.config);
        whole(response)
    }

    fn result(&self, result: &Bytes, first: Option<First>) -> Response<Bytes> {
        let response = match first {
            Some(first) => response(first.status, first.headers, first.body),
            None => match self.setup.kept.read(self.key, result) {
                Some(result) => stored(result),
                None => unreadable(),
            },
        };
        self.resumed(response)
    }

    fn error(&self, error: Option<Bytes>, first: Option<First>) -> Response<Bytes> {
        if let Some(first) = first {
            return response(first.status, first.headers, first.body);
        }
        let error = error.and_then(|error| self.setup.kept.read(self.key, &error));
        match error.as_ref().map(message::read_response) {
            Some(Ok(stored)) => response(stored.status, stored.headers, stored.body),
            Some(Err(_)) => Problem::Failed(error.as_deref().map(String::from_utf8_lossy).as_deref()).response(),
            None => Problem::Failed(None).response(),
        }
    }

    fn conflict(&self) -> Response<Bytes> {
        match self.setup.answers.conflict_status {
            ConflictStatus::Unprocessable => Problem::Conflict.response(),
            ConflictStatus::Conflict => {
                let detail =
                    "This Idempotency-Key was used with another request. Use a key of its own for each operation.";
                document(StatusCode::CONFLICT, "idempotency_conflict", detail, [])
            }
        }
    }

    /// What follows on the last event that the caller has got, if it has got one.
    fn resumed(&self, mut response: Response<Bytes>) -> Response<Bytes> {
        let Some(last) = self.last_event.filter(|_| is_event_stream(response.headers())) else { return response };
        match live::after(response.body(), last) {
            Ok(at) => {
                let rest = response.body().slice(at.min(response.body().len())..);
                *response.body_mut() = rest;
                response.headers_mut().remove(CONTENT_LENGTH);
                response
            }
            Err(error) => refusal::bad(&error.to_string()),
        }
    }

    fn address(&self) -> (&'static str, Value) {
        ("operation", operations::address(self.route, self.key).into())
    }

    fn link(&self, response: &mut Response<Bytes>) {
        let link = format!("<{}>; rel=\"status\"", operations::address(self.route, self.key));
        if let Ok(link) = HeaderValue::from_str(&link) {
            response.headers_mut().insert(LINK, link);
        }
    }
}

/// Says of an answer what every answer to a key says.
pub(crate) fn marked<B>(response: &mut Response<B>, replayed: bool, route: &RouteConfig) {
    let headers = response.headers_mut();
    if replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
        // When to ask again was said of another time.
        headers.remove(RETRY_AFTER);
    }
    headers.insert(RETENTION, HeaderValue::from(route.retention.as_secs()));
}

pub(crate) fn response(status: StatusCode, headers: HeaderMap, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// A stored answer. What is no HTTP message was written by a person who decided that it happened.
pub(crate) fn stored(result: Bytes) -> Response<Bytes> {
    if let Ok(stored) = message::read_response(&result) {
        return response(stored.status, stored.headers, stored.body);
    }
    let kind = match settled_protocol::canonicalize(&result) {
        Ok(_) => "application/json",
        Err(_) => "text/plain; charset=utf-8",
    };
    let mut response = Response::new(result);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// What is kept of the answer can't be read here.
fn unreadable() -> Response<Bytes> {
    let detail = "The operation happened, but its answer can't be read: it was encrypted with a key that this gateway has not got. \
                  Do not repeat it.";
    document(StatusCode::INTERNAL_SERVER_ERROR, "answer-unreadable", detail, [])
}

pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
}

//! Responses, and why a request gets none of the server's.

use bytes::Bytes;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde_json::Value;

use crate::front::payload::Payload;
use crate::told::answer::error_line;

/// A message of JSON-RPC.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A stream of them.
pub(crate) const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// The JSON-RPC error code for what is wrong with the way a message came; older clients know no other.
pub(crate) const BAD_REQUEST: i64 = -32000;

/// The one for a session that is not there (as public servers give it).
pub(crate) const NO_SESSION: i64 = -32001;

/// The message is no JSON.
pub(crate) const NOT_JSON: i64 = -32700;

/// The message is no JSON-RPC.
pub(crate) const NOT_A_MESSAGE: i64 = -32600;

/// Why a request is refused before it is looked at by anybody behind.
#[derive(Debug)]
pub(crate) struct Problem(Box<Refusal>);

#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    code: i64,
    message: String,
    /// The id of the request, if there is one.
    id: Option<String>,
    data: Option<Value>,
    headers: HeaderMap,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: i64, message: impl Into<String>) -> Problem {
        let message = message.into();
        Problem(Box::new(Refusal { status, code, message, id: None, data: None, headers: HeaderMap::new() }))
    }

    /// A request that can't be taken as it came.
    pub(crate) fn bad(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, BAD_REQUEST, message)
    }

    /// The method is none of these.
    pub(crate) fn method(allowed: &'static str) -> Problem {
        let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, BAD_REQUEST, format!("use one of: {allowed}"));
        problem.with(ALLOW, HeaderValue::from_static(allowed))
    }

    /// Nothing is taken now, but soon may be.
    pub(crate) fn busy(message: impl Into<String>) -> Problem {
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, BAD_REQUEST, message);
        problem.with(RETRY_AFTER, HeaderValue::from_static("1"))
    }

    pub(crate) fn of(mut self, id: &str) -> Problem {
        self.0.id = Some(id.to_owned());
        self
    }

    pub(crate) fn data(mut self, data: Value) -> Problem {
        self.0.data = Some(data);
        self
    }

    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Problem {
        self.0.headers.insert(name, value);
        self
    }

    pub(crate) fn response(self) -> Response<Payload> {
        let Refusal { status, code, message, id, data, headers } = *self.0;
        let line = error_line(id.as_deref().unwrap_or("null"), code, &message, data.as_ref());
        let mut response = json(status, line.into());
        response.headers_mut().extend(headers);
        response
    }
}

/// A response without a body.
pub(crate) fn empty(status: StatusCode) -> Response<Payload> {
    let mut response = Response::new(Payload::Text(Bytes::new()));
    *response.status_mut() = status;
    response
}

/// A JSON text that tells nobody whether it arrived.
pub(crate) fn json(status: StatusCode, text: Bytes) -> Response<Payload> {
    with_type(status, JSON, Payload::Text(text))
}

pub(crate) fn with_type(status: StatusCode, content_type: HeaderValue, payload: Payload) -> Response<Payload> {
    let mut response = Response::new(payload);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// A stream of events. Nothing on the way is to hold them back.
pub(crate) fn events(payload: Payload) -> Response<Payload> {
    let mut response = with_type(StatusCode::OK, EVENTS, payload);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Lets a web page of an allowed origin read the response.
pub(crate) fn share(response: &mut Response<Payload>, origin: &HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert("vary", HeaderValue::from_static("origin"));
    let exposed = "mcp-session-id, mcp-protocol-version, www-authenticate";
    headers.insert("access-control-expose-headers", HeaderValue::from_static(exposed));
}

/// What a web page may send, for a browser that asks before it does.
pub(crate) fn preflight() -> Response<Payload> {
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert("access-control-allow-methods", HeaderValue::from_static("GET, POST, DELETE"));
    let allowed = "authorization, content-type, accept, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, \
                   last-event-id, idempotency-key";
    headers.insert("access-control-allow-headers", HeaderValue::from_static(allowed));
    headers.insert("access-control-max-age", HeaderValue::from_static("600"));
    response
}

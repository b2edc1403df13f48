//! The stored form of requests and responses: the HTTP/1.1 message itself (`message/http`), its head as text and its body
//! byte for byte.
//!
//! Not stored are headers that concern one connection only, and those that carry secrets.

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::problem::Problem;

/// A request as it is stored.
#[derive(Clone, Debug)]
pub struct StoredRequest {
    /// Its method.
    pub method: Method,
    /// Its target: a path with query, or a whole URL.
    pub target: String,
    /// The headers that were stored.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// A response as it is stored.
#[derive(Clone, Debug)]
pub struct StoredResponse {
    /// Its status.
    pub status: StatusCode,
    /// The headers that were stored.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Bytes that are not a stored message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what is stored is not an HTTP {0}")]
pub struct NotAMessage(&'static str);

/// Headers that concern one connection only (RFC 9110, section 7.6.1), or one moment.
const FLEETING: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::DATE,
];

/// Headers that carry secrets.
const SECRET: [HeaderName; 4] =
    [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE, header::SET_COOKIE];

/// Whether a header carries a secret, by its name or because it is marked as sensitive.
pub fn is_secret(name: &HeaderName, value: &HeaderValue) -> bool {
    value.is_sensitive() || SECRET.contains(name)
}

/// Whether a header is stored by default.
pub fn is_kept(name: &HeaderName, value: &HeaderValue) -> bool {
    !is_secret(name, value) && !FLEETING.contains(name)
}

/// A request's stored form.
pub fn write_request(method: &Method, target: &str, headers: &HeaderMap, body: &[u8]) -> Bytes {
    let kept = headers.iter().filter(|(name, value)| is_kept(name, value));
    write(&format!("{method} {target} HTTP/1.1"), kept, body)
}

/// A response's stored form, with the headers that `keep` says.
pub fn write_response(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    keep: impl Fn(&HeaderName, &HeaderValue) -> bool,
) -> Bytes {
    let reason = status.canonical_reason().unwrap_or_default();
    let kept = headers.iter().filter(|(name, value)| keep(name, value));
    write(&format!("HTTP/1.1 {} {reason}", status.as_u16()), kept, body)
}

/// What is stored instead of a response that is larger than what is kept: if the operation happened, that it did.
pub fn not_kept(happened: bool, status: StatusCode) -> Bytes {
    if !happened {
        return write_response(status, &HeaderMap::new(), b"", is_kept);
    }
    let (parts, body) = Problem::AnswerNotKept.response().into_parts();
    write_response(parts.status, &parts.headers, &body, is_kept)
}

fn write<'a>(first: &str, headers: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>, body: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(first.len() + body.len() + 256);
    message.put_slice(first.as_bytes());
    message.put_slice(b"\r\n");
    for (name, value) in headers {
        message.put_slice(name.as_str().as_bytes());
        message.put_slice(b": ");
        message.put_slice(value.as_bytes());
        message.put_slice(b"\r\n");
    }
    message.put_slice(b"\r\n");
    message.put_slice(body);
    message.freeze()
}

/// A request from its stored form.
///
/// # Errors
/// If it is not one.
pub fn read_request(stored: &Bytes) -> Result<StoredRequest, NotAMessage> {
    let not_one = NotAMessage("request");
    let mut lines = room_for_headers(stored);
    let mut request = httparse::Request::new(&mut lines);
    let Ok(httparse::Status::Complete(head)) = request.parse(stored) else {
        return Err(not_one);
    };
    let method = request.method.and_then(|method| method.parse().ok()).ok_or(not_one)?;
    let target = request.path.map(str::to_owned).ok_or(not_one)?;
    Ok(StoredRequest { method, target, headers: read_headers(request.headers, not_one)?, body: stored.slice(head..) })
}

/// A response from its stored form.
///
/// # Errors
/// If it is not one.
pub fn read_response(stored: &Bytes) -> Result<StoredResponse, NotAMessage> {
    let not_one = NotAMessage("response");
    let mut lines = room_for_headers(stored);
    let mut response = httparse::Response::new(&mut lines);
    let Ok(httparse::Status::Complete(head)) = response.parse(stored) else {
        return Err(not_one);
    };
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(not_one)?;
    Ok(StoredResponse { status, headers: read_headers(response.headers, not_one)?, body: stored.slice(head..) })
}

/// As many headers as its head can have, which ends at the first empty line.
fn room_for_headers(stored: &[u8]) -> Vec<httparse::Header<'_>> {
    let head = stored.windows(4).position(|four| four == b"\r\n\r\n").map_or(&[][..], |end| &stored[..end]);
    vec![httparse::EMPTY_HEADER; head.iter().filter(|byte| **byte == b'\n').count() + 1]
}

fn read_headers(lines: &[httparse::Header<'_>], not_one: NotAMessage) -> Result<HeaderMap, NotAMessage> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| not_one)?;
        let value = HeaderValue::from_bytes(line.value).map_err(|_| not_one)?;
        headers.try_append(name, value).map_err(|_| not_one)?;
    }
    Ok(headers)
}

//! The fingerprint of a request: what must be the same in every repeat of it.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Uri};
use settled_protocol::{Digest, canonicalize};

/// Of method, path and query, and body. A JSON body counts by its meaning (see [`settled_protocol::canonical`]), any other
/// byte by byte.
pub fn of_request(method: &Method, uri: &Uri, headers: &HeaderMap, body: &Bytes) -> Digest {
    let path = uri.path_and_query().map_or("/", |target| target.as_str());
    of_parts(method, "", path, headers, body)
}

/// As [`of_request`], for a request of a client: it also names the server.
pub fn of_call(method: &Method, url: &reqwest::Url, headers: &HeaderMap, body: &Bytes) -> Digest {
    let origin = url.origin().ascii_serialization();
    let target = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    of_parts(method, &origin, &target, headers, body)
}

fn of_parts(method: &Method, origin: &str, target: &str, headers: &HeaderMap, body: &Bytes) -> Digest {
    let canonical = is_json(headers).then(|| canonicalize(body).ok()).flatten();
    // The form is part of it: a text that spells a canonical JSON document is not that document.
    let form: &[u8] = if canonical.is_some() { b"json" } else { b"bytes" };
    let body = canonical.as_deref().unwrap_or(body);
    Digest::of_parts(&[method.as_str().as_bytes(), origin.as_bytes(), target.as_bytes(), form, body])
}

/// Whether the content type is `application/json` or ends in `+json`.
pub fn is_json(headers: &HeaderMap) -> bool {
    let Some(content_type) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

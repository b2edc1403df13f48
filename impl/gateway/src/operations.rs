//! `GET /.settled/operations/{key}`: what became of an operation, for the principal whose it is.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};
use settled::Entry;
use settled_http::message;
use settled_http::problem::Problem;
use settled_protocol::{Key, State, Verdict};

use crate::answer;
use crate::gateway::Gateway;
use crate::guarded::LAST_EVENT;
use crate::live;
use crate::refusal;
use crate::respond::OWN;
use crate::routes::Route;
use crate::setup::Setup;

/// Where the state of an operation can be asked for.
pub(crate) fn address(route: &Route, key: &Key) -> String {
    format!("{OWN}operations/{}?route={}", percent_encoded(key.id()), percent_encoded(&route.name))
}

/// Answers who asks. Whoever is another principal is told the same as for a key that was never used.
pub(crate) async fn answer(gateway: &Gateway, setup: &Arc<Setup>, request: &Request<Incoming>) -> Response<Bytes> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return refusal::method();
    }
    let id = request.uri().path().strip_prefix(OWN).and_then(|page| page.strip_prefix("operations/"));
    let Some(id) = id.and_then(percent_decoded) else { return refusal::not_found() };
    let wanted = request.uri().query().into_iter().flat_map(|query| query.split('&'));
    let wanted = wanted.filter_map(|pair| pair.strip_prefix("route=")).find_map(percent_decoded);
    let scope = setup.scope_of(setup.principal(request.headers()));
    let routes = setup.routes.keyed().filter(|route| wanted.as_ref().is_none_or(|wanted| route.name == *wanted));
    let mut found = Vec::new();
    for route in routes {
        let Ok(key) = Key::new(&*scope, &*route.name, &*id) else { continue };
        match gateway.engine.ledger().get(&key).await {
            Ok(Some(entry)) => found.push((route, entry)),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "the ledger could not be read");
                return Problem::Unavailable.response();
            }
        }
    }
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (None, _) => refusal::not_found(),
        (Some((route, entry)), None) => {
            let last = request.headers().get(LAST_EVENT).and_then(|value| value.to_str().ok());
            last.and_then(|last| rest_of_stream(setup, &entry, last)).unwrap_or_else(|| page(setup, route, &entry))
        }
        (Some(one), Some(other)) => {
            let all = [one, other].into_iter().chain(found);
            let addresses: Vec<String> = all.map(|(route, entry)| address(route, &entry.key)).collect();
            json_page(StatusCode::MULTIPLE_CHOICES, &json!({ "operations": addresses }))
        }
    }
}

/// What follows in a stored stream on the last event that a caller has got.
fn rest_of_stream(setup: &Setup, entry: &Entry, last: &str) -> Option<Response<Bytes>> {
    if !matches!(entry.record.state(), State::Settled { verdict: Verdict::Succeeded(_), .. }) {
        return None;
    }
    let result = setup.kept.read(&entry.key, entry.outcome.as_ref()?)?;
    let mut response = answer::stored(result);
    if !answer::is_event_stream(response.headers()) {
        return None;
    }
    match live::after(response.body(), last) {
        Ok(at) => {
            let rest = response.body().slice(at.min(response.body().len())..);
            *response.body_mut() = rest;
            response.headers_mut().remove(http::header::CONTENT_LENGTH);
            Some(response)
        }
        Err(error) => Some(refusal::bad(&error.to_string())),
    }
}

fn page(setup: &Setup, route: &Route, entry: &Entry) -> Response<Bytes> {
    let (state, says) = match entry.record.state() {
        State::Created | State::Dispatched(_) | State::Confirmed { .. } => {
            ("in progress", "It is being carried out: ask again later.")
        }
        State::Unknown { .. } => {
            ("unknown", "It is not known whether it happened; that is being established. Do not repeat it.")
        }
        State::Escalated { .. } => {
            ("unknown", "It is not known whether it happened, and a person has been asked. Do not repeat it.")
        }
        State::Settled { .. } if entry.tombstone => ("expired", "It is over, and its answer is no longer kept."),
        State::Settled { verdict: Verdict::Succeeded(_), .. } => {
            ("done", "It happened: repeat the request with its key to be told the answer again.")
        }
        State::Settled { verdict: Verdict::Failed(_), .. } => ("failed", "It did not happen. It may be tried again."),
        State::Settled { verdict: Verdict::Abandoned(_), .. } => {
            ("abandoned", "It was given up: nobody will find out whether it happened.")
        }
    };
    let kept = entry.outcome.as_ref().and_then(|kept| setup.kept.read(&entry.key, kept));
    let status = kept.and_then(|kept| message::read_response(&kept).ok());
    let keep_until = entry.keep_until.map_or(Value::Null, |until| until.0.into());
    let page = json!({
        "key": entry.key.id(),
        "route": route.name,
        "state": state,
        "detail": says,
        "createdAt": entry.record.created().0,
        "upstreamStatus": status.map(|response| response.status.as_u16()),
        "keptUntil": keep_until,
        "operation": address(route, &entry.key),
    });
    json_page(StatusCode::OK, &page)
}

fn json_page(status: StatusCode, page: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(page.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Everything but RFC 3986's unreserved characters is encoded.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// `None`: it can't be decoded.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        if *byte == b'%' {
            let (digits, after) = after.split_first_chunk::<2>()?;
            if !digits.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            bytes.push(u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(*byte);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_key_has_an_address() {
        for key in ["a", "a b/c?d=%&", "ключ"] {
            assert_eq!(percent_decoded(&percent_encoded(key)).as_deref(), Some(key));
        }
        assert_eq!(percent_decoded("%"), None);
        assert_eq!(percent_decoded("%f"), None);
        assert_eq!(percent_decoded("%+f"), None);
        assert_eq!(percent_decoded("%ff"), None);
    }
}

//! Headers between two connections: what is passed on, what is added, what is never kept.

use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Version};
use settled_http::idempotency_key::IDEMPOTENCY_KEY;
use settled_http::message;
use settled_protocol::Digest;

/// Headers that concern one connection only (RFC 9110, section 7.6.1).
const HOP_BY_HOP: [HeaderName; 10] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("http2-settings"),
];

/// Headers that carry credentials, besides `Authorization`, `Proxy-Authorization` and cookies.
const CREDENTIALS: [HeaderName; 9] = [
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-auth-token"),
    HeaderName::from_static("x-access-token"),
    HeaderName::from_static("x-csrf-token"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("x-amz-security-token"),
    HeaderName::from_static("ocp-apim-subscription-key"),
    HeaderName::from_static("dpop"),
];

/// The headers that say whose request it is, if nothing else is declared.
pub(crate) const PRINCIPAL: [HeaderName; 3] =
    [header::AUTHORIZATION, HeaderName::from_static("x-api-key"), HeaderName::from_static("api-key")];

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Says in a stored request that credentials were left out of it.
pub(crate) const LEFT_OUT: HeaderName = HeaderName::from_static("settled-left-out");

/// The name by which the gateway calls itself in `Via`.
const PSEUDONYM: &str = "settled";

/// Removes what concerns one connection only, and what `Connection` names.
pub(crate) fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok())
        // The gateway's own contract with its caller can't be taken out by naming it.
        .filter(|name| *name != IDEMPOTENCY_KEY && *name != header::HOST)
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

/// Makes a caller's headers those of the request to the upstream.
pub(crate) fn to_upstream(headers: &mut HeaderMap, version: Version, from: Option<IpAddr>) {
    strip(headers);
    // The server's side answers it when the body is wanted.
    headers.remove(header::EXPECT);
    // Framing is the connection's own.
    headers.remove(header::CONTENT_LENGTH);
    if let Some(host) = headers.remove(header::HOST)
        && !headers.contains_key(FORWARDED_HOST)
    {
        headers.insert(FORWARDED_HOST, host);
    }
    if let Some(address) = from {
        let before: Vec<&str> = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok()).collect();
        let all = before.into_iter().map(str::to_owned).chain([address.to_string()]).collect::<Vec<_>>().join(", ");
        if let Ok(value) = HeaderValue::from_str(&all) {
            headers.insert(FORWARDED_FOR, value);
        }
    }
    if !headers.contains_key(FORWARDED_PROTO) {
        headers.insert(FORWARDED_PROTO, HeaderValue::from_static("http"));
    }
    via(headers, version);
}

/// Makes an upstream's headers those of the answer to the caller.
pub(crate) fn to_caller(headers: &mut HeaderMap, version: Version) {
    strip(headers);
    via(headers, version);
}

fn via(headers: &mut HeaderMap, version: Version) {
    let protocol = match version {
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    };
    if let Ok(value) = HeaderValue::from_str(&format!("{protocol} {PSEUDONYM}")) {
        headers.append(header::VIA, value);
    }
}

/// Marks what carries credentials, so that it is neither kept nor printed.
pub(crate) fn mark_secrets(headers: &mut HeaderMap, more: &[HeaderName]) {
    let always = [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE];
    for (name, value) in headers.iter_mut() {
        if always.contains(name) || CREDENTIALS.contains(name) || more.contains(name) {
            value.set_sensitive(true);
        }
    }
}

/// The headers as they are to be recorded: of those that are left out, the names.
pub(crate) fn recorded(headers: &HeaderMap) -> HeaderMap {
    let mut recorded = headers.clone();
    let secret = headers.iter().filter(|(name, value)| message::is_secret(name, value));
    let names: Vec<&str> = secret.map(|(name, _)| name.as_str()).collect();
    if !names.is_empty()
        && let Ok(names) = HeaderValue::from_str(&names.join(", "))
    {
        recorded.insert(LEFT_OUT, names);
    }
    recorded
}

/// Whose request it is: a digest of the headers that say so; `None`: nobody's in particular.
pub(crate) fn principal(headers: &HeaderMap, declared: Option<&[HeaderName]>) -> Option<Digest> {
    let of = |names: &[HeaderName]| {
        let values = names.iter().flat_map(|name| headers.get_all(name).iter().map(move |value| (name, value)));
        let parts: Vec<&[u8]> = values.flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()]).collect();
        (!parts.is_empty()).then(|| Digest::of_parts(&parts))
    };
    match declared {
        Some(names) => of(names),
        // Cookies change on their way for other reasons, too, so they count only where there is nothing better.
        None => of(&PRINCIPAL).or_else(|| of(&[header::COOKIE])),
    }
}

/// Whether an answer with this status has no body, whatever its headers say.
pub(crate) fn is_bodiless(status: StatusCode) -> bool {
    status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn what_concerns_one_connection_stays_on_it() {
        let mut headers = map(&[
            ("connection", "close, X-Secret-Hop, idempotency-key"),
            ("x-secret-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("content-length", "3"),
            ("host", "gateway"),
            ("idempotency-key", "\"k\""),
            ("x-forwarded-for", "10.0.0.1"),
            ("accept", "*/*"),
        ]);
        to_upstream(&mut headers, Version::HTTP_11, Some([127, 0, 0, 1].into()));
        let mut lines: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        assert_eq!(
            lines,
            [
                "accept: */*",
                "idempotency-key: \"k\"",
                "via: 1.1 settled",
                "x-forwarded-for: 10.0.0.1, 127.0.0.1",
                "x-forwarded-host: gateway",
                "x-forwarded-proto: http"
            ]
        );
    }

    #[test]
    fn whose_request_it_is() {
        let of = |lines: &[(&'static str, &'static str)]| principal(&map(lines), None);
        assert_eq!(of(&[("accept", "x")]), None);
        assert_ne!(of(&[("authorization", "a")]), of(&[("authorization", "b")]));
        assert_ne!(of(&[("authorization", "a")]), of(&[("x-api-key", "a")]));
        assert_eq!(of(&[("authorization", "a"), ("cookie", "1")]), of(&[("authorization", "a"), ("cookie", "2")]));
        assert_ne!(of(&[("cookie", "1")]), of(&[("cookie", "2")]));
        let declared = [HeaderName::from_static("x-user")];
        assert_eq!(principal(&map(&[("authorization", "a")]), Some(&declared)), None);
    }
}

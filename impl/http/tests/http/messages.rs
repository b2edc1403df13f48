//! What is stored of requests and responses, and what makes two requests the same.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use settled_http::{fingerprint, message};

fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
}

#[test]
fn a_request_is_read_as_it_was_written_without_its_secrets() {
    let sent = headers(&[
        ("content-type", "text/plain"),
        ("x-many", "1"),
        ("x-many", "2"),
        ("authorization", "Bearer s3cret"),
        ("proxy-authorization", "Basic s3cret"),
        ("cookie", "session=s3cret"),
        ("connection", "keep-alive"),
    ]);
    let mut sent = sent;
    let mut marked = HeaderValue::from_static("s3cret");
    marked.set_sensitive(true);
    sent.insert("x-api-key", marked);
    let body = b"line\r\n\r\n\xff\x00";
    let stored = message::write_request(&Method::POST, "/charges?a=1", &sent, body);
    assert!(!stored.windows(6).any(|six| six == b"s3cret"), "{stored:?}");
    let read = message::read_request(&stored).unwrap();
    assert_eq!((read.method, &*read.target, &*read.body), (Method::POST, "/charges?a=1", &body[..]));
    assert_eq!(read.headers, headers(&[("content-type", "text/plain"), ("x-many", "1"), ("x-many", "2")]));
}

#[test]
fn a_response_is_read_as_it_was_written() {
    let mut sent = headers(&[("location", "/charges/1"), ("set-cookie", "session=s3cret"), ("date", "now")]);
    sent.insert("x-bytes", HeaderValue::from_bytes(b"caf\xe9").unwrap());
    for status in [200, 201, 404, 599, 999] {
        let status = StatusCode::from_u16(status).unwrap();
        let stored = message::write_response(status, &sent, b"body", message::is_kept);
        let read = message::read_response(&stored).unwrap();
        assert_eq!((read.status, &*read.body), (status, &b"body"[..]));
        assert_eq!(read.headers.len(), 2);
        assert_eq!(read.headers["x-bytes"].as_bytes(), b"caf\xe9");
    }
}

#[test]
fn many_headers_are_no_problem_and_no_message_is_no_panic() {
    let mut sent = HeaderMap::new();
    for n in 0..2_000 {
        sent.append(HeaderName::from_bytes(format!("x-{n}").as_bytes()).unwrap(), HeaderValue::from(n));
    }
    let stored = message::write_response(StatusCode::OK, &sent, b"", message::is_kept);
    assert_eq!(message::read_response(&stored).unwrap().headers, sent);
    for cut in [0, 1, 10, stored.len() - 1] {
        assert!(message::read_response(&stored.slice(..cut)).is_err());
        assert!(message::read_request(&stored.slice(..cut)).is_err());
    }
    assert!(message::read_response(&Bytes::from_static(b"{\"decided\":\"by hand\"}")).is_err());
}

#[test]
fn the_fingerprint_covers_method_target_and_the_bodys_meaning() {
    let json = headers(&[("content-type", "application/problem+json; charset=utf-8")]);
    let text = headers(&[("content-type", "text/plain")]);
    let of = |method: &Method, target: &str, headers: &HeaderMap, body: &'static str| {
        fingerprint::of_request(method, &target.parse().unwrap(), headers, &Bytes::from_static(body.as_bytes()))
    };
    let (one, spelt, other) = (r#"{"a":1,"b":2}"#, r#"{ "b": 2.0, "a": 1 }"#, r#"{"a":1,"b":3}"#);
    let first = of(&Method::POST, "/c?x=1", &json, one);
    assert_eq!(first, of(&Method::POST, "http://host/c?x=1", &json, spelt));
    for different in [
        of(&Method::POST, "/c?x=1", &json, other),
        of(&Method::PUT, "/c?x=1", &json, one),
        of(&Method::POST, "/c?x=2", &json, one),
        of(&Method::POST, "/c", &json, one),
        of(&Method::POST, "/c?x=1", &text, one),
        of(&Method::POST, "/c?x=1", &HeaderMap::new(), one),
    ] {
        assert_ne!(first, different);
    }
    assert_ne!(of(&Method::POST, "/c", &text, one), of(&Method::POST, "/c", &text, spelt));
    // A body that only claims to be JSON counts byte by byte.
    assert_ne!(of(&Method::POST, "/c", &json, "{a"), of(&Method::POST, "/c", &json, "{b"));

    let call = |url: &str| {
        fingerprint::of_call(&Method::POST, &url.parse().unwrap(), &json, &Bytes::from_static(one.as_bytes()))
    };
    assert_ne!(call("https://one.example/c"), call("https://other.example/c"));
    assert_eq!(call("https://one.example/c#here"), call("https://ONE.example:443/c"));
}

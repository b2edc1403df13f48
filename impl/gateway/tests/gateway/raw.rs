//! Requests that two readers could take for different ones never get past the gateway as such, and no header can be
//! smuggled in.

use crate::support::*;

/// The requests that reached the server.
async fn reached(bytes: &[u8]) -> (Vec<String>, Option<Reply>) {
    let (server, gateway) = both("").await;
    let all = raw_all(gateway.address, bytes).await;
    let heads = server.heads.lock().unwrap();
    (heads.iter().map(|head| format!("{} {}", head.method, head.uri)).collect(), parse(&all))
}

#[tokio::test]
async fn a_request_that_can_be_read_in_two_ways() {
    const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: g\r\n\r\n";
    let start = "POST /a HTTP/1.1\r\nHost: g\r\nConnection: close\r\n";
    let refused: &[(&str, String)] = &[
        ("two lengths", format!("{start}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello{SMUGGLED}")),
        ("a list of lengths", format!("{start}Content-Length: 5, 6\r\n\r\nhello{SMUGGLED}")),
        ("a signed length", format!("{start}Content-Length: +5\r\n\r\nhello{SMUGGLED}")),
        ("a folded header", format!("{start}X-A: 1\r\n 2\r\nContent-Length: 0\r\n\r\n{SMUGGLED}")),
        ("a space before the colon", format!("{start}Content-Length : 5\r\n\r\nhello{SMUGGLED}")),
        ("a length that is no number", format!("{start}Content-Length: five\r\n\r\nhello{SMUGGLED}")),
        ("an unknown coding", format!("{start}Transfer-Encoding: xchunked\r\n\r\n{SMUGGLED}")),
        ("chunked twice", format!("{start}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{SMUGGLED}")),
        ("a chunk size that is no number", format!("{start}Transfer-Encoding: chunked\r\n\r\nzz\r\n{SMUGGLED}")),
        (
            "a chunk longer than its size",
            format!("{start}Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n{SMUGGLED}"),
        ),
        ("a null byte in a header", format!("{start}X-A: a\0b\r\nContent-Length: 0\r\n\r\n{SMUGGLED}")),
        ("a bare carriage return", format!("{start}X-A: a\rX-B: b\r\nContent-Length: 0\r\n\r\n{SMUGGLED}")),
        ("no host", format!("POST /a HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n{SMUGGLED}")),
        ("two hosts", format!("{start}Host: h\r\nContent-Length: 0\r\n\r\n{SMUGGLED}")),
        ("HTTP/1.0 with a coding", "POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned()),
    ];
    for key in ["", "Idempotency-Key: \"k\"\r\n"] {
        for (what, bytes) in refused {
            let bytes = bytes.replacen("\r\n", &format!("\r\n{key}"), 1);
            let (requests, reply) = reached(bytes.as_bytes()).await;
            assert!(!requests.iter().any(|request| request.contains("smuggled")), "{what}: {requests:?}");
            let refused = reply.as_ref().is_none_or(|reply| reply.status >= 400);
            assert!(refused, "{what} is taken: {reply:?}");
        }
    }
}

#[tokio::test]
async fn a_coding_and_a_length_are_one_request_to_the_server() {
    let bytes = "POST /a HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG";
    let (server, gateway) = both("").await;
    let _ = raw_all(gateway.address, bytes).await;
    let heads = server.heads.lock().unwrap();
    assert!(heads.len() <= 1);
    for head in heads.iter() {
        let framed = (head.headers.contains_key("content-length"), head.headers.contains_key("transfer-encoding"));
        assert_ne!(framed, (true, true), "the server is never asked to choose");
    }
}

#[tokio::test]
async fn two_requests_on_one_connection_stay_two() {
    let one = "POST /a HTTP/1.1\r\nHost: g\r\nContent-Length: 35\r\nIdempotency-Key: \"1\"\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: g\r\n\r\n";
    let other =
        "POST /b HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: 0\r\nIdempotency-Key: \"2\"\r\n\r\n";
    let (requests, _) = reached(format!("{one}{other}").as_bytes()).await;
    assert_eq!(requests, ["POST /a", "POST /b"]);
}

#[tokio::test]
async fn no_line_end_gets_into_a_header() {
    let (server, gateway) = both("").await;
    // The key comes back in an address, and goes to the server in a header.
    let reply = post(&gateway, "/lost", "\"a%0d%0aX-Injected: 1\"").await;
    assert_eq!(reply.header("x-injected"), None);
    assert_eq!(reply.json()["operation"], "/.settled/operations/a%250d%250aX-Injected%3A%201?route=any");
    assert!(!server.last().headers.contains_key("x-injected"));
    let page = get(&gateway, "/.settled/operations/a%0d%0aX-Injected:%201", "").await;
    assert_eq!((page.status, page.header("x-injected")), (404, None));
}

//! What is not guarded is passed on as it is.

use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::support::*;

#[tokio::test]
async fn a_request_goes_on_as_a_good_proxy_does() {
    let (server, gateway) = both("").await;
    let reply = raw(
        gateway.address,
        "PUT /a//b?q=%20+x HTTP/1.1\r\nHost: shop.example\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nX-Forwarded-For: 10.1.1.1\r\n\
         Proxy-Authorization: x\r\nTE: trailers\r\nContent-Length: 2\r\n\r\nhi",
    )
    .await;
    assert_eq!(reply.status, 201);
    let head = server.last();
    assert_eq!((head.method.as_str(), head.uri.to_string().as_str()), ("PUT", "/a//b?q=%20+x"));
    for gone in ["connection", "x-hop", "proxy-authorization", "te", "user-agent", "accept"] {
        assert!(!head.headers.contains_key(gone), "{gone}");
    }
    assert_eq!(head.headers["x-forwarded-for"], "10.1.1.1, 127.0.0.1");
    assert_eq!(head.headers["x-forwarded-host"], "shop.example");
    assert_eq!(head.headers["via"], "1.1 settled");
    assert_eq!(head.headers["content-length"], "2");
    assert_ne!(head.headers["host"], "shop.example");
    assert_eq!(reply.header("via"), Some("1.1 settled"));
    assert_eq!((reply.header("x-hop"), reply.header("set-cookie")), (None, Some("session=secret")));
}

#[tokio::test]
async fn a_body_that_the_client_asks_leave_for() {
    let (_, gateway) = both("").await;
    for key in ["", "\"k\""] {
        let reply = raw(gateway.address, request("/echo", key, "Expect: 100-continue\r\n", "hello")).await;
        assert_eq!((reply.status, reply.body.as_slice()), (200, &b"hello"[..]));
    }
}

#[tokio::test]
async fn http_2_on_the_callers_side() {
    let (server, gateway) = both("").await;
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Full<bytes::Bytes>>();
    let ask = || {
        let uri = format!("http://{}/charges", gateway.address);
        let request = http::Request::post(uri).header("idempotency-key", "\"k\"").body(Full::from("{}")).unwrap();
        client.request(request)
    };
    let (first, second) = (ask().await.unwrap(), ask().await.unwrap());
    assert_eq!((first.status(), first.version()), (http::StatusCode::CREATED, http::Version::HTTP_2));
    assert!(!first.headers().contains_key("idempotency-replayed"));
    assert_eq!(second.headers()["idempotency-replayed"], "true");
    let body = |response: http::Response<hyper::body::Incoming>| async {
        response.into_body().collect().await.unwrap().to_bytes()
    };
    assert_eq!(body(first).await, body(second).await);
    assert_eq!(server.effects("/charges"), 1);
}

#[tokio::test]
async fn what_is_not_http_is_refused() {
    let (server, gateway) = both("").await;
    let upgrade = "GET /ws HTTP/1.1\r\nHost: g\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(raw(gateway.address, upgrade).await.status, 501);
    assert_eq!(
        raw(gateway.address, "CONNECT db:5432 HTTP/1.1\r\nHost: db:5432\r\nConnection: close\r\n\r\n").await.status,
        400
    );
    assert_eq!(server.heads.lock().unwrap().len(), 0);
    let offer = "GET /x HTTP/1.1\r\nHost: g\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n";
    assert_eq!(raw(gateway.address, offer).await.status, 201, "an offer can be left alone");
    assert!(!server.last().headers.contains_key("upgrade") && !server.last().headers.contains_key("http2-settings"));
}

#[tokio::test]
async fn an_upstream_that_gives_no_answer() {
    let (_, gateway) = both("").await;
    let reply = post(&gateway, "/lost", "").await;
    assert_eq!((reply.status, reply.problem().as_str()), (502, "no-answer"));
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gateway = self::gateway(config(gone, ""), &ledger()).await;
    let reply = post(&gateway, "/charges", "").await;
    assert_eq!((reply.status, reply.problem().as_str()), (502, "unreachable"));
}

//! How much may be asked for, and how slowly.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::*;

#[tokio::test]
async fn a_body_or_head_that_is_too_large() {
    let (server, gateway) = both("[limits]\nbody_bytes = 1000\nheader_bytes = \"8KiB\"\nkey_bytes = 20").await;
    let large = "x".repeat(1001);
    let reply = raw(gateway.address, request("/charges", "\"k\"", "", &large)).await;
    assert_eq!((reply.status, reply.problem().as_str()), (413, "too-large"));
    let chunked = format!(
        "POST /charges HTTP/1.1\r\nHost: g\r\nConnection: close\r\nIdempotency-Key: \"k\"\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n{large}\r\n0\r\n\r\n"
    );
    assert_eq!(raw(gateway.address, chunked).await.problem(), "too-large");
    let head =
        raw(gateway.address, request("/charges", "\"k\"", &format!("X-Long: {}\r\n", "x".repeat(9000)), "{}")).await;
    assert_eq!(head.status, 431);
    let many = "X-A: 1\r\n".repeat(101);
    assert_eq!(raw(gateway.address, request("/charges", "\"k\"", &many, "{}")).await.status, 431);
    assert_eq!(post(&gateway, "/charges", "\"123456789012345678901\"").await.problem(), "key-invalid");
    assert_eq!(server.heads.lock().unwrap().len(), 0);
    // What is not guarded has no limit.
    assert_eq!(raw(gateway.address, request("/echo", "", "", &large)).await.body.len(), 1001);
}

#[tokio::test]
async fn too_many_requests_of_one_principal() {
    let (server, gateway) = both("[limits]\nin_flight_per_principal = 1").await;
    let first = tokio::spawn(raw(gateway.address, request("/gated", "\"k\"", "X-Api-Key: one\r\n", "{}")));
    until(|| server.effects("/gated") == 1).await;
    let second = raw(gateway.address, request("/charges", "\"l\"", "X-Api-Key: one\r\n", "{}")).await;
    assert_eq!((second.status, second.problem().as_str(), second.header("retry-after")), (429, "too-many", Some("1")));
    assert_eq!(server.effects("/charges"), 0);
    assert_eq!(raw(gateway.address, request("/charges", "\"l\"", "X-Api-Key: two\r\n", "{}")).await.status, 201);
    server.gate.0.add_permits(1);
    assert_eq!(first.await.unwrap().status, 200);
    assert_eq!(raw(gateway.address, request("/charges", "\"l\"", "X-Api-Key: one\r\n", "{}")).await.status, 201);
}

#[tokio::test]
async fn who_is_slow_is_left() {
    let text = "[limits]\nheader_timeout = \"500ms\"\nbody_idle_timeout = \"500ms\"";
    let (server, gateway) = both(text).await;
    // Nothing at all, part of a head, part of HTTP/2's first words.
    for part in ["", "POST /charges HTTP/1.1\r\nHost: g\r\n", "PRI * HT"] {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream.write_all(part.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        let ended = tokio::time::timeout(std::time::Duration::from_secs(30), stream.read_to_end(&mut all)).await;
        assert!(ended.is_ok(), "{part:?} keeps the connection open");
    }
    let half = "POST /charges HTTP/1.1\r\nHost: g\r\nConnection: close\r\nIdempotency-Key: \"k\"\r\nContent-Length: 10\r\n\r\nhalf";
    let reply = raw(gateway.address, half).await;
    assert_eq!((reply.status, reply.problem().as_str()), (408, "too-slow"));
    assert_eq!(server.heads.lock().unwrap().len(), 0);
    let passed = raw(gateway.address, half.replace("Idempotency-Key: \"k\"\r\n", "")).await;
    assert_eq!((passed.status, passed.problem().as_str()), (408, "too-slow"));
    assert_eq!(post(&gateway, "/charges", "\"k\"").await.status, 201, "the key is free");
}

#[tokio::test]
async fn a_body_that_does_not_come_whole_is_no_request() {
    let (server, gateway) = both("").await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let half = "POST /charges HTTP/1.1\r\nHost: g\r\nIdempotency-Key: \"k\"\r\nContent-Length: 10\r\n\r\nhalf";
    stream.write_all(half.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all).await;
    assert_eq!(server.heads.lock().unwrap().len(), 0);
    assert_eq!(post(&gateway, "/charges", "\"k\"").await.status, 201);
}

#[tokio::test]
async fn it_ends_when_what_is_under_way_is_done() {
    let (server, gateway) = both("").await;
    let asked = tokio::spawn(raw(gateway.address, request("/gated", "\"k\"", "", "{}")));
    until(|| server.effects("/gated") == 1).await;
    gateway.tell.send(settled_gateway::Told::End).unwrap();
    tokio::time::timeout(std::time::Duration::from_secs(30), async {
        while TcpStream::connect(gateway.address).await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it takes no new connections");
    assert!(!gateway.ended.is_finished());
    server.gate.0.add_permits(1);
    assert_eq!(asked.await.unwrap().status, 200);
    gateway.ended.await.unwrap();
}

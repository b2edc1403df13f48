//! The front over HTTP: who is let in, where servers are, how many there may be, and the end.

use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::front::{self, Events, Server, front, front_of, front_with, kind, named, text_of};
use serde_json::{Value, json};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;

#[tokio::test]
async fn foreign_pages_and_names_are_kept_out() {
    let front = front("[http]\nallowed_origins = ['https://app.example']\nallowed_hosts = ['tools.example']").await;
    let status = |name: &'static str, value: &'static str| {
        let request = front.post(INITIALIZE).header(name, value);
        async move { request.send().await.unwrap().status().as_u16() }
    };
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "https://app.example.evil.example"),
        ("host", "evil.example"),
        ("host", "evil.example:80"),
    ] {
        assert_eq!(status(name, value).await, 403, "{name}: {value}");
    }
    assert_eq!(front.server.started.load(Ordering::SeqCst), 0);
    assert_eq!(status("host", "tools.example").await, 200);
    assert_eq!(status("host", "localhost:1234").await, 200);
    let page = front.post(INITIALIZE).header("origin", "https://app.example").send().await.unwrap();
    assert_eq!(page.headers()["access-control-allow-origin"], "https://app.example");
    assert!(page.headers()["access-control-expose-headers"].to_str().unwrap().contains("mcp-session-id"));
    let asks = front.http.request(reqwest::Method::OPTIONS, &front.url).header("origin", "https://app.example");
    let answer = asks.send().await.unwrap();
    assert_eq!(answer.status(), 204);
    assert!(answer.headers()["access-control-allow-headers"].to_str().unwrap().contains("mcp-protocol-version"));
}

#[tokio::test]
async fn one_server_is_at_two_paths_and_many_at_their_names() {
    let one = front("").await;
    let post = |front: &front::Front, path: &str| {
        let url = format!("http://{}{path}", front.address);
        let request = front.http.post(url).header("content-type", "application/json").body(INITIALIZE);
        async move { request.send().await.unwrap().status().as_u16() }
    };
    for (path, status) in [("/mcp", 200), ("/mcp/", 200), ("/", 200), ("/other", 404), ("/mcp/mcp", 404)] {
        assert_eq!(post(&one, path).await, status, "{path}");
    }
    let (servers, server) = named(&["shop", "mail"], "");
    let many = front_with(servers, server).await;
    for (path, status) in
        [("/shop", 200), ("/shop/mcp", 200), ("/mail/", 200), ("/", 404), ("/mcp", 404), ("/shop/x", 404)]
    {
        assert_eq!(post(&many, path).await, status, "{path}");
    }
    // A session belongs to its server.
    let url = |name: &str| format!("http://{}/{name}", many.address);
    let opened =
        many.http.post(url("shop")).header("content-type", "application/json").body(INITIALIZE).send().await.unwrap();
    let session = opened.headers()["mcp-session-id"].to_str().unwrap();
    let ask = |name: &str| {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let request =
            many.http.post(url(name)).header("content-type", "application/json").header("mcp-session-id", session);
        request.body(ping).send()
    };
    assert_eq!(ask("shop").await.unwrap().status(), 200);
    assert_eq!(ask("mail").await.unwrap().status(), 404);
    for path in ["healthz", "readyz"] {
        let request = many.http.get(url(path)).header("host", "10.0.0.1");
        assert_eq!(request.send().await.unwrap().status(), 200, "{path} is for whoever watches");
    }
}

#[tokio::test]
async fn there_are_so_many_sessions_and_idle_ones_end() {
    let front = front("[http]\nsessions = 2\nsessions_per_principal = 1\nidle_timeout = '1s'").await;
    let alice = front.open_as("2025-11-25", Some("Bearer a")).await;
    let more = front.post(INITIALIZE).header("authorization", "Bearer a").send().await.unwrap();
    assert_eq!((more.status().as_u16(), more.headers()["retry-after"].to_str().unwrap()), (503, "1"));
    let _bob = front.open_as("2025-11-25", Some("Bearer b")).await;
    let full = front.post(INITIALIZE).header("authorization", "Bearer c").send().await.unwrap();
    assert_eq!(full.status(), 503);
    // Whoever listens is there.
    let listening = alice.listen(None).await;
    front.server.until("the idle one has ended", |server| server.alive.load(Ordering::SeqCst) == 1).await;
    assert_eq!(text_of(&alice.ask(1, "read", json!({})).await), "done");
    drop(listening);
    front.server.until("the other one too", |server| server.alive.load(Ordering::SeqCst) == 0).await;
    assert_eq!(alice.call(2, "read", json!({})).await.status(), 404);
}

#[tokio::test]
async fn a_session_that_is_ended_finishes_its_calls_first() {
    let front = front("").await;
    let client = front.open("2025-11-25").await;
    let call = client.call(1, "charge", json!({ "wait": true, "progress": 1, "token": 1 })).await;
    assert_eq!(client.delete().send().await.unwrap().status(), 200);
    assert_eq!(client.call(2, "read", json!({})).await.status(), 404);
    front.server.open.send_replace(true);
    let mut events = Events::of(call);
    events.message().await;
    assert_eq!(text_of(&events.message().await), "done 1");
    front.server.until("its end", |server| server.alive.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn at_the_end_what_was_asked_is_answered() {
    for (tool, text) in [("charge", "done 1"), ("read", "done")] {
        let front = front("").await;
        let client = front.open("2025-11-25").await;
        let listening = client.listen(None).await;
        let call = client.call(1, tool, json!({ "wait": true })).await;
        assert_eq!(kind(&call), "text/event-stream");
        front.tell();
        let ready = front.http.get(format!("http://{}/readyz", front.address));
        let waiting = async {
            // The listener is closed, too, so that nobody new comes.
            while ready.try_clone().unwrap().send().await.is_ok_and(|response| response.status() == 200) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(front::PATIENCE, waiting).await.unwrap();
        // Time for a server that is ended too early to be gone.
        tokio::time::sleep(Duration::from_millis(200)).await;
        front.server.open.send_replace(true);
        assert_eq!(text_of(&Events::of(call).message().await), text);
        assert!(listening.rest().await.iter().all(|event| event.data.as_deref() == Some("")));
        let server = front.server.clone();
        front.ended().await.unwrap();
        assert_eq!(server.alive.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let front = front("").await;
    let client = front.open("2025-11-25").await;
    let call = client.call(1, "charge", json!({ "wait": true, "progress": 1, "token": 1 })).await;
    front.tell();
    front.tell();
    let mut events = Events::of(call);
    events.message().await;
    let answer = events.message().await;
    assert_eq!(answer["id"], 1, "it is told something: {answer}");
    drop(events);
    let server = front.server.clone();
    front.ended().await.unwrap();
    assert_eq!((server.alive.load(Ordering::SeqCst), server.effects()), (0, 0));
}

#[tokio::test]
async fn a_server_that_can_not_be_started_is_said_to_be() {
    let command = vec!["/no/such/program".into()];
    let config = settled_mcp::Config::default();
    let behind = settled_mcp::Behind::Command(command, Default::default());
    let servers = vec![settled_mcp::Fronted { name: None, config, behind }];
    let front = front_with(servers, Default::default()).await;
    let response = front.post(INITIALIZE).send().await.unwrap();
    assert_eq!(response.status(), 502);
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["id"], 0);
    assert!(answer["error"]["message"].as_str().unwrap().contains("/no/such/program"), "{answer}");
}

#[tokio::test]
async fn a_server_that_ends_at_once_leaves_no_session() {
    let command = vec!["true".into()];
    let config = settled_mcp::Config::default();
    let behind = settled_mcp::Behind::Command(command, Default::default());
    let front = front_with(vec![settled_mcp::Fronted { name: None, config, behind }], Default::default()).await;
    let response = front.post(INITIALIZE).send().await.unwrap();
    assert!(!response.headers().contains_key("mcp-session-id"));
    let answer: Value = response.json().await.unwrap();
    assert!(answer["error"]["message"].as_str().unwrap().contains("ended"), "{answer}");
}

#[tokio::test]
async fn nonsense_on_a_connection_ends_it_and_nothing_else() {
    let front = front_of("", Server::default()).await;
    let client = front.open("2025-11-25").await;
    let address = front.address;
    let nonsense = tokio::task::spawn_blocking(move || {
        for text in
            ["GET\r\n\r\n", "\0\0\0\0\r\n\r\n", &format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(1 << 20))]
        {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            let _ = stream.write_all(text.as_bytes());
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&answer));
        }
    });
    nonsense.await.unwrap();
    assert_eq!(text_of(&client.ask(1, "read", json!({})).await), "done");
}

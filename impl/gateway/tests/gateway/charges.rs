//! What a request with a key comes to.

use crate::support::*;

#[tokio::test]
async fn a_repeat_is_told_the_first_answer_byte_for_byte() {
    let (server, gateway) = both("").await;
    let first = post(&gateway, "/charges", "\"k1\"").await;
    let second = post(&gateway, "/charges", "\"k1\"").await;
    assert_eq!((first.status, second.status), (201, 201));
    assert_eq!(first.body, b"{ \"charge\": 1 }");
    assert_eq!(first.body, second.body);
    assert!(!first.is_replayed() && second.is_replayed());
    assert_eq!(server.effects("/charges"), 1);
    for reply in [&first, &second] {
        assert_eq!(reply.header("x-request-id"), Some("r-1"));
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.header("idempotency-retention"), Some("86400"));
        assert_eq!(reply.header("x-hop"), None, "it concerned one connection");
    }
    // Who comes later gets no session of the one who came first.
    assert_eq!((first.header("set-cookie"), second.header("set-cookie")), (Some("session=secret"), None));
}

#[tokio::test]
async fn another_key_is_another_operation_and_no_key_is_passed_on() {
    let (server, gateway) = both("").await;
    post(&gateway, "/charges", "\"k1\"").await;
    post(&gateway, "/charges", "\"k2\"").await;
    assert_eq!(server.effects("/charges"), 2);
    let passed = post(&gateway, "/charges", "").await;
    assert_eq!((passed.status, passed.header("idempotency-retention")), (201, None));
    assert_eq!(server.effects("/charges"), 3);
}

#[tokio::test]
async fn the_same_key_with_another_request_is_a_conflict() {
    for (text, status, problem) in
        [("", 422, "conflict"), ("[gateway]\nconflict_status = 409", 409, "idempotency_conflict")]
    {
        let (server, gateway) = both(text).await;
        post(&gateway, "/charges", "\"k\"").await;
        for (path, body) in
            [("/charges", r#"{"amount":6}"#), ("/charges?x=1", r#"{"amount":5}"#), ("/other", r#"{"amount":5}"#)]
        {
            let reply = raw(gateway.address, request(path, "\"k\"", "", body)).await;
            assert_eq!((reply.status, reply.problem().as_str()), (status, problem), "{path}");
            assert!(!String::from_utf8_lossy(&reply.body).contains("charge\": 1"));
        }
        // JSON counts by its meaning.
        let same = raw(gateway.address, request("/charges", "\"k\"", "", "{ \"amount\" : 5.0 }")).await;
        assert!(same.is_replayed());
        assert_eq!(server.effects("/charges"), 1);
    }
}

#[tokio::test]
async fn declared_headers_are_part_of_the_request() {
    let (_, gateway) = both("[[routes]]\npath = \"/charges\"\nfingerprint_headers = [\"X-Account\"]").await;
    let with =
        |account: &str| request("/charges", "\"k\"", &format!("X-Account: {account}\r\nX-Trace: {account}\r\n"), "{}");
    assert_eq!(raw(gateway.address, with("1")).await.status, 201);
    assert_eq!(raw(gateway.address, with("2")).await.status, 422);
    assert!(raw(gateway.address, with("1")).await.is_replayed());
}

#[tokio::test]
async fn a_lost_answer_of_an_opaque_upstream_is_unknown_and_never_sent_again() {
    let (server, gateway) = both("").await;
    for again in 0..3 {
        let reply = post(&gateway, "/lost", "\"k 1\"").await;
        assert_eq!((reply.status, reply.problem().as_str()), (502, "unknown"), "{again}");
        assert_eq!(reply.json()["operation"], "/.settled/operations/k%201?route=any");
        assert_eq!(server.effects("/lost"), 1);
    }
    let page = get(&gateway, "/.settled/operations/k%201?route=any", "").await;
    assert_eq!((page.status, &page.json()["state"]), (200, &"unknown".into()));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_unknown() {
    let (server, gateway) = both("").await;
    let reply = post(&gateway, "/cut", "\"k\"").await;
    assert_eq!((reply.status, reply.problem().as_str()), (502, "unknown"));
    assert_eq!(server.effects("/cut"), 1);
}

#[tokio::test]
async fn what_statuses_mean() {
    let (server, gateway) = both("").await;
    for (code, kept) in [(200, true), (303, true), (402, true), (404, true)] {
        let path = format!("/status/{code}");
        let key = format!("\"s{code}\"");
        let (first, second) = (post(&gateway, &path, &key).await, post(&gateway, &path, &key).await);
        assert_eq!((first.status, second.status), (code, code));
        assert_eq!((first.is_replayed(), second.is_replayed()), (false, kept), "{code}");
        assert_eq!(first.body, second.body);
    }
    for code in [408, 500, 502, 503, 504] {
        let (path, key) = (format!("/status/{code}"), format!("\"s{code}\""));
        for _ in 0..2 {
            let reply = post(&gateway, &path, &key).await;
            assert_eq!((reply.status, reply.problem().as_str()), (502, "unknown"), "{code}");
            assert_eq!(reply.json()["upstreamStatus"], code);
        }
        assert_eq!(server.effects(&path), 1, "{code} proves nothing");
    }
    for code in [425, 429] {
        let (path, key) = (format!("/status/{code}"), format!("\"s{code}\""));
        for _ in 0..2 {
            let reply = post(&gateway, &path, &key).await;
            assert_eq!((reply.status, reply.header("retry-after")), (code, Some("7")));
            assert!(!reply.is_replayed());
        }
        assert_eq!(server.effects(&path), 2, "{code} says that it did not run");
    }
}

#[tokio::test]
async fn declared_statuses() {
    let text = "[[routes]]\npath = \"/status/*\"\nstatuses = { done = [500], nothing = [404], not_run = [503] }";
    let (server, gateway) = both(text).await;
    assert_eq!(post(&gateway, "/status/500", "\"a\"").await.status, 500);
    assert!(post(&gateway, "/status/500", "\"a\"").await.is_replayed());
    assert_eq!(post(&gateway, "/status/404", "\"b\"").await.problem(), "unknown");
    assert_eq!(post(&gateway, "/status/503", "\"c\"").await.status, 503);
    assert_eq!(post(&gateway, "/status/503", "\"c\"").await.status, 503);
    assert_eq!(server.effects("/status/503"), 2);
}

#[tokio::test]
async fn an_upstream_that_goes_by_keys_is_sent_the_same_key_again() {
    let text = "[[routes]]\npath = \"/lost-once\"\nkind = \"keyed\"\nremembers = \"1h\"\nretry = { attempts = 3, first = \"1ms\" }";
    let (server, gateway) = both(text).await;
    let reply = post(&gateway, "/lost-once", "\"k\"").await;
    assert_eq!((reply.status, server.effects("/lost-once")), (201, 2));
    let keys: Vec<_> =
        server.heads.lock().unwrap().iter().map(|head| head.headers["idempotency-key"].clone()).collect();
    assert_eq!(keys, ["\"k\"", "\"k\""]);
    assert!(post(&gateway, "/lost-once", "\"k\"").await.is_replayed());
}

#[tokio::test]
async fn an_upstream_that_can_t_be_reached_leaves_the_key_free() {
    let (server, upstream) = server().await;
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ledger = ledger();
    let mut dead = config(gone, "");
    dead.scope = Some("shop".into());
    let mut alive = config(upstream, "");
    alive.scope = Some("shop".into());
    let first = gateway(dead, &ledger).await;
    let reply = post(&first, "/charges", "\"k\"").await;
    assert_eq!((reply.status, reply.problem().as_str(), reply.header("retry-after")), (503, "not-sent", Some("1")));
    let second = gateway(alive, &ledger).await;
    let reply = post(&second, "/charges", "\"k\"").await;
    assert_eq!((reply.status, reply.is_replayed(), server.effects("/charges")), (201, false, 1));
}

#[tokio::test]
async fn while_the_first_is_carried_out() {
    let (server, gateway) = both("").await;
    let first = tokio::spawn(raw(gateway.address, request("/gated", "\"k\"", "", r#"{"amount":5}"#)));
    until(|| server.effects("/gated") == 1).await;
    let second = post(&gateway, "/gated", "\"k\"").await;
    assert_eq!(
        (second.status, second.problem().as_str(), second.header("retry-after")),
        (409, "in-progress", Some("1"))
    );
    let page = get(&gateway, second.json()["operation"].as_str().unwrap(), "").await;
    assert_eq!(page.json()["state"], "in progress");
    let other = raw(gateway.address, request("/gated", "\"k\"", "", r#"{"amount":6}"#)).await;
    assert_eq!(other.problem(), "conflict");
    server.gate.0.add_permits(1);
    assert_eq!(first.await.unwrap().body, b"{\"gated\":1}");
    assert!(post(&gateway, "/gated", "\"k\"").await.is_replayed());

    let (server, gateway) = both("[gateway]\nin_flight = \"wait\"").await;
    let asked: Vec<_> = (0..20)
        .map(|_| tokio::spawn(raw(gateway.address, request("/gated", "\"k\"", "", r#"{"amount":5}"#))))
        .collect();
    until(|| server.effects("/gated") == 1).await;
    server.gate.0.add_permits(1);
    let mut replayed = 0;
    for reply in asked {
        let reply = reply.await.unwrap();
        assert_eq!((reply.status, reply.body.as_slice()), (200, &b"{\"gated\":1}"[..]));
        replayed += u32::from(reply.is_replayed());
    }
    assert_eq!((replayed, server.effects("/gated")), (19, 1));
}

#[tokio::test]
async fn a_caller_that_goes_away_changes_nothing() {
    use tokio::io::AsyncWriteExt;
    let (server, gateway) = both("").await;
    let mut stream = tokio::net::TcpStream::connect(gateway.address).await.unwrap();
    stream.write_all(request("/gated", "\"k\"", "", r#"{"amount":5}"#).as_bytes()).await.unwrap();
    until(|| server.effects("/gated") == 1).await;
    drop(stream);
    server.gate.0.add_permits(1);
    gateway.engine.idle().await;
    let reply = post(&gateway, "/gated", "\"k\"").await;
    assert!(reply.is_replayed());
    assert_eq!((reply.status, server.effects("/gated")), (200, 1));
}

#[tokio::test]
async fn an_answer_larger_than_what_is_kept_still_reaches_its_caller() {
    let (server, gateway) = both("[limits]\nstored_bytes = \"64KiB\"").await;
    let first = post(&gateway, "/large", "\"k\"").await;
    assert_eq!((first.status, first.body.len()), (200, 300_000));
    let second = post(&gateway, "/large", "\"k\"").await;
    assert_eq!((second.status, second.problem().as_str()), (500, "answer-not-kept"));
    assert_eq!(server.effects("/large"), 1);
}

#[tokio::test]
async fn the_ledger_outlives_the_gateway() {
    let (server, upstream) = server().await;
    let ledger = ledger();
    let first = gateway(config(upstream, ""), &ledger).await;
    let told = post(&first, "/charges", "\"k\"").await;
    first.tell.send(settled_gateway::Told::End).unwrap();
    first.ended.await.unwrap();
    let second = gateway(config(upstream, ""), &ledger).await;
    let replay = post(&second, "/charges", "\"k\"").await;
    assert!(replay.is_replayed());
    assert_eq!((replay.body, server.effects("/charges")), (told.body, 1));
}

/// A server that answers every request with these bytes, and closes the connection.
async fn says(bytes: &'static str) -> std::net::SocketAddr {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(bytes.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    address
}

#[tokio::test]
async fn an_end_that_a_lost_connection_would_look_like() {
    const JSON: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
    const EVENTS: &str = "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: x\n\n";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    const LENGTH: &str = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc";
    const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Le";
    let cut = Box::leak(format!("{JSON}{{\"a\":1").into_boxed_str());
    for bytes in [cut, CHUNKED, LENGTH, HEAD, ""] {
        let gateway = gateway(config(says(bytes).await, ""), &ledger()).await;
        assert_eq!(post(&gateway, "/a", "\"k\"").await.problem(), "unknown", "{bytes:?}");
    }
    let whole = Box::leak(format!("{JSON}{{\"a\":1}}").into_boxed_str());
    let gateway = self::gateway(config(says(whole).await, ""), &ledger()).await;
    assert_eq!(post(&gateway, "/a", "\"k\"").await.body, b"{\"a\":1}");
    // Its caller has seen a part of it, and must not take that for all.
    let gateway = self::gateway(config(says(EVENTS).await, ""), &ledger()).await;
    let first = raw_all(gateway.address, request("/a", "\"k\"", "", r#"{"amount":5}"#)).await;
    assert!(parse(&first).is_none(), "{:?}", String::from_utf8_lossy(&first));
    assert_eq!(post(&gateway, "/a", "\"k\"").await.problem(), "unknown");
}

#[tokio::test]
async fn a_caller_that_could_not_tell_a_broken_answer_gets_whole_ones_only() {
    const EVENTS: &str =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n";
    let old = request("/a", "\"k\"", "", "{}").replace("HTTP/1.1", "HTTP/1.0");
    let whole = Box::leak(format!("{EVENTS}0\r\n\r\n").into_boxed_str());
    let gateway = gateway(config(says(whole).await, ""), &ledger()).await;
    let reply = raw(gateway.address, &old).await;
    assert_eq!((reply.header("content-length"), reply.body.as_slice()), (Some("9"), &b"data: x\n\n"[..]));
    let gateway = self::gateway(config(says(EVENTS).await, ""), &ledger()).await;
    assert_eq!(raw(gateway.address, &old).await.problem(), "unknown");
}

#[tokio::test]
async fn an_answer_longer_than_what_is_kept_waits_for_a_slow_caller() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (_, gateway) = both("[limits]\nstored_bytes = 1000").await;
    let mut stream = tokio::net::TcpStream::connect(gateway.address).await.unwrap();
    stream.write_all(request("/huge", "\"k\"", "", "{}").as_bytes()).await.unwrap();
    let mut all = Vec::new();
    let mut some = vec![0; 1 << 20];
    for _ in 0..5 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let read = stream.read(&mut some).await.unwrap();
        all.extend_from_slice(&some[..read]);
    }
    stream.read_to_end(&mut all).await.unwrap();
    assert_eq!(parse(&all).unwrap().body.len(), 20_000_000);
}

#[tokio::test]
async fn an_answer_longer_than_what_is_kept_is_not_ended_where_it_broke_off() {
    const CUT: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n01234567890123456789\r\n";
    let whole = Box::leak(format!("{CUT}0\r\n\r\n").into_boxed_str());
    for (bytes, is_whole, problem) in [(CUT, false, "unknown"), (whole, true, "answer-not-kept")] {
        let text = "[limits]\nstored_bytes = 10";
        let gateway = gateway(config(says(bytes).await, text), &ledger()).await;
        let all = raw_all(gateway.address, request("/a", "\"k\"", "", r#"{"amount":5}"#)).await;
        assert!(all.starts_with(b"HTTP/1.1 200 OK"));
        assert_eq!(parse(&all).is_some(), is_whole, "{:?}", String::from_utf8_lossy(&all));
        assert_eq!(post(&gateway, "/a", "\"k\"").await.problem(), problem);
    }
}

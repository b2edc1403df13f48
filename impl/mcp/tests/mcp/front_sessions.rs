//! The front over HTTP, revisions with sessions: sessions, methods, answers, and which message goes to which stream.

use crate::support::front::{self, Events, call_text, front, kind, text_of};
use serde_json::{Value, json};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;

#[tokio::test]
async fn a_session_has_a_server_of_its_own_until_it_is_ended() {
    let front = front("").await;
    let (one, two) = (front.open("2025-11-25").await, front.open("2025-06-18").await);
    assert_ne!(one.session, two.session);
    assert!(one.session.len() >= 22 && one.session.bytes().all(|byte| byte.is_ascii_graphic()), "128 bits at least");
    assert_eq!(front.server.got(&["initialize\""]), 2);
    front.server.until("two processes", |server| server.alive.load(std::sync::atomic::Ordering::SeqCst) == 2).await;
    assert_eq!(one.delete().send().await.unwrap().status(), 200);
    front.server.until("one process", |server| server.alive.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
    let gone = one.call(1, "read", json!({})).await;
    assert_eq!(gone.status(), 404);
    assert_eq!(one.get().send().await.unwrap().status(), 404);
    assert_eq!(one.delete().send().await.unwrap().status(), 404);
    assert_eq!(text_of(&two.ask(1, "read", json!({})).await), "done");
}

#[tokio::test]
async fn a_session_is_its_principals_only() {
    let front = front("").await;
    let alice = front.open_as("2025-11-25", Some("Bearer a")).await;
    let mut mallory = front.open_as("2025-11-25", Some("Bearer m")).await;
    mallory.session.clone_from(&alice.session);
    assert_eq!(mallory.call(1, "read", json!({})).await.status(), 404, "as if it were unknown");
    assert_eq!(mallory.delete().send().await.unwrap().status(), 404);
    mallory.authorization = None;
    assert_eq!(mallory.get().send().await.unwrap().status(), 404);
    mallory.session = "made-up".to_owned();
    assert_eq!(mallory.call(1, "read", json!({})).await.status(), 404);
    assert_eq!(text_of(&alice.ask(1, "read", json!({})).await), "done");
}

#[tokio::test]
async fn what_one_principal_did_is_replayed_to_it_only() {
    let front = front("").await;
    let alice = front.open_as("2025-11-25", Some("Bearer a")).await;
    assert_eq!(text_of(&alice.ask(1, "charge", json!({ "n": 1 })).await), "done 1");
    let again = front.open_as("2025-11-25", Some("Bearer a")).await;
    assert_eq!(text_of(&again.ask(7, "charge", json!({ "n": 1 })).await), "done 1");
    let bob = front.open_as("2025-11-25", Some("Bearer b")).await;
    assert_eq!(text_of(&bob.ask(1, "charge", json!({ "n": 1 })).await), "done 2");
}

#[tokio::test]
async fn what_is_no_request_is_accepted_or_refused() {
    let front = front("[limits]\nframe_bytes = '8KiB'").await;
    let client = front.open("2025-11-25").await;
    for accepted in [
        r#"{"jsonrpc":"2.0","method":"notifications/x"}"#,
        r#"{"jsonrpc":"2.0","id":"nobody asked","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"nobody asked","error":{"code":1,"message":""}}"#,
    ] {
        let response = client.post(accepted).send().await.unwrap();
        assert_eq!((response.status().as_u16(), response.text().await.unwrap()), (202, String::new()), "{accepted}");
        front.server.until("passed on as it is", |server| server.got(&[accepted]) == 1).await;
    }
    let huge = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":"{}"}}"#, "x".repeat(9 << 10));
    for (wrong, status, code) in [
        ("{", 400, -32700),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"n":NaN}}}"#,
            400,
            -32700,
        ),
        ("17", 400, -32600),
        ("[]", 400, -32600),
        ("[17]", 400, -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, -32600),
        (&huge, 413, -32000),
    ] {
        let response = client.post(wrong.to_owned()).send().await.unwrap();
        assert_eq!(response.status(), status, "{wrong}");
        let answer: Value = response.json().await.unwrap();
        assert_eq!(answer["error"]["code"], code, "{wrong}: {answer}");
    }
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let url = &front.url;
    let plain = |request: reqwest::RequestBuilder| async { request.send().await.unwrap().status().as_u16() };
    assert_eq!(plain(front.http.post(url).header("content-type", "text/plain").body(ping)).await, 415);
    let json = || front.http.post(url).header("content-type", "application/json; charset=utf-8").body(ping);
    assert_eq!(plain(json().header("accept", "application/json")).await, 406);
    assert_eq!(plain(json().header("accept", "*/*")).await, 400, "without a session");
    assert_eq!(plain(client.get().header("accept", "application/json")).await, 200, "reqwest sends both lines");
    assert_eq!(plain(front.http.get(url).header("accept", "application/json")).await, 406);
    assert_eq!(plain(front.http.put(url)).await, 405);
    assert_eq!(
        plain(front.post(ping).header("mcp-session-id", &client.session).header("mcp-protocol-version", "1900-01-01"))
            .await,
        400
    );
    assert_eq!(front.server.effects(), 0);
    assert_eq!(
        plain(front.post(ping).header("mcp-session-id", &client.session)).await,
        200,
        "no revision is no other one"
    );
}

#[tokio::test]
async fn a_sole_answer_is_a_message_and_anything_before_it_makes_a_stream() {
    let front = front("").await;
    let client = front.open("2025-06-18").await;
    let response = client.call(r#"an odd id: "é""#, "read", json!({})).await;
    assert_eq!(kind(&response), "application/json");
    assert_eq!(response.headers()["mcp-session-id"].to_str().unwrap(), client.session);
    assert_eq!(response.json::<Value>().await.unwrap()["id"], r#"an odd id: "é""#);
    for tool in ["read", "charge"] {
        let response = client.call(2, tool, json!({ "progress": 2, "token": "t", "of": tool })).await;
        let messages: Vec<Value> = Events::of(response).rest().await.iter().map(front::Event::message).collect();
        assert_eq!(messages.len(), 3);
        assert_eq!(messages[0]["params"], json!({ "progressToken": "t", "progress": 1 }));
        assert_eq!((&messages[1]["params"]["progress"], &messages[2]["id"]), (&json!(2), &json!(2)));
    }
}

#[tokio::test]
async fn progress_goes_to_the_stream_of_its_request() {
    let front = front("").await;
    let client = front.open("2025-11-25").await;
    let mut listening = client.listen(None).await;
    let slow = |id: u64| json!({ "progress": 1, "token": id, "wait": true, "say": format!("{id}") });
    let one = client.call(1, "read", slow(1)).await;
    let two = client.call(2, "read", slow(2)).await;
    front.server.open.send_replace(true);
    for (id, response) in [(1, one), (2, two)] {
        let mut events = Events::of(response);
        assert_eq!(events.message().await["params"]["progressToken"], id);
        let answer = events.message().await;
        assert_eq!((&answer["id"], text_of(&answer)), (&json!(id), id.to_string().as_str()));
        assert_eq!(events.next().await, None, "the answer ends the stream");
    }
    emit(&client, "for whoever listens").await;
    assert_eq!(listening.message().await["params"]["data"], "for whoever listens");
}

async fn emit(client: &front::Client<'_>, text: &str) {
    let emit = json!({ "jsonrpc": "2.0", "method": "notifications/emit", "params": { "text": text } });
    assert_eq!(client.post(emit.to_string()).send().await.unwrap().status(), 202);
}

#[tokio::test]
async fn what_the_server_asks_goes_to_who_listens_else_to_any_stream_else_waits() {
    let front = front("").await;
    let client = front.open("2025-11-25").await;
    // Nobody listens: to the stream of the call.
    let mut call = Events::of(client.call(1, "read", json!({ "ask": true })).await);
    let asked = call.message().await;
    assert_eq!((&asked["id"], &asked["method"]), (&json!("asked"), &json!("roots/list")));
    let answer = json!({ "jsonrpc": "2.0", "id": "asked", "result": { "roots": [] } });
    assert_eq!(client.post(answer.to_string()).send().await.unwrap().status(), 202);
    assert_eq!(text_of(&call.message().await), r#"{"roots":[]}"#);
    // No stream is open: it waits for one, in order.
    emit(&client, "first").await;
    emit(&client, "second").await;
    front.server.until("both", |server| server.got(&["emit"]) == 2).await;
    let mut listening = client.listen(None).await;
    assert_eq!(listening.message().await["params"]["data"], "first");
    assert_eq!(listening.message().await["params"]["data"], "second");
    // Somebody listens.
    let asking = client.call(2, "read", json!({ "ask": true }));
    let serving = async {
        assert_eq!(listening.message().await["method"], "roots/list");
        client.post(answer.to_string()).send().await.unwrap();
    };
    let (call, ()) = tokio::join!(asking, serving);
    assert_eq!(kind(&call), "application/json");
    assert_eq!(text_of(&call.json().await.unwrap()), r#"{"roots":[]}"#);
}

#[tokio::test]
async fn two_requests_with_one_id_get_each_its_own_answer() {
    let front = front("").await;
    let client = front.open("2025-11-25").await;
    let call =
        |text: &'static str| client.call(5, "read", json!({ "wait": true, "say": text, "progress": 1, "token": 5 }));
    let (one, two) = (call("one").await, call("two").await);
    front.server.open.send_replace(true);
    for (text, response) in [("one", one), ("two", two)] {
        let mut events = Events::of(response);
        assert_eq!(events.message().await["params"]["progressToken"], 5);
        let answer = events.message().await;
        assert_eq!((&answer["id"], text_of(&answer)), (&json!(5), text));
    }
}

#[tokio::test]
async fn a_batch_is_answered_once_each_call_has_its_answer() {
    let front = front("").await;
    let client = front.open("2025-03-26").await;
    let call = |id: u64, tool: &str, arguments: Value| call_text(id, tool, arguments);
    let batch = [
        call(1, "charge", json!({ "n": 1 })),
        call(2, "charge", json!({ "n": 1 })),
        r#"{"jsonrpc":"2.0","method":"notifications/x"}"#.to_owned(),
        call(3, "read", json!({})),
    ];
    let response = client.post(format!("[{}]", batch.join(","))).send().await.unwrap();
    assert_eq!(kind(&response), "application/json");
    let mut answers: Vec<Value> = response.json().await.unwrap();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers.iter().map(text_of).collect::<Vec<_>>(), ["done 1", "done 1", "done"]);
    assert_eq!(front.server.effects(), 1, "the same call twice is one effect");
    // One that takes its time.
    let batch = [call(4, "read", json!({ "wait": true })), call(5, "read", json!({}))];
    let mut events = Events::of(client.post(format!("[{}]", batch.join(","))).send().await.unwrap());
    assert_eq!(events.message().await["id"], 5);
    front.server.open.send_replace(true);
    assert_eq!(events.message().await["id"], 4);
    assert_eq!(events.next().await, None);
    let only = r#"[{"jsonrpc":"2.0","method":"notifications/x"}]"#;
    assert_eq!(client.post(only).send().await.unwrap().status(), 202);
    let opens = format!("[{INITIALIZE}]");
    assert_eq!(front.post(opens).send().await.unwrap().status(), 400);
    let keyed = client.post(format!("[{}]", call(6, "charge", json!({})))).header("idempotency-key", "\"k\"");
    assert_eq!(keyed.send().await.unwrap().status(), 400, "one key is not that of all calls in a batch");
}

#[tokio::test]
async fn the_idempotency_key_header_is_the_key() {
    let front = front("").await;
    let client = front.open("2025-11-25").await;
    let call = |id: u64, n: u64, key: &'static str| {
        client.post(call_text(id, "charge", json!({ "n": n }))).header("idempotency-key", key).send()
    };
    let text = |response: reqwest::Response| async { response.json::<Value>().await.unwrap() };
    assert_eq!(text_of(&text(call(1, 1, "\"a\"").await.unwrap()).await), "done 1");
    assert_eq!(text_of(&text(call(2, 1, "a").await.unwrap()).await), "done 1");
    assert_eq!(text_of(&text(call(3, 1, "b").await.unwrap()).await), "done 2", "another wish");
    let conflict = text(call(4, 2, "a").await.unwrap()).await;
    assert_eq!(conflict["error"]["data"]["type"], "idempotency_key_conflict");
    assert_eq!(call(5, 1, "\"\"").await.unwrap().status(), 400);
}

#[tokio::test]
async fn a_cancelled_request_does_not_hold_its_stream_for_ever() {
    let front = front("").await;
    let client = front.open("2025-11-25").await;
    let events = Events::of(client.call(1, "charge", json!({ "wait": true })).await);
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    assert_eq!(client.post(cancel.to_string()).send().await.unwrap().status(), 202);
    assert!(events.rest().await.iter().all(|event| event.data.as_deref() == Some("")));
    assert_eq!(front.server.got(&["notifications/cancelled"]), 0, "a guarded call goes on");
    front.server.open.send_replace(true);
    let again = client.ask(2, "charge", json!({ "wait": true })).await;
    assert_eq!(text_of(&again), "done 1");
}

#[tokio::test]
async fn large_results_and_many_calls_pass() {
    let front = front("").await;
    let client = front.open("2025-11-25").await;
    let large = client.ask(1, "read", json!({ "size": 10 << 20 })).await;
    assert_eq!(text_of(&large).len(), 10 << 20);
    let mut events = Events::of(client.call(2, "read", json!({ "size": 10 << 20, "progress": 1, "token": 1 })).await);
    events.message().await;
    assert_eq!(text_of(&events.message().await).len(), 10 << 20);
    let mut calls = Vec::new();
    for n in 0..200_u64 {
        let call = client.post(call_text(n, "charge", json!({ "n": n, "wait": true }))).send();
        calls.push(tokio::spawn(call));
    }
    front.server.until("all at once", |server| server.got(&["charge"]) == 200).await;
    front.server.open.send_replace(true);
    let mut seen = std::collections::BTreeSet::new();
    for (n, call) in calls.into_iter().enumerate() {
        let answer = answer_of(call.await.unwrap().unwrap()).await;
        assert_eq!(answer["id"], n);
        seen.insert(text_of(&answer).to_owned());
    }
    assert_eq!((seen.len(), front.server.effects()), (200, 200));
}

/// However it is given.
async fn answer_of(response: reqwest::Response) -> Value {
    if kind(&response) == "application/json" {
        response.json().await.unwrap()
    } else {
        Events::of(response).message().await
    }
}

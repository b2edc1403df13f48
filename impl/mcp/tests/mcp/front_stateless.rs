//! The front over HTTP, revision 2026-07-28: each request by itself.

use crate::support::front::{Events, Server, front, front_of, kind, modern, text_of};
use serde_json::{Value, json};

async fn error(request: reqwest::RequestBuilder) -> (u16, i64) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let answer: Value = response.json().await.unwrap();
    (status, answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}")))
}

#[tokio::test]
async fn headers_must_say_what_the_message_says() {
    let front = front("").await;
    let (body, _) = modern(json!(1), "tools/call", json!({ "name": "charge", "arguments": {} }));
    let post = |lines: &[(&'static str, &'static str)]| {
        lines.iter().fold(front.post(body.clone()), |request, (name, value)| request.header(*name, *value))
    };
    let (version, method, name) =
        (("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "charge"));
    for wrong in [
        &[method, name][..],
        &[version, name],
        &[version, method],
        &[version, method, ("mcp-name", "read")],
        &[version, ("mcp-method", "TOOLS/CALL"), name],
        &[version, method, name, ("mcp-name", "charge")],
        &[("mcp-protocol-version", "2025-11-25"), method, name],
        &[("mcp-protocol-version", "2027-01-01"), method, name],
    ] {
        assert_eq!(error(post(wrong)).await, (400, -32020), "{wrong:?}");
    }
    let (body, _) = modern(json!(1), "ping", json!({ "_meta": {} }));
    let unknown = front.post(body.replace("2026-07-28", "1900-01-01")).header("mcp-protocol-version", "1900-01-01");
    let answer: Value = unknown.send().await.unwrap().json().await.unwrap();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32022), &json!(1)));
    assert!(answer["error"]["data"]["supported"].as_array().unwrap().contains(&json!("2026-07-28")));
    assert_eq!(front.server.effects(), 0);
    let named = post(&[version, method, ("mcp-name", "=?base64?Y2hhcmdl?=")]).send().await.unwrap();
    assert_eq!(text_of(&named.json().await.unwrap()), "done 1");
    for (request, status) in [
        (front.http.get(&front.url), 405),
        (front.http.delete(&front.url), 405),
        (front.post(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), 400),
        (front.post(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#), 202),
    ] {
        let response = request.header("mcp-protocol-version", "2026-07-28").send().await.unwrap();
        assert_eq!(response.status(), status);
        assert!(!response.headers().contains_key("mcp-session-id"));
    }
}

#[tokio::test]
async fn a_status_says_what_an_error_is() {
    let front = front("").await;
    let discovered = front.modern(json!("d"), "server/discover", json!({})).send().await.unwrap();
    assert_eq!(discovered.status(), 200);
    assert!(!discovered.headers().contains_key("mcp-session-id"));
    let discovered: Value = discovered.json().await.unwrap();
    assert_eq!((&discovered["id"], &discovered["result"]["resultType"]), (&json!("d"), &json!("complete")));
    assert_eq!(error(front.modern(json!(1), "no/such", json!({}))).await, (404, -32601));
    let old = front_of("", Server { is_old: true, ..Server::default() }).await;
    assert_eq!(
        error(old.modern(json!(1), "server/discover", json!({}))).await,
        (400, -32601),
        "clients then go back to `initialize`"
    );
}

#[tokio::test]
async fn clients_may_choose_the_same_ids_and_tokens() {
    let front = front("").await;
    let call = |text: &str| {
        let arguments = json!({ "progress": 1, "wait": true, "say": text });
        front
            .modern(
                json!(1),
                "tools/call",
                json!({ "name": "read", "arguments": arguments, "_meta": { "progressToken": 1 } }),
            )
            .send()
    };
    let (one, two) = (call("one").await.unwrap(), call("two").await.unwrap());
    front.server.open.send_replace(true);
    for (text, response) in [("one", one), ("two", two)] {
        let mut events = Events::of(response);
        let progress = events.next().await.unwrap();
        assert_eq!((progress.id.clone(), &progress.message()["params"]["progressToken"]), (None, &json!(1)));
        let answer = events.message().await;
        assert_eq!((&answer["id"], text_of(&answer)), (&json!(1), text));
        assert_eq!(events.next().await, None);
    }
    assert_eq!(front.server.started.load(std::sync::atomic::Ordering::SeqCst), 1, "one process for all of a principal");
    let other = front.modern(json!(1), "ping", json!({})).header("authorization", "Bearer x").send().await.unwrap();
    assert_eq!(other.json::<Value>().await.unwrap()["id"], 1);
    assert_eq!(front.server.started.load(std::sync::atomic::Ordering::SeqCst), 2);
}

#[tokio::test]
async fn closing_the_stream_of_a_guarded_call_leaves_its_outcome_to_whoever_asks_again() {
    for tool in ["charge", "plain"] {
        let front = front("").await;
        let call =
            |id: u64| front.modern(json!(id), "tools/call", json!({ "name": tool, "arguments": { "wait": true } }));
        let (body, _) = modern(json!(1), "tools/call", json!({ "name": tool, "arguments": { "wait": true } }));
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)];
        let called = front.raw(&headers, &body);
        front.server.until("the call", |server| server.got(&["tools/call", tool]) == 1).await;
        drop(called);
        front.server.open.send_replace(true);
        front.server.until("the effect", |server| server.effects() == 1).await;
        let again: Value = call(2).send().await.unwrap().json().await.unwrap();
        assert_eq!((&again["id"], text_of(&again)), (&json!(2), "done 1"), "{tool}");
        assert_eq!((front.server.effects(), front.server.got(&["notifications/cancelled"])), (1, 0));
    }
}

#[tokio::test]
async fn closing_the_stream_of_a_passed_request_cancels_it() {
    let front = front("").await;
    let call = front.modern(json!(77), "tools/call", json!({ "name": "read", "arguments": { "wait": true } }));
    let called = front.server.until("the call", |server| server.got(&["tools/call", "read"]) == 1);
    tokio::select! {
        _ = call.send() => panic!("answered"),
        () = called => {}
    }
    front.server.until("the cancel", |server| server.got(&["notifications/cancelled"]) == 1).await;
    let log = front.server.log();
    let sent =
        |part: &str| serde_json::from_str::<Value>(log.iter().find(|line| line.contains(part)).unwrap()).unwrap();
    let (asked, cancelled) = (sent("\"read\""), sent("notifications/cancelled"));
    assert_eq!(cancelled["params"]["requestId"], asked["id"], "the id that the server knows");
    assert_ne!(asked["id"], 77);
}

#[tokio::test]
async fn a_subscription_is_a_stream_that_stays() {
    let front = front("").await;
    let request =
        front.modern(json!("mine"), "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    let response = request.send().await.unwrap();
    assert_eq!(kind(&response), "text/event-stream");
    let mut events = Events::of(response);
    for method in ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"] {
        let message = events.message().await;
        assert_eq!(message["method"], method);
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "mine");
    }
    drop(events);
    front.server.until("the cancel", |server| server.got(&["notifications/cancelled"]) == 1).await;
}

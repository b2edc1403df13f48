//! Answers that come as streams of events, and what becomes of them when they are cut or cancelled.

use std::sync::Arc;

use crate::support::http::{Server, options};
use crate::support::{World, mark};
use serde_json::{Value, json};
use tokio::sync::Barrier;

const CHARGE: &str = r#"{"amount":5}"#;
const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":"#;

fn progress(n: u32) -> String {
    format!("{PROGRESS}{n}}}}}")
}

#[tokio::test]
async fn what_comes_before_an_answer_reaches_the_client_before_it() {
    let server = Server::start(|server: Server, heard, mut wire| async move {
        if heard.what() != "tools/call" {
            return server.usually(heard, wire).await;
        }
        let result = server.effect(&heard);
        wire.events(&[]).await;
        for n in 0..20 {
            wire.event(&format!(": comment\r\ndata: {}\r\n\r\n", progress(n))).await;
        }
        wire.event(&format!("data: {}\n\n", heard.result(result))).await;
        wire.end().await
    })
    .await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    for (id, tool) in [("1", "read"), ("2", "charge")] {
        client.call(id, tool, CHARGE).await;
        for n in 0..20 {
            assert_eq!(client.hear().await, progress(n));
        }
        assert_eq!(client.answer().await["id"].to_string(), id);
    }
    client.end().await.1.unwrap();
}

/// The answer's stream is cut after an event, and can be taken up again.
async fn resumed(tool: &str) -> (Value, Server) {
    let server = Server::start(|server: Server, heard, mut wire| async move {
        match (heard.what().as_str(), heard.header("last-event-id").map(str::to_owned)) {
            ("tools/call", _) => {
                server.effect(&heard);
                wire.events(&[]).await;
                wire.event("id: a-0\nretry: 20\ndata:\n\n").await;
                wire.event(&format!("id: a-1\ndata: {}\n\n", progress(1))).await;
                // Half of an event, which counts for nothing.
                wire.event(&format!("id: a-2\ndata: {}\n", progress(2))).await;
                wire.reset().await
            }
            ("GET", Some(last)) if last == "a-1" => {
                wire.events(&[]).await;
                wire.event(&format!("id: a-2\ndata: {}\n\n", progress(2))).await;
                // Closed for no other reason than not to keep a connection (revision 2025-11-25).
                wire.end().await
            }
            ("GET", Some(last)) if last == "a-2" => {
                let call = server.all("tools/call").remove(0);
                wire.events(&[]).await;
                let result = json!({ "content": [{ "type": "text", "text": "done" }] });
                wire.event(&format!("id: a-3\ndata: {}\n\n", call.result(result))).await;
                wire.end().await
            }
            _ => server.usually(heard, wire).await,
        }
    })
    .await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    client.call("1", tool, CHARGE).await;
    assert_eq!((client.hear().await, client.hear().await), (progress(1), progress(2)));
    let answer = client.answer().await;
    client.end().await.1.unwrap();
    (answer, server)
}

#[tokio::test]
async fn a_stream_that_is_cut_is_taken_up_again_and_the_call_is_not_sent_again() {
    let (answer, server) = resumed("charge").await;
    assert_eq!((&mark(&answer)["status"], &answer["result"]["content"][0]["text"]), (&json!("done"), &json!("done")));
    assert_eq!((server.calls("charge"), server.effects()), (1, 1));
    let gets: Vec<_> = server.all("GET").into_iter().filter(|get| get.header("last-event-id").is_some()).collect();
    assert!(gets.iter().all(|get| get.header("mcp-session-id") == Some("s1")));
    assert_eq!(gets.len(), 2);
}

#[tokio::test]
async fn so_is_that_of_a_request_that_is_passed_on() {
    let (answer, server) = resumed("read").await;
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    assert_eq!(server.calls("read"), 1);
}

#[tokio::test]
async fn a_stream_that_the_server_does_not_take_up_again_proves_nothing() {
    let server = Server::start(|server: Server, heard, mut wire| async move {
        match (heard.what().as_str(), heard.header("last-event-id")) {
            ("tools/call", _) => {
                wire.events(&[]).await;
                wire.event("id: a-0\nretry: 20\ndata:\n\n").await;
                wire.reset().await
            }
            ("GET", Some(_)) => wire.status(404).await,
            _ => server.usually(heard, wire).await,
        }
    })
    .await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    assert_eq!(mark(&client.ask("1", "charge", CHARGE).await)["status"], "unknown");
    let answer = client.ask("2", "read", "{}").await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("not known"), "{answer}");
    assert_eq!((server.calls("charge"), server.calls("read")), (1, 1));
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_large_answer_and_many_at_once() {
    const MANY: usize = 400;
    let together = Arc::new(Barrier::new(MANY));
    let server = Server::start(move |server: Server, heard, mut wire| {
        let together = together.clone();
        async move {
            match heard.tool().as_str() {
                "plain" => {
                    let text = "x".repeat(10 << 20);
                    let body = heard.result(json!({ "content": [{ "type": "text", "text": text }] }));
                    wire.events(&[]).await;
                    wire.event(&format!("data: {body}\n\n")).await;
                    wire.end().await
                }
                "read" => {
                    // Nobody is answered before all are there.
                    together.wait().await;
                    wire.json(&heard.result(json!({ "content": [] }))).await
                }
                _ => server.usually(heard, wire).await,
            }
        }
    })
    .await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    for n in 0..MANY {
        client.call(&n.to_string(), "read", "{}").await;
    }
    let mut ids = Vec::new();
    for _ in 0..MANY {
        ids.push(client.answer().await["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..MANY as u64).collect::<Vec<_>>());
    let answer = client.ask("\"large\"", "plain", "{}").await;
    assert_eq!(answer["result"]["content"][0]["text"].as_str().unwrap().len(), 10 << 20);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_batch_goes_as_it_came_and_each_of_its_requests_is_answered() {
    let server = Server::start(|server: Server, heard, mut wire| async move {
        if !heard.body.starts_with('[') {
            return server.usually(heard, wire).await;
        }
        wire.events(&[]).await;
        wire.event("data: [{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}]\n\n").await;
        // The other one never is.
        wire.end().await
    })
    .await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    let batch = r#"[ {"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"} ]"#;
    client.say(batch).await;
    assert_eq!(client.hear().await, r#"[{"jsonrpc":"2.0","id":2,"result":{}}]"#);
    let answer = client.answer().await;
    assert_eq!(answer["id"], 1);
    assert!(answer["error"]["message"].as_str().unwrap().contains("not known"), "{answer}");
    client.end().await.1.unwrap();
    assert_eq!(server.heard().iter().filter(|heard| heard.body == batch).count(), 1);
}

#[tokio::test]
async fn notifications_keep_their_order_and_a_cancel_comes_after_its_request() {
    let server = Server::start(|server: Server, heard, mut wire| async move {
        match heard.what().as_str() {
            "slow" => {
                wire.events(&[]).await;
                wire.closed().await;
                None
            }
            _ => server.usually(heard, wire).await,
        }
    })
    .await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    for n in 0..30 {
        client.say(format!(r#"{{"jsonrpc":"2.0","method":"notifications/n","params":{n}}}"#)).await;
    }
    client.say(r#"{"jsonrpc":"2.0","id":1,"method":"slow"}"#).await;
    server.hears("slow", 1).await;
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    server.hears("notifications/cancelled", 1).await;
    let params: Vec<_> = server.all("notifications/n").iter().map(|heard| heard.message()["params"].clone()).collect();
    assert_eq!(params, (0..30).map(Value::from).collect::<Vec<_>>());
    let heard = server.heard();
    let at = |what: &str| heard.iter().position(|heard| heard.what() == what).unwrap();
    assert!(at("slow") < at("notifications/cancelled"));
    // Nothing is said of a request that was cancelled.
    let (rest, ended) = client.end().await;
    ended.unwrap();
    assert_eq!(rest, Vec::<String>::new());
}

fn stateless(id: &str, method: &str, rest: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{rest}"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    )
}

#[tokio::test]
async fn a_revision_without_sessions_names_its_methods_and_leaves_streams_to_cancel() {
    let server = Server::start(|server: Server, heard, mut wire| async move {
        match (heard.what().as_str(), heard.tool().as_str()) {
            ("tools/call", "read") => {
                wire.events(&[]).await;
                wire.event(&format!("data: {}\n\n", progress(1))).await;
                // The request is over when its reader has gone.
                wire.closed().await;
                server.set_down(true);
                None
            }
            ("tools/call", _) => {
                wire.events(&[]).await;
                wire.event(&format!("data: {}\n\n", progress(2))).await;
                while !server.is_down() {
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
                let result = server.effect(&heard);
                wire.event(&format!("data: {}\n\n", heard.result(result))).await;
                wire.end().await
            }
            _ => server.usually(heard, wire).await,
        }
    })
    .await;
    let world = World::new();
    let mut client = world.connect_over_http("", options(&server)).await;
    client.say(stateless("1", "tools/call", r#""name":"charge","arguments":{"amount":5},"#)).await;
    assert_eq!(client.hear().await, progress(2));
    client.say(stateless("2", "tools/call", r#""name":"read","#)).await;
    assert_eq!(client.hear().await, progress(1));
    for id in [1, 2] {
        client
            .say(format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#))
            .await;
    }
    // The guarded call was sent, so that it runs to its end, and whoever asks again gets its answer.
    let again = client.say(stateless("3", "tools/call", r#""name":"charge","arguments":{"amount":5},"#));
    again.await;
    let answer = client.answer().await;
    assert_eq!((&answer["id"], &mark(&answer)["status"]), (&json!(3), &json!("done")), "{answer}");
    client.end().await.1.unwrap();
    assert_eq!(server.effects(), 1);
    assert!(server.is_down(), "the stream was left");
    assert!(server.all("notifications/cancelled").is_empty() && server.all("GET").is_empty());
    assert!(server.all("DELETE").is_empty());
    for call in server.all("tools/call") {
        assert_eq!(call.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(call.header("mcp-method"), Some("tools/call"));
        assert_eq!(call.header("mcp-name"), Some(call.tool().as_str()));
        assert_eq!(call.header("mcp-session-id"), None);
    }
    assert_eq!(server.all("tools/list")[0].header("mcp-method"), Some("tools/list"));
}

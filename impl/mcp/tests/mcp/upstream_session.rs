//! Sessions with a server behind HTTP: how they are opened, kept, lost and opened again.

use crate::support::http::{Server, options};
use crate::support::{INITIALIZE, INITIALIZED, World, mark};
use serde_json::json;

const CHARGE: &str = r#"{"amount":5}"#;

async fn usual() -> Server {
    Server::start(|server: Server, heard, wire| server.usually(heard, wire)).await
}

#[tokio::test]
async fn every_message_is_a_post_of_its_own_with_the_headers_of_its_session() {
    let server = usual().await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    assert_eq!(mark(&client.ask("1", "charge", CHARGE).await)["status"], "done");
    client.ask("2", "read", "{}").await;
    client.end().await.1.unwrap();

    let heard = server.heard();
    let posts: Vec<_> = heard.iter().filter(|heard| heard.method == "POST").collect();
    // Nothing overtakes what opens the session, and each message arrives byte for byte.
    assert_eq!((posts[0].body.as_str(), posts[1].body.as_str()), (INITIALIZE, INITIALIZED));
    assert_eq!((posts[0].header("mcp-session-id"), posts[0].header("mcp-protocol-version")), (None, None));
    for heard in &heard[1..] {
        assert_eq!(heard.header("mcp-session-id"), Some("s1"), "{heard:?}");
        assert_eq!(heard.header("mcp-protocol-version"), Some("2025-06-18"), "{heard:?}");
    }
    for post in posts {
        assert_eq!(post.header("content-type"), Some("application/json"));
        assert_eq!(post.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(post.header("mcp-method"), None, "that is for later revisions");
    }
    assert_eq!(server.all("GET")[0].header("accept"), Some("text/event-stream"));
    assert_eq!(server.all("DELETE").len(), 1, "the session is ended");
    assert_eq!(server.heard().last().unwrap().method, "DELETE");
}

#[tokio::test]
async fn a_session_that_the_server_has_ended_is_opened_again_and_nothing_runs_twice() {
    let server = usual().await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    assert_eq!(mark(&client.ask("1", "charge", CHARGE).await)["status"], "done");
    server.end_sessions();
    let answer = client.ask("2", "read", "{}").await;
    assert!(answer["result"].is_object(), "{answer}");
    server.end_sessions();
    let answer = client.ask("3", "charge", r#"{"amount":6}"#).await;
    assert_eq!(mark(&answer)["status"], "done", "{answer}");
    client.end().await.1.unwrap();

    assert_eq!(server.effects(), 3);
    let initialize = server.all("initialize");
    assert_eq!(initialize.len(), 3);
    let params = |at: usize| initialize[at].message()["params"].clone();
    assert_eq!((params(1), params(2)), (params(0), params(0)), "as the client had opened it");
    assert!(initialize.iter().all(|heard| heard.header("mcp-session-id").is_none()));
    let initialized = server.all("notifications/initialized");
    let sessions: Vec<_> = initialized.iter().map(|heard| heard.header("mcp-session-id").unwrap()).collect();
    assert_eq!(sessions, ["s1", "s2", "s3"]);
    // What the server has may be other tools now.
    assert!(server.all("tools/list").len() >= 3);
}

#[tokio::test]
async fn many_requests_that_find_the_session_ended_open_one_other_session() {
    let server = usual().await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    client.ask("0", "read", "{}").await;
    server.end_sessions();
    for n in 1..=50 {
        client.call(&n.to_string(), "read", "{}").await;
    }
    let mut ids = Vec::new();
    for _ in 1..=50 {
        let answer = client.answer().await;
        assert!(answer["result"].is_object(), "{answer}");
        ids.push(answer["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, (1..=50).collect::<Vec<_>>());
    assert_eq!(server.all("initialize").len(), 2);
    assert_eq!(server.effects(), 51);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_session_that_can_not_be_opened_again_is_tried_again_with_the_next_message() {
    let server = Server::start(|server: Server, heard, wire| async move {
        if server.is_down() && heard.what() == "initialize" {
            wire.status(503).await
        } else {
            server.usually(heard, wire).await
        }
    })
    .await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    client.ask("0", "read", "{}").await;
    server.end_sessions();
    server.set_down(true);
    let answer = client.ask("1", "charge", CHARGE).await;
    assert_eq!(mark(&answer)["status"], "failed", "it was certainly not run: {answer}");
    let answer = client.ask("2", "read", "{}").await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("503"), "{answer}");
    server.set_down(false);
    assert!(client.ask("3", "read", "{}").await["result"].is_object());
    assert_eq!(mark(&client.ask("4", "charge", CHARGE).await)["status"], "done");
    assert_eq!(server.effects(), 3);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn what_the_server_sends_unasked_reaches_the_client_and_its_answers_come_back() {
    let server = Server::start(|server: Server, heard, mut wire| async move {
        match (heard.what().as_str(), server.all("GET").len()) {
            ("GET", 1) => {
                wire.events(&[]).await;
                wire.event("retry: 10\nid: g1\ndata:\n\n").await;
                wire.event("id: g2\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"roots/list\"}\n\n").await;
                // Cut, without an end.
                None
            }
            ("GET", 2) => {
                wire.events(&[]).await;
                wire.event("id: g3\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/tools/list_changed\"}\n\n").await;
                wire.closed().await;
                None
            }
            _ => server.usually(heard, wire).await,
        }
    })
    .await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    assert_eq!(client.hear().await, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    let answer = r#"{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}"#;
    client.say(answer).await;
    // The message spans two lines of data: over stdio it is one line.
    assert_eq!(client.hear().await, r#"{"jsonrpc":"2.0", "method":"notifications/tools/list_changed"}"#);
    server.hears("tools/list", 2).await;
    let gets = server.all("GET");
    assert_eq!((gets[0].header("last-event-id"), gets[1].header("last-event-id")), (None, Some("g2")));
    assert_eq!(gets[1].header("mcp-session-id"), Some("s1"));
    client.end().await.1.unwrap();
    assert_eq!(server.heard().iter().filter(|heard| heard.body == answer).count(), 1);
}

#[tokio::test]
async fn an_answer_of_the_client_to_a_session_that_has_ended_goes_nowhere() {
    let server = Server::start(|server: Server, heard, mut wire| async move {
        if heard.what() == "GET" && heard.header("mcp-session-id") == Some("s1") {
            wire.events(&[]).await;
            wire.event("data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"roots/list\"}\n\n").await;
            wire.closed().await;
            return None;
        }
        server.usually(heard, wire).await
    })
    .await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    assert!(client.hear().await.contains("roots/list"));
    server.end_sessions();
    client.ask("1", "read", "{}").await;
    client.say(r#"{"jsonrpc":"2.0","id":7,"result":{"roots":["late"]}}"#).await;
    client.ask("2", "read", "{}").await;
    client.end().await.1.unwrap();
    assert!(!server.heard().iter().any(|heard| heard.body.contains("late")));
}

#[tokio::test]
async fn a_server_without_sessions_is_served_as_well() {
    let server = Server::start(|server: Server, heard, wire| async move {
        if heard.what() == "initialize" {
            let result = json!({ "protocolVersion": "2025-03-26", "serverInfo": {}, "capabilities": {} });
            return wire.json(&heard.result(result)).await;
        }
        server.usually(heard, wire).await
    })
    .await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    assert_eq!(mark(&client.ask("1", "charge", CHARGE).await)["status"], "done");
    client.end().await.1.unwrap();
    assert!(server.all("DELETE").is_empty());
    assert!(server.heard().iter().all(|heard| heard.header("mcp-session-id").is_none()));
    assert_eq!(server.all("tools/call")[0].header("mcp-protocol-version"), Some("2025-03-26"));
}

#[tokio::test]
async fn nothing_overtakes_a_slow_initialize_but_the_answers_that_it_may_wait_for() {
    let server = Server::start(|server: Server, heard, mut wire| async move {
        if heard.what() == "initialize" {
            wire.events(&[("mcp-session-id", "s1")]).await;
            wire.event("data: {\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}\n\n").await;
            server.hears("POST", 1).await;
            let result = json!({ "protocolVersion": "2025-06-18", "serverInfo": {}, "capabilities": {} });
            wire.event(&format!("data: {}\n\n", heard.result(result))).await;
            return wire.end().await;
        }
        server.usually(heard, wire).await
    })
    .await;
    let world = World::new();
    let mut client = world.connect_over_http("", options(&server)).await;
    client.say(INITIALIZE).await;
    client.say(INITIALIZED).await;
    client.call("1", "read", "{}").await;
    assert!(client.hear().await.contains("ping"));
    client.say(r#"{"jsonrpc":"2.0","id":"p","result":{}}"#).await;
    assert!(client.hear().await.contains("serverInfo"));
    assert_eq!(client.answer().await["id"], 1);
    client.end().await.1.unwrap();
    let order: Vec<_> = server.heard().iter().map(|heard| heard.what()).take(3).collect();
    assert_eq!(order, ["initialize", "POST", "notifications/initialized"]);
    assert!(server.all("tools/call")[0].header("mcp-session-id").is_some());
}

#[tokio::test]
async fn a_server_that_does_not_list_its_tools_at_once_is_asked_again() {
    for status in [503, 401] {
        let server = Server::start(move |server: Server, heard, wire| async move {
            match heard.what() == "tools/list" && server.all("tools/list").len() < 3 {
                true => wire.status(status).await,
                false => server.usually(heard, wire).await,
            }
        })
        .await;
        let world = World::new();
        let mut client = world.open_over_http("", &server).await;
        server.hears("tools/list", 3).await;
        // Without the list it would be guarded: nothing says that it only reads.
        let mut id = 0;
        loop {
            id += 1;
            let answer = client.ask(&id.to_string(), "read", "{}").await;
            assert!(answer["result"].is_object() && id < 500, "{answer}");
            if mark(&answer).is_null() {
                break;
            }
        }
        client.end().await.1.unwrap();
    }
}

//! The front over HTTP with a server behind HTTP: whose authorization counts, and what the server refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::support::front::{Front, front_with, text_of};
use crate::support::http_server::{self, Heard, Server, Wire};
use serde_json::{Value, json};
use settled_mcp::upstream::HttpOptions;
use settled_mcp::{Behind, Config, Fronted};

#[derive(Default)]
struct World {
    revoked: AtomicBool,
    down: AtomicBool,
    effects: AtomicUsize,
}

/// Lets in whoever brings "Bearer good", until that is revoked.
async fn serve(world: Arc<World>, heard: Heard, wire: Wire) -> http_server::Kept {
    if world.down.load(Ordering::SeqCst) {
        return wire.reset().await;
    }
    if heard.path.starts_with("/.well-known/") {
        return wire.json(&json!({ "resource": heard.path }).to_string()).await;
    }
    let good = heard.header("authorization") == Some("Bearer good") && !world.revoked.load(Ordering::SeqCst);
    if !good {
        let challenge = r#"Bearer resource_metadata="https://auth.example/x""#;
        return wire
            .answer(401, &[("www-authenticate", challenge), ("content-type", "text/plain")], "who are you?")
            .await;
    }
    let result = match &*heard.what() {
        "initialize" => {
            json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "s", "version": "1" } })
        }
        "tools/list" => json!({ "tools": [{ "name": "charge", "annotations": { "destructiveHint": true } }] }),
        "tools/call" => {
            let n = world.effects.fetch_add(1, Ordering::SeqCst) + 1;
            json!({ "content": [{ "type": "text", "text": format!("done {n}") }] })
        }
        "ping" => json!({}),
        "GET" => return wire.status(405).await,
        _ => return wire.status(202).await,
    };
    wire.json(&heard.result(result)).await
}

async fn start(config: &str) -> (Front, Server, Arc<World>) {
    let world = Arc::new(World::default());
    let behind = world.clone();
    let server = Server::start(move |_, heard, wire| serve(behind.clone(), heard, wire)).await;
    let config = Config::parse("settled.toml".as_ref(), config).unwrap();
    let options = HttpOptions::new(server.url.parse().unwrap());
    let fronted = Fronted { name: None, config, behind: Behind::Http(Box::new(options)) };
    (front_with(vec![fronted], Default::default()).await, server, world)
}

#[tokio::test]
async fn what_the_server_refuses_reaches_the_client_as_it_is() {
    let (front, _server, world) = start("").await;
    let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    let refused = front.post(initialize).header("authorization", "Bearer bad").send().await.unwrap();
    assert_eq!(refused.status(), 401);
    let challenge = refused.headers()["www-authenticate"].to_str().unwrap();
    assert_eq!(challenge, r#"Bearer resource_metadata="https://auth.example/x""#);
    assert!(!refused.headers().contains_key("mcp-session-id"));
    assert_eq!(refused.text().await.unwrap(), "who are you?");
    let client = front.open_as("2025-11-25", Some("Bearer good")).await;
    assert_eq!(text_of(&client.ask(1, "charge", json!({})).await), "done 1");
    world.revoked.store(true, Ordering::SeqCst);
    let passed = client.post(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#).send().await.unwrap();
    assert_eq!((passed.status().as_u16(), passed.text().await.unwrap()), (401, "who are you?".to_owned()));
    let guarded = client.call(3, "charge", json!({ "n": 2 })).await;
    assert_eq!(guarded.status(), 401);
    assert!(guarded.headers().contains_key("www-authenticate"));
    assert_eq!(guarded.json::<Value>().await.unwrap()["id"], 3);
    assert_eq!(world.effects.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_recorded_answer_is_only_for_whom_the_server_still_lets_in() {
    for (reauthorise, status) in [("1ms", 401), ("1h", 200)] {
        let (front, _server, world) = start(&format!("tasks = true\n[http]\nreauthorise = '{reauthorise}'")).await;
        let client = front.open_as("2025-11-25", Some("Bearer good")).await;
        assert_eq!(text_of(&client.ask(1, "charge", json!({})).await), "done 1");
        assert_eq!(text_of(&client.ask(2, "charge", json!({})).await), "done 1", "a replay");
        let params = json!({ "name": "charge", "arguments": {}, "task": {} });
        let as_task = json!({ "jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": params });
        let created: Value = client.post(as_task.to_string()).send().await.unwrap().json().await.unwrap();
        let task = &created["result"]["task"]["taskId"];
        world.revoked.store(true, Ordering::SeqCst);
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        let fetch = json!({ "jsonrpc": "2.0", "id": 5, "method": "tasks/result", "params": { "taskId": task } });
        let fetched = client.post(fetch.to_string()).send().await.unwrap();
        assert_eq!(fetched.status(), status, "its task within {reauthorise}");
        assert_eq!(fetched.text().await.unwrap().contains("done 1"), status == 200);
        let replay = client.call(3, "charge", json!({})).await;
        assert_eq!(replay.status(), status, "within {reauthorise}");
        if status == 401 {
            assert!(replay.headers().contains_key("www-authenticate"));
            assert!(!replay.text().await.unwrap().contains("done"));
        }
        assert_eq!(world.effects.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_server_that_can_not_be_asked_lets_nobody_in() {
    let (front, _server, world) = start("[http]\nreauthorise = '1ms'").await;
    let client = front.open_as("2025-11-25", Some("Bearer good")).await;
    assert_eq!(text_of(&client.ask(1, "charge", json!({})).await), "done 1");
    world.down.store(true, Ordering::SeqCst);
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let replay = client.call(2, "charge", json!({})).await;
    assert_eq!(replay.status(), 502);
    assert!(replay.json::<Value>().await.unwrap()["error"]["message"].as_str().unwrap().contains("nothing was sent"));
    assert_eq!(world.effects.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn how_to_be_authorized_is_for_the_server_to_say() {
    let (front, server, _world) = start("").await;
    let path = server.url.parse::<reqwest::Url>().unwrap().path().to_owned();
    let well_known = "/.well-known/oauth-protected-resource";
    for (ours, theirs) in
        [(well_known.to_owned(), well_known.to_owned()), (format!("{well_known}/mcp"), format!("{well_known}{path}"))]
    {
        let answer = front.http.get(format!("http://{}{ours}", front.address)).send().await.unwrap();
        assert_eq!(answer.json::<Value>().await.unwrap()["resource"], theirs.trim_end_matches('/'), "{ours}");
    }
    let nothing = front.http.get(format!("http://{}{well_known}/other", front.address)).send().await.unwrap();
    assert_eq!(nothing.status(), 404);
}

//! What proves that a call was not run, and what proves nothing: over HTTP, with a server that fails at each place.

use crate::support::http::{Server, options};
use crate::support::http_server::{Heard, Kept, Wire};
use crate::support::{World, mark};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A status, headers and a body.
type Answer = (u16, &'static [(&'static str, &'static str)], &'static str);

const CHARGE: &str = r#"{"amount":5}"#;

/// A server that does something else with the calls of `charge`, and of `read`.
async fn server<F, Fut>(calls: F) -> Server
where
    F: Fn(Server, Heard, Wire) -> Fut + Send + Sync + Clone + 'static,
    Fut: Future<Output = Kept> + Send + 'static,
{
    Server::start(move |server, heard, wire| {
        let calls = calls.clone();
        async move {
            if heard.what() == "tools/call" {
                calls(server, heard, wire).await
            } else {
                server.usually(heard, wire).await
            }
        }
    })
    .await
}

fn text(answer: &Value) -> String {
    answer.to_string()
}

/// A guarded call is unknown, and is not sent again; a passed one is answered with an error that says so.
async fn proves_nothing(server: Server) {
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    let answer = client.ask("1", "charge", CHARGE).await;
    assert_eq!(mark(&answer)["status"], "unknown", "{answer}");
    let again = client.ask("2", "charge", CHARGE).await;
    assert_eq!(mark(&again)["status"], "unknown", "{again}");
    assert_eq!(server.calls("charge"), 1, "it was sent again");
    let passed = client.ask("3", "read", "{}").await;
    assert!(text(&passed["error"]).contains("not known"), "{passed}");
    assert_eq!(server.calls("read"), 1);
    client.end().await.1.unwrap();
}

/// A guarded call has failed for certain, and is sent again when it is made again.
async fn proves_that_it_was_not_run(server: Server) {
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    let answer = client.ask("1", "charge", CHARGE).await;
    assert_eq!(mark(&answer)["status"], "failed", "{answer}");
    assert!(text(&answer).contains("not run") || text(&answer).contains("nothing was sent"), "{answer}");
    let calls = server.calls("charge");
    let again = client.ask("2", "charge", CHARGE).await;
    assert_eq!(mark(&again)["status"], "failed", "{again}");
    assert_eq!(server.calls("charge"), calls * 2, "it may be sent again");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_connection_that_is_refused_was_never_used() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::on(listener, |server: Server, heard, wire| server.usually(heard, wire));
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    client.ask("1", "charge", r#"{"amount":1}"#).await;
    assert_eq!(server.effects(), 1);
    client.end().await.1.unwrap();

    // Nobody listens there.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = listener.local_addr().unwrap();
    drop(listener);
    assert_ne!(gone, address);
    let upstream = settled_mcp::upstream::HttpOptions::new(format!("http://{gone}/mcp").parse().unwrap());
    let mut client = world.connect_over_http("[tools.charge]\nkind = 'opaque'", upstream).await;
    client.say(crate::support::INITIALIZE).await;
    let answer = client.answer().await;
    assert!(text(&answer["error"]).contains("nothing was sent"), "{answer}");
    client.say(crate::support::INITIALIZED).await;
    let answer = client.ask("1", "charge", CHARGE).await;
    assert_eq!(mark(&answer)["status"], "failed", "{answer}");
    assert!(text(&answer).contains("nothing was sent"), "{answer}");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_reset_after_the_request_proves_nothing() {
    proves_nothing(server(|_, _, wire| wire.reset()).await).await;
    proves_nothing(
        server(|server, heard, wire| async move {
            server.effect(&heard);
            wire.reset().await
        })
        .await,
    )
    .await;
}

#[tokio::test]
async fn an_answer_that_is_cut_proves_nothing() {
    proves_nothing(
        server(|_, _, mut wire| async move {
            wire.raw("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"json").await;
            None
        })
        .await,
    )
    .await;
    proves_nothing(
        server(|_, _, mut wire| async move {
            wire.raw("HTTP/1.1 200 OK\r\ncontent-type: appl").await;
            None
        })
        .await,
    )
    .await;
}

#[tokio::test]
async fn a_stream_that_ends_without_an_answer_proves_nothing() {
    proves_nothing(
        server(|_, _, mut wire| async move {
            wire.events(&[]).await;
            wire.event("event: other\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n").await;
            wire.end().await
        })
        .await,
    )
    .await;
}

#[tokio::test]
async fn answers_that_are_no_message_prove_nothing() {
    let answers: [Answer; 6] = [
        (200, &[("content-type", "text/html")], "<html>welcome</html>"),
        (200, &[("content-type", "application/json")], ""),
        (200, &[("content-type", "application/json")], "{}"),
        (200, &[("content-type", "application/json"), ("content-encoding", "gzip")], "\u{1f}gzip"),
        (202, &[], ""),
        (204, &[], ""),
    ];
    for (status, headers, body) in answers {
        let server = server(move |_, _, wire| wire.answer(status, headers, body)).await;
        proves_nothing(server).await;
    }
}

#[tokio::test]
async fn statuses_that_can_follow_an_effect_prove_nothing() {
    for status in [302, 307, 308, 402, 408, 409, 500, 502, 503, 504] {
        let elsewhere = Server::start(|server: Server, heard, wire| server.usually(heard, wire)).await;
        let to = elsewhere.url.clone();
        let server = server(move |_, _, wire| {
            let to = to.clone();
            async move { wire.answer(status, &[("location", &to), ("retry-after", "0")], "").await }
        })
        .await;
        proves_nothing(server).await;
        assert!(elsewhere.heard().is_empty(), "the redirect was followed");
    }
}

#[tokio::test]
async fn statuses_that_come_before_a_handler_prove_that_it_was_not_run() {
    for status in [400, 401, 403, 404, 405, 406, 413, 415, 421] {
        // Without a session, or the 404 would end it.
        let server = Server::start(move |server: Server, heard, wire| async move {
            match heard.what().as_str() {
                "tools/call" => wire.status(status).await,
                "initialize" => {
                    let result = json!({ "protocolVersion": "2025-06-18", "serverInfo": {}, "capabilities": {} });
                    wire.json(&heard.result(result)).await
                }
                _ => server.usually(heard, wire).await,
            }
        })
        .await;
        proves_that_it_was_not_run(server).await;
    }
}

#[tokio::test]
async fn which_statuses_prove_it_is_for_the_user_to_say() {
    let server = server(|_, heard, wire| wire.status(if heard.tool() == "charge" { 503 } else { 401 })).await;
    let world = World::new();
    let mut client = world
        .connect_over_http("", settled_mcp::upstream::HttpOptions { not_run: vec![503], ..options(&server) })
        .await;
    client.initialize().await;
    assert_eq!(mark(&client.ask("1", "charge", CHARGE).await)["status"], "failed");
    assert_eq!(mark(&client.ask("2", "plain", CHARGE).await)["status"], "unknown");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn an_answer_counts_under_any_status() {
    let server = server(|_, heard, wire| async move {
        let error = json!({ "code": -32602, "message": "no such customer" });
        let body = json!({ "jsonrpc": "2.0", "id": heard.id(), "error": error }).to_string();
        wire.answer(500, &[("content-type", "application/json")], &body).await
    })
    .await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    let answer = client.ask("1", "charge", CHARGE).await;
    assert_eq!((&answer["error"]["code"], &mark(&answer)["status"]), (&json!(-32602), &json!("failed")), "{answer}");
    client.say(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read"}}"#).await;
    let line = client.hear().await;
    assert_eq!(line, r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no such customer"}}"#);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn an_error_without_an_id_is_given_that_of_the_request() {
    let server = server(|_, _, wire| async move {
        let body = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: x"},"id":null}"#;
        wire.answer(400, &[("content-type", "application/json")], body).await
    })
    .await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    let answer = client.ask("1", "read", "{}").await;
    assert_eq!(answer["error"], json!({ "code": -32000, "message": "Bad Request: x" }));
    let answer = client.ask("2", "charge", CHARGE).await;
    assert!(text(&answer).contains("Bad Request: x"), "{answer}");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_kept_connection_that_closes_under_a_request_does_not_get_it_sent_twice() {
    // The server takes every second request on a connection, and closes it without an answer.
    let server = Server::start(|server: Server, heard, wire| async move {
        let before = server.heard().iter().filter(|other| other.connection == heard.connection).count();
        if heard.what() == "tools/call" && before > 1 {
            server.effect(&heard);
            return None;
        }
        server.usually(heard, wire).await
    })
    .await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    let mut unknown = 0;
    for n in 0..10 {
        let answer = client.ask(&n.to_string(), "charge", &format!(r#"{{"n":{n}}}"#)).await;
        unknown += usize::from(mark(&answer)["status"] == "unknown");
        assert_eq!(server.calls("charge"), n + 1, "{answer}");
    }
    assert!(unknown > 0, "no connection was used twice");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_is_not_used() {
    // Closed right after an answer, so that the next request can come at any moment of the close.
    let server = Server::start(|server: Server, heard, wire| async move {
        let _ = server.usually(heard, wire).await;
        None
    })
    .await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    for n in 0..50 {
        let answer = client.ask(&n.to_string(), "charge", &format!(r#"{{"n":{n}}}"#)).await;
        let state = mark(&answer)["status"].clone();
        assert!(state == "done" || state == "unknown" || state == "failed", "{answer}");
    }
    assert_eq!(server.calls("charge"), server.effects());
    assert!(server.effects() <= 50);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_busy_server_is_asked_again_and_the_call_runs_once() {
    let server = server(|server, heard, wire| async move {
        match server.calls("charge") {
            1 => wire.answer(429, &[("retry-after", "0")], "").await,
            _ => server.usually(heard, wire).await,
        }
    })
    .await;
    let world = World::new();
    let mut client = world.open_over_http("", &server).await;
    let answer = client.ask("1", "charge", CHARGE).await;
    assert_eq!(mark(&answer)["status"], "done", "{answer}");
    assert_eq!((server.calls("charge"), server.effects()), (2, 1));
    client.end().await.1.unwrap();
}

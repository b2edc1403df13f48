//! What is not a guarded call passes byte for byte where HTTP is on either side: each message is spoken to a server directly and
//! through the proxy; what came back and what the server got are compared.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use settled_tests::{PATIENCE, Running, Server, Stage, until};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Stdio,
    Http,
}

use Link::{Http, Stdio};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18", "capabilities":{"x":1e400},"clientInfo":{"name":"raw","version":"1.10"},"n":9007199254740993}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A client of raw messages.
enum Client {
    Stdio(Running),
    Http { client: reqwest::Client, url: String, headers: HeaderMap },
}

/// What came back: the status over HTTP, and the messages.
#[derive(Debug, PartialEq, Eq)]
struct Came {
    status: Option<u16>,
    messages: Vec<Vec<u8>>,
}

impl Client {
    /// Says something; waits for its answer if it needs one.
    async fn say(&mut self, message: &str, answered: bool) -> Came {
        match self {
            Client::Stdio(running) => {
                running.write(format!("{message}\n").as_bytes());
                let messages = if answered { vec![running.next_bytes().expect("an answer")] } else { Vec::new() };
                Came { status: None, messages }
            }
            Client::Http { client, url, headers } => {
                let request = client.post(url.as_str()).headers(headers.clone()).body(message.to_owned());
                let response = request.send().await.expect("the server answers");
                if let Some(id) = response.headers().get("mcp-session-id") {
                    headers.insert("mcp-session-id", id.clone());
                }
                let status = response.status().as_u16();
                let streamed = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
                let body = response.bytes().await.expect("a whole answer");
                let messages = match (body.is_empty(), streamed) {
                    (true, _) => Vec::new(),
                    (false, false) => vec![body.to_vec()],
                    (false, true) => events(&body),
                };
                Came { status: Some(status), messages }
            }
        }
    }
}

/// The data of the events that have some.
fn events(body: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut data: Vec<&[u8]> = Vec::new();
    for line in body.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(text) = line.strip_prefix(b"data:") {
            data.push(text.strip_prefix(b" ").unwrap_or(text));
        } else if line.is_empty() {
            let event = std::mem::take(&mut data).join(&b'\n');
            if !event.is_empty() {
                all.push(event);
            }
        }
    }
    all
}

fn http(url: String) -> Client {
    // The workspace builds its HTTP clients without a provider of cryptography.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert("mcp-protocol-version", HeaderValue::from_static("2025-06-18"));
    Client::Http { client: reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap(), url, headers }
}

struct World {
    stage: Stage,
    client: Client,
    _kept: Vec<Running>,
}

/// A server, behind the proxy if there is a link to it.
fn world(front: Link, back: Option<Link>, streamed: &str) -> World {
    let mut stage = Stage::new();
    let heard = stage.path("heard");
    stage.set("HEARD", heard.display()).set("STREAMED", streamed);
    let mut kept = Vec::new();
    let command = Server::Echo.command();
    let mut target: Vec<OsString> = match back.unwrap_or(front) {
        Stdio => command,
        Http => {
            let mut server = stage.start(&[command, vec!["--http".into()]].concat());
            let url = server.next_line().expect("a URL");
            kept.push(server);
            vec![url.into()]
        }
    };
    if let Some(back) = back {
        let mut proxy = stage.settled(&["mcp", "--ledger"]);
        proxy.push(stage.path("ledger").into());
        if front == Http {
            proxy.extend(["--listen".into(), "127.0.0.1:0".into()]);
        }
        proxy.push(if back == Http { "--upstream" } else { "--" }.into());
        proxy.extend(target);
        target = proxy;
        if front == Http {
            let running = stage.start(&target);
            let url = until("the proxy says its URL", || {
                let text = running.stderr();
                let url = text.get(text.find("http://127.0.0.1:")?..)?;
                url.get(..url.find(char::is_whitespace)?).map(str::to_owned)
            });
            kept.push(running);
            target = vec![url.into()];
        }
    }
    let client = match front {
        Stdio => Client::Stdio(stage.start(&target)),
        Http => http(target[0].to_str().unwrap().to_owned()),
    };
    World { stage, client, _kept: kept }
}

/// What is said, and whether it is answered.
type Said = (String, bool);

#[derive(Debug, PartialEq, Eq)]
struct Spoken {
    came: Vec<Came>,
    heard: Vec<Vec<u8>>,
}

fn speak(front: Link, back: Option<Link>, streamed: &str, said: &[Said]) -> Spoken {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut world = world(front, back, streamed);
    let came = runtime.block_on(async {
        let mut came = vec![world.client.say(INITIALIZE, true).await, world.client.say(INITIALIZED, false).await];
        for (message, answered) in said {
            came.push(world.client.say(message, *answered).await);
        }
        came
    });
    let heard = || -> Option<Vec<Vec<u8>>> {
        let heard = std::fs::read(world.stage.path("heard")).ok()?;
        let mut lines: Vec<Vec<u8>> = heard.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        lines.pop();
        lines.retain(|line| !is_proxys_own(line));
        // Those of notifications are answered before they have arrived.
        (lines.len() >= said.len() + 2).then_some(lines)
    };
    let heard = until("everything has arrived", heard);
    if back.is_some() && front == Stdio {
        assert!(world.stage.operations().is_empty(), "nothing of this was guarded: {}", world.stage.story());
    }
    Spoken { came, heard }
}

fn is_proxys_own(line: &[u8]) -> bool {
    line.starts_with(br#"{"jsonrpc":"2.0","id":"settled-"#)
}

fn shown(what: &impl fmt::Debug) -> String {
    format!("{what:?}").chars().take(600).collect()
}

/// Speaks it directly and through the proxy, on each way that has HTTP in it.
fn expect_identical(said: &[Said], streamed: &str) {
    for (front, back) in [(Http, Stdio), (Stdio, Http), (Http, Http)] {
        let direct = speak(back, None, streamed, said);
        let proxied = speak(front, Some(back), streamed, said);
        let way = format!("front over HTTP: {}, server over HTTP: {}", front == Http, back == Http);
        assert_eq!(direct.came.len(), proxied.came.len(), "{way}");
        for (place, (direct, proxied)) in direct.came.iter().zip(&proxied.came).enumerate() {
            let mut messages = proxied.messages.clone();
            if place == 0 {
                // The opened session says that keys are understood.
                for message in &mut messages {
                    let text = String::from_utf8_lossy(message).replace(r#","idempotency":true"#, "");
                    *message = text.into_bytes();
                }
            }
            assert!(
                direct.messages == messages,
                "{way}, message {place}\ndirectly:   {}\nby a proxy: {}",
                shown(&direct.messages.iter().map(|m| m.escape_ascii().to_string()).collect::<Vec<_>>()),
                shown(&messages.iter().map(|m| m.escape_ascii().to_string()).collect::<Vec<_>>())
            );
            if front == back {
                assert_eq!(direct.status, proxied.status, "{way}, message {place}");
            }
        }
        // A notification and the request after it are two POSTs, which may arrive in either order.
        let sorted = |spoken: &Spoken| {
            let mut heard: Vec<String> = spoken.heard.iter().map(|line| line.escape_ascii().to_string()).collect();
            heard.sort();
            heard
        };
        let (direct, proxied) = (sorted(&direct), sorted(&proxied));
        for (direct, proxied) in direct.iter().zip(&proxied) {
            assert!(
                direct == proxied,
                "{way}: what the server got\ndirectly:   {direct:.600}\nby a proxy: {proxied:.600}"
            );
        }
        assert_eq!(direct.len(), proxied.len(), "{way}");
    }
}

fn request(id: &str, method: &str, params: &str) -> Said {
    (format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#), true)
}

#[test]
fn odd_ids() {
    let ids = [
        "0",
        "1.0",
        "1.50",
        "1e2",
        "-7",
        "\"\"",
        "\"0\"",
        "\"a\\u0062\"",
        "\"\\ud800\"",
        "\"é\"",
        "9007199254740993",
        "123456789012345678901234567890",
        "0.10000000000000000000001",
        "1e400",
    ];
    let mut said = Vec::new();
    for id in ids {
        said.extend(
            ["no/such/method", "tools/call", "ping"]
                .map(|method| request(id, method, r#"{"name":"read","arguments":{"a":1.0}}"#)),
        );
    }
    expect_identical(&said, "tools/call");
}

#[test]
fn odd_numbers_texts_and_members() {
    let values = [
        "null",
        "{}",
        "[]",
        "9007199254740993",
        "-0.0",
        "1E+2",
        "1e400",
        "123456789012345678901234567890.1234567890123456789",
        r#""\ud800""#,
        r#""\udc00\ud800""#,
        r#""\u0000\u001f\/""#,
        r#""é😀\u00e9""#,
        r#"{"a":1,"a":2, "b" : [ 1 , 2 ]}"#,
    ];
    let mut said = Vec::new();
    for value in values {
        said.push(request("5", "tools/call", &format!(r#"{{"name":"read","arguments":{{"v":{value}}},"x":{value}}}"#)));
        said.push((
            format!(r#"{{"jsonrpc":"2.0","id":6,"method":"x","params":{{"v":{value}}}, "extra":{value}}}"#),
            true,
        ));
        said.push((
            format!(r#" {{ "jsonrpc":"2.0", "params" : {{"v":{value}}} , "method" : "notifications/x" }} "#),
            false,
        ));
    }
    for streamed in ["", "tools/call x"] {
        expect_identical(&said, streamed);
    }
}

#[test]
fn long_messages() {
    let filler = "é\\ud800x".repeat(600_000);
    let blob = "QUJD".repeat(1_000_000);
    let said = [
        request("1", "fill", "12000000"),
        request("2", "tools/call", &format!(r#"{{"name":"read","arguments":{{"t":"{filler}"}}}}"#)),
        request("3", "tools/call", &format!(r#"{{"name":"read","arguments":{{"blob":"{blob}"}}}}"#)),
    ];
    for streamed in ["", "fill tools/call"] {
        expect_identical(&said, streamed);
    }
}

/// What is no message is refused or ignored, and what follows it passes.
#[test]
fn bodies_that_are_no_messages() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for back in [Stdio, Http] {
        let mut world = world(Http, Some(back), "");
        runtime.block_on(async {
            world.client.say(INITIALIZE, true).await;
            let deep = "[".repeat(100_000);
            for body in [
                "not JSON",
                "{\"jsonrpc\":",
                "",
                "17",
                "\"text\"",
                "null",
                "{\"method\":5}",
                "\u{feff}{}",
                "\u{0}",
                &deep,
            ] {
                let answer = tokio::time::timeout(Duration::from_secs(30), world.client.say(body, true)).await;
                let came =
                    answer.unwrap_or_else(|_| panic!("no answer to {:?}", body.chars().take(20).collect::<String>()));
                let status = StatusCode::from_u16(came.status.unwrap()).unwrap();
                assert!(!status.is_server_error(), "{status} to {body:.20}");
                let after = world.client.say(&request("7", "ping", "{}").0, true).await;
                assert_eq!(after.messages, [br#"{"jsonrpc":"2.0","id":7,"result":{}}"#.to_vec()], "after {body:.20}");
            }
        });
    }
}

//! `settled mcp --metrics`: what a process has counted, as Prometheus and `settled stats` read it; and where its history goes.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};
use settled_tests::{Server, Session, Stage};

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A proxy's command with more words before the server's.
fn proxy(stage: &Stage, words: &[&str]) -> Vec<OsString> {
    let mut argv = stage.settled(&[&["mcp"], words, &["--"]].concat());
    argv.extend(Server::Quick.command());
    argv
}

fn scrape(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The value of the series that holds all of these parts.
#[track_caller]
fn value(text: &str, name: &str, labels: &[&str]) -> f64 {
    let is_it = |line: &&str| {
        line.starts_with(&format!("{name}{{")) && labels.iter().all(|label| line.contains(label))
            || labels.is_empty() && line.starts_with(&format!("{name} "))
    };
    let line = text.lines().find(is_it);
    let line = line.unwrap_or_else(|| panic!("{name} {labels:?} is missing in\n{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn calls_attempts_and_writes_are_counted() {
    let stage = Stage::new();
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let ledger = stage.path("ledger");
    let ledger = ledger.to_str().unwrap();
    let mut session = Session::open(&stage, &proxy(&stage, &["--ledger", ledger, "--metrics", &address]));
    let arguments = json!({ "customer": "alice", "cents": 500 });
    let with_key = |arguments: &Value| json!({ "name": "charge", "arguments": arguments, "_meta": { "io.settled/idempotency-key": "order-1" } });
    let id = session.ask("tools/call", &with_key(&arguments));
    assert_eq!(session.reply(id).word(), "done");
    let id = session.ask("tools/call", &with_key(&arguments));
    assert!(session.reply(id).is_replayed());
    let id = session.ask("tools/call", &with_key(&json!({ "customer": "alice", "cents": 501 })));
    assert_eq!(session.reply(id).status(), "conflict");

    let text = scrape(port);
    let calls = |answer: &str, replayed: &str| {
        let labels = [r#"tool="charge""#, &format!("answer=\"{answer}\""), &format!("replayed=\"{replayed}\"")];
        value(&text, "settled_calls_total", &labels)
    };
    assert_eq!((calls("done", "false"), calls("done", "true"), calls("conflict", "false")), (1.0, 1.0, 1.0));
    assert_eq!(value(&text, "settled_attempts_total", &[r#"tool="charge""#]), 1.0);
    assert_eq!(value(&text, "settled_settled_total", &[r#"verdict="succeeded""#, r#"by="reply""#]), 1.0);
    assert!(value(&text, "settled_store_seconds_count", &[]) >= 2.0);
    assert!(value(&text, "settled_store_seconds_bucket", &[r#"le="0.00005""#]) <= 2.0);
    assert!(text.contains("# TYPE settled_calls_total counter"), "{text}");
    assert!(text.contains("# HELP settled_store_seconds"), "{text}");

    let url = format!("http://{address}/metrics");
    let ended = stage.run(&stage.settled(&["stats", "--ledger", ledger, "--metrics", &url, "--json"]));
    assert!(ended.status.success(), "{ended:?}");
    let whole: Value = serde_json::from_str(&ended.lines.join("\n")).unwrap();
    let process = &whole["process"];
    assert_eq!(process["answers"], json!({ "done": 2, "conflict": 1 }), "{process:#}");
    assert_eq!((&process["calls"], &process["deduplicated"]), (&json!(3), &json!(1)));
    assert_eq!(process["conflicts"], 1);
    assert!(process["store_p99"].as_f64().unwrap() > 0.0, "{process:#}");
    let ended = stage.run(&stage.settled(&["stats", "--ledger", ledger, "--metrics", &address]));
    let text = ended.lines.join("\n");
    assert!(text.contains("33.3 % of them deduplicated"), "{text}");
    session.end();
    let ended = stage.run(&stage.settled(&["stats", "--ledger", ledger, "--metrics", &url]));
    assert_eq!(ended.status.code(), Some(1), "nobody is there any more: {ended:?}");
}

#[test]
fn a_port_that_is_taken_is_said_at_once() {
    let stage = Stage::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for address in [&*address, "127.0.0.1:0", "127.0.0.1", "nonsense:1"] {
        let ledger = stage.path("ledger");
        let ended = stage.run(&proxy(&stage, &["--ledger", ledger.to_str().unwrap(), "--metrics", address]));
        assert_eq!(ended.status.code(), Some(2), "{address}: {ended:?}");
        assert!(ended.stderr.contains(address), "{ended:?}");
        assert!(stage.servers().is_empty() && !ledger.exists(), "nothing was started or created");
    }
}

#[test]
fn the_history_is_where_it_is_wanted_and_is_put_aside_when_it_is_large() {
    let stage = Stage::new();
    let history = stage.path("story.jsonl");
    let words =
        ["--ledger", "memory:", "--history", history.to_str().unwrap(), "--history-size", "1", "--history-keep", "1"];
    let mut session = Session::open(&stage, &proxy(&stage, &words));
    let long = "x".repeat(200_000);
    for number in 0..12 {
        let arguments = json!({ "customer": format!("{number}{long}"), "cents": 1 });
        assert_eq!(session.call("charge", &arguments).word(), "done");
    }
    session.end();
    let size = |name: &str| std::fs::metadata(stage.path(name)).map_or(0, |its| its.len());
    // A part ends with the line that makes it large enough, and the lines that were gathered with it.
    assert!((1 << 20..2 << 20).contains(&size("story.jsonl.1")), "{}", size("story.jsonl.1"));
    assert!(size("story.jsonl") < 2 << 20);
    assert_eq!(size("story.jsonl.2"), 0);
    for name in ["story.jsonl", "story.jsonl.1"] {
        for line in std::fs::read_to_string(stage.path(name)).unwrap().lines() {
            serde_json::from_str::<Value>(line).unwrap();
        }
    }
    assert!(!stage.path("ledger").exists());
}

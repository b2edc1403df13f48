//! `settled mcp --describe`, and tools that are not what they were when they were described.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::support::{World, mark};
use settled_mcp::config::Kind;
use settled_mcp::{Behind, Config, DescribeError, DescribeOptions, describe};

fn server(world: &World, mode: &str) -> Vec<OsString> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/support/server.py");
    ["python3", script, &world.log_file(), &world.effects_file(), mode].map(Into::into).to_vec()
}

async fn described(command: Vec<OsString>) -> Result<String, DescribeError> {
    describe(DescribeOptions { behind: Behind::Command(command, BTreeMap::new()), named: None }).await
}

#[tokio::test]
async fn what_is_described_is_accepted_and_guards_everything() {
    let world = World::new();
    let text = described(server(&world, "")).await.unwrap();
    assert_eq!(text, described(server(&world, "")).await.unwrap(), "the same each time");
    let config = Config::parse("settled.toml".as_ref(), &text).unwrap();
    let names: Vec<&str> = config.tools.keys().map(String::as_str).collect();
    assert!(names.contains(&"read") && names.contains(&"seal_charge"), "all pages are read: {names:?}");
    assert!(config.tools.values().all(|tool| tool.kind == Kind::Opaque));
    assert!(!world.log().iter().any(|line| line.contains("tools/call")));

    // As it is, also what claims to read is guarded; and a tool that is declared to read passes.
    let mut client = world.open(&text).await;
    for tool in ["read", "charge", "plain"] {
        assert_eq!(mark(&client.ask("1", tool, "{}").await)["status"], "done", "{tool}");
    }
    client.end().await.1.unwrap();
    let at = text.find("[tools.read]").unwrap();
    let read = format!("{}{}", &text[..at], text[at..].replacen("kind = \"opaque\"", "kind = \"read-only\"", 1));
    let mut client = world.open(&read).await;
    assert!(mark(&client.ask("2", "read", "{}").await).is_null());
    client.end().await.1.unwrap();
    // But not when it is another tool by then: whatever is declared, it is guarded.
    let mut client = world.connect(&read, "other").await;
    client.say(crate::support::INITIALIZE).await;
    client.hear().await;
    client.say(crate::support::INITIALIZED).await;
    assert_eq!(mark(&client.ask("3", "read", "{}").await)["status"], "done");
    // Nor is one that was not there, whatever it claims.
    assert_eq!(mark(&client.ask("4", "new_read", "{}").await)["status"], "done");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn servers_that_cant_be_described() {
    let world = World::new();
    let error = described(server(&world, "exit")).await.unwrap_err().to_string();
    assert!(error.contains("ended before it sent any message"), "{error}");
    let error = described(vec!["no-such-program-anywhere".into()]).await.unwrap_err().to_string();
    assert!(error.contains("no-such-program-anywhere"), "{error}");
    let error = described(server(&world, "no-list")).await.unwrap_err();
    assert!(matches!(&error, DescribeError::Refused { method: "tools/list", .. }), "{error}");
}

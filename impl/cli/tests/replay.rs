//! `settled replay`: traces, shipped protocols, and the proxy under their schedules.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn settled(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_settled")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn trace_of(protocol: &str, directory: &Path) -> String {
    let path = directory.join("trace.json").display().to_string();
    settled(&["check", protocol, "--quiet", "--trace", &path]);
    path
}

#[test]
fn a_trace_that_was_written_is_replayed_and_one_that_was_changed_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = trace_of("record-after-effect", directory.path());
    let replayed = settled(&["replay", &path, "--patience", "60s"]);
    let printed = text(&replayed.stdout);
    assert_eq!(replayed.status.code(), Some(0), "{printed}");
    assert!(printed.contains("effects   model 2, reality 2"), "{printed}");
    assert!(printed.contains("agrees"), "{printed}");

    let mut trace: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    trace["steps"].as_array_mut().unwrap().swap(2, 3);
    std::fs::write(&path, trace.to_string()).unwrap();
    let refused = settled(&["replay", &path]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("parts from its own model at step 3"), "{}", text(&refused.stderr));

    std::fs::write(&path, "{").unwrap();
    let refused = settled(&["replay", &path]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("this is no trace"), "{}", text(&refused.stderr));
}

#[test]
fn the_proxy_survives_the_schedules_of_unsafe_protocols() {
    let arguments = [
        "replay",
        "--host",
        "proxy",
        "--json",
        "--patience",
        "60s",
        "mcp-restart",
        "key-per-attempt",
        "stripe-late-retry",
    ];
    let replayed = settled(&arguments);
    assert_eq!(replayed.status.code(), Some(0), "{}", text(&replayed.stdout));
    let all: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    let rows = all["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let survival = &row["survival"];
        assert!(survival["violated"].as_array().unwrap().is_empty(), "{row}");
        assert!(survival["verified"].as_array().unwrap().is_empty(), "{row}");
        let effects = survival["effects"].as_array().unwrap();
        assert_eq!(effects.iter().map(|effects| effects.as_u64().unwrap()).max(), Some(1), "{row}");
    }
}

#[test]
fn names_that_do_not_exist_are_refused() {
    let refused = settled(&["replay", "no-such-protocol"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("no shipped protocol"), "{}", text(&refused.stderr));
    let refused = settled(&["replay"]);
    assert_eq!(refused.status.code(), Some(2));
}

//! `settled check` and `settled protocols` as a user meets them: exit codes, tables, files, errors.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn settled(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_settled")).args(arguments).current_dir(directory).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn exit_codes_tell_holding_from_violated_from_unusable() {
    let directory = tempfile::tempdir().unwrap();
    let holds = settled(directory.path(), &["check", "settled-opaque", "--crashes", "0", "--fault", "reruns=0"]);
    assert_eq!(holds.status.code(), Some(0), "{}", stderr(&holds));
    assert!(stdout(&holds).contains("1 hold, 0 violated"));

    let violated = settled(directory.path(), &["check", "mcp-restart"]);
    assert_eq!(violated.status.code(), Some(1));
    assert!(stdout(&violated).contains("“at-most-once” is violated after 5 steps"));

    for (arguments, expected) in [
        (vec!["check", "no-such-protocol"], "Shipped are: naive-retry"),
        (vec!["check", "missing.toml"], "missing.toml"),
        (vec!["check", "settled-opaque", "--operations", "7"], "caller.operations: 7 is out of range: 1 to 3"),
        (vec!["check", "settled-opaque", "--fault", "meteor=1"], "the faults are: timeouts"),
        (vec!["check", "settled-opaque", "--max-time", "500000000000y"], "--max-time"),
        (vec!["check", "settled-opaque", "--max-states", "0"], "--max-states"),
        (vec!["mcp", "--scope", "", "--", "true"], "--scope"),
        (vec!["check", "settled-opaque", "--fault", "timeouts"], "FAULT=N is expected"),
        (vec!["protocols", "show", "no-such-protocol"], "Shipped are: naive-retry"),
    ] {
        let unusable = settled(directory.path(), &arguments);
        assert_eq!(unusable.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&unusable).contains(expected), "{arguments:?}: {}", stderr(&unusable));
        assert!(stdout(&unusable).is_empty(), "{arguments:?}: nothing is explored on bad input");
    }
}

#[test]
fn a_limit_is_told_as_not_finished_and_not_as_success() {
    let directory = tempfile::tempdir().unwrap();
    let cut = settled(directory.path(), &["check", "settled-observable", "--max-states", "3000"]);
    assert_eq!(cut.status.code(), Some(3));
    let text = stdout(&cut);
    assert!(text.contains("0 hold, 0 violated, 1 not finished (a limit was reached"), "{text}");
    assert!(!text.contains("┆ holds"), "{text}");
}

#[test]
fn a_protocol_of_ones_own_starts_from_a_shipped_one() {
    let directory = tempfile::tempdir().unwrap();
    let shown = settled(directory.path(), &["protocols", "show", "key-per-attempt"]);
    let mended = stdout(&shown).replace("\"per-call\"", "\"caller\"").replace("key-per-attempt", "mine");
    std::fs::write(directory.path().join("mine.toml"), mended).unwrap();
    let checked = settled(directory.path(), &["check", "mine.toml"]);
    assert_eq!(checked.status.code(), Some(0), "{}", stdout(&checked));

    std::fs::write(directory.path().join("broken.toml"), "name = \"x\"\nabout = \"y\"\n[tool]\nkind = \"lucky\"\n")
        .unwrap();
    let broken = settled(directory.path(), &["check", "broken.toml"]);
    assert_eq!(broken.status.code(), Some(2));
    for part in ["broken.toml", "line 4", "kind = \"lucky\"", "`opaque`"] {
        assert!(stderr(&broken).contains(part), "“{part}” is missing: {}", stderr(&broken));
    }
}

#[test]
fn reports_and_traces_are_there_for_programs() {
    let directory = tempfile::tempdir().unwrap();
    let checked = settled(
        directory.path(),
        &["check", "mcp-2025-11-25", "langgraph-default-retry", "--json", "--trace", "t.json"],
    );
    assert_eq!(checked.status.code(), Some(1));
    let reports: Value = serde_json::from_slice(&checked.stdout).unwrap();
    let first = &reports[0];
    assert_eq!(first["protocol"]["name"], "mcp-2025-11-25");
    assert_eq!(first["exhaustive"], true);
    assert_eq!(first["unique_states"], 30);
    let verdicts: Vec<_> =
        first["properties"].as_array().unwrap().iter().map(|p| p["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["violated", "holds", "holds", "holds", "holds", "violated", "violated", "not applicable"]);
    let trace: Value = serde_json::from_slice(&std::fs::read(directory.path().join("t.json")).unwrap()).unwrap();
    assert_eq!(trace["format"], 1);
    assert_eq!(trace["property"], "at-most-once");
    assert_eq!(trace["effects"], serde_json::json!([2]));
    assert_eq!(trace, first["properties"][0]["counterexample"]);

    let nothing =
        settled(directory.path(), &["check", "arguments-as-key", "--operations", "1", "--trace", "none.json"]);
    assert_eq!(nothing.status.code(), Some(0), "all hold");
    assert!(stderr(&nothing).contains("none.json was not written"));
    assert!(!directory.path().join("none.json").exists());
}

#[test]
fn every_shipped_protocol_is_listed() {
    let directory = tempfile::tempdir().unwrap();
    let listed = stdout(&settled(directory.path(), &["protocols"]));
    for (name, _) in settled_model::library::SHIPPED {
        assert!(listed.lines().any(|line| line.starts_with(name)), "{name}");
    }
}

/// A reader that has seen enough is no error.
#[test]
fn a_closed_pipe_is_no_error() {
    let command = format!("{} protocols | head -n 1", env!("CARGO_BIN_EXE_settled"));
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
}

//! `settled bench mcp`, as its users meet it: every way of messages is measured, others beside it, and nothing is left behind.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_settled"));
    command.args(["bench", "mcp", "--quick"]).args(words);
    command.current_dir(directory).output().unwrap()
}

#[test]
fn everything_is_measured_and_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_settled");
    // As another proxy the server itself does: it is there and answers.
    let beside = format!("nothing={program} bench mcp-server");
    let words = ["--span", "100ms", "--calls", "200", "--beside", &beside, "--beside", "broken=false", "--json"];
    let output = bench(directory.path(), &words);
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    for (name, front, back, tool) in [
        ("no proxy", "stdio", None, "read"),
        ("settled", "stdio", Some("stdio"), "read"),
        ("settled", "stdio", Some("stdio"), "charge"),
        ("settled", "stdio", Some("http"), "charge"),
        ("no proxy", "http", None, "read"),
        ("settled", "http", Some("http"), "read"),
        ("settled", "http", Some("http"), "charge"),
        ("settled", "http", Some("stdio"), "charge"),
        ("nothing", "stdio", Some("stdio"), "read"),
    ] {
        let is_it = |row: &&Value| {
            row["name"] == name && row["front"] == front && row["back"].as_str() == back && row["tool"] == tool
        };
        let row = rows.iter().find(is_it).unwrap_or_else(|| panic!("{name} {front} {tool} is missing: {report:#}"));
        let runs = row["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 3, "1, 16 and 128 in flight");
        let calls: u64 = runs.iter().map(|run| run["calls"].as_u64().unwrap()).sum();
        assert!(calls > 0, "{row:#}");
    }
    let broken = rows.iter().find(|row| row["name"] == "broken").unwrap();
    assert!(broken["problem"].is_string() && broken["runs"].as_array().unwrap().is_empty(), "{broken:#}");
    let memory = report["memory"].as_array().unwrap();
    assert_eq!(memory.len(), 2, "passed and guarded");
    assert_eq!(memory[0]["resident"].as_array().unwrap().len(), 11, "{report:#}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "something was left");
}

#[test]
fn what_cannot_be_measured_is_said() {
    let directory = tempfile::tempdir().unwrap();
    for (words, hint) in [
        (&["--dir", "nowhere"][..], "nowhere"),
        (&["--rounds", "0"], "rounds"),
        (&["--beside", "no command"], "NAME=COMMAND"),
    ] {
        let output = bench(directory.path(), words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(hint), "{words:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "something was left");
}

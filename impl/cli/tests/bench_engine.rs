//! `settled bench engine`, as its users meet it: numbers, aims, and nothing left behind.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_settled"));
    command.args(["bench", "engine", "--quick"]).args(words);
    command.current_dir(directory).output().unwrap()
}

#[test]
fn everything_is_measured_and_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let output = bench(directory.path(), &["--keys", "2000", "--ledger", "memory:", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let named = |on: &str, what: &str| {
        let row = rows.iter().find(|row| row["on"] == on && row["what"] == what);
        row.unwrap_or_else(|| panic!("{on} {what} is missing: {report:#}"))
    };
    for (on, what) in [
        ("file", "syncs"),
        ("file", "bare-log"),
        ("file", "bare-ledger"),
        ("file", "calls-without-history"),
        ("file", "calls"),
        ("file", "duplicates"),
        ("memory:", "calls"),
        ("memory:", "duplicates"),
    ] {
        let runs = named(on, what)["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 3, "1, 16 and 128 callers");
        for run in runs {
            assert!(run["calls"].as_u64().unwrap() > 0, "{on} {what}: {run}");
            assert!(run["p99"].as_f64().unwrap() >= run["p50"].as_f64().unwrap(), "{run}");
        }
    }
    let many = &report["many"];
    assert_eq!(many["keys"], 2_000);
    // Arguments and results alone have 200 bytes.
    assert!(many["disk"].as_f64().unwrap() > 200.0, "{many}");
    assert!(many["open"].as_f64().unwrap() > 0.0, "{many}");
    assert!(report["aims"].as_array().unwrap().len() > 10, "{report:#}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "something was left");
}

#[test]
fn what_cannot_be_measured_is_said() {
    let directory = tempfile::tempdir().unwrap();
    for (words, code, hint) in [
        (&["--ledger", "ftp://x/y"][..], 2, "ftp"),
        (&["--dir", "nowhere"], 2, "nowhere"),
        (&["--sync-delay", "fast"], 2, "sync-delay"),
        (&["--rounds", "0"], 2, "rounds"),
    ] {
        let output = bench(directory.path(), words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(hint), "{words:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "something was left");
}

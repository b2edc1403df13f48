//! `settled check`.

use std::process::Command;

use serde_json::Value;

use crate::{settled, stderr, stdout};

#[test]
fn exit_codes_tell_holding_from_violated() {
    let directory = tempfile::tempdir().unwrap();
    let holds = settled(directory.path(), &["check", "settled-opaque", "--faults", "0"]);
    assert_eq!(holds.status.code(), Some(0), "{}", stderr(&holds));
    assert!(stdout(&holds).contains("1 hold, 0 violated"));

    let violated = settled(directory.path(), &["check", "mcp-restart"]);
    assert_eq!(violated.status.code(), Some(1));
    assert!(stdout(&violated).contains("“at-most-once” is violated after 5 steps"));
    assert!(stdout(&violated).contains("needs: "), "which faults it needs: {}", stdout(&violated));

    let quiet = settled(directory.path(), &["check", "mcp-restart", "--quiet"]);
    assert_eq!(quiet.status.code(), Some(1));
    assert!(stdout(&quiet).contains("✗ 5") && !stdout(&quiet).contains("the shortest run:"));
}

#[test]
fn a_limit_is_told_as_not_finished_and_not_as_success() {
    let directory = tempfile::tempdir().unwrap();
    let cut = settled(directory.path(), &["check", "settled-observable", "--max-states", "3000"]);
    assert_eq!(cut.status.code(), Some(3));
    let text = stdout(&cut);
    assert!(text.contains("0 hold, 0 violated, 1 not finished (a limit was reached"), "{text}");
    let row = text.lines().find(|line| line.starts_with("settled-observable")).unwrap();
    assert!(row.contains('?') && !row.contains('✓'), "{row}");
}

#[test]
fn several_protocols_share_one_table() {
    let directory = tempfile::tempdir().unwrap();
    let names = ["mcp-2025-11-25", "server-error-means-failed", "arguments-as-key", "langgraph-default-retry"];
    let output = settled(directory.path(), &[&["check", "--quiet"], names.as_slice()].concat());
    let text = stdout(&output);
    for name in names {
        assert_eq!(text.lines().filter(|line| line.starts_with(name)).count(), 1, "{text}");
    }
    // Every head is explained.
    for entry in ["once: at-most-once", "supp: no suppression", "same: faithful replay"] {
        assert!(text.contains(entry), "{text}");
    }
    let direct = text.lines().find(|line| line.starts_with("mcp-2025-11-25")).unwrap();
    assert!(direct.contains('–') && direct.contains('✓') && direct.contains("✗ 4"), "{direct}");
}

/// With every shipped protocol, and so with every property.
#[test]
fn the_whole_table_is_no_wider_than_a_page() {
    let directory = tempfile::tempdir().unwrap();
    let text = stdout(&settled(directory.path(), &["check", "--all", "--quiet", "--max-states", "2000"]));
    for property in settled_model::PropertyName::ALL {
        assert!(text.contains(&format!(": {}", property.name())), "{property:?}: {text}");
    }
    let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(widest.chars().count() <= 120, "{}: {widest}", widest.chars().count());
}

#[test]
fn only_the_properties_asked_for_are_decided() {
    let directory = tempfile::tempdir().unwrap();
    let other = ["check", "server-error-means-failed", "--property", "faithful-replay", "--property", "no suppression"];
    let output = settled(directory.path(), &other);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let text = stdout(&output);
    assert!(text.contains("same: faithful replay") && !text.contains("once: at-most-once"), "{text}");
    let one = ["check", "server-error-means-failed", "--property", "no-false-failure", "--html", "page.html"];
    let output = settled(directory.path(), &one);
    assert_eq!(output.status.code(), Some(1));
    let page = std::fs::read_to_string(directory.path().join("page.html")).unwrap();
    assert!(page.contains("no false failure"), "the page shows the property that was asked for");
}

#[test]
fn bounds_and_reductions_reach_the_checker() {
    let directory = tempfile::tempdir().unwrap();
    let states = |arguments: &[&str]| {
        let whole = [&["check", "volatile-intent", "--json"], arguments].concat();
        let output = settled(directory.path(), &whole);
        let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
        (reports[0].clone(), reports[0]["unique_states"].as_u64().unwrap())
    };
    let (_, as_described) = states(&["--threads", "1"]);
    let (report, none) = states(&["--faults", "0"]);
    assert_eq!(report["protocol"]["faults"], serde_json::json!({}));
    assert!(none < as_described);
    let (report, more) = states(&["--faults", "2"]);
    assert_eq!(report["protocol"]["faults"]["unsynced-losses"], 2);
    assert!(more > as_described);
    let (report, _) = states(&["--fault", "lost-replies=1", "--calls", "3", "--attempts", "3", "--processes", "2"]);
    assert_eq!(report["protocol"]["faults"]["lost-replies"], 1);
    assert_eq!(report["protocol"]["caller"]["calls"], 3);
    assert_eq!(report["protocol"]["tool"]["attempts"], 3);
    assert_eq!(report["protocol"]["guard"]["processes"], 2);
    let (_, all) = states(&["--no-reductions", "--processes", "2"]);
    let (_, reduced) = states(&["--processes", "2"]);
    assert!(all > reduced);
}

#[test]
fn reports_and_traces_are_there_for_programs() {
    let directory = tempfile::tempdir().unwrap();
    let checked = settled(
        directory.path(),
        &["check", "mcp-2025-11-25", "langgraph-default-retry", "--json", "--trace", "t.json", "--svg", "t.svg"],
    );
    assert_eq!(checked.status.code(), Some(1));
    let reports: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(reports.as_array().unwrap().len(), 2);
    let first = &reports[0];
    assert_eq!(first["protocol"]["name"], "mcp-2025-11-25");
    assert_eq!(first["exhaustive"], true);
    let verdict = |property: &str| {
        let all = first["properties"].as_array().unwrap();
        all.iter().find(|entry| entry["property"] == property).unwrap().clone()
    };
    assert_eq!(verdict("at-most-once")["verdict"], "violated");
    assert_eq!(verdict("no phantom success")["verdict"], "holds");
    assert_eq!(verdict("convergence")["verdict"], "not applicable");
    let trace: Value = serde_json::from_slice(&std::fs::read(directory.path().join("t.json")).unwrap()).unwrap();
    assert_eq!(trace["format"], settled_model::FORMAT);
    assert_eq!(trace["property"], "at-most-once");
    assert_eq!(trace["effects"], serde_json::json!([2]));
    assert_eq!(trace, verdict("at-most-once")["counterexample"]);
    let svg = std::fs::read_to_string(directory.path().join("t.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("at-most-once"));

    let diagram = stdout(&settled(directory.path(), &["check", "mcp-2025-11-25", "--diagram"]));
    assert!(diagram.starts_with("%% mcp-2025-11-25: at-most-once\nsequenceDiagram\n"), "{diagram}");

    let nothing = settled(
        directory.path(),
        &["check", "arguments-as-key", "--operations", "1", "--trace", "none.json", "--html", "none.html"],
    );
    assert_eq!(nothing.status.code(), Some(0), "all hold");
    assert!(stderr(&nothing).contains("none.json was not written"));
    assert!(!directory.path().join("none.json").exists() && !directory.path().join("none.html").exists());
}

#[test]
fn a_protocol_of_ones_own_starts_from_a_shipped_one() {
    let directory = tempfile::tempdir().unwrap();
    let shown = settled(directory.path(), &["protocols", "show", "key-per-attempt"]);
    let mended = stdout(&shown).replace("\"per-call\"", "\"caller\"").replace("key-per-attempt", "mine");
    std::fs::write(directory.path().join("mine.toml"), mended).unwrap();
    let checked = settled(directory.path(), &["check", "mine.toml"]);
    assert_eq!(checked.status.code(), Some(0), "{}", stdout(&checked));
}

/// A reader that has seen enough is no error.
#[test]
fn a_closed_pipe_is_no_error() {
    for arguments in ["protocols", "properties", "faults", "check mcp-2025-11-25 --json", "check mcp-2025-11-25"] {
        let command = format!("{} {arguments} | head -n 1", env!("CARGO_BIN_EXE_settled"));
        let output = Command::new("sh").args(["-c", &command]).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments}: {}", stderr(&output));
    }
}

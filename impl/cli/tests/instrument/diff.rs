//! `settled diff`.

use serde_json::Value;

use crate::{settled, stderr, stdout};

fn mended(directory: &std::path::Path) {
    let shown = stdout(&settled(directory, &["protocols", "show", "key-per-attempt"]));
    let mended = shown.replace("\"per-call\"", "\"caller\"").replace("key-per-attempt", "mended");
    std::fs::write(directory.join("mended.toml"), mended).unwrap();
}

#[test]
fn a_repair_is_told_with_what_is_no_longer_possible() {
    let directory = tempfile::tempdir().unwrap();
    mended(directory.path());
    let better = settled(directory.path(), &["diff", "key-per-attempt", "mended.toml"]);
    let text = stdout(&better);
    assert_eq!(better.status.code(), Some(0), "{text}{}", stderr(&better));
    assert!(text.contains("[caller] key = \"per-call\" → \"caller\""), "{text}");
    assert!(text.contains("at-most-once: now holds"), "{text}");
    let gone = text.split("no longer possible").nth(1).unwrap().split("possible now").next().unwrap();
    assert!(gone.lines().any(|line| line.contains("2 effects")), "{text}");
    let new = text.split("possible now").nth(1).unwrap();
    assert!(!new.contains("2 effects"), "{text}");
    assert!(text.contains("0 now violated, 1 no longer violated"), "{text}");
}

#[test]
fn a_defect_is_told_with_its_shortest_run_and_by_the_exit_code() {
    let directory = tempfile::tempdir().unwrap();
    mended(directory.path());
    let worse = settled(directory.path(), &["diff", "mended.toml", "key-per-attempt", "--html", "new.html"]);
    let text = stdout(&worse);
    assert_eq!(worse.status.code(), Some(1), "{text}{}", stderr(&worse));
    assert!(text.contains("at-most-once: now violated after "), "{text}");
    assert!(text.contains("violates “at-most-once”"), "the new run is shown: {text}");
    assert!(std::fs::read_to_string(directory.path().join("new.html")).unwrap().contains("at-most-once"));

    let json = settled(directory.path(), &["diff", "mended.toml", "key-per-attempt", "--json"]);
    let diff: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(diff["worse"], true);
    assert_eq!(diff["fields"][0]["key"], "key");
    let changed = diff["properties"].as_array().unwrap().iter().find(|p| p["property"] == "at-most-once").unwrap();
    assert_eq!((&changed["before"], &changed["after"]), (&"holds".into(), &"violated".into()));
    assert!(changed["counterexample_after"]["steps"].as_array().unwrap().len() > 4);
    assert_eq!(diff["endings"]["exhaustive"], true);
    let two = |ending: &Value| ending["calls"][0]["effects"].as_u64() >= Some(2);
    assert!(diff["endings"]["only_after"].as_array().unwrap().iter().any(two));
    assert!(!diff["endings"]["only_before"].as_array().unwrap().iter().any(two));
}

#[test]
fn nothing_differs_from_itself_and_a_limit_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let same = settled(directory.path(), &["diff", "volatile-intent", "volatile-intent"]);
    assert_eq!(same.status.code(), Some(0), "what was violated before did not get worse");
    let text = stdout(&same);
    assert!(text.contains("No field differs."), "{text}");
    assert!(text.contains("no longer possible: nothing") && text.contains("possible now: nothing"), "{text}");

    let cut = settled(directory.path(), &["diff", "settled-sealable", "settled-sealable", "--max-states", "2000"]);
    assert_eq!(cut.status.code(), Some(3), "{}", stdout(&cut));
    assert!(stdout(&cut).contains("a limit was reached"), "{}", stdout(&cut));
}

#[test]
fn direct_callers_are_compared_with_guarded_ones_by_what_callers_see() {
    let directory = tempfile::tempdir().unwrap();
    let text = stdout(&settled(directory.path(), &["diff", "mcp-2025-11-25", "volatile-intent"]));
    assert!(text.contains("[guard] processes = 0 → 1"), "{text}");
    assert!(text.contains("ledgers left out, since one has no guard"), "{text}");
}

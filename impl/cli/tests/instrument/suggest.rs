//! `settled check --suggest`.

use serde_json::Value;
use settled_model::{Limits, PropertyName, Reductions, Suggestion, Verdict, check, library, suggest};

use crate::{settled, stderr, stdout};

fn found(name: &str, property: PropertyName) -> Vec<Suggestion> {
    let description = library::load(name).unwrap();
    suggest(&description, property, Limits::default()).unwrap().found
}

fn changes(suggestion: &Suggestion) -> Vec<String> {
    suggestion.changes.iter().map(ToString::to_string).collect()
}

#[test]
fn known_defects_get_their_known_repairs() {
    for (name, property, expected) in [
        ("key-per-attempt", PropertyName::AtMostOnce, "[caller] key = \"per-call\" → \"caller\""),
        ("volatile-intent", PropertyName::AtMostOnce, "[ledger] acknowledged = \"unsynced\" → \"durable\""),
        ("record-after-effect", PropertyName::AtMostOnce, "[guard] intent = \"after-effect\" → \"before-send\""),
        ("not-found-means-failed", PropertyName::AtMostOnce, "[guard.rules] wait-for-quiet = false → true"),
        ("server-error-means-failed", PropertyName::NoFalseFailure, "[guard.rules] doubt-errors = false → true"),
    ] {
        let found = found(name, property);
        let one = found.iter().find(|suggestion| changes(suggestion) == [expected]);
        assert!(one.is_some(), "{name}: {:?}", found.iter().map(changes).collect::<Vec<_>>());
        // What leaves nothing violated comes first, unless it takes another tool.
        let left: Vec<_> = found.iter().map(|suggestion| (suggestion.another_tool, suggestion.left().len())).collect();
        assert!(left.is_sorted(), "{name}: {left:?}");
    }
}

/// What is suggested for a shipped protocol is checked again, from the changed description alone.
#[test]
fn every_suggestion_holds_and_breaks_nothing() {
    let mut repaired = 0;
    for (name, _) in library::SHIPPED {
        // Ours hold, and what is large takes its time: exploring those here would show nothing more.
        if name.starts_with("settled-")
            || ["devices-sound", "devices-clocks-off", "mcp-sep-3182", "ietf-idempotency-key"].contains(name)
        {
            continue;
        }
        let description = library::load(name).unwrap();
        let reductions = Reductions { any_number: false, ..Reductions::ALL };
        let limits = Limits { states: 300_000, reductions, ..Limits::default() };
        let before = check(&description, limits, |_| {}).unwrap();
        let Some((property, _)) = before.violations().next() else {
            continue;
        };
        let time = std::time::Duration::from_secs(3);
        let suggestions = suggest(&description, property, Limits { time, ..limits }).unwrap();
        repaired += usize::from(!suggestions.found.is_empty());
        for suggestion in suggestions.found.iter().take(3) {
            let after =
                check(&suggestion.report.description, Limits { reductions, ..Limits::default() }, |_| {}).unwrap();
            assert_eq!(*after.verdict(property), Verdict::Holds, "{name}: {:?}", changes(suggestion));
            for (broken, _) in after.violations() {
                let was = matches!(before.verdict(broken), Verdict::Violated(_));
                assert!(was, "{name}: {:?} breaks {broken:?}", changes(suggestion));
            }
        }
    }
    assert!(repaired >= 20, "{repaired}");
}

#[test]
fn suggestions_are_lines_of_toml_with_the_verdicts_after() {
    let directory = tempfile::tempdir().unwrap();
    let output = settled(directory.path(), &["check", "key-per-attempt", "--suggest", "--quiet"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(text.contains("To repair “at-most-once” ("), "{text}");
    assert!(text.contains("    [caller] key = \"per-call\" → \"caller\"\n        then every property holds"), "{text}");

    let output = settled(directory.path(), &["check", "key-per-attempt", "--suggest", "--json"]);
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = reports[0]["properties"].as_array().unwrap();
    let violated = all.iter().find(|property| property["property"] == "at-most-once").unwrap();
    let found = violated["suggestions"]["found"].as_array().unwrap();
    let key = found.iter().find(|one| one["changes"][0]["key"] == "key").unwrap();
    assert!(key["verdicts"].as_array().unwrap().iter().all(|entry| entry["verdict"] != "violated"));
    let holds = all.iter().find(|property| property["property"] == "no suppression").unwrap();
    assert!(holds.get("suggestions").is_none());
}

#[test]
fn a_search_that_ran_out_of_time_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["check", "mcp-2025-11-25", "--suggest", "--suggest-time", "1ms", "--quiet"];
    let output = settled(directory.path(), &arguments);
    assert!(stdout(&output).contains("(see --suggest-time)"), "{}", stdout(&output));
}

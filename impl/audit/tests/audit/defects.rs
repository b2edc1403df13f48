//! One known defect after the other.

use settled_audit::{Experiment, Found, Observer, Outcome, Verdict};

use super::{Server, expect, of, report};
use Verdict::{Duplicate, NotTried, Safe, Unknown, WrongRecord};

/// The claims, each with what became of it.
fn claims(tool: &settled_audit::ToolReport) -> Vec<(&str, Found)> {
    tool.claims.iter().map(|claim| (claim.claim.as_str(), claim.found)).collect()
}

#[test]
fn what_appends_makes_duplicates_and_does_not_keep_its_promise() {
    let tool = Server::new("").audit("append");
    expect(&tool, [Duplicate, Duplicate, Duplicate, Duplicate, Safe]);
    assert_eq!(claims(&tool), [("idempotentHint: true", Found::Untrue)]);
    assert!(of(&tool, Experiment::Twice).changes[0].starts_with("log.txt: 1 line added"), "{tool:?}");
    assert!(of(&tool, Experiment::Concurrent).because.contains("6 times"), "{tool:?}");
    assert!(tool.suggestion.unwrap().contains("\nkind = \"opaque\""));
}

#[test]
fn what_is_idempotent_is_safe_and_its_declaration_is_suggested() {
    let tool = Server::new("").audit("put");
    expect(&tool, [Safe, Safe, Safe, Safe, Safe]);
    assert!(tool.claims.is_empty());
    assert!(tool.suggestion.as_ref().unwrap().ends_with("\nkind = \"idempotent\""));
    assert_eq!(of(&tool, Experiment::RetriedId).verdict, NotTried);
}

#[test]
fn what_knows_its_keys_is_safe_as_it_claims() {
    let tool = Server::new("").audit("keyed");
    expect(&tool, [Safe, Safe, Safe, Safe, Safe]);
    assert_eq!(claims(&tool), [("idempotentHint: true", Found::Held)]);
    assert_eq!(tool.suggestion, None);
}

#[test]
fn what_knows_its_keys_in_memory_only_is_found_by_a_restart() {
    let tool = Server::new("").audit("memo");
    expect(&tool, [Safe, Duplicate, Duplicate, Safe, Safe]);
}

#[test]
fn what_looks_before_it_acts_is_found_by_calls_at_once() {
    let tool = Server::new("").audit("checked");
    expect(&tool, [Safe, Safe, Safe, Duplicate, Safe]);
}

#[test]
fn lost_updates_are_found_by_different_calls_at_once() {
    let tool = Server::new("").audit("racy");
    expect(&tool, [Safe, Safe, Safe, Safe, WrongRecord]);
    assert!(of(&tool, Experiment::DifferentAtOnce).because.contains("lost updates"), "{tool:?}");
    assert!(tool.suggestion.unwrap().ends_with("\nresource = \"known-defects\""));
    // A server may call itself anything; `{b}` would be an argument of the call.
    let tool = Server::new("odd-name").audit("racy");
    assert!(tool.suggestion.unwrap().ends_with("\nresource = \"a _b_ _c_\""));
}

#[test]
fn lost_updates_of_a_counter_are_found_by_its_value() {
    let server = Server::new("");
    let tool = server.audit("counter");
    expect(&tool, [Duplicate, Duplicate, Duplicate, of(&tool, Experiment::Concurrent).verdict, WrongRecord]);
    assert!(of(&tool, Experiment::DifferentAtOnce).because.contains("less changed"), "{tool:?}");
}

#[test]
fn an_error_after_the_effect_is_a_wrong_record() {
    let tool = Server::new("").audit("fail_after");
    assert_eq!(of(&tool, Experiment::Once).verdict, WrongRecord);
    expect(&tool, [WrongRecord, WrongRecord, WrongRecord, WrongRecord, Unknown]);
}

#[test]
fn an_error_after_the_second_effect_is_a_wrong_record() {
    let tool = Server::new("").audit("fail_again");
    assert_eq!(of(&tool, Experiment::Once).verdict, Safe);
    expect(&tool, [WrongRecord, WrongRecord, WrongRecord, Duplicate, Safe]);
    assert!(of(&tool, Experiment::Twice).because.contains("second answer is an error"), "{tool:?}");
}

#[test]
fn a_retry_that_is_told_of_a_failure_that_was_none() {
    let server = Server::new("");
    let mut options = server.options(&["rename"]);
    options.arguments = super::arguments::file(
        r#"[tools.rename]
           arguments = { id = "{unique}" }
           before = [{ tool = "put", arguments = { id = "{unique}" } }]"#,
    );
    let tool = report(&options).tools.remove(0);
    assert_eq!(of(&tool, Experiment::Twice).verdict, Safe, "{tool:?}");
    assert_eq!(of(&tool, Experiment::Restart).verdict, Safe, "{tool:?}");
    assert_eq!(of(&tool, Experiment::LostAnswer).verdict, WrongRecord, "{tool:?}");
    assert!(of(&tool, Experiment::LostAnswer).answers[1].contains("no such file"));
}

#[test]
fn a_success_without_an_effect_is_a_wrong_record() {
    let tool = Server::new("").audit("phantom");
    assert_eq!(of(&tool, Experiment::DifferentAtOnce).verdict, WrongRecord, "{tool:?}");
}

#[test]
fn a_tool_that_only_says_that_it_only_reads() {
    let server = Server::new("");
    let report = report(&server.options(&["peek", "look"]));
    let [look, peek] = ["look", "peek"].map(|name| report.tools.iter().find(|tool| tool.name == name).unwrap());
    assert_eq!(claims(peek), [("readOnlyHint: true", Found::Untrue)]);
    assert_eq!(claims(look), [("readOnlyHint: true", Found::Held)]);
    expect(look, [Safe, Safe, Safe, Safe, NotTried]);
    assert_eq!(report.outcome(), Outcome::Defects);
}

#[test]
fn what_changes_by_itself_is_not_counted() {
    let server = Server::new("heartbeat");
    let report = report(&server.options(&["append", "put"]));
    assert_eq!(report.noise, ["heartbeat.txt"]);
    let [append, put] = ["append", "put"].map(|name| report.tools.iter().find(|tool| tool.name == name).unwrap());
    expect(append, [Duplicate, Duplicate, Duplicate, Duplicate, Safe]);
    expect(put, [Safe, Safe, Safe, Safe, Safe]);
}

#[test]
fn what_is_to_be_ignored_is_not_counted() {
    let server = Server::new("");
    let mut options = server.options(&["log"]);
    expect(&report(&options).tools[0], [Duplicate, Duplicate, Duplicate, Duplicate, Safe]);
    options.ignore = vec!["access.log".to_owned()];
    expect(&report(&options).tools[0], [Safe, Safe, Safe, Safe, Safe]);
}

#[test]
fn an_observer_sees_what_is_only_in_memory_and_that_a_restart_loses_it() {
    let server = Server::new("");
    let mut options = server.options(&["add"]);
    options.watch.clear();
    options.observer = Some(Observer { tool: "list".to_owned(), arguments: serde_json::Map::new() });
    let report = report(&options);
    // The time in its answer.
    assert_eq!(report.noise, ["/time"]);
    expect(&report.tools[0], [Duplicate, Unknown, WrongRecord, Duplicate, Safe]);
    assert!(of(&report.tools[0], Experiment::Restart).because.contains("gone after the restart"));
    let suggestion = report.tools[0].suggestion.as_ref().unwrap();
    assert!(
        suggestion.contains("kind = \"observable\"") && suggestion.contains("arguments = { id = \"{id}\" }"),
        "{suggestion}"
    );
}

#[test]
fn an_idempotency_key_given_again() {
    let server = Server::new("keys");
    let mut options = server.options(&["remembered", "misremembered"]);
    options.experiments = vec![Experiment::RetriedId];
    let report = report(&options);
    let verdicts: Vec<_> = report.tools.iter().map(|tool| of(tool, Experiment::RetriedId).verdict).collect();
    // In the order in which the server lists them.
    assert_eq!(verdicts, [Safe, WrongRecord], "{report:?}");
}

#[test]
fn the_server_is_killed_when_the_effect_is_there_and_not_the_answer() {
    let server = Server::new("");
    let mut options = server.options(&["slow"]);
    options.timeout = std::time::Duration::from_secs(3);
    options.experiments = vec![Experiment::LostAnswer];
    let tool = report(&options).tools.remove(0);
    // Once it isn't answered in time, and takes effect; the retry takes effect as well.
    assert_eq!(of(&tool, Experiment::Once).verdict, Unknown, "{tool:?}");
    assert_eq!(of(&tool, Experiment::LostAnswer).verdict, Duplicate, "{tool:?}");
    assert_eq!(of(&tool, Experiment::LostAnswer).answers[0], "none: the answer was dropped");
}

//! Servers that fail, and what can't be audited.

use std::time::Duration;

use settled_audit::{AuditError, Choice, Experiment, Outcome, Secrets, Verdict};

use super::{Server, audit, audit_with, of, report};

#[test]
fn without_a_choice_tools_are_listed_and_none_is_called() {
    let server = Server::new("");
    let report = report(&server.options(&[]));
    assert!(report.tools.is_empty());
    let odd = report.listed.iter().find(|tool| tool.name == "odd").unwrap();
    assert!(odd.needs_arguments.as_ref().unwrap().contains("[A-Z]"), "{odd:?}");
    assert_eq!(std::fs::read_dir(server.home.path()).unwrap().count(), 0);
}

#[test]
fn a_thousand_tools_are_listed_page_by_page() {
    let report = report(&Server::new("many").options(&[]));
    assert!(report.listed.len() > 1000);
    assert!(report.listed.iter().any(|tool| tool.name == "tool999"));
}

#[test]
fn only_those_that_say_that_they_only_read() {
    let server = Server::new("");
    let mut options = server.options(&[]);
    options.choice = Choice::ReadOnly;
    let report = report(&options);
    let names: Vec<_> = report.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["peek", "look", "list"]);
}

#[test]
fn a_server_that_dies_of_a_call_is_told_of_and_its_secrets_are_not() {
    let mut server = Server::new("");
    server.more.push(("API_TOKEN", "tell-nobody".to_owned()));
    let secrets = Secrets::new(std::iter::once(("API_TOKEN".into(), "tell-nobody".into())), []);
    let report = audit_with(&server.options(&["die"]), &secrets).unwrap();
    let told = serde_json::to_string(&report).unwrap();
    assert!(told.contains("exit status: 3") && told.contains("out of cheese, [hidden]"), "{told}");
    assert!(!told.contains("tell-nobody"), "{told}");
    assert_eq!(report.outcome(), Outcome::OnlyUnknown);
}

#[test]
fn a_server_that_dies_after_the_effect_makes_a_duplicate() {
    let tool = Server::new("").audit("die_after");
    assert_eq!(of(&tool, Experiment::Once).verdict, Verdict::Unknown, "{tool:?}");
    assert_eq!(of(&tool, Experiment::Twice).verdict, Verdict::Duplicate, "{tool:?}");
}

#[test]
fn a_call_that_is_never_answered_is_not_waited_for_for_ever() {
    let server = Server::new("");
    let mut options = server.options(&["hang", "put"]);
    options.timeout = Duration::from_secs(4);
    let report = report(&options);
    let [put, hang] = ["put", "hang"].map(|name| report.tools.iter().find(|tool| tool.name == name).unwrap());
    assert!(of(hang, Experiment::Twice).because.contains("no answer within 4 s"), "{hang:?}");
    // The next tool isn't harmed.
    assert_eq!(of(put, Experiment::Twice).verdict, Verdict::Safe);
}

#[test]
fn without_anything_watched_nothing_is_known() {
    let server = Server::new("");
    let mut options = server.options(&["append"]);
    options.watch.clear();
    let report = report(&options);
    assert_eq!(report.outcome(), Outcome::OnlyUnknown);
    assert!(report.tools[0].experiments.iter().all(|one| one.verdict == Verdict::Unknown), "{report:?}");
    assert!(of(&report.tools[0], Experiment::Twice).because.contains("--watch"));
    // More calls would only do harm.
    let lines = std::fs::read_to_string(server.home.path().join("log.txt")).unwrap();
    assert_eq!(lines.lines().count(), 1);
}

/// What makes an audit impossible, in words.
#[track_caller]
fn fails(server: &Server, tools: &[&str]) -> AuditError {
    let mut options = server.options(tools);
    options.start = Duration::from_secs(if server.traits == "mute" { 2 } else { 60 });
    audit(&options).unwrap_err()
}

#[test]
fn servers_that_can_not_be_used() {
    let silent = fails(&Server::new("mute"), &[]).to_string();
    assert!(silent.contains("no answer within 2 s"), "{silent}");
    let garbage = fails(&Server::new("garbage"), &[]).to_string();
    assert!(
        garbage.contains("no JSON-RPC message: `Welcome to my server!`") && garbage.contains("goodbye"),
        "{garbage}"
    );
    let dead = fails(&Server::new("dead"), &[]).to_string();
    assert!(dead.contains("exit status: 1") && dead.contains("I have no configuration"), "{dead}");
    let server = Server::new("");
    let unknown = audit(&server.options(&["nothing"])).unwrap_err();
    assert!(unknown.is_input() && unknown.to_string().contains("no tool `nothing`; it has: append"), "{unknown}");
}

#[test]
fn a_program_that_is_not_there() {
    let server = Server::new("");
    let mut options = server.options(&[]);
    options.target = settled_audit::Target::Command(vec!["/no/such/server".into()]);
    let error = audit(&options).unwrap_err();
    assert!(error.to_string().contains("`/no/such/server` does not start"), "{error}");
}

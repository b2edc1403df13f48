//! A person decides what nobody can know: `settled resolve`, and what callers are told from then on.

use std::ffi::OsString;

use serde_json::json;
use settled_tests::{Reply, Server, Session, Stage};

/// A server that takes its time for the first effect.
fn slow() -> (Stage, Vec<OsString>) {
    let mut stage = Stage::new();
    stage.set("SERVER_DELAY_MS", 2000).set("SERVER_DELAY_FIRST", 1);
    let command = stage.proxy(&Server::Quick.command());
    (stage, command)
}

#[track_caller]
fn expect_receipt(stage: &Stage, reply: &Reply) {
    let effects = stage.expect_effects(1);
    assert_eq!(reply.receipt().as_ref(), Some(&effects[0]), "{reply:?}\n{}", stage.story());
}

/// An operation whose server died after its effect, and whose proxy has ended.
fn left_unknown() -> (Stage, Vec<OsString>) {
    let mut stage = Stage::new();
    stage.set("SERVER_DIE_AT", "after-effect");
    let command = stage.proxy(&Server::Quick.command());
    let mut session = Session::open(&stage, &command);
    let reply = session.charge();
    assert_eq!(reply.status(), "unknown", "{reply:?}\n{}", stage.story());
    session.end();
    stage.expect_effects(1);
    assert!(stage.servers().contains(&stage.kills()[0]));
    assert!(stage.operation().is_unknown(), "{}", stage.story());
    (stage, command)
}

#[test]
fn a_person_finds_that_it_happened() {
    let (stage, command) = left_unknown();
    let key = stage.operation().key;
    let decided = stage.resolve(&key, &["--as", "succeeded"]);
    assert!(decided.status.success(), "{decided:?}");
    let mut session = Session::open(&stage, &command);
    let reply = session.charge();
    assert!(matches!(reply, Reply::Success(_)), "{reply:?}\n{}", stage.story());
    assert!(reply.is_replayed() && reply.status() == "done", "{reply:?}");
    assert!(reply.text().contains("looked at the books"), "what the person wrote: {reply:?}");
    stage.expect_effects(1);
}

#[test]
fn a_person_records_the_tools_own_result() {
    let (stage, command) = left_unknown();
    let key = stage.operation().key;
    let result = json!({ "content": [{ "type": "text", "text": stage.effects()[0] }], "rate": 1.5 }).to_string();
    let decided = stage.resolve(&key, &["--as", "succeeded", "--result", &result]);
    assert!(decided.status.success(), "{decided:?}");
    let reply = Session::open(&stage, &command).charge();
    expect_receipt(&stage, &reply);
}

#[test]
fn a_person_finds_that_it_did_not_happen() {
    let (stage, command) = left_unknown();
    let key = stage.operation().key;
    // Not that it would be true: what is looked at is that exactly one more call is sent.
    let decided = stage.resolve(&key, &["--as", "failed", "--nothing-pending"]);
    assert!(decided.status.success(), "{decided:?}");
    assert!(stage.operation().has_failed(), "{}", stage.story());
    let mut session = Session::open(&stage, &command);
    let reply = session.charge();
    let effects = stage.expect_effects(2);
    assert_eq!(reply.receipt().as_ref(), Some(&effects[1]), "{reply:?}");
    assert!(!reply.is_replayed(), "{reply:?}");
    let again = session.charge();
    assert_eq!(again.receipt().as_ref(), Some(&effects[1]), "{again:?}");
    stage.expect_effects(2);
}

#[test]
fn it_did_not_happen_is_refused_while_the_owner_lives() {
    let mut stage = Stage::new();
    stage.set("SERVER_DIE_AT", "after-effect");
    let command = stage.proxy(&Server::Quick.command());
    let mut session = Session::open(&stage, &command);
    assert_eq!(session.charge().status(), "unknown", "{}", stage.story());
    let key = stage.operation().key;
    assert!(session.process().is_alive());
    let decided = stage.resolve(&key, &["--as", "failed"]);
    assert_eq!(decided.status.code(), Some(1), "{decided:?}");
    assert!(decided.stderr.contains(&key), "{decided:?}");
    assert!(decided.stderr.contains("--nothing-pending"), "says what would be accepted: {decided:?}");
    assert!(stage.operation().is_unknown(), "{}", stage.story());
    assert_eq!(session.charge().status(), "unknown");
    stage.expect_effects(1);
    // The same decision is accepted from somebody who has looked, and the proxy that runs hears of it.
    assert!(stage.resolve(&key, &["--as", "succeeded"]).status.success());
    let reply = session.charge();
    assert!(matches!(reply, Reply::Success(_)) && reply.is_replayed(), "{reply:?}");
    stage.expect_effects(1);
}

#[test]
fn it_did_not_happen_is_refused_while_the_call_is_under_way() {
    let (stage, command) = slow();
    let mut session = Session::open(&stage, &command);
    let id = session.ask_tool("charge", &json!({ "customer": "alice", "cents": 500 }));
    stage.wait_for_effects(1);
    let key = stage.operation().key;
    let decided = stage.resolve(&key, &["--as", "failed", "--nothing-pending"]);
    let reply = session.reply(id);
    assert_eq!(decided.status.code(), Some(1), "{decided:?}\n{}", stage.story());
    assert!(decided.stderr.contains(&key), "{decided:?}");
    expect_receipt(&stage, &reply);
    assert!(stage.operation().has_succeeded(), "{}", stage.story());
}

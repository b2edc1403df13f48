//! `settled stats`: what a ledger holds, and how its operations fared.

use serde_json::{Value, json};
use settled_tests::{Ended, Server, Session, Stage};

fn stats(stage: &Stage, words: &[&str]) -> Ended {
    let ledger = stage.path("ledger");
    let mut argv = stage.settled(&["stats", "--ledger", ledger.to_str().unwrap()]);
    argv.extend(words.iter().map(std::ffi::OsString::from));
    stage.run(&argv)
}

#[track_caller]
fn numbers(stage: &Stage, words: &[&str]) -> Value {
    let ended = stats(stage, &[words, &["--json"]].concat());
    assert!(ended.status.success(), "{ended:?}");
    let mut whole: Value = serde_json::from_str(&ended.lines.join("\n")).unwrap();
    whole["ledger"].take()
}

/// One call that went well, and one whose server died after its effect.
fn one_of_each() -> Stage {
    let mut stage = Stage::new();
    let mut session = Session::open(&stage, &stage.proxy(&Server::Quick.command()));
    assert_eq!(session.call("charge", &json!({ "customer": "bob", "cents": 7 })).word(), "done");
    session.end();
    stage.set("SERVER_DIE_AT", "after-effect");
    let mut session = Session::open(&stage, &stage.proxy(&Server::Quick.command()));
    assert_eq!(session.charge().status(), "unknown", "{}", stage.story());
    session.end();
    stage
}

#[test]
fn an_unknown_is_named_until_a_person_has_decided_it() {
    let stage = one_of_each();
    let its = numbers(&stage, &[]);
    assert_eq!(its["operations"], 2, "{its:#}");
    assert_eq!(its["all"], true);
    assert_eq!(its["by_tool"]["charge"]["succeeded"], 1);
    let open = stage.operations().into_iter().find(|its| its.is_unknown()).unwrap();
    assert_eq!(its["unknown"].as_array().unwrap().len(), 1, "{its:#}");
    assert_eq!(its["unknown"][0]["key"], open.key.as_str());
    assert_eq!(its["unknown"][0]["cause"], "connection lost");
    assert_eq!(its["unknown"][0]["escalated"], true);
    assert_eq!(its["fates"]["attempts"], 2);
    assert_eq!(its["fates"]["unknowns"], json!({ "connection lost": 1 }));
    assert_eq!(its["fates"]["escalations"], 1);
    assert_eq!(its["fates"]["settled_by"], json!({ "reply": 1 }));
    assert_eq!(its["fates"]["recovered_by"], json!({}));
    assert_eq!(its["owners"]["alive"], 0, "{its:#}");
    assert!(its["disk_bytes"].as_u64().unwrap() > 0);

    let text = stats(&stage, &[]).lines.join("\n");
    for part in ["unknown now: 1", &open.key, "connection lost", "attempts     2"] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }

    assert!(stage.resolve(&open.key, &["--as", "succeeded"]).status.success());
    let its = numbers(&stage, &[]);
    assert_eq!(its["unknown"], json!([]));
    assert_eq!(its["by_tool"]["charge"], json!({ "succeeded": 2 }));
    assert_eq!(its["fates"]["recovered_by"], json!({ "person": 1 }));
    assert_eq!(its["fates"]["settled_by"], json!({ "reply": 1 }));
    let text = stats(&stage, &[]).lines.join("\n");
    assert!(text.contains("0.0 % without a person"), "{text}");
}

#[test]
fn a_process_that_runs_is_counted_as_alive() {
    let stage = Stage::new();
    let mut session = Session::open(&stage, &stage.proxy(&Server::Quick.command()));
    assert_eq!(session.charge().word(), "done");
    let its = numbers(&stage, &[]);
    assert_eq!((&its["owners"]["alive"], &its["owners"]["gone"]), (&json!(1), &json!(0)), "{its:#}");
    session.end();
    let its = numbers(&stage, &[]);
    assert_eq!((&its["owners"]["alive"], &its["owners"]["gone"]), (&json!(0), &json!(1)), "{its:#}");
}

#[test]
fn what_was_not_looked_at_is_said() {
    let stage = Stage::new();
    let mut session = Session::open(&stage, &stage.proxy(&Server::Quick.command()));
    for cents in 1..=3 {
        assert_eq!(session.call("charge", &json!({ "customer": "bob", "cents": cents })).word(), "done");
    }
    session.end();
    let its = numbers(&stage, &["--records", "2"]);
    assert_eq!((&its["operations"], &its["all"]), (&json!(2), &json!(false)), "{its:#}");
    let text = stats(&stage, &["--records", "2"]).lines.join("\n");
    assert!(text.contains("there are more settled ones"), "{text}");
    let its = numbers(&stage, &["--records", "4"]);
    assert_eq!((&its["operations"], &its["all"]), (&json!(3), &json!(true)), "{its:#}");

    let stage = one_of_each();
    let its = numbers(&stage, &["--histories", "0"]);
    assert_eq!((&its["histories"]["read"], &its["fates"]["unknowns"]), (&json!(0), &json!({})), "{its:#}");
    let text = stats(&stage, &["--histories", "0"]).lines.join("\n");
    assert!(text.contains("--histories N reads more"), "{text}");
}

#[test]
fn a_ledger_that_is_not_there_or_cannot_be_one() {
    let stage = Stage::new();
    let missing = stage.path("nowhere");
    for (ledger, code) in [(missing.to_str().unwrap(), 1), ("memory:", 2), ("ftp://somewhere/x", 2), ("~/ledger", 2)] {
        for words in [&["stats"][..], &["log", "list"]] {
            let ended = stage.run(&stage.settled(&[words, &["--ledger", ledger]].concat()));
            assert_eq!(ended.status.code(), Some(code), "{words:?} {ledger}: {ended:?}");
            assert_eq!(ended.stderr.trim().lines().count(), 1, "{ended:?}");
        }
        assert!(!missing.exists(), "looking creates nothing");
    }
}

//! Which calls are one operation.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::support::slow_ledger::SlowLedger;
use crate::support::{INITIALIZE, INITIALIZED, World, mark};
use serde_json::Value;

#[tokio::test]
async fn a_template_names_the_operation() {
    let world = World::new();
    let mut client = world.open("[tools.plain]\nkey = '{customer.id}:{date}'").await;
    client.ask("1", "plain", r#"{"customer":{"id":7},"date":"d","cents":5}"#).await;
    let replay = client.ask("2", "plain", r#"{"cents":5.0,"date":"d","customer":{"id":7}}"#).await;
    assert_eq!(mark(&replay)["replayed"], true);
    let conflict = client.ask("3", "plain", r#"{"customer":{"id":7},"date":"d","cents":6}"#).await;
    let text = conflict["error"]["message"].as_str().unwrap();
    assert!(text.contains("the arguments that identify") && !text.contains("cents"), "{text}");
    assert_eq!(conflict["error"]["data"]["type"], "idempotency_key_conflict");
    let missing = client.ask("4", "plain", r#"{"customer":{},"date":"d"}"#).await;
    assert!(missing["error"]["message"].as_str().unwrap().contains("`customer.id`"), "{missing}");
    assert_eq!(missing["error"]["data"]["type"], "idempotency_key_argument_missing");
    assert_eq!(world.effects().len(), 1);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn what_is_ephemeral_is_sent_and_tells_nothing_apart() {
    let world = World::new();
    let mut client = world.open("[tools.charge]\nephemeral = ['timestamp', '/auth/token']").await;
    let first = client.ask("1", "charge", r#"{"cents":5,"timestamp":1,"auth":{"token":"a","user":"u"}}"#).await;
    assert_eq!(mark(&first)["replayed"], false);
    let retry = client.ask("2", "charge", r#"{"cents":5,"timestamp":2,"auth":{"user":"u","token":"b"}}"#).await;
    assert_eq!((&mark(&retry)["replayed"], &mark(&retry)["key"]), (&true.into(), &mark(&first)["key"]));
    let other = client.ask("3", "charge", r#"{"cents":5,"timestamp":2,"auth":{"user":"v","token":"b"}}"#).await;
    assert_eq!(mark(&other)["replayed"], false);
    let effects = world.effects();
    assert_eq!(effects.len(), 2);
    assert!(effects[0].contains(r#""timestamp": 1"#), "what is sent is what was asked: {effects:?}");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn two_keys_that_disagree_are_refused() {
    let world = World::new();
    let mut client = world.open("").await;
    let with = |param: &str, meta: &str| {
        format!(
            r#"{{"name":"plain","arguments":{{}},"idempotencyKey":"{param}","_meta":{{"io.settled/idempotency-key":"{meta}"}}}}"#
        )
    };
    client.call_with("1", &with("one", "other")).await;
    let refused = client.answer().await;
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["data"]["type"]),
        (&(-32602).into(), &"idempotency_key_ambiguous".into())
    );
    assert_eq!(world.effects().len(), 0);
    client.call_with("2", &with("one", "one")).await;
    assert_eq!(mark(&client.answer().await)["replayed"], false);
    assert_eq!(world.effects().len(), 1);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn any_tool_can_be_given_the_key() {
    let world = World::new();
    let mut client = world.open("[tools.charge]\npass_key_as = 'key'\nrepeat = 'replay'").await;
    client.ask("1", "charge", r#"{"cents":5}"#).await;
    client.call_with("2", r#"{"name":"charge","arguments":{"cents":5},"idempotencyKey":"mine"}"#).await;
    client.answer().await;
    let keys: Vec<String> = world
        .effects()
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["key"].as_str().unwrap().to_owned())
        .collect();
    assert!(keys.len() == 2 && keys[0] != keys[1] && keys.iter().all(|key| key.len() == 64), "{keys:?}");
    // It holds nothing back: an opaque tool's lost call stays unknown.
    let lost = client.ask("3", "charge", r#"{"cents":6,"die":true}"#).await;
    assert_eq!(mark(&lost)["status"], "unknown");
    assert_eq!(world.effects().len(), 3);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn keys_are_announced_and_go_on_to_servers_that_take_them() {
    for (mode, goes_on) in [("", false), ("keys", true)] {
        let world = World::new();
        let mut client = world.connect("", mode).await;
        client.say(INITIALIZE).await;
        let answer = client.hear().await;
        let end = r#""capabilities": {"tools": {"idempotency": true}}, "serverInfo": {"name": "t", "version": "1"}}}"#;
        let spliced = end.replace("\"idempotency\": true", "\"idempotency\":true");
        assert!(answer.ends_with(if goes_on { end } else { &spliced }), "{answer}");
        client.say(INITIALIZED).await;
        let params = r#"{"name":"charge","arguments":{"a":1e2},"_meta":{"io.settled/idempotency-key":"k\"1"}}"#;
        client.call_with("1", params).await;
        assert_eq!(mark(&client.answer().await)["status"], "done");
        let log = world.log();
        let sent = log.iter().find(|line| line.contains("\"tools/call\"")).unwrap();
        let params = params.strip_suffix('}').unwrap();
        let expected =
            if goes_on { format!(r#"{params},"idempotencyKey":"k\"1"}}}}"#) } else { format!("{params}}}}}") };
        assert!(sent.ends_with(&expected), "{sent}");
        client.end().await.1.unwrap();
    }
}

#[tokio::test]
async fn keys_are_announced_to_clients_that_discover() {
    let world = World::new();
    let mut client = world.connect("tasks = true", "").await;
    client.say(r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}"#).await;
    let answer = client.answer().await;
    assert_eq!(answer["result"]["capabilities"]["tools"]["idempotency"], true);
    assert!(answer["result"]["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"].is_object(), "{answer}");
    client.end().await.1.unwrap();
}

/// A call in a later round.
fn later(own: &str, arguments: &str, state: &str, answer: &str) -> String {
    format!(
        r#"{{"name":"charge","arguments":{arguments}{own},"requestState":"{state}","inputResponses":{{"name":"{answer}"}}}}"#
    )
}

#[tokio::test]
async fn a_call_that_is_asked_for_input_takes_effect_once_whoever_asks_again() {
    for own in ["", r#","idempotencyKey":"k""#] {
        let world = World::new();
        let mut client = world.open("").await;
        let arguments = r#"{"rounds":2}"#;
        let first = format!(r#"{{"name":"charge","arguments":{arguments}{own}}}"#);
        for id in ["1", "2"] {
            // Neither an outcome nor a duplicate, also when it is asked for again.
            client.call_with(id, &first).await;
            let asks = client.answer().await;
            assert_eq!(
                (&asks["result"]["resultType"], &asks["result"]["requestState"]),
                (&"input_required".into(), &"s".into())
            );
            assert_eq!(asks["result"].get("_meta"), None);
        }
        for id in ["3", "4"] {
            client.call_with(id, &later(own, arguments, "s", "a")).await;
            assert_eq!(client.answer().await["result"]["requestState"], "ss", "{own}");
        }
        assert_eq!(world.effects().len(), 0);
        client.call_with("5", &later(own, arguments, "ss", "b")).await;
        let done = client.answer().await;
        assert_eq!((&mark(&done)["status"], &mark(&done)["replayed"]), (&"done".into(), &false.into()), "{done}");
        // The round once more, the call from its beginning, and another answer: all are told what came of it.
        for (id, params) in [
            ("6", later(own, arguments, "ss", "b")),
            ("7", first.clone()),
            ("8", later(own, arguments, "ss", "another")),
            ("9", later(own, arguments, "s", "a")),
        ] {
            client.call_with(id, &params).await;
            let again = client.answer().await;
            assert_eq!(
                (&mark(&again)["status"], &mark(&again)["replayed"]),
                (&"done".into(), &true.into()),
                "{id} {again}"
            );
        }
        assert_eq!(world.effects().len(), 1);
        client.end().await.1.unwrap();
    }
}

#[tokio::test]
async fn a_later_round_with_other_arguments_is_a_conflict() {
    let world = World::new();
    let mut client = world.open("").await;
    let own = r#","idempotencyKey":"k""#;
    client.call_with("1", &format!(r#"{{"name":"charge","arguments":{{"rounds":1}}{own}}}"#)).await;
    assert_eq!(client.answer().await["result"]["resultType"], "input_required");
    client.call_with("2", &later(own, r#"{"rounds":1,"cents":9}"#, "s", "a")).await;
    assert_eq!(client.answer().await["error"]["data"]["type"], "idempotency_key_conflict");
    assert_eq!(world.effects().len(), 0);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn an_unknown_round_is_not_begun_again_from_the_start() {
    let world = World::new();
    let mut client = world.open("").await;
    let own = r#","idempotencyKey":"k""#;
    let arguments = r#"{"rounds":1,"die":true}"#;
    let first = format!(r#"{{"name":"charge","arguments":{arguments}{own}}}"#);
    client.call_with("1", &first).await;
    client.answer().await;
    client.call_with("2", &later(own, arguments, "s", "a")).await;
    assert_eq!(mark(&client.answer().await)["status"], "unknown");
    for (id, params) in [("3", first), ("4", later(own, arguments, "s", "b"))] {
        client.call_with(id, &params).await;
        assert_eq!(mark(&client.answer().await)["status"], "unknown");
    }
    assert_eq!(world.effects().len(), 1);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn for_a_tool_without_annotations_a_finished_round_is_no_new_wish() {
    let world = World::new();
    let mut client = world.open("").await;
    let plain = |state: &str| later("", r#"{"rounds":1}"#, state, "a").replace("charge", "plain");
    client.ask("1", "plain", r#"{"rounds":1}"#).await;
    for (id, replayed) in [("2", false), ("3", true)] {
        client.call_with(id, &plain("s")).await;
        let answer = client.answer().await;
        assert_eq!(
            (&mark(&answer)["status"], &mark(&answer)["replayed"]),
            (&"done".into(), &replayed.into()),
            "{answer}"
        );
    }
    // The same call from its beginning is one.
    let asks = client.ask("4", "plain", r#"{"rounds":1}"#).await;
    assert_eq!(asks["result"]["resultType"], "input_required");
    assert_eq!(world.effects().len(), 1);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn two_equal_rounds_at_once_are_one() {
    let world = World::new();
    let ledger = Arc::new(SlowLedger::default());
    let mut client = world.open_on(ledger.clone(), "").await;
    let (own, arguments) = (r#","idempotencyKey":"k""#, r#"{"rounds":1,"refuse_once":true}"#);
    client.call_with("1", &format!(r#"{{"name":"charge","arguments":{arguments}{own}}}"#)).await;
    assert_eq!(client.answer().await["result"]["resultType"], "input_required");
    // Both are about to be judged by the record of the round before; what comes of the first counts for the second.
    ledger.two_reads.store(true, Ordering::SeqCst);
    for id in ["2", "3"] {
        client.call_with(id, &later(own, arguments, "s", "a")).await;
    }
    let mut replayed = Vec::new();
    for _ in 0..2 {
        let answer = client.answer().await;
        assert_eq!(
            (&answer["error"]["message"], &mark(&answer)["status"]),
            (&"no such customer".into(), &"failed".into())
        );
        replayed.push(mark(&answer)["replayed"].as_bool());
    }
    assert_eq!(replayed, [Some(false), Some(true)]);
    // Whoever was told that it failed can rely on it: it did not happen later, either.
    assert_eq!((world.effects().len(), world.calls("charge")), (0, 2));
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn rounds_of_two_operations_do_not_mix() {
    let world = World::new();
    let mut client = world.open("").await;
    let arguments = r#"{"rounds":2}"#;
    let own = |key: &str| format!(r#","idempotencyKey":"{key}""#);
    let state = |answer: &Value| answer["result"]["requestState"].as_str().map(str::to_owned);
    for key in ["a", "b"] {
        client.call_with("1", &format!(r#"{{"name":"charge","arguments":{arguments}{}}}"#, own(key))).await;
        assert_eq!(state(&client.answer().await).as_deref(), Some("s"));
    }
    // One goes on to its end while the other waits, with the very same answers.
    for (said, answered) in [("s", Some("ss")), ("ss", None)] {
        client.call_with("2", &later(&own("a"), arguments, said, "x")).await;
        assert_eq!(state(&client.answer().await).as_deref(), answered);
    }
    assert_eq!(world.effects().len(), 1);
    for (said, answered) in [("s", Some("ss")), ("ss", None)] {
        client.call_with("3", &later(&own("b"), arguments, said, "x")).await;
        let answer = client.answer().await;
        assert_eq!(state(&answer).as_deref(), answered);
        assert_ne!(mark(&answer)["replayed"], true, "the other's answer: {answer}");
    }
    assert_eq!(world.effects().len(), 2, "each wish once");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_process_that_ends_between_rounds_leaves_a_question_and_during_one_an_unknown() {
    for (own, arguments) in [(r#","idempotencyKey":"k""#, r#"{"rounds":1}"#), ("", r#"{"rounds":1,"n":2}"#)] {
        let world = World::new();
        let config = "scope = 'ours'\nstatus_tool = true";
        let mut client = world.open(config).await;
        client.call_with("1", &format!(r#"{{"name":"charge","arguments":{arguments}{own}}}"#)).await;
        assert_eq!(client.answer().await["result"]["resultType"], "input_required");
        client.end().await.1.unwrap();
        // Nothing has happened, and the next process says so and goes on.
        let mut client = world.open(config).await;
        let address = world.addresses().await.pop().unwrap();
        let ask = serde_json::json!({ "operation": address }).to_string();
        let stands = client.ask("2", "settled_status", &ask).await;
        let structured = &stands["result"]["structuredContent"];
        assert_eq!((&structured["status"], &structured["retry"]), (&"input_required".into(), &"allowed".into()));
        client.call_with("3", &later(own, arguments, "s", "a")).await;
        let done = client.answer().await;
        assert_eq!((&mark(&done)["status"], &mark(&done)["replayed"]), (&"done".into(), &false.into()), "{done}");
        assert_eq!(world.effects().len(), 1);
        client.end().await.1.unwrap();
    }
    // A process that is killed while a round is under way: nobody knows, whichever round is asked for.
    let world = World::new();
    let config = "scope = 'ours'";
    let engine = settled::Engine::start(world.ledger.clone(), settled::EngineOptions::default()).await.unwrap();
    let own = r#","idempotencyKey":"k""#;
    let params = later(own, r#"{"rounds":1}"#, "s", "a");
    let key = settled::protocol::Key::new("ours", "charge", "key:k").unwrap();
    let policy = settled::protocol::Policy::new(settled::protocol::ToolKind::Opaque);
    let mut operation = settled::Operation::new(key, params.clone(), policy);
    operation.fingerprint = settled::protocol::fingerprint(br#"{"rounds":1}"#).unwrap();
    let calling = engine.clone();
    tokio::spawn(async move { calling.call(operation, Arc::new(crate::observing::Silent)).await });
    world.becomes("dispatched").await;
    world.ledger.kill(engine.epoch());
    let mut client = world.open(config).await;
    for (id, params) in [
        ("1", params),
        ("2", later(own, r#"{"rounds":1}"#, "s", "b")),
        ("3", format!(r#"{{"name":"charge","arguments":{{"rounds":1}}{own}}}"#)),
    ] {
        client.call_with(id, &params).await;
        let answer = client.answer().await;
        assert_eq!(mark(&answer)["status"], "unknown", "{answer}");
    }
    assert_eq!((world.effects().len(), world.calls("charge")), (0, 0));
    client.end().await.1.unwrap();
}

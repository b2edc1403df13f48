//! The proxy between a client on in-memory pipes and a real server process.

use crate::support::{INITIALIZE, INITIALIZED, World, mark};
use settled_mcp::ProxyError;

#[tokio::test]
async fn everything_else_passes_byte_for_byte() {
    let world = World::new();
    let mut client = world.open("").await;
    let lines = [
        r#"{"jsonrpc":"2.0","id":1,"method":"other","params":null,"extra":[1e400,12345678901234567890.10,"\ud800"]}"#,
        r#" { "method" : "notifications/x" , "params" : { "a" : 1.0 } } "#,
        r#"[{"jsonrpc":"2.0","id":2,"method":"x"}, {"jsonrpc":"2.0","method":"y"}]"#,
        r#"[]"#,
        r#"17"#,
        r#"not JSON at all"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"read","arguments":{"x":1e400}, "z":[]}}"#,
    ];
    // Until the tools are known the order of calls is not that of lines.
    client.ask("6", "read", "{}").await;
    for line in lines {
        client.say(line).await;
    }
    let answer = client.hear().await;
    assert_eq!(
        answer,
        r#"{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"read"}],"big":12345678901234567890.10}}"#
    );
    let log = world.log();
    assert_eq!(&log[log.len() - lines.len()..], lines);

    for line in [
        r#"{"jsonrpc":"2.0","id":"settled-x","result":{"n":12345678901234567890123, "s":"\ud800"}}"#,
        r#" {"method":"notifications/progress","params":{"progressToken":7}} "#,
        r#"[{"method":"a"},{"method":"b"}]"#,
        r#"text on the wrong stream"#,
    ] {
        let params = serde_json::json!({ "line": line });
        client.say(format!(r#"{{"jsonrpc":"2.0","method":"raw","params":{params}}}"#)).await;
        assert_eq!(client.hear().await, line);
    }

    let big = format!(r#"{{"jsonrpc":"2.0","method":"big","params":"{}"}}"#, "x".repeat(11 << 20));
    client.say(&big).await;
    client.ask("8", "read", "{}").await;
    assert!(world.log().contains(&big));
    let (rest, ended) = client.end().await;
    assert_eq!(rest, [""; 0]);
    assert!(ended.unwrap().server.unwrap().success());
    assert_eq!(world.log().last().unwrap(), "end of input");
}

#[tokio::test]
async fn a_repeat_is_joined_or_replayed() {
    let world = World::new();
    let mut client = world.open("").await;
    client.call("1", "charge", r#"{"cents":5,"sleep":0.3}"#).await;
    client.call("2", "charge", r#"{"sleep":0.30, "cents":5.0}"#).await;
    let (one, two) = (client.answer().await, client.answer().await);
    let replayed = [mark(&one)["replayed"].as_bool().unwrap(), mark(&two)["replayed"].as_bool().unwrap()];
    assert!(replayed.contains(&true) && replayed.contains(&false), "{one} {two}");
    client.call("\"3\"", "charge", r#"{"cents":5,"sleep":0.3}"#).await;
    let again = client.hear().await;
    let start = r#"{"jsonrpc":"2.0","id":"3","result":{"content":[{"type":"text","text":"charge"}],"big":12345678901234567890.10,"_meta":{"io.settled/status":{"status":"done","key":"#;
    assert!(again.starts_with(start), "{again}");
    assert!(again.contains(r#""replayed":true"#), "{again}");
    assert_eq!(world.effects().len(), 1);
    let other = client.ask("4", "charge", r#"{"cents":6}"#).await;
    assert_eq!(mark(&other)["replayed"], false);
    assert_eq!(world.effects().len(), 2);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn undeclared_tools_begin_anew_after_delivery() {
    let world = World::new();
    let mut client = world.open("").await;
    for id in ["1", "2", "3"] {
        let answer = client.ask(id, "plain", r#"{"a":1}"#).await;
        assert_eq!(mark(&answer)["replayed"], false, "{answer}");
    }
    assert_eq!(world.effects().len(), 3);
    // An error that was delivered ends it as well.
    for id in ["4", "5"] {
        let answer = client.ask(id, "plain", r#"{"fail":true}"#).await;
        assert_eq!((&mark(&answer)["status"], &mark(&answer)["replayed"]), (&"unknown".into(), &false.into()));
    }
    assert_eq!(world.effects().len(), 5);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_slow_answer_asked_for_again_is_a_retry() {
    let world = World::new();
    let mut client = world.open("[defaults]\nslow_answer = '300ms'\nretry_doubt = '600ms'").await;
    let slow = r#"{"sleep":0.6}"#;
    client.ask("1", "plain", slow).await;
    let again = client.ask("2", "plain", slow).await;
    assert_eq!(mark(&again)["replayed"], true);
    assert_eq!(world.effects().len(), 1);
    // That answer was quick, so the next call is a new wish.
    let new = client.ask("3", "plain", slow).await;
    assert_eq!(mark(&new)["replayed"], false);
    assert_eq!(world.effects().len(), 2);
    // When nobody asks for a while, the slow answer has arrived.
    tokio::time::sleep(std::time::Duration::from_millis(900)).await;
    let new = client.ask("4", "plain", slow).await;
    assert_eq!(mark(&new)["replayed"], false);
    assert_eq!(world.effects().len(), 3);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_slow_answer_stays_in_doubt_if_the_retry_was_lost_too() {
    let world = World::new();
    let mut client = world.open("[defaults]\nslow_answer = '300ms'\nretry_doubt = '400ms'").await;
    let slow = r#"{"sleep":0.6}"#;
    client.ask("1", "plain", slow).await;
    // Both in one piece, so that the cancel comes before the answer.
    client
        .say(concat!(
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"plain","arguments":{"sleep":0.6}}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#
        ))
        .await;
    assert!(client.silence(800).await);
    let retry = client.ask("3", "plain", slow).await;
    assert_eq!(mark(&retry)["replayed"], true);
    assert_eq!(world.effects().len(), 1);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_call_that_a_dying_server_did_not_take_goes_to_the_next() {
    for tool in ["charge", "read"] {
        let world = World::new();
        let mut client = world.open("").await;
        client.ask("1", "read", "{}").await;
        client.say(r#"{"jsonrpc":"2.0","method":"deaf"}"#).await;
        while world.log().last().unwrap() != "deaf now" {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let answer = client.ask("2", tool, "{}").await;
        assert_eq!(answer["result"]["content"][0]["text"], tool, "{answer}");
        let log = world.log();
        let count = |part: &str| log.iter().filter(|line| line.contains(part)).count();
        assert_eq!((count("started"), count(&format!(r#""name":"{tool}""#))), (2, 1 + usize::from(tool == "read")));
        client.end().await.1.unwrap();
    }
}

#[tokio::test]
async fn a_cancel_of_a_guarded_call_is_withheld() {
    let world = World::new();
    let mut client = world.open("").await;
    for (tool, id) in [("charge", "1"), ("plain", "2")] {
        client.call(id, tool, r#"{"sleep":0.5}"#).await;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let cancel =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID,"reason":"timeout"}}"#;
        client.say(cancel.replace("ID", id)).await;
        assert!(client.silence(600).await, "a cancelled call is not answered");
        let retry = client.ask(&format!("\"retry {id}\""), tool, r#"{"sleep":0.5}"#).await;
        assert_eq!((&mark(&retry)["status"], &mark(&retry)["replayed"]), (&"done".into(), &true.into()));
    }
    assert_eq!(world.effects().len(), 2);
    assert!(!world.log().iter().any(|line| line.contains("cancelled")));

    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    client.call("7", "read", r#"{"hang":1}"#).await;
    client.say(cancel).await;
    client.ask("8", "read", "{}").await;
    assert!(world.log().iter().any(|line| line == cancel));
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_server_that_dies_is_started_again() {
    let world = World::new();
    let mut client = world.open("").await;
    client.ask("1", "read", "{}").await;
    client.call("2", "read", r#"{"hang":1}"#).await;
    client.call("3", "charge", r#"{"die":true}"#).await;
    let mut answers = [client.answer().await, client.answer().await];
    answers.sort_by_key(|answer| answer["id"].as_i64());
    assert_eq!(answers[0]["error"]["code"], -32000);
    assert!(answers[0]["error"]["message"].as_str().unwrap().contains("server process ended"), "{}", answers[0]);
    assert_eq!(answers[1]["result"]["isError"], true);
    assert_eq!(mark(&answers[1])["status"], "unknown");

    // Nothing is sent again, and the new process serves everything else.
    let retry = client.ask("4", "charge", r#"{"die":true}"#).await;
    assert_eq!(mark(&retry)["status"], "unknown");
    assert_eq!(mark(&retry)["replayed"], true);
    client.ask("5", "read", "{}").await;
    client.ask("6", "charge", r#"{"cents":1}"#).await;
    assert_eq!(world.effects().len(), 2);

    let log = world.log();
    let second = log.iter().rposition(|line| line.starts_with("started")).unwrap();
    assert!(second > 0);
    let params = INITIALIZE.split_once(r#""params":"#).unwrap().1;
    assert!(log[second + 1].contains("settled-") && log[second + 1].ends_with(params), "{}", log[second + 1]);
    assert_eq!(log[second + 2], INITIALIZED);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn answers_to_a_former_process_are_dropped() {
    let world = World::new();
    let mut client = world.open("").await;
    let raw = |id: u32| {
        let line =
            serde_json::json!({ "line": format!(r#"{{"jsonrpc":"2.0","id":0,"method":"roots/list","n":{id}}}"#) });
        format!(r#"{{"jsonrpc":"2.0","method":"raw","params":{line}}}"#)
    };
    client.say(raw(1)).await;
    assert_eq!(client.answer().await["id"], 0);
    client.say(r#"{"jsonrpc":"2.0","method":"die"}"#).await;
    client.ask("1", "read", "{}").await;
    client.say(raw(2)).await;
    let asked = client.answer().await;
    assert_ne!(asked["id"], 0, "an id of the former process would be ambiguous");
    client.say(r#"{"jsonrpc":"2.0","id":0,"result":{"from":"old"}}"#).await;
    client.say(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"from":"new"}}}}"#, asked["id"])).await;
    client.ask("2", "read", "{}").await;
    let log = world.log();
    assert!(log.iter().any(|line| line == r#"{"jsonrpc":"2.0","id":0,"result":{"from":"new"}}"#), "{log:?}");
    assert!(!log.iter().any(|line| line.contains(r#""old""#)));
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_server_that_dies_too_often_is_given_up_for_a_while() {
    let world = World::new();
    let mut client = world.open("").await;
    client.ask("0", "read", "{}").await;
    let mut refused = None;
    for id in 1..=12 {
        client.say(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"die"}}"#)).await;
        let answer = client.answer().await;
        let text = answer["error"]["message"].as_str().unwrap().to_owned();
        if text.contains("nothing was sent") {
            refused = Some(text);
            break;
        }
    }
    let text = refused.expect("an explicit refusal");
    assert!(text.contains("5 times within a minute"), "{text}");
    // A guarded call that was certainly not sent did not happen.
    let call = client.ask("20", "charge", "{}").await;
    assert_eq!(mark(&call)["status"], "failed", "{call}");
    assert_eq!(world.log().iter().filter(|line| line.starts_with("started")).count(), 6);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn errors_that_prove_something_and_errors_that_do_not() {
    let world = World::new();
    let mut client = world.open("[tools.pay]\nerrors = 'final'").await;
    for id in ["1", "2"] {
        let answer = client.ask(id, "charge", r#"{"refuse":true}"#).await;
        assert_eq!((&answer["error"]["code"], &mark(&answer)["status"]), (&(-32602).into(), &"failed".into()));
        assert_eq!(mark(&answer)["replayed"], false, "a failure may be tried again");
    }
    let first = client.ask("3", "charge", r#"{"fail":true}"#).await;
    assert_eq!((&first["result"]["content"][0]["text"], &mark(&first)["status"]), (&"boom".into(), &"unknown".into()));
    assert_eq!(first["result"]["content"].as_array().unwrap().len(), 1);
    let retry = client.ask("4", "charge", r#"{"fail":true}"#).await;
    assert_eq!(retry["result"]["content"][0]["text"], "boom");
    assert!(retry["result"]["content"][1]["text"].as_str().unwrap().contains("errors = \"final\""), "{retry}");
    assert_eq!(world.effects().len(), 1);
    for id in ["5", "6"] {
        let answer = client.ask(id, "pay", r#"{"fail":true}"#).await;
        assert_eq!((&mark(&answer)["status"], &mark(&answer)["replayed"]), (&"failed".into(), &false.into()));
    }
    assert_eq!(world.effects().len(), 3);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn the_callers_own_keys() {
    let world = World::new();
    let mut client = world.open("").await;
    let keyed = |cents: u32| format!(r#"{{"name":"plain","arguments":{{"cents":{cents}}},"idempotencyKey":"k"}}"#);
    client.call_with("1", &keyed(5)).await;
    assert_eq!(mark(&client.answer().await)["replayed"], false);
    client.call_with("2", &keyed(5)).await;
    assert_eq!(mark(&client.answer().await)["replayed"], true);
    client.call_with("3", &keyed(6)).await;
    let conflict = client.hear().await;
    assert!(conflict.contains("idempotency_key_conflict") && !conflict.contains("cents"), "{conflict}");
    client.call_with("4", r#"{"name":"plain","arguments":{},"idempotencyKey":7}"#).await;
    assert_eq!(client.answer().await["error"]["code"], -32602);
    assert_eq!(world.effects().len(), 1);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_key_of_configured_arguments() {
    let world = World::new();
    let mut client = world.open("[tools.plain]\nkey = ['order']").await;
    client.ask("1", "plain", r#"{"order":1,"cents":5}"#).await;
    let replay = client.ask("2", "plain", r#"{"cents":5,"order":1}"#).await;
    assert_eq!(mark(&replay)["replayed"], true);
    let conflict = client.ask("3", "plain", r#"{"cents":6,"order":1}"#).await;
    assert_eq!(conflict["error"]["data"]["type"], "idempotency_key_conflict");
    let missing = client.ask("4", "plain", r#"{"cents":6}"#).await;
    assert!(missing["error"]["message"].as_str().unwrap().contains("`order`"), "{missing}");
    assert_eq!(world.effects().len(), 1);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_tool_that_deduplicates_gets_the_key() {
    let world = World::new();
    let config = "[tools.pay]\nkind = 'deduplicates'\npass_key_as = 'key'\nlimit = '24h'\nrepeat = 'replay'";
    let mut client = world.open(config).await;
    // The process dies after the effect, so the call is sent again: the tool can tell by the key.
    let answer = client.ask("1", "pay", r#"{"cents":5,"die_once":true}"#).await;
    assert_eq!((&mark(&answer)["status"], &mark(&answer)["replayed"]), (&"done".into(), &false.into()));
    let effects: Vec<serde_json::Value> =
        world.effects().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(effects.len(), 2);
    assert_eq!(effects[0], effects[1]);
    assert_eq!((effects[0]["cents"].as_i64(), effects[0]["key"].as_str().unwrap().len()), (Some(5), 64));
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_batch_with_a_guarded_call_is_taken_apart() {
    let world = World::new();
    let mut client = world.open("").await;
    client.ask("0", "read", "{}").await;
    let call = |id: u32| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"charge","arguments":{{"a":1}}}}}}"#
        )
    };
    let ping = r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#;
    client.say(format!("[{}, {},{ping}]", call(1), call(2))).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(client.answer().await["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(world.effects().len(), 1);
    assert!(world.log().iter().any(|line| line == ping));
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_client_without_a_session() {
    let world = World::new();
    let mut client = world.connect("", "slow-list").await;
    let params = r#"{"name":"read","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":1}}"#;
    client.call_with("1", params).await;
    let answer = client.hear().await;
    assert!(!answer.contains("io.settled"), "the list said that it is read-only: {answer}");
    let log = world.log();
    let lists: Vec<_> = log.iter().filter(|line| line.contains("tools/list")).collect();
    assert_eq!(lists.len(), 2, "both pages: {log:?}");
    assert!(lists.iter().all(|line| line.contains("2026-07-28") && !line.contains("progressToken")), "{lists:?}");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn what_a_lenient_server_could_run_is_not_passed_on() {
    let world = World::new();
    let mut client = world.open("").await;
    client
        .say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"x":NaN}}}"#)
        .await;
    assert_eq!(client.answer().await["error"]["code"], -32700);
    client.say(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"charge","arguments":{}}}"#).await;
    client.ask("2", "read", "{}").await;
    assert_eq!(world.effects().len(), 0);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_client_that_leaves_does_not_undo_its_calls() {
    let world = World::new();
    let mut client = world.open("").await;
    client.call("1", "charge", r#"{"sleep":0.4}"#).await;
    client.call("2", "plain", r#"{"sleep":0.4}"#).await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    client.vanish().await.unwrap();
    // Both are recorded, and neither answer counts as delivered.
    let mut client = world.open("").await;
    for (id, tool) in [("3", "charge"), ("4", "plain")] {
        let answer = client.ask(id, tool, r#"{"sleep":0.4}"#).await;
        assert_eq!((&mark(&answer)["status"], &mark(&answer)["replayed"]), (&"done".into(), &true.into()));
    }
    assert_eq!(world.effects().len(), 2);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_client_that_closes_its_input_is_still_answered() {
    let world = World::new();
    let mut client = world.open("").await;
    client.call("1", "charge", r#"{"sleep":0.3}"#).await;
    client.call("2", "read", r#"{"sleep":0.1}"#).await;
    let (rest, ended) = client.end().await;
    assert_eq!(rest.len(), 2, "{rest:?}");
    ended.unwrap();
    assert_eq!(world.log().last().unwrap(), "end of input");
}

#[tokio::test]
async fn a_server_that_can_not_be_started() {
    let world = World::new();
    let client = world.connect_to("", vec!["/nonexistent/server".into()]).await;
    let (_, ended) = client.end().await;
    let error = ended.unwrap_err();
    assert!(matches!(error, ProxyError::CannotStart { .. }));
    assert!(error.to_string().contains("/nonexistent/server"), "{error}");
    let (_, ended) = world.connect_to("", Vec::new()).await.end().await;
    assert!(matches!(ended, Err(ProxyError::NoCommand)));
}

#[tokio::test]
async fn a_server_that_ends_at_once() {
    let world = World::new();
    let mut client = world.connect("", "exit").await;
    client.say(INITIALIZE).await;
    let answer = client.answer().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&0.into(), &(-32000).into()));
    let ended = client.wait().await;
    let error = ended.unwrap_err();
    assert!(matches!(error, ProxyError::EndedAtStart { .. }));
    assert!(error.to_string().contains("exit status: 3"), "{error}");
}

/// A tool that never answers.
struct Silent;

#[async_trait::async_trait]
impl settled::Tool for Silent {
    async fn dispatch(&self, outgoing: &settled::Outgoing) -> settled::ToolReply {
        outgoing.sent();
        std::future::pending().await
    }
}

#[tokio::test]
async fn what_a_dead_proxy_left_is_handed_to_a_person() {
    let world = World::new();
    let engine = settled::Engine::start(world.ledger.clone(), settled::EngineOptions::default()).await.unwrap();
    let key = |scope: &str| settled::protocol::Key::new(scope, "charge", "key:k").unwrap();
    for scope in ["ours", "theirs"] {
        let operation = settled::Operation {
            key: key(scope),
            fingerprint: settled::protocol::fingerprint(b"{}").unwrap(),
            asked: "{}".into(),
            send_instead: None,
            policy: settled::protocol::Policy::new(settled::protocol::ToolKind::Opaque),
            resource: None,
            limits: settled::Limits::default(),
        };
        let engine = engine.clone();
        tokio::spawn(async move { engine.call(operation, std::sync::Arc::new(Silent)).await });
    }
    let ledger: std::sync::Arc<dyn settled::Ledger> = world.ledger.clone();
    let state = |scope: &str| {
        let (ledger, key) = (ledger.clone(), key(scope));
        async move { ledger.get(&key).await.unwrap().map(|entry| entry.record.state().name()) }
    };
    while state("ours").await != Some("dispatched") || state("theirs").await != Some("dispatched") {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    world.ledger.kill(engine.epoch());

    let mut client = world.connect("scope = 'ours'", "").await;
    let escalated = async {
        while state("ours").await != Some("escalated") {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), escalated).await.expect("escalated");
    assert_eq!(state("theirs").await, Some("dispatched"), "other scopes are other proxies' business");
    client.say(INITIALIZE).await;
    client.answer().await;
    client.say(INITIALIZED).await;
    client.call_with("1", r#"{"name":"charge","arguments":{},"idempotencyKey":"k"}"#).await;
    let answer = client.answer().await;
    assert_eq!((&mark(&answer)["status"], &mark(&answer)["replayed"]), (&"unknown".into(), &true.into()));
    assert_eq!(world.effects().len(), 0);
    client.end().await.1.unwrap();
}

//! What the model is told, when, and how it can ask.

use std::time::Duration;

use crate::support::{INITIALIZE, INITIALIZED, World, mark};
use serde_json::Value;

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test]
async fn an_unknown_in_words_for_programs_and_in_japanese() {
    let world = World::new();
    let mut client = world.open("[messages]\nlanguage = 'ja'\nmark_replays = true").await;
    let lost = client.ask("1", "charge", r#"{"die":true}"#).await;
    assert!(
        text(&lost).contains("charge のこの呼び出しが実行されたかどうかは不明です。再実行しないでください。"),
        "{lost}"
    );
    let structured = &lost["result"]["structuredContent"];
    assert_eq!((&structured["status"], &structured["retry"]), (&"unknown".into(), &"never".into()));
    assert_eq!(structured["operation"], mark(&lost)["key"]);
    // The tool's own answer stays as it is, and a replay of it is marked in words.
    let first = client.ask("2", "charge", r#"{"a":1}"#).await;
    assert_eq!((text(&first), first["result"]["content"].as_array().unwrap().len()), ("charge", 1));
    let again = client.ask("3", "charge", r#"{"a":1}"#).await;
    assert_eq!((text(&again), again["result"]["content"].as_array().unwrap().len()), ("charge", 2));
    assert!(again["result"]["content"][1]["text"].as_str().unwrap().contains("記録された応答"), "{again}");
    assert_eq!(world.effects().len(), 2);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_tool_with_an_output_schema_gets_no_other_structure() {
    let world = World::new();
    let mut client = world.open("").await;
    let lost = client.ask("1", "shaped", r#"{"die":true}"#).await;
    assert_eq!((lost["result"].get("structuredContent"), &lost["result"]["isError"]), (None, &true.into()), "{lost}");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn before_the_client_gives_up_it_is_told_that_the_call_is_in_progress() {
    let world = World::new();
    let mut client = world.open("[defaults]\nclient_timeout = '500ms'").await;
    let slow = r#"{"sleep":3}"#;
    let told = client.ask("1", "charge", slow).await;
    assert_eq!(
        (&mark(&told)["status"], &told["result"]["structuredContent"]["retry"]),
        (&"in_progress".into(), &"later".into())
    );
    assert!(mark(&told)["createdAt"].is_string(), "{told}");
    let params = r#"{"name":"charge","arguments":{"sleep":3},"idempotencyKey":"k"}"#;
    client.call_with("2", params).await;
    let told = client.answer().await;
    assert_eq!(told["error"]["data"]["type"], "idempotency_key_in_progress", "{told}");
    // The work went on.
    loop {
        let repeat = client.ask("3", "charge", slow).await;
        if mark(&repeat)["status"] == "done" {
            assert_eq!(mark(&repeat)["replayed"], true);
            break;
        }
        assert_eq!(mark(&repeat)["status"], "in_progress", "{repeat}");
    }
    loop {
        client.call_with("4", params).await;
        let repeat = client.answer().await;
        if repeat.get("error").is_none() {
            assert_eq!((&mark(&repeat)["status"], &mark(&repeat)["replayed"]), (&"done".into(), &true.into()));
            break;
        }
    }
    assert_eq!(world.effects().len(), 2);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_client_is_told_in_time_while_the_server_has_not_listed_its_tools() {
    let world = World::new();
    let mut client = world.connect("[defaults]\nclient_timeout = '300ms'", "slow-list").await;
    client.say(INITIALIZE).await;
    client.answer().await;
    client.say(INITIALIZED).await;
    // It can't be judged before the list is there, which takes longer than the client waits.
    let told = client.ask("1", "charge", "{}").await;
    assert_eq!(told["error"]["data"]["type"], "tools_not_listed", "{told}");
    assert!(told["error"]["message"].as_str().unwrap().starts_with("nothing was sent"), "{told}");
    client.say(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#).await;
    assert_eq!(client.answer().await["id"], 2, "it did not go on when the list came");
    assert_eq!(world.calls("charge"), 0);
    while mark(&client.ask("3", "charge", "{}").await)["status"] != "done" {}
    assert_eq!(world.effects().len(), 1);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_client_that_asks_for_progress_is_kept_waiting() {
    let world = World::new();
    let mut client = world.open("[defaults]\nclient_timeout = '300ms'\nkeep_alive = true").await;
    let params = r#"{"name":"charge","arguments":{"steps":2,"step":0.5},"_meta":{"progressToken":"t"}}"#;
    client.call_with("1", params).await;
    let mut seen = Vec::new();
    let answer = loop {
        let message = client.answer().await;
        if message.get("id").is_some() {
            break message;
        }
        assert_eq!(message["params"]["progressToken"], "t");
        seen.push(message["params"]["progress"].as_f64().unwrap());
    };
    assert_eq!(mark(&answer)["status"], "done");
    assert!(seen.windows(2).all(|two| two[0] < two[1]), "progress only increases: {seen:?}");
    assert!(seen.contains(&1.0) && seen.contains(&2.0) && seen.len() > 2, "the server's own and the proxy's: {seen:?}");
    // Without a token nobody listens: it is told in time.
    let told = client.ask("2", "charge", r#"{"sleep":3}"#).await;
    assert_eq!(mark(&told)["status"], "in_progress");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn the_model_can_ask_how_an_operation_stands() {
    let world = World::new();
    let config = "scope = 'ours'\nstatus_tool = true\n[defaults]\nclient_timeout = '300ms'";
    let mut client = world.open(config).await;
    client.say(r#"{"jsonrpc":"2.0","id":"l1","method":"tools/list"}"#).await;
    assert!(!client.hear().await.contains("settled_status"), "only on the last page");
    client.say(r#"{"jsonrpc":"2.0","id":"l2","method":"tools/list","params":{"cursor":"2"}}"#).await;
    let last = client.answer().await;
    let tool = last["result"]["tools"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&tool["name"], &tool["annotations"]["readOnlyHint"]), (&"settled_status".into(), &true.into()));

    let told = client.ask("1", "charge", r#"{"sleep":3}"#).await;
    assert!(text(&told).contains("settled_status"), "{told}");
    let address = mark(&told)["key"].as_str().unwrap().to_owned();
    let ask = serde_json::json!({ "operation": address }).to_string();
    let stands = client.ask("2", "settled_status", &ask).await;
    let structured = &stands["result"]["structuredContent"];
    assert_eq!(
        (&structured["status"], &structured["state"], &structured["attempts"]),
        (&"in_progress".into(), &"dispatched".into(), &1.into())
    );
    let done = loop {
        let stands = client.ask("3", "settled_status", &ask).await;
        if stands["result"]["structuredContent"]["status"] == "done" {
            break stands;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let structured = &done["result"]["structuredContent"];
    assert_eq!((&structured["verdict"], &structured["retry"]), (&"succeeded".into(), &"never".into()));
    assert_eq!(structured["answer"]["result"]["content"][0]["text"], "charge");
    assert_eq!(done["result"]["content"][1]["text"], "charge", "{done}");
    client.ask("4", "settled_status", &ask).await;
    assert!(structured["settledAt"].is_string() && structured["sentAt"].is_string());

    // Of other scopes nothing is said, not even that they are there.
    let other = address.replacen("ours", "theirs", 1);
    for unknown in [other.as_str(), "nonsense", "ours/charge/key:nobody"] {
        let ask = serde_json::json!({ "operation": unknown }).to_string();
        let stands = client.ask("5", "settled_status", &ask).await;
        assert_eq!(stands["result"]["structuredContent"]["status"], "not_known", "{stands}");
    }
    assert_eq!(client.ask("6", "settled_status", "{}").await["error"]["code"], -32602);
    assert_eq!(world.calls("settled_status"), 0);
    assert_eq!(world.effects().len(), 1);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_server_with_a_tool_of_that_name_keeps_it() {
    let world = World::new();
    let mut client = world.connect("status_tool = true", "status").await;
    client.say(INITIALIZE).await;
    client.answer().await;
    client.say(INITIALIZED).await;
    client.ask("1", "settled_status", r#"{"operation":"x"}"#).await;
    assert_eq!(world.calls("settled_status"), 1);
    client.say(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"2"}}"#).await;
    assert!(!client.hear().await.contains("settled_status"));
    client.end().await.1.unwrap();
}

/// `_meta` of a client of revision 2026-07-28 that can deal with tasks.
const CAN: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;

#[tokio::test]
async fn a_long_call_and_an_unknown_one_become_tasks() {
    let world = World::new();
    let mut client = world.open("tasks = true\n[defaults]\nclient_timeout = '300ms'").await;
    client.call_with("1", &format!(r#"{{"name":"charge","arguments":{{"sleep":3}},{CAN}}}"#)).await;
    let created = client.answer().await;
    let task = &created["result"];
    assert_eq!((&task["resultType"], &task["status"]), (&"task".into(), &"working".into()), "{created}");
    for member in ["createdAt", "lastUpdatedAt", "statusMessage"] {
        assert!(task[member].is_string(), "{member}: {created}");
    }
    assert!(task["ttlMs"].is_null() && task["pollIntervalMs"].is_u64());
    let get = |id: &str, task: &Value, meta: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tasks/get","params":{{"taskId":{task},{meta}}}}}"#)
    };
    client.say(get("2", &task["taskId"], CAN)).await;
    assert_eq!(client.answer().await["result"]["status"], "working");
    let done = loop {
        client.say(get("3", &task["taskId"], CAN)).await;
        let stands = client.answer().await;
        if stands["result"]["status"] != "working" {
            break stands;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!((&done["result"]["status"], &done["result"]["resultType"]), (&"completed".into(), &"complete".into()));
    assert_eq!(done["result"]["result"]["content"][0]["text"], "charge", "{done}");

    client.call_with("4", &format!(r#"{{"name":"charge","arguments":{{"die":true}},{CAN}}}"#)).await;
    let unknown = client.answer().await;
    assert_eq!((&unknown["result"]["status"], &mark(&unknown)["status"]), (&"working".into(), &"unknown".into()));
    assert!(unknown["result"]["statusMessage"].as_str().unwrap().contains("Do not repeat it"), "{unknown}");
    // A cancel is acknowledged, and changes nothing.
    let cancel = get("5", &unknown["result"]["taskId"], CAN).replace("tasks/get", "tasks/cancel");
    client.say(cancel).await;
    assert_eq!(client.answer().await["result"]["resultType"], "complete");
    // Another process finds the task as well.
    client.end().await.1.unwrap();
    let mut client = world.open("tasks = true").await;
    client.say(get("6", &unknown["result"]["taskId"], CAN)).await;
    assert_eq!(client.answer().await["result"]["status"], "working");
    client.say(get("7", &unknown["result"]["taskId"], r#""x":1"#)).await;
    assert_eq!(client.answer().await["error"]["code"], -32021);
    client.say(get("8", &"settled-task:1:charge/key:nobody".into(), CAN)).await;
    assert_eq!(client.answer().await["error"]["code"], -32602);
    // Whoever can't deal with tasks is told in words.
    let told = client.ask("9", "charge", r#"{"die":true}"#).await;
    assert_eq!(mark(&told)["status"], "unknown");
    assert_eq!(world.log().iter().filter(|line| line.contains("tasks/")).count(), 0);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_call_that_ends_on_delivery_gets_no_task() {
    let world = World::new();
    let mut client = world.open("tasks = true\n[defaults]\nclient_timeout = '300ms'").await;
    let params = format!(r#"{{"name":"plain","arguments":{{"sleep":3}},{CAN}}}"#);
    client.call_with("1", &params).await;
    let told = client.answer().await;
    assert_eq!(
        (&mark(&told)["status"], &told["result"]["resultType"]),
        (&"in_progress".into(), &"complete".into()),
        "{told}"
    );
    loop {
        client.call_with("2", &params).await;
        let again = client.answer().await;
        if mark(&again)["status"] == "done" {
            assert_eq!(mark(&again)["replayed"], true, "{again}");
            break;
        }
    }
    assert_eq!(world.effects().len(), 1);
    client.end().await.1.unwrap();
}

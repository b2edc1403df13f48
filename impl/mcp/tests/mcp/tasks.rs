//! Tasks of the proxy's own in sessions of revision 2025-11-25, and those of servers that have some.

use std::time::Duration;

use crate::support::{Client, World, mark};
use serde_json::{Value, json};

const TASKS: &str = "tasks = true\nscope = 'ours'";

/// A call that asks for a task.
fn as_task(tool: &str, arguments: Value) -> String {
    json!({ "name": tool, "arguments": arguments, "task": { "ttl": 60000 } }).to_string()
}

async fn ask(client: &mut Client, id: &str, method: &str, params: Value) -> Value {
    client.say(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()).await;
    let answer = client.answer().await;
    assert_eq!(answer["id"], id, "{answer}");
    answer
}

/// A task as it stands once it does not work any more.
async fn ended(client: &mut Client, task: &Value) -> Value {
    loop {
        let stands = ask(client, "get", "tasks/get", json!({ "taskId": task })).await;
        if stands["result"]["status"] != "working" {
            return stands["result"].clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_call_is_a_task_from_its_record_to_its_result() {
    let world = World::new();
    let (mut client, opened) = world.open_in(TASKS, "tasks").await;
    assert_eq!(
        opened["capabilities"]["tasks"],
        json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } })
    );
    let list = ask(&mut client, "l", "tools/list", json!({})).await;
    let support = |name: &str| {
        let tools = list["result"]["tools"].as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == name).unwrap()["execution"]["taskSupport"].clone()
    };
    assert_eq!((support("charge"), support("read")), ("optional".into(), Value::Null), "{list}");

    client.call_with("1", &as_task("charge", json!({ "sleep": 1 }))).await;
    let created = client.answer().await;
    let task = &created["result"]["task"];
    assert_eq!((&task["status"], &mark(&created)["status"]), (&"working".into(), &"task_created".into()), "{created}");
    for member in ["taskId", "createdAt", "lastUpdatedAt", "statusMessage"] {
        assert!(task[member].is_string(), "{member}: {created}");
    }
    assert!(task["ttl"].is_null() && task["pollInterval"].is_u64(), "{created}");
    // It was recorded before it was announced, and the wish for a task is not the server's business.
    assert_eq!(world.ledger_states().await, ["dispatched"]);
    let sent = world.log().into_iter().find(|line| line.contains("tools/call")).unwrap();
    assert!(!sent.contains("\"task\""), "{sent}");

    // Whoever asks for the result waits for it, and gets the tool's own.
    let result = ask(&mut client, "r", "tasks/result", json!({ "taskId": task["taskId"] })).await;
    assert_eq!(result["result"]["content"][0]["text"], "charge", "{result}");
    assert_eq!(result["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], task["taskId"]);
    assert_eq!((&mark(&result)["status"], &mark(&result)["replayed"]), (&"done".into(), &true.into()));
    assert_eq!(ended(&mut client, &task["taskId"]).await["status"], "completed");

    // A repeat, as a task or not, is the same operation.
    client.call_with("2", &as_task("charge", json!({ "sleep": 1 }))).await;
    assert_eq!(client.answer().await["result"]["task"]["taskId"], task["taskId"]);
    let plain = client.ask("3", "charge", r#"{"sleep":1}"#).await;
    assert_eq!((&mark(&plain)["status"], &mark(&plain)["replayed"]), (&"done".into(), &true.into()), "{plain}");
    assert_eq!((world.effects().len(), world.calls("charge")), (1, 1));
    assert!(!world.log().iter().any(|line| line.contains("tasks/")), "the server hears of none of it");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn an_unknown_task_keeps_working_and_another_process_knows_it() {
    let world = World::new();
    let (mut client, _) = world.open_in(TASKS, "tasks").await;
    client.call_with("1", &as_task("charge", json!({ "die": true }))).await;
    let task = client.answer().await["result"]["task"]["taskId"].clone();
    world.becomes("escalated").await;
    let stands = ask(&mut client, "g", "tasks/get", json!({ "taskId": task })).await;
    assert_eq!(stands["result"]["status"], "working", "{stands}");
    assert!(stands["result"]["statusMessage"].as_str().unwrap().contains("Do not repeat it"), "{stands}");
    // A person may take days: nobody is kept waiting for that.
    let result = ask(&mut client, "r", "tasks/result", json!({ "taskId": task })).await;
    assert_eq!(
        (&result["error"]["data"]["type"], &mark(&result)["status"]),
        (&"task_unknown".into(), &"unknown".into())
    );
    let cancelled = ask(&mut client, "c", "tasks/cancel", json!({ "taskId": task })).await;
    assert_eq!(cancelled["error"]["code"], -32602, "what was sent can't be taken back: {cancelled}");
    client.end().await.1.unwrap();

    let (mut client, _) = world.open_in(TASKS, "tasks").await;
    let stands = ask(&mut client, "g", "tasks/get", json!({ "taskId": task })).await;
    assert_eq!(stands["result"]["status"], "working", "{stands}");
    let list = ask(&mut client, "l", "tasks/list", json!({})).await;
    assert_eq!(list["result"]["tasks"][0]["taskId"], task, "{list}");
    for gone in ["settled-task:1:charge/key:nobody", "settled-task:nonsense"] {
        let none = ask(&mut client, "n", "tasks/get", json!({ "taskId": gone })).await;
        assert_eq!(none["error"]["code"], -32602, "{none}");
    }
    // A person's word ends it.
    assert_eq!(world.effects().len(), 1);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn what_a_tool_refused_is_a_failed_task_and_may_be_called_again() {
    let world = World::new();
    let (mut client, _) = world.open_in(TASKS, "tasks").await;
    client.call_with("1", &as_task("charge", json!({ "refuse": true }))).await;
    let task = client.answer().await["result"]["task"]["taskId"].clone();
    assert_eq!(ended(&mut client, &task).await["status"], "failed");
    let result = ask(&mut client, "r", "tasks/result", json!({ "taskId": task })).await;
    assert_eq!((&result["error"]["message"], &mark(&result)["status"]), (&"no such customer".into(), &"failed".into()));
    let cancelled = ask(&mut client, "c", "tasks/cancel", json!({ "taskId": task })).await;
    assert_eq!(cancelled["error"]["code"], -32602, "{cancelled}");
    client.call_with("2", &as_task("charge", json!({ "refuse": true }))).await;
    let again = client.answer().await["result"]["task"]["taskId"].clone();
    assert_ne!(again, task, "a new operation");
    assert_eq!((world.effects().len(), ended(&mut client, &again).await["status"].as_str()), (0, Some("failed")));
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_task_that_waits_for_its_resource_can_be_cancelled() {
    let world = World::new();
    let config = format!("{TASKS}\n[tools.charge]\nkind = 'opaque'\nrepeat = 'replay'\nresource = 'till'");
    let (mut client, _) = world.open_in(&config, "tasks").await;
    client.call_with("1", &as_task("charge", json!({ "sleep": 3, "n": 1 }))).await;
    let first = client.answer().await["result"]["task"]["taskId"].clone();
    client.call_with("2", &as_task("charge", json!({ "n": 2 }))).await;
    let second = client.answer().await["result"]["task"]["taskId"].clone();
    let cancelled = ask(&mut client, "c", "tasks/cancel", json!({ "taskId": second })).await;
    assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
    assert_eq!(ended(&mut client, &second).await["status"], "cancelled");
    assert_eq!(ended(&mut client, &first).await["status"], "completed");
    assert_eq!((world.effects().len(), world.calls("charge")), (1, 1), "the second was never sent");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn all_tasks_page_by_page_and_only_ones_own() {
    let world = World::new();
    let (mut client, _) = world.open_in(TASKS, "tasks").await;
    let mut made = Vec::new();
    for n in 0..60 {
        client.call_with("1", &as_task("charge", json!({ "n": n }))).await;
        made.push(client.answer().await["result"]["task"]["taskId"].as_str().unwrap().to_owned());
    }
    client.ask("2", "charge", r#"{"no":"task"}"#).await;
    let (mut found, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page = ask(&mut client, "l", "tasks/list", params).await;
        let tasks = page["result"]["tasks"].as_array().unwrap_or_else(|| panic!("{page}")).clone();
        found.extend(tasks.iter().map(|task| task["taskId"].as_str().unwrap().to_owned()));
        cursor = page["result"]["nextCursor"].clone();
        pages += 1;
        if cursor.is_null() {
            break;
        }
    }
    found.sort();
    made.sort();
    assert_eq!((found == made, pages), (true, 2), "{found:?}");
    client.end().await.1.unwrap();
    let (mut client, _) = world.open_in("tasks = true\nscope = 'theirs'", "tasks").await;
    assert_eq!(ask(&mut client, "l", "tasks/list", json!({})).await["result"], json!({ "tasks": [] }));
    let none = ask(&mut client, "g", "tasks/get", json!({ "taskId": made[0] })).await;
    assert_eq!(none["error"]["code"], -32602, "{none}");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_call_that_ends_on_delivery_or_was_not_asked_for_as_a_task_is_answered_itself() {
    let world = World::new();
    let (mut client, _) = world.open_in(TASKS, "tasks").await;
    client.call_with("1", &as_task("plain", json!({}))).await;
    let answer = client.answer().await;
    assert_eq!((&answer["result"]["content"][0]["text"], &mark(&answer)["status"]), (&"plain".into(), &"done".into()));
    let answer = client.ask("2", "charge", "{}").await;
    assert_eq!(answer["result"]["content"][0]["text"], "charge", "{answer}");
    // Another call under the same key is refused, not made a task.
    let with_key =
        |n: u8| json!({ "name": "charge", "arguments": { "n": n }, "idempotencyKey": "k", "task": {} }).to_string();
    client.call_with("3", &with_key(1)).await;
    assert!(client.answer().await["result"]["task"].is_object());
    client.call_with("4", &with_key(2)).await;
    assert_eq!(client.answer().await["error"]["data"]["type"], "idempotency_key_conflict");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_servers_own_tasks_pass() {
    let world = World::new();
    let (mut client, opened) = world.open_in(TASKS, "own-tasks").await;
    assert_eq!(opened["capabilities"]["tasks"]["list"], json!({}));
    let list = ask(&mut client, "l", "tools/list", json!({})).await;
    assert!(!list.to_string().contains("taskSupport"), "{list}");
    for id in ["1", "2"] {
        client.call_with(id, &as_task("charge", json!({}))).await;
        let created = client.answer().await;
        assert_eq!(
            (&created["result"]["task"]["taskId"], &mark(&created)["status"]),
            (&"own-7".into(), &"task_created".into())
        );
        assert_eq!(mark(&created)["replayed"], id == "2", "the same task, not another call: {created}");
    }
    for (method, params) in [("tasks/get", json!({ "taskId": "own-7" })), ("tasks/list", json!({}))] {
        assert_eq!(ask(&mut client, "x", method, params).await["result"]["own"], true, "{method}");
    }
    let sent = world.log().into_iter().find(|line| line.contains("tools/call")).unwrap();
    assert!(sent.contains("\"task\""), "{sent}");
    assert_eq!((world.effects().len(), world.calls("charge")), (1, 1));
    client.end().await.1.unwrap();
}

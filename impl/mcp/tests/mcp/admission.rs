//! Limits: messages, calls under way, keys; and that no client can choose who is asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::support::slow_ledger::SlowLedger;
use crate::support::{World, mark};
use settled_mcp::Config;

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_and_the_connection_goes_on() {
    let world = World::new();
    let mut client = world.open("[limits]\nframe_bytes = '64KiB'").await;
    let filler = "x".repeat(200_000);
    client.call(r#""big""#, "charge", &format!(r#"{{"x":"{filler}"}}"#)).await;
    let answer = client.answer().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&"big".into(), &(-32600).into()), "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("nothing was sent") && message.contains("`frame_bytes`"), "{message}");
    client.say(format!(r#"[{{"id":7,"method":"ping","params":{{"x":"{filler}"}}}}]"#)).await;
    let answer = client.answer().await;
    assert!(answer["id"].is_null() && answer["error"]["code"] == -32600, "{answer}");
    assert_eq!(mark(&client.ask("2", "charge", "{}").await)["status"], "done");
    client.end().await.1.unwrap();
    assert_eq!((world.calls("charge"), world.effects().len()), (1, 1));
}

#[tokio::test]
async fn an_answer_that_is_too_large_leaves_a_guarded_call_unknown() {
    let world = World::new();
    let mut client = world.open("[limits]\nframe_bytes = '64KiB'").await;
    client.say(r#"{"jsonrpc":"2.0","id":5,"method":"big","params":{"bytes":100000}}"#).await;
    let answer = client.answer().await;
    assert_eq!(answer["id"], 5, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("`frame_bytes`"), "{answer}");
    let answer = client.ask("6", "charge", r#"{"big":100000}"#).await;
    assert_eq!(mark(&answer)["status"], "unknown", "{answer}");
    assert_eq!(mark(&client.ask("7", "charge", "{}").await)["status"], "done");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn calls_under_way_are_limited_but_for_those_that_join_one() {
    let world = World::new();
    let config = "[limits]\ncalls = 2\n[tools.charge]\nrepeat = 'replay'\n[tools.read]\nkind = 'read-only'";
    let mut client = world.open(config).await;
    for n in 1..=2 {
        client.call(&n.to_string(), "charge", &format!(r#"{{"n":{n},"sleep":2}}"#)).await;
    }
    client.call("3", "charge", r#"{"n":3}"#).await;
    let refused = client.answer().await;
    assert_eq!((&refused["id"], &refused["error"]["data"]["type"]), (&3.into(), &"too_many_calls".into()), "{refused}");
    // What passes is not counted, and a duplicate has the answer of the call that it joins.
    client.call("4", "charge", r#"{"n":1,"sleep":2}"#).await;
    assert_eq!(client.ask("5", "read", "{}").await["result"]["content"][0]["text"], "read");
    let mut ids: Vec<u64> = Vec::new();
    for _ in 0..3 {
        let answer = client.answer().await;
        assert_eq!(mark(&answer)["status"], "done", "{answer}");
        ids.push(answer["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 4]);
    assert_eq!(mark(&client.ask("6", "charge", r#"{"n":3}"#).await)["status"], "done");
    client.end().await.1.unwrap();
    assert_eq!(world.effects().len(), 3);
}

#[tokio::test]
async fn new_keys_beyond_the_limit_are_refused_and_old_ones_answered() {
    let world = World::new();
    let config = "[limits]\nkeys_per_scope = 2\n[tools.charge]\nrepeat = 'replay'";
    for _ in 0..2 {
        let mut client = world.open(config).await;
        for n in 1..=2 {
            assert_eq!(mark(&client.ask("1", "charge", &format!(r#"{{"n":{n}}}"#)).await)["status"], "done");
        }
        let refused = client.ask("3", "charge", r#"{"n":3}"#).await;
        assert_eq!(refused["error"]["data"]["type"], "too_many_keys", "{refused}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("nothing was sent") && message.contains("`keys_per_scope`"), "{message}");
        client.end().await.1.unwrap();
    }
    assert_eq!(world.effects().len(), 2);
    // Another scope has keys of its own.
    let mut client = world.open(&format!("scope = 'other'\n{config}")).await;
    assert_eq!(mark(&client.ask("1", "charge", r#"{"n":3}"#).await)["status"], "done");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_client_is_told_in_time_while_the_keys_are_still_counted() {
    let world = World::new();
    let ledger = Arc::new(SlowLedger::default());
    ledger.never_counts.store(true, Ordering::SeqCst);
    let config = "[limits]\nkeys_per_scope = 2\n[defaults]\nclient_timeout = '500ms'\n[tools.charge]\nkind = 'opaque'";
    let mut client = world.open_on(ledger, config).await;
    let told = client.ask("1", "charge", "{}").await;
    let message = told["error"]["message"].as_str().unwrap_or_else(|| panic!("{told}"));
    assert!(message.starts_with("nothing was sent") && message.contains("longer than the client waits"), "{message}");
    client.end().await.1.unwrap();
    assert_eq!((world.calls("charge"), world.effects().len()), (0, 0));
}

/// Whatever a client sends, it can't choose which host is asked: placeholders are for paths, queries and arguments only.
#[test]
fn no_client_chooses_who_is_asked() {
    let observe = "[tools.a]\nkind = 'observable'\nsettling = '1s'\npass_key_as = 'k'\n[tools.a.observe]\n";
    for url in [
        "{host}",
        "{host}/x",
        "https://{host}/x",
        "https://{host}",
        "https://a.{host}/x",
        "https://bank:{port}/x",
        "https://{user}@bank/x",
        "https://user:{$key}@bank/x",
        "{scheme}://bank/x",
        "https:{rest}",
        "https://bank{rest}",
        "//{host}/x",
    ] {
        let text = format!("{observe}http = '{url}'");
        let error = Config::parse("settled.toml".as_ref(), &text).err().unwrap_or_else(|| panic!("accepted: {url}"));
        assert!(error.to_string().contains("`tools.a.observe.http`"), "{url}: {error}");
    }
    let program = format!("{observe}command = ['{{program}}', '{{$key}}']");
    assert!(Config::parse("settled.toml".as_ref(), &program).is_err());
    let fine = format!("{observe}http = 'https://bank/{{path}}?q={{$key}}'");
    assert!(Config::parse("settled.toml".as_ref(), &fine).is_ok());
}

//! Resources, cancelled waits, budgets and busy tools, through the proxy.

use std::time::{Duration, Instant};

use crate::support::{World, mark};

const RESOURCE: &str =
    "[tools.charge]\nresource = 'account:{account}'\nrepeat = 'replay'\n[tools.plain]\nresource = 'account:{account}'";

#[tokio::test]
async fn calls_with_one_resource_run_one_after_the_other() {
    let world = World::new();
    let mut client = world.open(RESOURCE).await;
    client.ask("0", "read", "{}").await;
    let begun = Instant::now();
    for id in 1..=3 {
        client.call(&id.to_string(), "charge", &format!(r#"{{"account":1,"n":{id},"sleep":0.3}}"#)).await;
    }
    client.call("9", "charge", r#"{"account":2,"n":9,"sleep":0.3}"#).await;
    let mut order = Vec::new();
    for _ in 0..4 {
        order.push(client.answer().await["id"].as_u64().unwrap());
    }
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
    assert!(order.iter().position(|id| *id == 9).unwrap() <= 1, "another resource does not wait: {order:?}");
    order.retain(|id| *id != 9);
    assert_eq!(order, [1, 2, 3]);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_call_without_what_names_its_resource_is_not_sent() {
    let world = World::new();
    let mut client = world.open(RESOURCE).await;
    let answer = client.ask("1", "charge", r#"{"n":1}"#).await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("nothing was sent") && message.contains("`account`"), "{message}");
    assert_eq!((&answer["error"]["code"], world.calls("charge")), (&(-32602).into(), 0));
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_call_that_waits_can_be_cancelled() {
    let world = World::new();
    let mut client = world.open(RESOURCE).await;
    client.ask("0", "read", "{}").await;
    client.call("1", "charge", r#"{"account":1,"n":1,"sleep":1}"#).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    client.call("2", "charge", r#"{"account":1,"n":2}"#).await;
    client.call("3", "charge", r#"{"account":1,"n":3}"#).await;
    client.call("4", "charge", r#"{"account":1,"n":3}"#).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let cancel =
        |id: u32| format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
    // Of two who want the same, one going away does not take it from the other.
    client.say(cancel(2)).await;
    client.say(cancel(3)).await;
    let (one, four) = (client.answer().await, client.answer().await);
    assert_eq!((&one["id"], &mark(&one)["status"]), (&1.into(), &"done".into()), "{one}");
    assert_eq!((&four["id"], &mark(&four)["status"]), (&4.into(), &"done".into()), "{four}");
    assert!(client.silence(300).await, "what was cancelled is not answered");
    assert_eq!(world.effects().len(), 2);
    assert!(!world.effects().iter().any(|effect| effect.contains("\"n\": 2")), "{:?}", world.effects());
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn who_waits_too_long_for_a_resource_is_told_that_nothing_was_sent() {
    let world = World::new();
    let mut client = world.open(&format!("{RESOURCE}\nqueue_timeout = '300ms'")).await;
    client.call("1", "plain", r#"{"account":1,"n":1,"sleep":1.5}"#).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let answer = client.ask("2", "plain", r#"{"account":1,"n":2}"#).await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(mark(&answer)["status"], "failed", "{answer}");
    assert!(text.starts_with("nothing was sent") && text.contains("account:1"), "{text}");
    assert_eq!(client.answer().await["id"], 1);
    assert_eq!(world.effects().len(), 1);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_in_progress() {
    let world = World::new();
    let mut client = world.open("[tools.charge]\ncall_timeout = '300ms'\nrepeat = 'replay'").await;
    let slow = r#"{"sleep":1}"#;
    let answer = client.ask("1", "charge", slow).await;
    assert_eq!(mark(&answer)["status"], "in_progress", "{answer}");
    tokio::time::sleep(Duration::from_millis(900)).await;
    let answer = client.ask("2", "charge", slow).await;
    assert_eq!((&mark(&answer)["status"], &mark(&answer)["replayed"]), (&"done".into(), &true.into()), "{answer}");
    assert_eq!(world.effects().len(), 1);
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_busy_tool_is_asked_again_when_it_wants_that() {
    let world = World::new();
    let config = "[tools.charge]\nbusy_errors = { code = -32001 }\nretry_after_at = '/data/seconds'\nrepeat = 'replay'";
    let mut client = world.open(config).await;
    let begun = Instant::now();
    let answer = client.ask("1", "charge", r#"{"busy":0.5}"#).await;
    assert_eq!(mark(&answer)["status"], "done", "{answer}");
    assert!(begun.elapsed() >= Duration::from_millis(500), "{:?}", begun.elapsed());
    assert_eq!((world.effects().len(), world.calls("charge")), (1, 2));
    client.end().await.1.unwrap();
    // Undeclared, the same error proves nothing.
    let world = World::new();
    let mut client = world.open("").await;
    let answer = client.ask("1", "charge", r#"{"busy":0.5}"#).await;
    assert_eq!((&mark(&answer)["status"], world.calls("charge")), (&"unknown".into(), 1), "{answer}");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_declared_final_error_means_that_nothing_happened() {
    let world = World::new();
    let mut client = world.open("[tools.charge]\nfinal_errors = { at = '/content/0/text', is = 'boom' }").await;
    for id in ["1", "2"] {
        let answer = client.ask(id, "charge", r#"{"fail":true}"#).await;
        assert_eq!(
            (&mark(&answer)["status"], &mark(&answer)["replayed"]),
            (&"failed".into(), &false.into()),
            "{answer}"
        );
    }
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn an_expired_key_is_refused_or_new_as_declared() {
    for (declared, effects) in [("", 1), ("expired = 'new'", 2)] {
        let world = World::new();
        let config = format!("[tools.charge]\nwindow = '500ms'\ntimeout = '500ms'\nrepeat = 'replay'\n{declared}");
        let mut client = world.open(&config).await;
        let keyed = r#"{"name":"charge","arguments":{"n":1},"idempotencyKey":"k"}"#;
        client.call_with("1", keyed).await;
        assert_eq!(mark(&client.answer().await)["status"], "done");
        tokio::time::sleep(Duration::from_millis(800)).await;
        client.call_with("2", keyed).await;
        let late = client.answer().await;
        if effects == 1 {
            assert_eq!(late["error"]["data"]["type"], "idempotency_key_expired", "{late}");
            assert!(late["error"]["message"].as_str().unwrap().starts_with("nothing was sent"), "{late}");
        } else {
            assert_eq!((&mark(&late)["status"], &mark(&late)["replayed"]), (&"done".into(), &false.into()), "{late}");
        }
        assert_eq!(world.effects().len(), effects);
        // Arguments without a key of their own may mean a new wish by then.
        for id in ["3", "4"] {
            let answer = client.ask(id, "charge", r#"{"n":2}"#).await;
            assert_eq!(
                (&mark(&answer)["status"], &mark(&answer)["replayed"]),
                (&"done".into(), &false.into()),
                "{answer}"
            );
            tokio::time::sleep(Duration::from_millis(800)).await;
        }
        client.end().await.1.unwrap();
    }
}

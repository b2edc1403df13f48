//! Confidential arguments through the proxy: what the server gets, what the ledger holds, and what a wrong key does.

use std::sync::Arc;

use crate::support::{World, mark};
use settled::{Filter, Ledger, MemoryLedger};
use settled_mcp::{ProxyError, Reader};

/// Key files, each of one repeated byte.
struct Keys(tempfile::TempDir);

impl Keys {
    fn new() -> Keys {
        let keys = Keys(tempfile::tempdir().unwrap());
        for byte in [1u8, 2] {
            std::fs::write(keys.file(byte), [byte; 32]).unwrap();
        }
        keys
    }

    fn file(&self, byte: u8) -> String {
        self.0.path().join(byte.to_string()).display().to_string()
    }

    fn config(&self, encryption: &str, tool: &str) -> String {
        format!(
            "[encryption]\n{encryption}\n[tools.charge]\nrepeat = 'replay'\n{tool}\n[tools.plain]\nrepeat = 'replay'\n{tool}"
        )
    }

    fn with_one(&self, tool: &str) -> String {
        self.config(&format!("key_file = '{}'", self.file(1)), tool)
    }
}

/// Everything that the ledger holds, as text.
async fn held(ledger: &Arc<MemoryLedger>) -> String {
    let entries = ledger.scan(Filter::All).await.unwrap();
    let mut text = format!("{entries:?}");
    for entry in &entries {
        text.push_str(&format!("{:?}", ledger.history(&entry.key).await.unwrap()));
    }
    text
}

const CARD: &str = r#"{"card":{"number":"4111 1111","exp":"1/30"},"n":1}"#;

#[tokio::test]
async fn the_server_gets_what_the_ledger_does_not_show() {
    let (world, keys) = (World::new(), Keys::new());
    for (tool, terms) in [("charge", "encrypt = ['card.number']"), ("plain", "redact = ['card.number']")] {
        let config = keys.with_one(terms);
        let mut client = world.open(&config).await;
        let answer = client.ask("1", tool, CARD).await;
        assert_eq!(answer["result"]["content"][0]["text"], tool, "{answer}");
        client.end().await.1.unwrap();
        assert!(world.effects().pop().unwrap().contains("4111 1111"));
        // Another process tells the same, and a call with another number is another one.
        let mut client = world.open(&config).await;
        let again = client.ask("2", tool, CARD).await;
        assert_eq!(mark(&again)["replayed"], true, "{again}");
        assert_eq!(again["result"]["content"], answer["result"]["content"]);
        assert_eq!(client.ask("3", tool, &CARD.replace("4111", "4222")).await["result"]["content"][0]["text"], tool);
        let keyed = |number: &str| {
            let arguments = CARD.replace("4111", number);
            format!(r#"{{"name":"{tool}","arguments":{arguments},"idempotencyKey":"k"}}"#)
        };
        client.call_with("4", &keyed("4333")).await;
        assert_eq!(mark(&client.answer().await)["status"], "done");
        client.call_with("5", &keyed("4444")).await;
        assert_eq!(mark(&client.answer().await)["status"], "conflict");
        client.end().await.1.unwrap();
    }
    assert_eq!(world.effects().len(), 6);
    let held = held(&world.ledger).await;
    assert!(["4111", "4222", "4333"].iter().all(|number| !held.contains(number)), "{held}");
    assert!(held.contains("1/30") && held.contains("(encrypted)") && held.contains("(redacted "), "{held}");
    // The answers may repeat the arguments.
    assert!(!held.contains("12345678901234567890"), "{held}");
}

#[tokio::test]
async fn a_lost_call_is_sent_again_in_clear() {
    let (world, keys) = (World::new(), Keys::new());
    let tool = "kind = 'deduplicates'\npass_key_as = 'key'\nlimit = '48h'\nencrypt = ['*']";
    let mut client = world.open(&keys.with_one(tool)).await;
    let answer = client.ask("1", "charge", r#"{"secret":"s3cr3t","die_once":true}"#).await;
    assert_eq!(mark(&answer)["status"], "done", "{answer}");
    client.end().await.1.unwrap();
    let effects = world.effects();
    assert_eq!(effects.len(), 2, "the server does not deduplicate: {effects:?}");
    assert!(effects.iter().all(|effect| effect.contains("s3cr3t")), "{effects:?}");
    assert!(!held(&world.ledger).await.contains("s3cr3t"));
}

#[tokio::test]
async fn without_the_right_key_nothing_is_sent_and_nothing_is_lost() {
    let (world, keys) = (World::new(), Keys::new());
    let tool = "encrypt = ['card']";
    let mut client = world.open(&keys.with_one(tool)).await;
    client.ask("1", "charge", CARD).await;
    client.end().await.1.unwrap();

    let (one, two) = (keys.file(1), keys.file(2));
    let refused = [
        (format!("key_file = '{two}'"), "`old_key_files`"),
        (format!("key_file = '{one}'\ndigest_key_file = '{two}'"), "`digest_key_file`"),
    ];
    for (encryption, part) in refused {
        let ended = world.connect(&keys.config(&encryption, tool), "").await.wait().await;
        let error = ended.unwrap_err();
        assert!(matches!(error, ProxyError::OtherKeys(_)) && error.to_string().contains(part), "{error}");
    }
    let missing = format!("key_file = '{}'", keys.file(9));
    let error = world.connect(&keys.config(&missing, tool), "").await.wait().await.unwrap_err();
    assert!(matches!(error, ProxyError::Keys(_)) && error.to_string().contains("can't be read"), "{error}");

    // With a new key, and the old one at hand, it is as before.
    let rotated = format!("key_file = '{two}'\nold_key_files = ['{one}']\ndigest_key_file = '{one}'");
    let mut client = world.open(&keys.config(&rotated, tool)).await;
    let answer = client.ask("2", "charge", CARD).await;
    assert_eq!((&mark(&answer)["replayed"], &answer["result"]["content"][0]["text"]), (&true.into(), &"charge".into()));
    client.end().await.1.unwrap();
    // And where nothing is declared any more, what was recorded can't be told, but what happened can.
    let plain = world.open("[tools.charge]\nrepeat = 'replay'").await;
    plain.end().await.1.unwrap();
    assert_eq!(world.effects().len(), 1);
}

#[tokio::test]
async fn no_client_can_write_what_only_the_proxy_may() {
    let world = World::new();
    let mut client = world.open("").await;
    client
        .call_with("1", r#"{"name":"charge","arguments":{},"io.settled/at-rest":{"key":"k","digest":"d","data":""}}"#)
        .await;
    let answer = client.answer().await;
    assert!(answer["error"]["message"].as_str().unwrap().starts_with("nothing was sent"), "{answer}");
    assert_eq!(answer["error"]["data"]["type"], "idempotency_key_invalid", "{answer}");
    client.end().await.1.unwrap();
    assert_eq!(world.calls("charge"), 0);
    assert!(world.ledger_states().await.is_empty(), "nothing of it is recorded either");
}

#[tokio::test]
async fn whoever_has_the_key_can_read_what_the_ledger_holds() {
    let (world, keys) = (World::new(), Keys::new());
    let terms = "encrypt = ['card.number']\nredact = ['card.exp']";
    let mut client = world.open(&keys.with_one(terms)).await;
    client.ask("1", "charge", CARD).await;
    client.end().await.1.unwrap();
    let entry = world.ledger.scan(Filter::All).await.unwrap().pop().unwrap();
    let reader = |bytes: &[u8]| {
        let files: Vec<_> = bytes.iter().map(|byte| keys.file(*byte).into()).collect();
        Reader::of_files(&files).unwrap().unwrap()
    };
    let text = |entry: &settled::Entry| format!("{:?} {:?}", entry.asked, entry.outcome);
    assert!(!text(&entry).contains("4111"), "{}", text(&entry));
    for with_it in [&[1][..], &[2, 1]] {
        let read = reader(with_it).readable(entry.clone());
        assert!(text(&read).contains("4111 1111") && text(&read).contains("12345678901234567890"), "{}", text(&read));
        assert!(
            text(&read).contains("(redacted ") && !text(&read).contains("1/30"),
            "what is not kept: {}",
            text(&read)
        );
        assert_eq!(reader(with_it).lacks(&entry), None);
    }
    let read = reader(&[2]).readable(entry.clone());
    assert!(!text(&read).contains("4111"), "{}", text(&read));
    assert!(reader(&[2]).lacks(&entry).is_some());
    assert!(Reader::of_files(&[]).unwrap().is_none());
    assert!(Reader::of_files(&["/no/such/file".into()]).is_err());
}

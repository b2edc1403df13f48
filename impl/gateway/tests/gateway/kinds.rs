//! Routes that declare more of their upstream.

use crate::support::*;

#[tokio::test]
async fn what_may_be_sent_twice_is_sent_again() {
    for kind in ["idempotent", "read-only"] {
        let text = format!(
            "[[routes]]\npath = \"/lost-once\"\nkind = \"{kind}\"\ntransit = \"10ms\"\nretry = {{ attempts = 3, first = \"1ms\" }}"
        );
        let (server, gateway) = both(&text).await;
        let reply = post(&gateway, "/lost-once", "\"k\"").await;
        assert_eq!((reply.status, server.effects("/lost-once")), (201, 2), "{kind}");
    }
}

#[tokio::test]
async fn the_gateway_tries_again_for_its_callers() {
    let text = "[[routes]]\npath = \"/busy-once\"\nretry = { attempts = 3, first = \"1ms\" }";
    let (server, gateway) = both(text).await;
    let reply = post(&gateway, "/busy-once", "\"k\"").await;
    assert_eq!((reply.status, server.effects("/busy-once")), (201, 2));
    // Never where the outcome is not known.
    let text = "[[routes]]\npath = \"/lost\"\nretry = { attempts = 3, first = \"1ms\" }";
    let (server, gateway) = both(text).await;
    assert_eq!(post(&gateway, "/lost", "\"k\"").await.problem(), "unknown");
    assert_eq!(server.effects("/lost"), 1);
}

#[tokio::test]
async fn an_observer_finds_out_what_became_of_it() {
    let (server, upstream) = server().await;
    let text = format!(
        "[[routes]]\npath = \"/lost\"\nkind = \"observable\"\nsettling = \"1ms\"\nsettle = \"20s\"\n\
         observe = {{ http = \"http://{upstream}/orders/{{body.amount}}\", every = \"10ms\" }}"
    );
    let gateway = gateway(config(upstream, &text), &ledger()).await;
    let reply = post(&gateway, "/lost", "\"k\"").await;
    assert_eq!((reply.status, reply.header("idempotency-observed")), (200, Some("true")));
    assert_eq!(reply.json()["charge"], 1);
    assert_eq!((server.effects("/lost"), server.effects("/orders/5")), (1, 1));
    assert!(post(&gateway, "/lost", "\"k\"").await.is_replayed());
}

#[tokio::test]
async fn what_is_kept_can_be_encrypted() {
    let (server, upstream) = server().await;
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    std::fs::write(&key, [7; 32]).unwrap();
    let text = format!("[encryption]\nkey_file = \"{}\"", key.display());
    let ledger = ledger();
    let first = gateway(config(upstream, &text), &ledger).await;
    let token = "Authorization: Bearer t\r\n";
    let ask = |gateway: &Running| raw(gateway.address, request("/charges", "\"k\"", token, r#"{"card":"4242"}"#));
    let told = ask(&first).await;
    let all = format!("{:?}", ledger.scan(settled::Filter::All).await.unwrap());
    assert!(!all.contains("4242") && !all.contains("charge\\\":") && all.contains("settled-sealed/1"), "{all}");
    assert!(!all.contains(&settled_protocol::Digest::of_parts(&[b"authorization", b"Bearer t"]).to_string()[..32]));
    let replay = ask(&first).await;
    assert_eq!((replay.is_replayed(), &replay.body), (true, &told.body));
    // With a new key, the old one still reads it.
    let new = directory.path().join("new");
    std::fs::write(&new, [8; 32]).unwrap();
    let text = format!(
        "[encryption]\nkey_file = \"{new}\"\nold_key_files = [\"{key}\"]\ndigest_key_file = \"{key}\"",
        new = new.display(),
        key = key.display()
    );
    let second = gateway(config(upstream, &text), &ledger).await;
    assert_eq!(ask(&second).await.body, told.body);
    assert_eq!(server.effects("/charges"), 1);
}

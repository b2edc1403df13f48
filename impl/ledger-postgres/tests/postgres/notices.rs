//! Hearing of what other processes store.

use std::time::Instant;

use settled::Ledger;
use settled_ledger_postgres::PostgresLedger;

use crate::support::*;

/// How long the second ledger takes to hear of what the first one stores, ten times.
async fn heard(one: &PostgresLedger, other: &PostgresLedger) -> Vec<std::time::Duration> {
    let by = one.register(60 * SECOND).await.unwrap();
    let mut took = Vec::new();
    for _ in 0..10 {
        let key = key(fastrand::u64(..));
        one.compare_and_set(claim(key.clone(), by)).await.unwrap();
        let entry = one.get(&key).await.unwrap().unwrap();
        let (version, change) = (entry.record.version(), settle(&entry, b"ok"));
        let storing = async {
            tokio::time::sleep(SECOND / 5).await;
            one.compare_and_set(change).await.unwrap();
            Instant::now()
        };
        let waiting = async {
            loop {
                other.changed(&key, Some(version)).await.unwrap();
                if other.get(&key).await.unwrap().unwrap().record.is_settled() {
                    return Instant::now();
                }
            }
        };
        let (stored, heard) = tokio::join!(storing, waiting);
        took.push(heard.saturating_duration_since(stored));
    }
    took.sort();
    took
}

#[tokio::test]
async fn another_process_hears_at_once_where_it_can_listen_and_within_a_second_where_it_cannot() {
    let server = server();
    let one = open(&server.url()).await;
    let listening = open(&server.url()).await;
    // Until it listens.
    tokio::time::sleep(SECOND).await;
    let took = heard(&one, &listening).await;
    assert!(took[7] < SECOND / 10, "{took:?}");

    let deaf = open(&format!("{}&listen=off", server.url())).await;
    let took = heard(&one, &deaf).await;
    assert!(took[7] > SECOND / 10, "it heard what it could not hear: {took:?}");
    assert!(took[9] < 2 * SECOND, "{took:?}");
}

#[tokio::test]
async fn it_listens_again_after_the_server_was_restarted() {
    let mut server = server();
    let (one, listening) = (open(&server.url()).await, open(&server.url()).await);
    tokio::time::sleep(SECOND).await;
    server.kill();
    server.start_again().unwrap();
    tokio::time::sleep(5 * SECOND).await;
    let took = heard(&one, &listening).await;
    assert!(took[7] < SECOND / 10, "{took:?}");
}

#[tokio::test]
async fn waiting_for_what_has_changed_already_ends_at_once() {
    let server = server();
    let ledger = open(&server.url()).await;
    let by = ledger.register(SECOND).await.unwrap();
    ledger.compare_and_set(claim(key(1), by)).await.unwrap();
    for _ in 0..5 {
        tokio::time::timeout(SECOND / 3, ledger.changed(&key(1), None)).await.expect("it waited").unwrap();
    }
}

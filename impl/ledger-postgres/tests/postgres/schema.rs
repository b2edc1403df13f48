//! Migrations, rights, settings of the server, and what is never told.

use std::time::Duration;

use settled::protocol::{Time, Version};
use settled::{Ledger, LedgerError, Promise, Remains};
use settled_ledger_postgres::{PostgresLedger, PostgresOptions};
use settled_test_services::postgres::PASSWORD;

use crate::support::*;

async fn refused(url: &str) -> String {
    PostgresLedger::connect(url, PostgresOptions::default()).await.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_schema_is_set_up_once_by_a_role_that_is_no_superuser_and_refused_if_it_is_newer() {
    let server = server();
    let url = server.url();
    let opening = (0..6).map(|_| {
        tokio::spawn({
            let url = url.clone();
            async move { open(&url).await }
        })
    });
    let ledgers: Vec<_> = opening.collect();
    for ledger in ledgers {
        ledger.await.unwrap();
    }
    assert_eq!(server.sql("SELECT string_agg(number::text, ',') FROM settled.migrations").unwrap(), "1,2,3");
    assert_eq!(server.sql("SELECT rolsuper FROM pg_roles WHERE rolname = 'settled'").unwrap(), "f");

    let other = open(&format!("{url}&schema=another")).await;
    let by = other.register(SECOND).await.unwrap();
    other.compare_and_set(claim(key(1), by)).await.unwrap();
    assert!(open(&url).await.get(&key(1)).await.unwrap().is_none(), "another schema is another ledger");

    server.sql("INSERT INTO settled.migrations (number, name) VALUES (9, 'from the future')").unwrap();
    let error = refused(&url).await;
    assert!(error.contains("newer version") && error.contains("step 9"), "{error}");

    server.sql("REVOKE CREATE ON DATABASE settled FROM settled; ALTER DATABASE settled OWNER TO postgres").unwrap();
    let error = refused(&format!("{url}&schema=third")).await;
    assert!(error.contains("GRANT CREATE"), "{error}");
    open(&format!("{url}&schema=another")).await;
}

#[tokio::test]
async fn what_the_server_does_not_promise_is_said() {
    let unsafe_server = server_with("fsync", "off");
    assert!(matches!(open(&unsafe_server.url()).await.promise(), Promise::MayBeLost(why) if why.contains("fsync")));
    unsafe_server.sql("ALTER ROLE settled SET default_transaction_isolation = 'repeatable read'").unwrap();
    let error = refused(&unsafe_server.url()).await;
    assert!(error.contains("'read committed'"), "{error}");
    unsafe_server.sql("ALTER ROLE settled RESET ALL").unwrap();
    unsafe_server.sql("ALTER ROLE settled SET default_transaction_read_only = on").unwrap();
    let error = refused(&unsafe_server.url()).await;
    assert!(error.contains("only allows reading"), "{error}");
}

#[tokio::test]
async fn commits_wait_for_the_disk_whatever_the_servers_default() {
    let mut server = server_with("synchronous_commit", "off");
    let ledger = open(&server.url()).await;
    assert_eq!(ledger.promise(), Promise::Kept);
    let by = ledger.register(60 * SECOND).await.unwrap();
    // The writer of the log would write by itself after 200 ms.
    for id in 0..4 {
        assert_eq!(whole(&ledger, key(id), by).await, 2);
        server.kill();
        server.start_again().unwrap();
        let mut entry = ledger.get(&key(id)).await;
        for _ in 0..20 {
            if entry.is_err() {
                entry = ledger.get(&key(id)).await;
            }
        }
        let entry = entry.unwrap();
        assert!(entry.is_some_and(|entry| entry.record.is_settled()), "operation {id} was acknowledged, and lost");
    }
}

#[tokio::test]
async fn passwords_are_in_no_error_and_no_log() {
    let log = logged();
    let server = server();
    let ledger = open(&server.url()).await;
    let shown = format!("{ledger:?}");
    let wrong = server.url().replace("s3cret", "wr0ng");
    let errors = [
        refused(&wrong).await,
        refused(&server.url().replace(&server.port().to_string(), "1")).await,
        refused(&server.url().replace("/settled?", "/nowhere?")).await,
        refused(&format!("{}&nonsense=1", server.url())).await,
    ];
    for text in errors.iter().chain([&shown, &log.text()]) {
        assert!(!text.contains("s3cret") && !text.contains("wr0ng") && !text.contains(PASSWORD), "{text}");
    }
    assert!(errors[0].contains("password authentication failed"), "{}", errors[0]);
    assert!(errors[2].contains("nowhere"), "{}", errors[2]);
}

#[tokio::test]
async fn one_change_that_is_too_large_or_strange_fails_alone() {
    let server = server();
    let ledger = shared(&server.url()).await;
    let by = ledger.register(SECOND).await.unwrap();
    // What the server refuses makes the statement fail that holds it.
    server.sql("ALTER TABLE settled.records ADD CHECK (asked <> 'poison')").unwrap();
    let mut calls = Vec::new();
    for id in 0..40 {
        let mut change = claim(key(id), by);
        match id {
            7 => change.asked = Some(vec![7; (64 << 20) + 1].into()),
            8 => change.asked = Some(bytes(b"poison")),
            9 => change.note = Some("a \0 and a \u{feff}".to_owned()),
            10 => change.asked = Some(bytes(b"\0\xff\xfe\\x")),
            _ => {}
        }
        calls.push(tokio::spawn({
            let ledger = ledger.clone();
            async move { ledger.compare_and_set(change).await }
        }));
    }
    for (id, call) in calls.into_iter().enumerate() {
        match (id, call.await.unwrap()) {
            (7, Err(LedgerError::TooLarge(_))) | (8, Err(LedgerError::Unavailable(_))) => {}
            (7 | 8, other) => panic!("{id}: {other:?}"),
            (_, stored) => assert!(is_durable(&stored.unwrap()), "{id}"),
        }
    }
    let strange = ledger.get(&key(9)).await.unwrap().unwrap();
    assert_eq!(strange.note.as_deref(), Some("a \0 and a \u{feff}"));
    assert_eq!(ledger.get(&key(10)).await.unwrap().unwrap().asked, bytes(b"\0\xff\xfe\\x"));
    assert_eq!(ledger.history(&key(10)).await.unwrap()[0].asked, Some(bytes(b"\0\xff\xfe\\x")));
}

#[tokio::test]
async fn a_record_that_another_transaction_keeps_locked_keeps_no_others_waiting() {
    let server = server();
    let ledger = open(&server.url()).await;
    let by = ledger.register(60 * SECOND).await.unwrap();
    ledger.compare_and_set(claim(key("locked"), by)).await.unwrap();
    let entry = ledger.get(&key("locked")).await.unwrap().unwrap();

    let config: tokio_postgres::Config = server.url().parse().unwrap();
    let (mut client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let locking = client.transaction().await.unwrap();
    locking.query("SELECT FROM settled.records FOR UPDATE", &[]).await.unwrap();

    let (locked, ()) =
        tokio::join!(tokio::time::timeout(SECOND, ledger.compare_and_set(settle(&entry, b"ok"))), async {
            for id in 0..50 {
                let storing = tokio::time::timeout(SECOND, ledger.compare_and_set(claim(key(id), by)));
                assert!(is_durable(&storing.await.expect("it had to wait for another record").unwrap()));
            }
        });
    assert!(locked.is_err(), "it was stored while it was locked");
    let settled = async {
        let (stored, unlocked) = tokio::join!(ledger.compare_and_set(settle(&entry, b"ok")), async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            locking.rollback().await
        });
        unlocked.unwrap();
        stored.unwrap()
    }
    .await;
    assert!(is_durable(&settled));
    assert!(
        ledger
            .forget(
                &key("locked"),
                Version(entry.record.version().0 + 1),
                Remains::Tombstone { keep_until: Time(u64::MAX) }
            )
            .await
            .unwrap()
    );
    let tombstone = ledger.get(&key("locked")).await.unwrap().unwrap();
    assert_eq!((tombstone.tombstone, tombstone.keep_until), (true, Some(Time(u64::MAX))));
}

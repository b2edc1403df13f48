//! The server is killed, frozen, emptied.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{begin, change, claim, key, open, settled, store};
use settled::protocol::{State, Version};
use settled::{Ledger, LedgerError, Promise, Stored};

/// A patience of 1 s, an attempt to connect of half a second, and the machine's slowness.
const BOUND: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed_under_load() {
    let (mut server, ledger) = begin().await;
    assert_eq!(ledger.promise(), Promise::Kept);
    let ledger = Arc::new(ledger);
    let (next, until) = (Arc::new(AtomicU64::new(0)), Instant::now() + Duration::from_secs(4));
    let callers: Vec<_> = (0..32)
        .map(|_| {
            let (ledger, next) = (ledger.clone(), next.clone());
            tokio::spawn(async move {
                let (mut acknowledged, mut unknown, mut longest) = (Vec::new(), 0, Duration::ZERO);
                while Instant::now() < until {
                    let key = key(next.fetch_add(1, Ordering::Relaxed));
                    for (version, state) in [(1, State::Created), (2, settled())] {
                        let started = Instant::now();
                        let answer = ledger.compare_and_set(change(&key, version, state)).await;
                        longest = longest.max(started.elapsed());
                        match answer {
                            Ok(Stored::Durable(_)) => acknowledged.push((key.clone(), version)),
                            Ok(Stored::Refused) => panic!("{key} {version}: nobody else stores it"),
                            Err(LedgerError::Unavailable(_)) => {
                                unknown += 1;
                                break;
                            }
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
                (acknowledged, unknown, longest)
            })
        })
        .collect();
    let mut kills = 0;
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(600)).await;
        // The server's start blocks.
        server = tokio::task::spawn_blocking(move || {
            server.kill();
            server.start_again().unwrap();
            server
        })
        .await
        .unwrap();
        kills += 1;
    }
    let (mut stored, mut unknown, mut longest) = (0, 0, Duration::ZERO);
    let after = open(&server.url()).await.unwrap();
    for caller in callers {
        let (acknowledged, open, slowest) = caller.await.unwrap();
        (unknown, longest) = (unknown + open, longest.max(slowest));
        stored += acknowledged.len();
        for (key, version) in acknowledged {
            let kept = after.get(&key).await.unwrap().unwrap_or_else(|| panic!("{key} is lost"));
            assert!(kept.record.version() >= Version(version), "{key}: version {version} is lost");
        }
    }
    eprintln!("redis: {stored} stores acknowledged, {unknown} not known, {kills} kills, 0 lost, longest {longest:?}");
    assert!(stored > 100 && kills > 1 && longest < BOUND, "{stored} stored, {kills} kills, longest {longest:?}");
}

#[tokio::test]
async fn a_frozen_server_keeps_nobody_waiting_for_ever() {
    let (server, ledger) = begin().await;
    let epoch = ledger.register(Duration::from_secs(60)).await.unwrap();
    assert!(store(&ledger, claim(&key(1))).await);
    ledger.changed(&key(1), None).await.unwrap();
    server.freeze();
    for round in 0..2 {
        let started = Instant::now();
        let unavailable = |error: LedgerError| assert!(matches!(error, LedgerError::Unavailable(_)), "{error}");
        tokio::join!(
            async { unavailable(ledger.compare_and_set(claim(&key(2))).await.unwrap_err()) },
            async { unavailable(ledger.get(&key(1)).await.unwrap_err()) },
            async { unavailable(ledger.renew(epoch, Duration::from_secs(60)).await.unwrap_err()) },
            async { unavailable(ledger.changed(&key(1), Some(Version(1))).await.unwrap_err()) },
        );
        assert!(started.elapsed() < BOUND, "{round}: {:?}", started.elapsed());
    }
    let started = Instant::now();
    let refused = open(&server.url()).await.unwrap_err();
    assert!(refused.to_string().contains("does not answer"), "{refused}");
    assert!(started.elapsed() < BOUND, "{:?}", started.elapsed());
    server.thaw();
    assert!(ledger.get(&key(1)).await.unwrap().is_some());
    // The first one may have been stored: it was on its way to the server.
    let claimed = ledger.compare_and_set(claim(&key(2))).await.unwrap() == Stored::Refused;
    assert!(claimed || ledger.get(&key(2)).await.unwrap().is_some());
}

#[tokio::test]
async fn a_server_that_is_down_is_waited_for() {
    let (mut server, ledger) = begin().await;
    assert!(store(&ledger, claim(&key(1))).await);
    server.kill();
    let started = Instant::now();
    let failed = ledger.get(&key(1)).await.unwrap_err();
    assert!(matches!(&failed, LedgerError::Unavailable(why) if why.contains("refused")), "{failed}");
    assert!(started.elapsed() > Duration::from_millis(900) && started.elapsed() < BOUND, "{:?}", started.elapsed());
    // A read goes on as soon as the server is there again.
    let restart = tokio::task::spawn_blocking(move || {
        std::thread::sleep(Duration::from_millis(200));
        server.start_again().unwrap();
        server
    });
    let give_up = Instant::now() + Duration::from_secs(20);
    while let Err(error) = ledger.get(&key(1)).await {
        assert!(matches!(error, LedgerError::Unavailable(_)) && Instant::now() < give_up, "{error}");
    }
    drop(restart.await.unwrap());
}

#[tokio::test]
async fn an_emptied_server_is_found_out() {
    let (server, ledger) = begin().await;
    let epoch = ledger.register(Duration::from_secs(60)).await.unwrap();
    assert!(store(&ledger, claim(&key(1))).await);
    server.command(&["FLUSHALL"]).unwrap();
    let lost = ledger.compare_and_set(claim(&key(1))).await.unwrap_err();
    assert!(
        matches!(&lost, LedgerError::Poisoned(why) if why.contains("was emptied") && why.contains("Restore")),
        "{lost}"
    );
    // Another process begins anew; for this one that is another ledger.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let next = open(&server.url()).await.unwrap();
    assert!(next.register(Duration::from_secs(60)).await.unwrap() > epoch);
    assert!(store(&next, claim(&key(1))).await);
    let lost = ledger.get(&key(1)).await.unwrap_err();
    assert!(matches!(lost, LedgerError::Poisoned(_)), "{lost}");
}

#[tokio::test]
async fn a_server_that_comes_back_empty_is_found_out() {
    let (mut server, ledger) = begin().await;
    assert!(store(&ledger, claim(&key(1))).await);
    server.kill();
    std::fs::remove_dir_all(server.directory().join("appendonlydir")).unwrap();
    server.start_again().unwrap();
    let lost = ledger.get(&key(1)).await.unwrap_err();
    assert!(matches!(&lost, LedgerError::Poisoned(why) if why.contains("was emptied")), "{lost}");
    // And nothing was begun there in its name.
    assert_eq!(server.command(&["DBSIZE"]).unwrap().trim(), "0");
}

#[tokio::test]
async fn a_server_without_memory_refuses_and_changes_nothing() {
    let (server, ledger) = begin().await;
    assert!(store(&ledger, claim(&key(1))).await);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let refused = ledger.compare_and_set(change(&key(1), 2, settled())).await.unwrap_err();
    assert!(matches!(&refused, LedgerError::Unavailable(why) if why.contains("memory")), "{refused}");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    assert_eq!(ledger.history(&key(1)).await.unwrap().len(), 1);
    assert!(store(&ledger, change(&key(1), 2, settled())).await);
}

#[tokio::test]
async fn scripts_that_the_server_has_forgotten_are_sent_again() {
    let (server, ledger) = begin().await;
    assert!(store(&ledger, claim(&key(1))).await);
    server.command(&["SCRIPT", "FLUSH"]).unwrap();
    assert!(store(&ledger, change(&key(1), 2, settled())).await);
}

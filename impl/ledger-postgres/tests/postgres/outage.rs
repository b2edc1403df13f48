//! The server is killed, restarted and frozen while many callers use it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use settled::protocol::Epoch;
use settled::{Filter, Ledger, LedgerError};
use settled_ledger_postgres::{PostgresLedger, PostgresOptions};

use crate::support::*;

/// What one caller did: its keys, with the most that it was told of each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Told {
    Nothing,
    Claimed,
    Settled,
}

async fn caller(ledger: Arc<PostgresLedger>, by: Epoch, name: usize, stop: Arc<AtomicBool>) -> (Vec<Told>, Duration) {
    let mut told = Vec::new();
    let mut longest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let key = key(format!("{name}-{}", told.len()));
        let started = Instant::now();
        let claimed = ledger.compare_and_set(claim(key.clone(), by)).await;
        longest = longest.max(started.elapsed());
        told.push(match claimed {
            Ok(stored) => {
                assert!(is_durable(&stored), "the claim of a new key was refused");
                Told::Claimed
            }
            Err(LedgerError::Unavailable(_)) => Told::Nothing,
            Err(other) => panic!("{other}"),
        });
        let Ok(Some(entry)) = ledger.get(&key).await else {
            continue;
        };
        if let Ok(stored) = ledger.compare_and_set(settle(&entry, b"ok")).await {
            assert!(is_durable(&stored), "nobody else has this key");
            *told.last_mut().unwrap() = Told::Settled;
        }
    }
    (told, longest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed_under_load() {
    const CALLERS: usize = 32;
    const KILLS: usize = 5;
    let mut server = server();
    let ledger = shared(&server.url()).await;
    let by = ledger.register(600 * SECOND).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> =
        (0..CALLERS).map(|name| tokio::spawn(caller(ledger.clone(), by, name, stop.clone()))).collect();
    for _ in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(300..900))).await;
        server.kill();
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..300))).await;
        server = tokio::task::spawn_blocking(move || {
            server.start_again().unwrap();
            server
        })
        .await
        .unwrap();
    }
    tokio::time::sleep(2 * SECOND).await;
    stop.store(true, Ordering::Relaxed);
    let mut ended = Vec::new();
    for caller in callers {
        ended.push(caller.await.unwrap());
    }
    let kept: HashMap<_, _> = ledger.scan(Filter::All).await.unwrap().into_iter().map(|e| (e.key.clone(), e)).collect();
    let (mut calls, mut settled, mut unanswered) = (0, 0, 0);
    for (name, (told, longest)) in ended.into_iter().enumerate() {
        let options = PostgresOptions::default();
        assert!(longest < 2 * (options.patience + options.timeout), "a call took {longest:?}");
        for (number, told) in told.iter().enumerate() {
            let kept = match kept.get(&key(format!("{name}-{number}"))) {
                None => Told::Nothing,
                Some(entry) if entry.record.is_settled() => Told::Settled,
                Some(_) => Told::Claimed,
            };
            assert!(kept >= *told, "{name}-{number}: told {told:?}, kept {kept:?}");
            calls += 1;
            settled += usize::from(*told == Told::Settled);
            unanswered += usize::from(*told == Told::Nothing);
        }
    }
    let apart = "SELECT count(*) FROM (SELECT hash, count(*) AS changes FROM settled.history GROUP BY hash) h \
                 FULL JOIN settled.records USING (hash) WHERE changes IS DISTINCT FROM 1 + settled::integer";
    assert_eq!(server.sql(apart).unwrap(), "0", "a record was stored without its history, or the other way round");
    println!("{KILLS} kills, {calls} calls, {settled} settled, {unanswered} told that the ledger was unavailable");
    assert!(settled > 100 && unanswered > 0, "the kills were not under load");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_frozen_or_gone_makes_no_call_wait_longer_than_its_limits() {
    let mut server = server();
    let mut options = PostgresOptions::default();
    (options.patience, options.timeout, options.connect_timeout) = (SECOND / 2, SECOND, SECOND);
    let ledger = Arc::new(PostgresLedger::connect(&server.url(), options).await.unwrap());
    let by = ledger.register(600 * SECOND).await.unwrap();
    let failed = Arc::new(AtomicUsize::new(0));
    let all = async |what: &str| {
        let calls = (0..20).map(|id| {
            let (ledger, failed, id) = (ledger.clone(), failed.clone(), key(format!("{what}{id}")));
            tokio::spawn(async move {
                let started = Instant::now();
                let (stored, got, scanned, renewed) = tokio::join!(
                    ledger.compare_and_set(claim(id.clone(), by)),
                    ledger.get(&id),
                    ledger.scan(Filter::Unsettled),
                    ledger.renew(by, 600 * SECOND),
                );
                let errors = [stored.is_err(), got.is_err(), scanned.is_err(), renewed.is_err()];
                failed.fetch_add(errors.into_iter().filter(|failed| *failed).count(), Ordering::Relaxed);
                started.elapsed()
            })
        });
        let calls: Vec<_> = calls.collect();
        let mut longest = Duration::ZERO;
        for call in calls {
            longest = longest.max(call.await.unwrap());
        }
        (failed.swap(0, Ordering::Relaxed), longest)
    };
    assert_eq!(all("before").await.0, 0);
    server.freeze();
    let (errors, longest) = all("frozen").await;
    assert_eq!(errors, 80);
    assert!(longest < 4 * SECOND, "{longest:?}");
    let (errors, longest) = all("still").await;
    assert!(errors == 80 && longest < 4 * SECOND, "{errors} {longest:?}");
    server.thaw();
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(all("thawed").await.0, 0, "it did not connect again");
    server.kill();
    let (errors, longest) = all("killed").await;
    assert!(errors == 80 && longest < 4 * SECOND, "{errors} {longest:?}");
    server.start_again().unwrap();
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(all("restarted").await.0, 0, "it did not connect again");
}

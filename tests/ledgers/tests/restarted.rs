//! A ledger whose server is killed and started again (or whose directory is opened again) has everything that it had
//! acknowledged, and goes on from there.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashSet;
use std::time::Duration;

use settled::{Change, Entry, Filter, Ledger, Remains, Stored};
use settled_ledger_tests::make::{change, claim, claim_of, key, resource, settle, unsettled};
use settled_ledger_tests::stage::Backend;
use settled_ledger_tests::stage::open::open;
use settled_protocol::{Epoch, Time, Version};

const LEASE: Duration = Duration::from_secs(60);

/// Everything that a ledger can be asked for.
#[derive(Debug, PartialEq)]
struct Seen {
    entries: Vec<Entry>,
    histories: Vec<Vec<Change>>,
    line: Vec<Entry>,
    due: HashSet<String>,
}

async fn store(ledger: &dyn Ledger, change: Change) {
    assert!(matches!(ledger.compare_and_set(change).await.unwrap(), Stored::Durable(_)));
}

async fn look(ledger: &dyn Ledger) -> Seen {
    let entries = ledger.scan(Filter::All).await.unwrap();
    let mut histories = Vec::new();
    for entry in &entries {
        histories.push(ledger.history(&entry.key).await.unwrap());
    }
    let line = ledger.line(&resource("account")).await.unwrap();
    let due = ledger.due(Time(1_000), None, 1_000).await.unwrap();
    Seen { entries, histories, line, due: due.into_iter().map(|entry| entry.key.to_string()).collect() }
}

/// Some of everything.
async fn fill(ledger: &dyn Ledger, round: u32) {
    for (i, state) in unsettled().into_iter().enumerate() {
        let key = key("open", format!("{round}.{i}"));
        store(ledger, claim_of(&key, &resource("account"))).await;
        store(ledger, change(&key, 2, state)).await;
    }
    for (id, remains) in [("kept", None), ("gone", Some(Remains::Nothing)), ("buried", Some(UNTIL_700))] {
        let key = key(id, round);
        store(ledger, claim(&key)).await;
        store(ledger, settle(&key, 2, Some(500))).await;
        if let Some(remains) = remains {
            assert!(ledger.forget(&key, Version(2), remains).await.unwrap());
        }
    }
}

const UNTIL_700: Remains = Remains::Tombstone { keep_until: Time(700) };

async fn all_is_there(mut backend: Backend) {
    let mut epochs: HashSet<Epoch> = HashSet::new();
    let mut before: Option<Seen> = None;
    for round in 0..3 {
        let ledger = open(&backend.url()).await.unwrap();
        for _ in 0..3 {
            let epoch = ledger.register(LEASE).await.unwrap();
            assert!(epochs.insert(epoch), "{epoch} was handed out before");
        }
        if let Some(before) = &before {
            assert_eq!(look(&*ledger).await, *before);
        }
        fill(&*ledger, round).await;
        let seen = look(&*ledger).await;
        assert_eq!((seen.line.len(), seen.due.len()), (5 * (round as usize + 1), 2 * (round as usize + 1)));
        if let Some(before) = before {
            let last = before.line.last().unwrap().place;
            assert!(seen.line[before.line.len()].place > last, "places go on where they were");
            assert!(seen.line.starts_with(&before.line), "nobody comes before those who were there");
        }
        before = Some(seen);
        if round == 0 {
            // Also for those who stay connected.
            backend.kill_and_restart();
            let mut tries = 0;
            while ledger.get(&key("kept", 0)).await.is_err() {
                tries += 1;
                assert!(tries < 100, "it doesn't come back");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            assert_eq!(Some(look(&*ledger).await), before);
        }
        drop(ledger);
        backend.kill_and_restart();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn file() {
    all_is_there(Backend::file()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres() {
    all_is_there(Backend::postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis() {
    all_is_there(Backend::redis()).await;
}

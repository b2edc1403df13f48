//! Waiting for a change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use settled::Remains;
use settled_protocol::{State, Version};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::store;
use crate::Views;
use crate::make::{change, claim, key};

/// Waits as callers do, who look again. Returns how long it took until the key had another version than `seen`.
async fn until_changed(ledger: &super::View, key: &settled_protocol::Key, seen: Option<Version>) -> Instant {
    loop {
        ledger.changed(key, seen).await.unwrap();
        if ledger.get(key).await.unwrap().map(|entry| entry.record.version()) != seen {
            return Instant::now();
        }
    }
}

/// As long as a wait without a change may last: nobody has to tell of a key that wasn't there.
const AFTER_A_WHILE: Duration = Duration::from_secs(3);

pub(super) async fn a_change_is_noticed(views: &Views) {
    let started = Instant::now();
    views.a.changed(&key("waiting", "absent"), Some(Version(7))).await.unwrap();
    assert!(started.elapsed() < views.soon, "it isn't at that version");
    for (i, (here, there)) in [(&views.a, &views.b), (&views.b, &views.a)].into_iter().enumerate() {
        let key = key("waiting", i);
        for version in 1..=4 {
            let seen = Some(version - 1).filter(|seen| *seen > 0).map(Version);
            let waiting = tokio::spawn({
                let (there, key) = (Arc::clone(there), key.clone());
                async move { until_changed(&there, &key, seen).await }
            });
            sleep(Duration::from_millis(50)).await;
            store(here, change(&key, version, State::Created)).await;
            let stored = Instant::now();
            let noticed = waiting.await.unwrap().saturating_duration_since(stored);
            let bound = if version == 1 { AFTER_A_WHILE } else { views.soon };
            assert!(noticed < bound, "version {version} was noticed after {noticed:?}");
        }
    }
}

pub(super) async fn a_forgotten_key_is_noticed(views: &Views) {
    let key = key("waiting", "forgotten");
    store(&views.a, claim(&key)).await;
    let waiting = tokio::spawn({
        let (a, key) = (Arc::clone(&views.a), key.clone());
        async move { until_changed(&a, &key, Some(Version(1))).await }
    });
    sleep(Duration::from_millis(50)).await;
    assert!(views.b.forget(&key, Version(1), Remains::Nothing).await.unwrap());
    let forgotten = Instant::now();
    let noticed = waiting.await.unwrap().saturating_duration_since(forgotten);
    assert!(noticed < views.soon, "noticed after {noticed:?}");
}

pub(super) async fn no_change_is_missed_between_look_and_wait(views: &Views) {
    let key = key("waiting", "often");
    store(&views.a, claim(&key)).await;
    let writer = tokio::spawn({
        let (a, key) = (Arc::clone(&views.a), key.clone());
        async move {
            for version in 2..=100 {
                store(&a, change(&key, version, State::Created)).await;
            }
        }
    });
    // If changes were missed, each would take as long as a wait without any.
    let started = Instant::now();
    let mut seen = Version(1);
    while seen < Version(100) {
        views.b.changed(&key, Some(seen)).await.unwrap();
        seen = views.b.get(&key).await.unwrap().unwrap().record.version();
    }
    writer.await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

pub(super) async fn many_wait_for_one_key(views: &Views) {
    let key = key("waiting", "many");
    store(&views.a, claim(&key)).await;
    let mut waiting = JoinSet::new();
    for i in 0..40 {
        let (ledger, key) = (Arc::clone(if i % 2 == 0 { &views.a } else { &views.b }), key.clone());
        waiting.spawn(async move { until_changed(&ledger, &key, Some(Version(1))).await });
    }
    sleep(Duration::from_millis(50)).await;
    store(&views.b, change(&key, 2, State::Created)).await;
    let stored = Instant::now();
    for noticed in waiting.join_all().await {
        let noticed = noticed.saturating_duration_since(stored);
        assert!(noticed < views.soon, "noticed after {noticed:?}");
    }
}

pub(super) async fn without_a_change_waiting_ends(views: &Views) {
    let key = key("waiting", "in vain");
    store(&views.a, claim(&key)).await;
    for ledger in [&views.a, &views.b] {
        timeout(Duration::from_secs(10), ledger.changed(&key, Some(Version(1)))).await.unwrap().unwrap();
    }
}

/// Changes of other keys may wake those who wait, but nothing may wake them all the time.
pub(super) async fn waiting_is_no_busy_loop(views: &Views) {
    let key = key("waiting", "quietly");
    for ledger in [&views.a, &views.b] {
        let until = Instant::now() + Duration::from_secs(2);
        let mut returns = 0;
        while Instant::now() < until {
            ledger.changed(&key, None).await.unwrap();
            returns += 1;
        }
        assert!(returns <= 20, "returned {returns} times in 2 s");
    }
}

//! Which entries may be forgotten.

use settled::{Change, Entry, Ledger, Remains};
use settled_protocol::{Time, Version};

use super::{held, store};
use crate::Views;
use crate::make::{change, claim, key, settle, settled, unsettled};

async fn settled_until(views: &Views, id: impl std::fmt::Display, keep_until: Option<u64>) {
    let key = key("due", id);
    store(&views.a, claim(&key)).await;
    store(&views.b, settle(&key, 2, keep_until)).await;
}

/// All that is due, page by page.
async fn all_due(ledger: &dyn Ledger, now: u64, limit: usize) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    loop {
        let page = ledger.due(Time(now), found.last(), limit).await.unwrap();
        assert!(page.len() <= limit);
        if page.is_empty() {
            return found;
        }
        found.extend(page);
    }
}

fn ids(entries: &[Entry]) -> Vec<&str> {
    let mut ids: Vec<_> = entries.iter().map(|entry| entry.key.id()).collect();
    ids.sort_unstable();
    ids
}

pub(super) async fn those_whose_time_is_over_are_due(views: &Views) {
    for (id, keep_until) in [("a", Some(100)), ("b", Some(200)), ("c", Some(300)), ("never", None), ("zero", Some(0))] {
        settled_until(views, id, keep_until).await;
    }
    let expected: [(u64, &[&str]); 5] = [
        (0, &["zero"]),
        (99, &["zero"]),
        (100, &["a", "zero"]),
        (299, &["a", "b", "zero"]),
        (u64::MAX / 4, &["a", "b", "c", "zero"]),
    ];
    for ledger in [&views.a, &views.b] {
        for (now, expected) in expected {
            let due = ledger.due(Time(now), None, 100).await.unwrap();
            assert_eq!(ids(&due), expected, "at {now}");
            for entry in due {
                assert_eq!(held(views, &entry.key).await, Some(entry));
            }
        }
        assert_eq!(ledger.due(Time(1_000), None, 0).await.unwrap(), []);
    }
}

pub(super) async fn unsettled_ones_never_are(views: &Views) {
    for (i, state) in unsettled().into_iter().enumerate() {
        let key = key("open", i);
        store(&views.a, Change { keep_until: Some(Time(1)), ..change(&key, 1, state) }).await;
        store(&views.b, Change { keep_until: Some(Time(1)), ..change(&key, 2, state) }).await;
        assert!(held(views, &key).await.is_some());
    }
    for ledger in [&views.a, &views.b] {
        assert_eq!(ledger.due(Time(1_000), None, 100).await.unwrap(), []);
    }
    // And they are once they are settled.
    let key = key("open", 0);
    store(&views.a, Change { keep_until: Some(Time(1)), ..change(&key, 3, settled()) }).await;
    assert_eq!(views.b.due(Time(1_000), None, 100).await.unwrap().len(), 1);
}

pub(super) async fn pages_hold_each_once_in_one_order(views: &Views) {
    for i in 0..60 {
        // Several with the same time, so that the time alone is no order.
        settled_until(views, format!("{:02}", i * 7 % 60), Some(100 + i % 4)).await;
    }
    settled_until(views, "later", Some(1_000)).await;
    let whole = views.a.due(Time(500), None, 1_000).await.unwrap();
    assert_eq!(ids(&whole), (0..60).map(|i| format!("{i:02}")).collect::<Vec<_>>());
    for ledger in [&views.a, &views.b] {
        for limit in [1, 7, 20, 60, 61] {
            assert!(all_due(&**ledger, 500, limit).await == whole, "pages of {limit}");
        }
        assert_eq!(ids(&all_due(&**ledger, 101, 7).await).len(), 30);
    }
}

/// As the sweep does it: what a page held is gone when the next one is asked for.
pub(super) async fn pages_go_on_after_what_was_forgotten(views: &Views) {
    for i in 0..30 {
        settled_until(views, i, Some(100 + i % 3)).await;
    }
    let mut seen: Vec<Entry> = Vec::new();
    loop {
        let page = views.a.due(Time(500), seen.last(), 4).await.unwrap();
        if page.is_empty() {
            break;
        }
        for (i, entry) in page.iter().enumerate() {
            let remains = if i % 2 == 0 { Remains::Nothing } else { Remains::Tombstone { keep_until: Time(9_000) } };
            assert!(views.b.forget(&entry.key, entry.record.version(), remains).await.unwrap());
        }
        seen.extend(page);
    }
    let mut keys: Vec<_> = seen.iter().map(|entry| entry.key.clone()).collect();
    keys.sort();
    keys.dedup();
    assert_eq!((keys.len(), seen.len()), (30, 30));
    assert_eq!(views.b.due(Time(500), None, 100).await.unwrap(), []);
}

pub(super) async fn the_latest_change_decides(views: &Views) {
    settled_until(views, "moved", Some(100)).await;
    let key = key("due", "moved");
    for (version, keep_until, due_at) in [(3, Some(300), Some(300)), (4, None, None), (5, Some(50), Some(50))] {
        store(&views.b, settle(&key, version, keep_until)).await;
        for ledger in [&views.a, &views.b] {
            for now in [49, 50, 100, 299, 300, 10_000] {
                let due = ledger.due(Time(now), None, 10).await.unwrap();
                assert_eq!(due.len() == 1, due_at.is_some_and(|at| at <= now), "version {version} at {now}");
            }
        }
    }
    // A new operation under the key is not settled.
    let next = crate::make::next_generation(&held(views, &key).await.unwrap(), settled_protocol::State::Created);
    store(&views.a, Change { keep_until: Some(Time(1)), ..next }).await;
    assert_eq!(views.b.due(Time(10_000), None, 10).await.unwrap(), []);
}

pub(super) async fn tombstones_are_due_again(views: &Views) {
    settled_until(views, "buried", Some(100)).await;
    let key = key("due", "buried");
    let remains = Remains::Tombstone { keep_until: Time(400) };
    assert!(views.a.forget(&key, Version(2), remains).await.unwrap());
    for ledger in [&views.a, &views.b] {
        assert_eq!(ledger.due(Time(399), None, 10).await.unwrap(), []);
        let due = ledger.due(Time(400), None, 10).await.unwrap();
        assert_eq!(due.iter().map(|entry| entry.tombstone).collect::<Vec<_>>(), [true]);
    }
    assert!(views.b.forget(&key, Version(2), Remains::Nothing).await.unwrap());
    assert_eq!(views.a.due(Time(10_000), None, 10).await.unwrap(), []);
}

/// A window without end makes the last time that there is.
pub(super) async fn far_times_are_far(views: &Views) {
    for keep_until in [u64::MAX, 1 << 54] {
        settled_until(views, keep_until, Some(keep_until)).await;
        let entry = held(views, &key("due", keep_until)).await.unwrap();
        assert_eq!(entry.keep_until, Some(Time(keep_until)));
    }
    settled_until(views, "near", Some(100)).await;
    for ledger in [&views.a, &views.b] {
        let in_a_thousand_years = 33_000_000_000_000;
        assert_eq!(ids(&ledger.due(Time(in_a_thousand_years), None, 10).await.unwrap()), ["near"]);
        ledger.due(Time(u64::MAX), None, 10).await.unwrap();
    }
}

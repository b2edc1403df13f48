//! Retention: forgetting a key, wholly or but for a tombstone.

use std::sync::Arc;

use bytes::Bytes;
use settled::{Filter, Remains};
use settled_protocol::{State, Time, Version};
use tokio::task::JoinSet;

use super::{held, refuse, store, told};
use crate::Views;
use crate::make::{change, claim, claim_of, entry_after, key, next_generation, resource, settle, settled};

const UNTIL_500: Remains = Remains::Tombstone { keep_until: Time(500) };

pub(super) async fn only_the_version_named_is_forgotten(views: &Views) {
    let key = key("forgetting", 1);
    for remains in [Remains::Nothing, UNTIL_500] {
        assert!(!views.a.forget(&key, Version(1), remains).await.unwrap(), "there is none");
    }
    let changes = [claim(&key), change(&key, 2, settled())];
    for change in changes.clone() {
        store(&views.a, change).await;
    }
    for version in [0, 1, 3] {
        for remains in [Remains::Nothing, UNTIL_500] {
            assert!(!views.b.forget(&key, Version(version), remains).await.unwrap());
        }
    }
    assert_eq!(held(views, &key).await, Some(entry_after(&changes, 0)));
    assert_eq!(told(views, &key).await, changes);
}

pub(super) async fn a_forgotten_key_can_be_claimed_anew(views: &Views) {
    let key = key("forgetting", 2);
    store(&views.a, claim(&key)).await;
    store(&views.a, settle(&key, 2, Some(10))).await;
    assert!(views.b.forget(&key, Version(2), Remains::Nothing).await.unwrap());
    assert!(!views.a.forget(&key, Version(2), Remains::Nothing).await.unwrap());
    assert_eq!(held(views, &key).await, None);
    assert_eq!(told(views, &key).await, []);
    assert_eq!(views.a.scan(Filter::All).await.unwrap(), []);
    assert_eq!(views.a.due(Time(1_000), None, 10).await.unwrap(), []);
    refuse(&views.a, change(&key, 3, State::Created)).await;
    let again = claim(&key);
    store(&views.b, again.clone()).await;
    assert_eq!(told(views, &key).await, [again]);
}

pub(super) async fn a_tombstone_is_all_but_empty(views: &Views) {
    let key = key("tombstones", 1);
    let mut first = claim_of(&key, &resource("buried"));
    first.sent = Some(Bytes::from_static(b"sent"));
    let mut second = settle(&key, 2, Some(10));
    second.outcome = Some(Bytes::from_static(b"done"));
    second.note = Some("a note".to_owned());
    store(&views.a, first).await;
    store(&views.a, second).await;
    let whole = held(views, &key).await.unwrap();
    assert!(views.b.forget(&key, Version(2), UNTIL_500).await.unwrap());
    let buried = held(views, &key).await.unwrap();
    assert_eq!(buried, whole.buried(Time(500)));
    assert!(buried.tombstone && buried.record.is_settled());
    assert_eq!(told(views, &key).await, []);
    assert_eq!(views.a.scan(Filter::All).await.unwrap(), [buried]);
    assert_eq!(views.a.scan(Filter::Unsettled).await.unwrap(), []);
    // The key is not free.
    refuse(&views.a, claim(&key)).await;
    refuse(&views.b, change(&key, 2, State::Created)).await;
}

pub(super) async fn a_new_operation_replaces_a_tombstone(views: &Views) {
    for (i, wanted) in [None, Some(resource("again"))].into_iter().enumerate() {
        let key = key("replaced", i);
        let mut first = claim(&key);
        first.note = Some("old".to_owned());
        store(&views.a, first).await;
        store(&views.a, settle(&key, 2, Some(10))).await;
        assert!(views.a.forget(&key, Version(2), UNTIL_500).await.unwrap());
        let mut next = next_generation(&held(views, &key).await.unwrap(), State::Created);
        next.resource = wanted.clone();
        store(&views.b, next.clone()).await;
        let entry = held(views, &key).await.unwrap();
        assert_eq!(entry, entry_after(std::slice::from_ref(&next), entry.place));
        assert_eq!(entry.place > 0, wanted.is_some());
        assert_eq!(told(views, &key).await, [next]);
        assert_eq!(views.a.due(Time(1_000), None, 10).await.unwrap(), []);
        let end = settle(&key, 4, Some(700));
        let end = settled::Change { record: crate::make::record(4, 2, settled()), ..end };
        store(&views.a, end).await;
        assert_eq!(told(views, &key).await.len(), 2);
        assert!(views.b.forget(&key, Version(4), Remains::Nothing).await.unwrap());
        assert_eq!(held(views, &key).await, None);
    }
}

pub(super) async fn a_tombstone_can_be_prolonged_and_forgotten(views: &Views) {
    let key = key("prolonged", 1);
    store(&views.a, claim(&key)).await;
    store(&views.a, settle(&key, 2, Some(10))).await;
    for keep_until in [Time(500), Time(900), Time(100)] {
        assert!(views.b.forget(&key, Version(2), Remains::Tombstone { keep_until }).await.unwrap());
        let buried = held(views, &key).await.unwrap();
        assert_eq!((buried.keep_until, buried.tombstone), (Some(keep_until), true));
        assert_eq!(told(views, &key).await, []);
    }
    assert!(views.a.forget(&key, Version(2), Remains::Nothing).await.unwrap());
    assert_eq!(held(views, &key).await, None);
    store(&views.b, claim(&key)).await;
}

pub(super) async fn a_forgotten_operation_leaves_its_line(views: &Views) {
    let wanted = resource("left");
    for id in 0..3 {
        store(&views.a, claim_of(&key("leaving", id), &wanted)).await;
    }
    assert!(views.b.forget(&key("leaving", 0), Version(1), Remains::Nothing).await.unwrap());
    for ledger in [&views.a, &views.b] {
        let line = ledger.line(&wanted).await.unwrap();
        let line: Vec<_> = line.into_iter().map(|entry| entry.key).collect();
        assert_eq!(line, [key("leaving", 1), key("leaving", 2)]);
    }
}

pub(super) async fn one_of_many_forgets_wins(views: &Views) {
    for remains in [Remains::Nothing, UNTIL_500] {
        let key = key("forgets", format!("{remains:?}").len());
        store(&views.a, claim(&key)).await;
        store(&views.a, settle(&key, 2, None)).await;
        // A new operation races with those that would forget the one before it: whoever comes second finds another version.
        let next = next_generation(&held(views, &key).await.unwrap(), State::Created);
        let mut forgets = JoinSet::new();
        for i in 0..20 {
            let ledger = Arc::clone(if i % 2 == 0 { &views.a } else { &views.b });
            let key = key.clone();
            forgets.spawn(async move { ledger.forget(&key, Version(2), remains).await.unwrap() });
        }
        let stored = views.b.compare_and_set(next.clone()).await.unwrap();
        let forgotten = forgets.join_all().await.into_iter().filter(|done| *done).count();
        let left = held(views, &key).await;
        match (stored, remains) {
            (settled::Stored::Durable(_), _) => {
                assert_eq!(left, Some(next.apply(None, |_| 0)));
                assert!(
                    remains != Remains::Nothing || forgotten == 0,
                    "it was forgotten, and yet its version was there"
                );
            }
            (settled::Stored::Refused, Remains::Nothing) => assert_eq!((left, forgotten), (None, 1)),
            (settled::Stored::Refused, Remains::Tombstone { .. }) => {
                panic!("a tombstone has the version that was expected")
            }
        }
    }
}

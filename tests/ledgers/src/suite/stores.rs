//! Compare-and-set, and what is stored by it.

use bytes::Bytes;
use settled::{Entry, Filter};
use settled_protocol::{Epoch, State, Time, Version};

use super::{held, refuse, store, told};
use crate::Views;
use crate::make::{change, claim, entry_after, key, next_generation, record, settled, unsettled};

pub(super) async fn a_claim_is_stored_once(views: &Views) {
    let key = key("claims", 1);
    assert_eq!(held(views, &key).await, None);
    assert_eq!(told(views, &key).await, []);
    let first = claim(&key);
    store(&views.a, first.clone()).await;
    refuse(&views.a, first.clone()).await;
    refuse(&views.b, first.clone()).await;
    assert_eq!(held(views, &key).await, Some(entry_after(std::slice::from_ref(&first), 0)));
    assert_eq!(told(views, &key).await, [first]);
}

pub(super) async fn only_the_version_held_can_be_replaced(views: &Views) {
    let key = key("versions", 1);
    let second = change(&key, 2, State::Created);
    refuse(&views.a, second.clone()).await;
    store(&views.a, claim(&key)).await;
    refuse(&views.b, change(&key, 3, State::Created)).await;
    store(&views.b, second.clone()).await;
    refuse(&views.a, second).await;
    store(&views.a, change(&key, 3, settled())).await;
    refuse(&views.a, claim(&key)).await;
    refuse(&views.b, claim(&key)).await;
    assert_eq!(held(views, &key).await.unwrap().record, record(3, 1, settled()));
}

pub(super) async fn every_state_comes_back(views: &Views) {
    let key = key("states", 1);
    let mut changes = Vec::new();
    for state in unsettled().into_iter().chain([settled()]) {
        let next = change(&key, changes.len() as u64 + 1, state);
        changes.push(next.clone());
        store(if changes.len() % 2 == 0 { &views.a } else { &views.b }, next).await;
        assert_eq!(held(views, &key).await, Some(entry_after(&changes, 0)));
    }
    assert_eq!(told(views, &key).await, changes);
}

pub(super) async fn what_a_change_leaves_out_stays_as_it_was(views: &Views) {
    let key = key("inheritance", 1);
    store(&views.a, claim(&key)).await;
    let mut second = change(&key, 2, State::Created);
    second.sent = Some(Bytes::from_static(b"sent"));
    second.note = Some("a note".to_owned());
    store(&views.b, second).await;
    let mut third = change(&key, 3, settled());
    third.outcome = Some(Bytes::from_static(b"done"));
    third.by = Epoch(9);
    third.keep_until = Some(Time(77));
    store(&views.a, third).await;
    let entry = Entry {
        key: key.clone(),
        record: record(3, 1, settled()),
        asked: Bytes::from_static(b"{\"asked\":1}"),
        sent: Some(Bytes::from_static(b"sent")),
        outcome: Some(Bytes::from_static(b"done")),
        note: Some("a note".to_owned()),
        resource: None,
        place: 0,
        by: Epoch(9),
        keep_until: Some(Time(77)),
        tombstone: false,
    };
    assert_eq!(held(views, &key).await.as_ref(), Some(&entry));
    let scanned = views.b.scan(Filter::All).await.unwrap();
    assert_eq!(scanned, [entry]);
}

pub(super) async fn a_new_generation_inherits_nothing(views: &Views) {
    let key = key("generations", 1);
    let mut first = claim(&key);
    first.outcome = Some(Bytes::from_static(b"old"));
    first.sent = Some(Bytes::from_static(b"old"));
    first.note = Some("old".to_owned());
    first.keep_until = Some(Time(3));
    store(&views.a, first).await;
    for asked in [Some(Bytes::from_static(b"new")), None] {
        let before = held(views, &key).await.unwrap();
        let mut next = next_generation(&before, State::Created);
        next.asked = asked.clone();
        store(&views.b, next.clone()).await;
        let entry = held(views, &key).await.unwrap();
        assert_eq!(entry, next.apply(None, |_| 0));
        assert_eq!(entry.asked, asked.unwrap_or_default());
    }
    assert_eq!(told(views, &key).await.len(), 3);
    assert_eq!(views.a.scan(Filter::All).await.unwrap().len(), 1);
}

pub(super) async fn a_refused_change_leaves_no_trace(views: &Views) {
    let key = key("refused", 1);
    let mut first = claim(&key);
    first.keep_until = Some(Time(50));
    store(&views.a, first.clone()).await;
    let before = held(views, &key).await;
    for expected in [None, Some(Version(0)), Some(Version(2)), Some(Version(1 << 40))] {
        let mut wrong = change(&key, 2, settled());
        wrong.expected = expected;
        wrong.outcome = Some(Bytes::from_static(b"wrong"));
        wrong.note = Some("wrong".to_owned());
        wrong.keep_until = Some(Time(1));
        wrong.resource = Some(crate::make::resource("wrong"));
        for ledger in [&views.a, &views.b] {
            refuse(ledger, wrong.clone()).await;
        }
    }
    assert_eq!(held(views, &key).await, before);
    assert_eq!(told(views, &key).await, [first]);
    assert_eq!(views.b.due(Time(1_000), None, 10).await.unwrap(), []);
    assert_eq!(views.b.line(&crate::make::resource("wrong")).await.unwrap(), []);
    assert_eq!(views.a.scan(Filter::Unsettled).await.unwrap().len(), 1);
}

pub(super) async fn scans_filter_and_are_in_order(views: &Views) {
    let mut open = Vec::new();
    let mut all = Vec::new();
    // More than fits into one part of an answer.
    let body = Bytes::from(vec![b'x'; 4000]);
    for i in 0..600 {
        let key = key("scans", format!("{:03}", (i * 7) % 600));
        let mut first = claim(&key);
        first.asked = Some(body.clone());
        let mut changes = vec![first];
        if i % 3 == 0 {
            changes.push(change(&key, 2, settled()));
        }
        for change in changes.clone() {
            store(if i % 2 == 0 { &views.a } else { &views.b }, change).await;
        }
        let entry = entry_after(&changes, 0);
        if i % 3 != 0 {
            open.push(entry.clone());
        }
        all.push(entry);
    }
    open.sort_by(|x, y| x.key.cmp(&y.key));
    all.sort_by(|x, y| x.key.cmp(&y.key));
    for ledger in [&views.a, &views.b] {
        assert!(ledger.scan(Filter::All).await.unwrap() == all);
        assert!(ledger.scan(Filter::Unsettled).await.unwrap() == open);
    }
}

/// A key's first version is a time: it begins with a large number, and goes on from there.
pub(super) async fn versions_begin_anywhere(views: &Views) {
    for (i, first) in [1_796_011_445_413, 1 << 44, 7].into_iter().enumerate() {
        let key = key("begin", i);
        let mut changes = vec![change(&key, first, State::Created), change(&key, first + 1, settled())];
        changes[0].expected = None;
        store(&views.a, changes[0].clone()).await;
        refuse(&views.b, change(&key, first, settled())).await;
        refuse(&views.b, change(&key, first + 2, settled())).await;
        store(&views.b, changes[1].clone()).await;
        let next = next_generation(&held(views, &key).await.unwrap(), State::Created);
        store(&views.a, next.clone()).await;
        changes.push(next);
        assert_eq!(held(views, &key).await, Some(entry_after(&changes, 0)));
        assert_eq!(told(views, &key).await, changes);
        assert!(!views.a.forget(&key, Version(first + 1), settled::Remains::Nothing).await.unwrap());
        assert!(views.b.forget(&key, Version(first + 2), settled::Remains::Nothing).await.unwrap());
    }
}

//! Whatever can be stored comes back as it was.

use bytes::Bytes;
use settled::{Change, Filter};
use settled_protocol::{Epoch, Key, State, Time};

use super::{held, store, told};
use crate::Views;
use crate::make::{change, claim, entry_after, key, record, settled};

/// Stores it through one view, and reads it through both in every way there is.
async fn comes_back(views: &Views, changes: &[Change]) {
    for (i, change) in changes.iter().enumerate() {
        store(if i % 2 == 0 { &views.a } else { &views.b }, change.clone()).await;
    }
    let key = &changes[0].key;
    let entry = held(views, key).await.unwrap();
    assert!(entry == entry_after(changes, entry.place), "{key}");
    assert!(told(views, key).await == changes, "{key}");
    let scanned = views.b.scan(Filter::All).await.unwrap();
    assert!(scanned.contains(&entry), "{key}");
}

pub(super) async fn nothing_at_all_comes_back(views: &Views) {
    let mut first = claim(&key("contents", "none"));
    first.event = String::new();
    first.asked = None;
    let mut empty = claim(&key("contents", "empty"));
    empty.asked = Some(Bytes::new());
    empty.sent = Some(Bytes::new());
    empty.outcome = Some(Bytes::new());
    empty.note = Some(String::new());
    comes_back(views, &[first]).await;
    comes_back(views, &[empty]).await;
}

pub(super) async fn every_byte_comes_back(views: &Views) {
    let all: Bytes = (0..=255).collect::<Vec<u8>>().into();
    let mut first = claim(&key("contents", "bytes"));
    first.asked = Some(all.clone());
    first.sent = Some(all.repeat(40).into());
    let mut second = change(&first.key, 2, settled());
    second.outcome = Some(all.iter().rev().copied().collect());
    comes_back(views, &[first, second]).await;
    // No byte is special in any place.
    for byte in 0..=255_u8 {
        let mut one = claim(&key("byte", byte));
        one.asked = Some(Bytes::copy_from_slice(&[byte]));
        store(&views.a, one.clone()).await;
        assert_eq!(views.b.get(&one.key).await.unwrap().unwrap().asked, [byte].as_slice());
    }
}

pub(super) async fn eight_megabytes_come_back(views: &Views) {
    let noise = |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = vec![0; 8 << 20];
        random.fill(&mut bytes);
        Bytes::from(bytes)
    };
    let mut first = claim(&key("contents", "large"));
    first.asked = Some(noise(1));
    let mut second = change(&first.key, 2, settled());
    second.outcome = Some(noise(2));
    comes_back(views, &[first, second]).await;
}

pub(super) async fn odd_texts_come_back(views: &Views) {
    let texts =
        ["\0", "a\0b", "ноль", "🔑", "'\"\\;--", "\r\n\t", "\u{202e}right to left", "\u{fffd}\u{10ffff}", "$1 {0} %s"];
    for (i, text) in texts.into_iter().enumerate() {
        let mut odd = claim(&key("texts", i));
        odd.event = text.to_owned();
        odd.note = Some(text.repeat(3));
        comes_back(views, &[odd]).await;
    }
}

pub(super) async fn the_longest_keys_come_back(views: &Views) {
    for part in ["x".repeat(1024), "é".repeat(512), "🔑".repeat(256), "/".repeat(1024), "%".repeat(1024)] {
        let key = Key::new(part.clone(), part.clone(), part).unwrap();
        comes_back(views, &[claim(&key), change(&key, 2, State::Created)]).await;
        views.b.changed(&key, None).await.unwrap();
    }
    assert_eq!(views.a.scan(Filter::Unsettled).await.unwrap().len(), 5);
}

pub(super) async fn extreme_numbers_come_back(views: &Views) {
    let key = key("contents", "numbers");
    let mut first = claim(&key);
    first.at = Time(u64::MAX);
    first.by = Epoch(u32::MAX);
    first.record = record(1, u32::MAX, State::Created);
    let mut second = change(&key, 2, settled());
    second.at = Time(0);
    second.by = Epoch(0);
    second.record = record(2, u32::MAX, settled());
    comes_back(views, &[first, second]).await;
}

pub(super) async fn similar_keys_are_told_apart(views: &Views) {
    let parts = [
        ["a", "b", "c"],
        ["a/b", "c", "d"],
        ["a", "b/c", "d"],
        ["a", "b", "c/d"],
        ["a:b", "c", "d"],
        ["a", "b:c", "d"],
        ["A", "b", "c"],
        ["a", "b", "c "],
        ["a", "b", " c"],
        ["a%2Fb", "c", "d"],
        // The same letter, composed and decomposed.
        ["a", "b", "é"],
        ["a", "b", "e\u{301}"],
        ["{a}", "b", "c"],
        ["a", "{b}", "c"],
    ];
    let keys = parts.map(|[scope, tool, id]| Key::new(scope, tool, id).unwrap());
    for (i, key) in keys.iter().enumerate() {
        let mut first = claim(key);
        first.asked = Some(Bytes::from(i.to_string()));
        store(&views.a, first).await;
    }
    for (i, key) in keys.iter().enumerate() {
        let entry = held(views, key).await.unwrap();
        assert_eq!((&entry.key, entry.asked), (key, Bytes::from(i.to_string())));
    }
    let mut sorted = keys.to_vec();
    sorted.sort();
    let scanned = views.b.scan(Filter::All).await.unwrap();
    assert_eq!(
        scanned.into_iter().map(|entry| entry.key).collect::<Vec<_>>(),
        sorted,
        "ordered as keys are, by their bytes"
    );
}

//! What is kept of how a record came to be.

use bytes::Bytes;
use settled_protocol::{State, Time};

use super::{held, store, told};
use crate::Views;
use crate::make::{change, claim, key, next_generation, settle, unsettled};

pub(super) async fn all_changes_are_told_in_order(views: &Views) {
    let key = key("history", 1);
    let mut changes = Vec::new();
    for version in 1..=50 {
        let mut next = change(&key, version, unsettled()[version as usize % 5]);
        if version % 7 == 0 {
            next.asked = Some(Bytes::from(format!("asked {version}")));
            next.outcome = Some(Bytes::from(format!("outcome {version}")));
            next.sent = Some(Bytes::new());
            next.note = Some(String::new());
            next.keep_until = Some(Time(version));
        }
        changes.push(next.clone());
        store(if version % 2 == 0 { &views.a } else { &views.b }, next).await;
    }
    assert_eq!(told(views, &key).await, changes);
}

pub(super) async fn generations_share_a_history(views: &Views) {
    let key = key("history", "generations");
    let mut changes = vec![claim(&key), settle(&key, 2, None)];
    for change in changes.clone() {
        store(&views.a, change).await;
    }
    for _ in 0..3 {
        let next = next_generation(&held(views, &key).await.unwrap(), State::Created);
        store(&views.b, next.clone()).await;
        changes.push(next);
    }
    assert_eq!(told(views, &key).await, changes);
}

pub(super) async fn a_history_is_its_key_s_alone(views: &Views) {
    let keys: Vec<_> = (0..10).map(|id| key("histories", id)).collect();
    for version in 1..=5 {
        for key in &keys {
            store(&views.a, change(key, version, State::Created)).await;
        }
    }
    assert!(views.b.forget(&keys[3], settled_protocol::Version(5), settled::Remains::Nothing).await.unwrap());
    for (id, key) in keys.iter().enumerate() {
        let expected: Vec<_> = (1..=5).map(|version| change(key, version, State::Created)).collect();
        assert_eq!(told(views, key).await, if id == 3 { vec![] } else { expected });
    }
}

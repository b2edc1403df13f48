//! Resources: who comes first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use settled::{Change, Entry, Resource};
use settled_protocol::{Key, State};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{View, held, store};
use crate::Views;
use crate::make::{change, claim, claim_of, key, next_generation, record, resource, settle, unsettled};

/// Both views must agree.
async fn line(views: &Views, wanted: &Resource) -> Vec<Entry> {
    let line = views.a.line(wanted).await.unwrap();
    assert_eq!(views.b.line(wanted).await.unwrap(), line);
    assert!(line.is_sorted_by(|x, y| x.place < y.place), "places are strictly in order");
    assert!(line.iter().all(|entry| entry.place > 0), "0 is the place of those without a resource");
    line
}

async fn ids(views: &Views, wanted: &Resource) -> Vec<String> {
    line(views, wanted).await.into_iter().map(|entry| entry.key.id().to_owned()).collect()
}

pub(super) async fn the_first_to_claim_is_first(views: &Views) {
    let wanted = resource("account");
    assert_eq!(line(views, &wanted).await, []);
    // Neither in the order of keys nor all from one view.
    let order: Vec<String> = (0..12).map(|i| format!("{:02}", i * 5 % 12)).collect();
    for (i, id) in order.iter().enumerate() {
        let ledger = if i % 3 == 0 { &views.a } else { &views.b };
        store(ledger, claim_of(&key("line", id), &wanted)).await;
    }
    assert_eq!(ids(views, &wanted).await, order);
    for entry in line(views, &wanted).await {
        assert_eq!(held(views, &entry.key).await, Some(entry));
    }
}

pub(super) async fn only_the_settled_leave(views: &Views) {
    let wanted = resource("door");
    for (i, state) in unsettled().into_iter().enumerate() {
        let key = key("stay", i);
        store(&views.a, claim_of(&key, &wanted)).await;
        store(&views.b, change(&key, 2, state)).await;
    }
    assert_eq!(ids(views, &wanted).await, ["0", "1", "2", "3", "4"]);
    store(&views.b, settle(&key("stay", 2), 3, None)).await;
    store(&views.a, settle(&key("stay", 0), 3, Some(5))).await;
    assert_eq!(ids(views, &wanted).await, ["1", "3", "4"]);
    // Settled at once: never in the line.
    let at_once = Change { resource: Some(wanted.clone()), ..settle(&key("stay", "at once"), 1, None) };
    store(&views.a, at_once).await;
    assert_eq!(ids(views, &wanted).await, ["1", "3", "4"]);
}

pub(super) async fn a_place_is_kept(views: &Views) {
    let wanted = resource("branch");
    for id in 0..3 {
        store(&views.a, claim_of(&key("kept", id), &wanted)).await;
    }
    let before = line(views, &wanted).await;
    for (version, state) in (2..).zip(unsettled()) {
        store(&views.b, change(&key("kept", 1), version, state)).await;
        let now = line(views, &wanted).await;
        assert_eq!(
            now.iter().map(|entry| entry.place).collect::<Vec<_>>(),
            before.iter().map(|e| e.place).collect::<Vec<_>>()
        );
        assert_eq!(now[1].resource.as_ref(), Some(&wanted));
        assert_eq!(now[1].record, record(version, 1, state));
    }
    let place = before[1].place;
    store(&views.a, settle(&key("kept", 1), 7, None)).await;
    let entry = held(views, &key("kept", 1)).await.unwrap();
    assert_eq!((entry.place, entry.resource), (place, Some(wanted)));
}

pub(super) async fn a_new_generation_goes_to_the_back(views: &Views) {
    let wanted = resource("till");
    for id in 0..3 {
        store(&views.a, claim_of(&key("again", id), &wanted)).await;
    }
    store(&views.a, settle(&key("again", 0), 2, None)).await;
    let next = next_generation(&held(views, &key("again", 0)).await.unwrap(), State::Created);
    store(&views.b, Change { resource: Some(wanted.clone()), ..next }).await;
    assert_eq!(ids(views, &wanted).await, ["1", "2", "0"]);
    // One that wants nothing has no place.
    store(&views.a, settle(&key("again", 1), 2, None)).await;
    store(&views.b, next_generation(&held(views, &key("again", 1)).await.unwrap(), State::Created)).await;
    assert_eq!(ids(views, &wanted).await, ["2", "0"]);
    let without = held(views, &key("again", 1)).await.unwrap();
    assert_eq!((without.place, &without.resource), (0, &None));
    // And one that wants something else is elsewhere.
    let next = next_generation(&without, State::Created);
    store(&views.a, Change { resource: Some(resource("other")), ..next }).await;
    assert_eq!(ids(views, &wanted).await, ["2", "0"]);
    assert_eq!(ids(views, &resource("other")).await, ["1"]);
}

pub(super) async fn resources_are_told_apart(views: &Views) {
    let names =
        ["a", "a/b", "a:b", "", " ", "{a}", "A", "дверь 🚪", "a\0b", "%2F", "'; drop table", &"long ".repeat(200)];
    let scopes = ["scope", "", "scope/a", "tenant"];
    let mut all = Vec::new();
    for scope in scopes {
        for name in names {
            all.push(Resource { scope: scope.to_owned(), name: name.to_owned() });
        }
    }
    for (id, wanted) in all.iter().enumerate() {
        store(if id % 2 == 0 { &views.a } else { &views.b }, claim_of(&key("apart", id), wanted)).await;
    }
    for (id, wanted) in all.iter().enumerate() {
        let line = line(views, wanted).await;
        assert_eq!(line.len(), 1, "{wanted:?}");
        assert_eq!((line[0].key.clone(), line[0].resource.as_ref()), (key("apart", id), Some(wanted)));
    }
    store(&views.a, claim(&key("apart", "none"))).await;
    assert_eq!(held(views, &key("apart", "none")).await.unwrap().place, 0);
}

/// Who has the turn on each resource, as those see it who take part.
type Turns = Arc<Mutex<HashMap<Resource, Key>>>;

/// When a claim began and when it was acknowledged.
struct Claimed {
    place: u64,
    wanted: Resource,
    began: Instant,
    ended: Instant,
}

/// Many operations on few resources, claimed at once from both views. Whoever finds itself first takes its turn: nobody else
/// may have it then, and nobody may come before it until it is settled.
pub(super) async fn who_sees_itself_first_stays_first(views: &Views) {
    let resources = [resource("one"), resource("two")];
    let turns = Turns::default();
    let watching = Arc::new(Mutex::new(true));
    let mut watchers = JoinSet::new();
    for ledger in [&views.a, &views.b] {
        for wanted in &resources {
            let (ledger, wanted) = (Arc::clone(ledger), wanted.clone());
            let (turns, watching) = (Arc::clone(&turns), Arc::clone(&watching));
            watchers.spawn(async move {
                let mut seen = 0;
                while *watching.lock().unwrap() {
                    let before = turns.lock().unwrap().get(&wanted).cloned();
                    let line = ledger.line(&wanted).await.unwrap();
                    let after = turns.lock().unwrap().get(&wanted).cloned();
                    if let Some(first) = before.filter(|before| after.as_ref() == Some(before)) {
                        assert_eq!(line.first().map(|entry| &entry.key), Some(&first), "someone came before it");
                        seen += 1;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                seen
            });
        }
    }
    let mut tasks = JoinSet::new();
    for i in 0..48 {
        let ledger = Arc::clone(if i % 4 < 2 { &views.a } else { &views.b });
        let wanted = resources[i % 2].clone();
        let turns = Arc::clone(&turns);
        tasks.spawn(async move {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..60))).await;
            take_a_turn(&ledger, &key("turns", i), wanted, &turns).await
        });
    }
    let claims = tasks.join_all().await;
    *watching.lock().unwrap() = false;
    let seen: usize = watchers.join_all().await.into_iter().sum();
    assert!(seen > 0, "nobody ever looked at a turn");
    for x in &claims {
        for y in &claims {
            let ordered = x.wanted == y.wanted && x.ended < y.began;
            assert!(!ordered || x.place < y.place, "one that was acknowledged before another began is behind it");
        }
    }
}

async fn take_a_turn(ledger: &View, key: &Key, wanted: Resource, turns: &Turns) -> Claimed {
    let began = Instant::now();
    store(ledger, claim_of(key, &wanted)).await;
    let ended = Instant::now();
    let place = ledger.get(key).await.unwrap().unwrap().place;
    while ledger.line(&wanted).await.unwrap()[0].key != *key {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let other = turns.lock().unwrap().insert(wanted.clone(), key.clone());
    assert_eq!(other, None, "two have the turn");
    store(ledger, change(key, 2, unsettled()[1])).await;
    tokio::time::sleep(Duration::from_millis(fastrand::u64(..8))).await;
    assert_eq!(&ledger.line(&wanted).await.unwrap()[0].key, key, "it lost its turn");
    assert_eq!(turns.lock().unwrap().remove(&wanted).as_ref(), Some(key));
    store(ledger, settle(key, 3, None)).await;
    Claimed { place, wanted, began, ended }
}

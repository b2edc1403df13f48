//! What every ledger promises, as checks on two views of one ledger: as of two processes that use it. The views may be the
//! same one.
#![allow(dead_code)] // each test binary uses a part

pub mod make;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use make::{LEASE, change, claim, key, record, settled};
use settled::{Draw, Entry, Filter, Ledger, Liveness, Remains, Renewal, Resource, Stored};
use settled_protocol::{Durable, Epoch, State, Time, Version};

type View<'a> = &'a Arc<dyn Ledger>;

/// Runs every check. The ledger must be empty.
pub async fn run(a: Arc<dyn Ledger>, b: Arc<dyn Ledger>) {
    epochs_are_given_away_once(&a, &b).await;
    a_claim_is_stored_once(&a, &b).await;
    only_the_version_held_can_be_replaced(&a, &b).await;
    what_a_change_leaves_out_stays_as_it_was(&a, &b).await;
    a_new_generation_inherits_nothing(&a, &b).await;
    history_is_complete_and_in_order(&a, &b).await;
    a_forgotten_key_is_absent_and_can_be_claimed_anew(&a, &b).await;
    one_of_many_concurrent_claims_wins(&a, &b).await;
    concurrent_advances_never_share_a_version(&a, &b).await;
    scans_filter_and_are_in_order(&a, &b).await;
    large_and_odd_contents_come_back(&a, &b).await;
    versions_that_begin_with_the_time_are_counted_on(&a, &b).await;
    a_change_is_noticed(&a, &b).await;
    no_change_is_missed_between_look_and_wait(&a, &b).await;
    without_a_change_waiting_ends(&a, &b).await;
    a_lease_that_has_run_out_never_holds_again(&a, &b).await;
    whoever_retires_is_gone(&a, &b).await;
    a_line_is_in_the_order_of_coming(&a, &b).await;
    what_is_due_can_be_forgotten(&a, &b).await;
    a_tombstone_keeps_the_record_only(&a, &b).await;
    the_retry_budget_is_shared(&a, &b).await;
    the_time_is_shared(&a, &b).await;
}

async fn store(ledger: View<'_>, change: settled::Change) {
    let record = change.record;
    let stored = ledger.compare_and_set(change).await.unwrap();
    assert_eq!(stored, Stored::Durable(Durable::attest(&record)));
}

async fn refuse(ledger: View<'_>, change: settled::Change) {
    assert_eq!(ledger.compare_and_set(change).await.unwrap(), Stored::Refused);
}

async fn epochs_are_given_away_once(a: View<'_>, b: View<'_>) {
    let mut given = HashSet::new();
    for _ in 0..5 {
        for ledger in [a, b] {
            let epoch = ledger.register(LEASE).await.unwrap();
            assert!(given.insert(epoch), "{epoch} was given away twice");
            assert_eq!(a.liveness(epoch).await.unwrap(), Liveness::Alive);
            assert_eq!(b.liveness(epoch).await.unwrap(), Liveness::Alive);
        }
    }
}

async fn a_claim_is_stored_once(a: View<'_>, b: View<'_>) {
    let key = key("claims", 1);
    assert_eq!(b.get(&key).await.unwrap(), None);
    assert_eq!(b.history(&key).await.unwrap(), []);
    let first = claim(&key);
    store(a, first.clone()).await;
    refuse(a, first.clone()).await;
    refuse(b, first.clone()).await;
    assert_eq!(b.get(&key).await.unwrap(), Some(first.apply(None, |_| 0)));
    assert_eq!(a.history(&key).await.unwrap(), [first]);
}

async fn only_the_version_held_can_be_replaced(a: View<'_>, b: View<'_>) {
    let key = key("versions", 1);
    let unknown = change(&key, 2, State::Created);
    refuse(a, unknown.clone()).await;
    store(a, claim(&key)).await;
    refuse(b, change(&key, 3, State::Created)).await;
    store(b, unknown.clone()).await;
    refuse(a, unknown).await;
    store(a, change(&key, 3, settled())).await;
    refuse(a, claim(&key)).await;
    let entry = b.get(&key).await.unwrap().unwrap();
    assert_eq!(entry.record, record(3, 1, settled()));
}

async fn what_a_change_leaves_out_stays_as_it_was(a: View<'_>, b: View<'_>) {
    let key = key("inheritance", 1);
    store(a, claim(&key)).await;
    let mut second = change(&key, 2, State::Created);
    second.sent = Some(Bytes::from_static(b"sent"));
    second.note = Some("a note".to_owned());
    store(b, second).await;
    let mut third = change(&key, 3, settled());
    third.outcome = Some(Bytes::from_static(b"done"));
    store(a, third).await;
    let entry = Entry {
        key: key.clone(),
        record: record(3, 1, settled()),
        asked: Bytes::from_static(b"{\"asked\":1}"),
        sent: Some(Bytes::from_static(b"sent")),
        outcome: Some(Bytes::from_static(b"done")),
        note: Some("a note".to_owned()),
        resource: None,
        place: 0,
        by: Epoch(1),
        keep_until: None,
        tombstone: false,
    };
    assert_eq!(a.get(&key).await.unwrap().as_ref(), Some(&entry));
    assert_eq!(b.get(&key).await.unwrap(), Some(entry));
}

async fn a_new_generation_inherits_nothing(a: View<'_>, b: View<'_>) {
    let key = key("generations", 1);
    let mut first = claim(&key);
    first.outcome = Some(Bytes::from_static(b"old"));
    store(a, first.clone()).await;
    for asked in [Some(Bytes::from_static(b"new")), None] {
        let version = a.get(&key).await.unwrap().unwrap().record.version().0 + 1;
        let mut next = change(&key, version, State::Created);
        next.record = record(version, version as u32, State::Created);
        next.asked = asked.clone();
        store(b, next.clone()).await;
        let entry = a.get(&key).await.unwrap().unwrap();
        assert_eq!(entry, next.apply(None, |_| 0));
        assert_eq!(entry.asked, asked.unwrap_or_default());
    }
    assert_eq!(b.history(&key).await.unwrap().len(), 3);
    let scanned = a.scan(Filter::All).await.unwrap();
    assert!(scanned.iter().any(|entry| entry.key == key));
}

async fn history_is_complete_and_in_order(a: View<'_>, b: View<'_>) {
    let key = key("history", 1);
    let mut changes = Vec::new();
    for version in 1..=50 {
        let mut next = change(&key, version, State::Created);
        if version % 7 == 0 {
            next.asked = Some(Bytes::from(format!("asked {version}")));
            next.outcome = Some(Bytes::from(format!("outcome {version}")));
        }
        changes.push(next.clone());
        store(if version % 2 == 0 { a } else { b }, next).await;
    }
    assert_eq!(a.history(&key).await.unwrap(), changes);
    assert_eq!(b.history(&key).await.unwrap(), changes);
}

async fn a_forgotten_key_is_absent_and_can_be_claimed_anew(a: View<'_>, b: View<'_>) {
    let key = key("forgetting", 1);
    assert!(!a.forget(&key, Version(1), Remains::Nothing).await.unwrap());
    store(a, claim(&key)).await;
    store(a, change(&key, 2, settled())).await;
    assert!(!b.forget(&key, Version(1), Remains::Nothing).await.unwrap());
    assert!(b.forget(&key, Version(2), Remains::Nothing).await.unwrap());
    assert!(!a.forget(&key, Version(2), Remains::Nothing).await.unwrap());
    for ledger in [a, b] {
        assert_eq!(ledger.get(&key).await.unwrap(), None);
        assert_eq!(ledger.history(&key).await.unwrap(), []);
    }
    refuse(a, change(&key, 3, State::Created)).await;
    let again = claim(&key);
    store(b, again.clone()).await;
    assert_eq!(a.history(&key).await.unwrap(), [again]);
}

async fn one_of_many_concurrent_claims_wins(a: View<'_>, b: View<'_>) {
    for round in 0..5 {
        let key = key("races", round);
        let mut claims = tokio::task::JoinSet::new();
        for i in 0..100 {
            let ledger = Arc::clone(if i % 2 == 0 { a } else { b });
            // All of them equal: what they say must not be what decides.
            let claim = claim(&key);
            claims.spawn(async move { ledger.compare_and_set(claim).await.unwrap() });
        }
        let won = claims.join_all().await;
        let won = won.iter().filter(|stored| **stored != Stored::Refused);
        assert_eq!(won.count(), 1);
        assert_eq!(a.history(&key).await.unwrap().len(), 1);
    }
}

async fn concurrent_advances_never_share_a_version(a: View<'_>, b: View<'_>) {
    let key = key("advances", 1);
    store(a, claim(&key)).await;
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..8 {
        let ledger = Arc::clone(if i % 2 == 0 { a } else { b });
        let key = key.clone();
        tasks.spawn(async move {
            let mut won = Vec::new();
            while won.len() < 10 {
                let held = ledger.get(&key).await.unwrap().unwrap().record.version();
                let next = change(&key, held.0 + 1, State::Created);
                if ledger.compare_and_set(next).await.unwrap() != Stored::Refused {
                    won.push(held.0 + 1);
                }
            }
            won
        });
    }
    let mut versions: Vec<u64> = tasks.join_all().await.concat();
    versions.sort_unstable();
    assert_eq!(versions, (2..=81).collect::<Vec<_>>());
}

async fn scans_filter_and_are_in_order(a: View<'_>, b: View<'_>) {
    let mut open = Vec::new();
    let mut all = Vec::new();
    // More than fits into one part of an answer.
    let body = Bytes::from(vec![b'x'; 4000]);
    for i in 0..600 {
        let key = key("scans", format!("{:03}", (i * 7) % 600));
        let mut first = claim(&key);
        first.asked = Some(body.clone());
        store(a, first.clone()).await;
        let mut entry = first.apply(None, |_| 0);
        if i % 3 == 0 {
            let end = change(&key, 2, settled());
            store(b, end.clone()).await;
            entry = end.apply(Some(&entry), |_| 0);
        } else {
            open.push(entry.clone());
        }
        all.push(entry);
    }
    open.sort_by(|x, y| x.key.cmp(&y.key));
    all.sort_by(|x, y| x.key.cmp(&y.key));
    for ledger in [a, b] {
        for (filter, expected) in [(Filter::All, &all), (Filter::Unsettled, &open)] {
            let found = ledger.scan(filter).await.unwrap();
            assert!(found.is_sorted_by(|x, y| x.key < y.key));
            let ours = found.into_iter().filter(|e| e.key.scope() == "scans");
            assert!(ours.eq(expected.iter().cloned()));
        }
    }
}

async fn large_and_odd_contents_come_back(a: View<'_>, b: View<'_>) {
    let key = key("contents", "ключ / % 🔑");
    let mut odd = claim(&key);
    odd.event = String::new();
    odd.asked = Some(Bytes::new());
    odd.sent = Some(Bytes::from((0..=255).cycle().take(3 << 20).collect::<Vec<u8>>()));
    odd.outcome = Some(Bytes::from(vec![0; 1 << 20]));
    odd.note = Some("ноль \0".to_owned());
    store(a, odd.clone()).await;
    assert_eq!(b.get(&key).await.unwrap(), Some(odd.apply(None, |_| 0)));
    assert_eq!(a.history(&key).await.unwrap(), [odd]);
}

/// Far below the time after which a wait ends in any case.
const SOON: Duration = Duration::from_millis(500);

async fn a_change_is_noticed(a: View<'_>, b: View<'_>) {
    let key = key("waiting", 1);
    let started = Instant::now();
    a.changed(&key, Some(Version(7))).await.unwrap();
    assert!(started.elapsed() < SOON, "it isn't at that version");
    let waiting = tokio::spawn({
        let (b, key) = (Arc::clone(b), key.clone());
        async move { b.changed(&key, None).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    let started = Instant::now();
    store(a, claim(&key)).await;
    waiting.await.unwrap().unwrap();
    assert!(started.elapsed() < SOON);
    let waiting = a.changed(&key, Some(Version(1)));
    let forgetting = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(b.forget(&key, Version(1), Remains::Nothing).await.unwrap());
    };
    let started = Instant::now();
    let (waited, ()) = tokio::join!(waiting, forgetting);
    waited.unwrap();
    assert!(started.elapsed() < SOON);
}

async fn no_change_is_missed_between_look_and_wait(a: View<'_>, b: View<'_>) {
    let key = key("waiting", 2);
    store(a, claim(&key)).await;
    let writer = tokio::spawn({
        let (a, key) = (Arc::clone(a), key.clone());
        async move {
            for version in 2..=200 {
                store(&a, change(&key, version, State::Created)).await;
            }
        }
    });
    // If a change were missed, this would take a second for each.
    let started = Instant::now();
    let mut seen = Version(1);
    while seen < Version(200) {
        b.changed(&key, Some(seen)).await.unwrap();
        seen = b.get(&key).await.unwrap().unwrap().record.version();
    }
    writer.await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(20));
}

async fn without_a_change_waiting_ends(a: View<'_>, b: View<'_>) {
    let key = key("waiting", 3);
    for ledger in [a, b] {
        let waiting = tokio::time::timeout(Duration::from_secs(10), ledger.changed(&key, None));
        waiting.await.unwrap().unwrap();
    }
}

async fn a_lease_that_has_run_out_never_holds_again(a: View<'_>, b: View<'_>) {
    let short = Duration::from_millis(200);
    let epoch = a.register(short).await.unwrap();
    assert_eq!(a.renew(epoch, short).await.unwrap(), Renewal::Held);
    assert_eq!(b.liveness(epoch).await.unwrap(), Liveness::Alive);
    tokio::time::sleep(short * 2).await;
    assert_eq!(b.liveness(epoch).await.unwrap(), Liveness::Lapsed);
    for _ in 0..2 {
        assert_eq!(a.renew(epoch, LEASE).await.unwrap(), Renewal::Fenced);
        assert_eq!(b.liveness(epoch).await.unwrap(), Liveness::Lapsed);
    }
    // And if nobody has asked before.
    let epoch = a.register(short).await.unwrap();
    tokio::time::sleep(short * 2).await;
    assert_eq!(a.renew(epoch, LEASE).await.unwrap(), Renewal::Fenced);
}

async fn whoever_retires_is_gone(a: View<'_>, b: View<'_>) {
    let (epoch, other) = (a.register(LEASE).await.unwrap(), a.register(LEASE).await.unwrap());
    a.retire(epoch).await.unwrap();
    for ledger in [a, b] {
        assert_eq!(ledger.liveness(epoch).await.unwrap(), Liveness::Gone);
        assert_eq!(ledger.liveness(other).await.unwrap(), Liveness::Alive);
        assert_eq!(ledger.renew(epoch, LEASE).await.unwrap(), Renewal::Fenced);
    }
}

async fn a_line_is_in_the_order_of_coming(a: View<'_>, b: View<'_>) {
    let resource = Resource { scope: "lines".to_owned(), name: "door".to_owned() };
    let other = Resource { name: "other".to_owned(), ..resource.clone() };
    let mut keys = Vec::new();
    for i in [5, 1, 4, 2, 3] {
        let key = key("lines", i);
        let mut first = claim(&key);
        first.resource = Some(resource.clone());
        store(if i % 2 == 0 { a } else { b }, first).await;
        keys.push(key);
    }
    let mut elsewhere = claim(&key("lines", 9));
    elsewhere.resource = Some(other.clone());
    store(a, elsewhere).await;
    store(b, claim(&key("lines", 10))).await;
    let line = async |ledger: View<'_>, resource| {
        let line = ledger.line(resource).await.unwrap();
        assert!(line.is_sorted_by(|x, y| x.place < y.place));
        line.into_iter().map(|entry| entry.key).collect::<Vec<_>>()
    };
    // Going on changes no place, and ending leaves the line.
    let first = a.get(&keys[0]).await.unwrap().unwrap();
    store(a, change(&keys[0], 2, State::Created)).await;
    assert_eq!(b.get(&keys[0]).await.unwrap().unwrap().place, first.place);
    for gone in 0..keys.len() {
        for ledger in [a, b] {
            assert_eq!(line(ledger, &resource).await, keys[gone..]);
        }
        let version = a.get(&keys[gone]).await.unwrap().unwrap().record.version().0 + 1;
        store(a, change(&keys[gone], version, settled())).await;
        let ended = b.get(&keys[gone]).await.unwrap().unwrap();
        assert_eq!(ended.resource.as_ref(), Some(&resource));
    }
    assert_eq!(line(b, &resource).await, []);
    assert_eq!(line(b, &other).await, [key("lines", 9)]);
    // Whoever comes again stands at the end.
    let mut again = change(&keys[0], 4, State::Created);
    again.record = record(4, 2, State::Created);
    again.resource = Some(other.clone());
    store(b, again).await;
    assert_eq!(line(a, &other).await, [key("lines", 9), keys[0].clone()]);
}

async fn what_is_due_can_be_forgotten(a: View<'_>, b: View<'_>) {
    let key = |i| key("due", format!("{i:02}"));
    for i in 0..40_u64 {
        store(a, claim(&key(i))).await;
        let mut end = change(&key(i), 2, settled());
        end.keep_until = (i % 4 != 0).then_some(Time(1_000_000 + i * 40_000));
        store(b, end).await;
    }
    let mut unsettled = claim(&key(50));
    unsettled.keep_until = Some(Time(1));
    store(a, unsettled).await;
    let due = async |ledger: View<'_>, now, after: Option<&Entry>, limit| {
        let due = ledger.due(Time(now), after, limit).await.unwrap();
        assert!(due.iter().all(|entry| entry.keep_until.unwrap() <= Time(now) && entry.record.is_settled()));
        due.into_iter().filter(|entry| entry.key.scope() == "due").collect::<Vec<_>>()
    };
    assert_eq!(due(a, 1_000_000, None, 100).await, []);
    assert_eq!(due(b, 1_039_999, None, 100).await, []);
    assert_eq!(due(b, 1_040_000, None, 100).await.len(), 1);
    let all = due(a, u64::MAX, None, 1000).await;
    assert_eq!(all.len(), 30);
    let some = due(b, 1_400_000, None, 1000).await;
    assert_eq!(some.len(), 8);
    assert!(some.iter().all(|entry| all.contains(entry)));
    // In parts it is the same.
    let (mut parts, mut after) = (Vec::new(), None::<Entry>);
    loop {
        let part = due(b, u64::MAX, after.as_ref(), 7).await;
        let Some(last) = part.last() else { break };
        after = Some(last.clone());
        parts.extend(part);
    }
    assert_eq!(parts, all);
    // Whatever is forgotten is due no more, and what comes after it is found from there.
    for pair in all.chunks(2) {
        let version = pair[0].record.version();
        assert!(b.forget(&pair[0].key, version, Remains::Nothing).await.unwrap());
        let rest = due(a, u64::MAX, Some(&pair[0]), 1000).await;
        assert_eq!(rest.first(), pair.get(1));
    }
    assert_eq!(due(b, u64::MAX, None, 1000).await.len(), 15);
}

async fn a_tombstone_keeps_the_record_only(a: View<'_>, b: View<'_>) {
    let key = key("tombstones", 1);
    let remains = Remains::Tombstone { keep_until: Time(5_000) };
    assert!(!a.forget(&key, Version(1), remains).await.unwrap());
    let mut first = claim(&key);
    first.resource = Some(Resource { scope: "tombstones".to_owned(), name: "r".to_owned() });
    store(a, first).await;
    let mut end = change(&key, 2, settled());
    end.outcome = Some(Bytes::from_static(b"done"));
    end.note = Some("a note".to_owned());
    end.keep_until = Some(Time(4_000));
    store(b, end).await;
    let before = a.get(&key).await.unwrap().unwrap();
    assert!(!b.forget(&key, Version(1), remains).await.unwrap());
    assert!(b.forget(&key, Version(2), remains).await.unwrap());
    let buried = before.buried(Time(5_000));
    for ledger in [a, b] {
        assert_eq!(ledger.get(&key).await.unwrap().as_ref(), Some(&buried));
        assert_eq!(ledger.history(&key).await.unwrap(), []);
        let found = |due: Vec<Entry>| due.into_iter().any(|entry| entry == buried);
        assert!(!found(ledger.due(Time(4_999), None, 1000).await.unwrap()));
        assert!(found(ledger.due(Time(5_000), None, 1000).await.unwrap()));
    }
    // A new operation may follow, and inherits nothing.
    refuse(a, claim(&key)).await;
    let mut next = change(&key, 3, State::Created);
    next.record = record(3, 2, State::Created);
    store(a, next.clone()).await;
    let entry = b.get(&key).await.unwrap().unwrap();
    assert_eq!(entry, next.apply(Some(&buried), |_| 0));
    assert_eq!(b.history(&key).await.unwrap(), [next]);
    assert!(a.forget(&key, Version(3), remains).await.unwrap());
    assert!(b.forget(&key, Version(3), Remains::Nothing).await.unwrap());
    assert_eq!(a.get(&key).await.unwrap(), None);
}

async fn the_retry_budget_is_shared(a: View<'_>, b: View<'_>) {
    let draw = |requests, take| Draw { requests, take, per_mille: 100, burst: 2 };
    assert!(a.draw(draw(0, true)).await.unwrap() && b.draw(draw(0, true)).await.unwrap());
    assert!(!a.draw(draw(0, true)).await.unwrap() && !b.draw(draw(9, true)).await.unwrap());
    assert!(!b.draw(draw(1, false)).await.unwrap());
    assert!(a.draw(draw(0, true)).await.unwrap());
}

async fn the_time_is_shared(a: View<'_>, b: View<'_>) {
    let (first, second) = (a.time().await.unwrap(), b.time().await.unwrap());
    assert_eq!(first.is_some(), second.is_some());
    assert!(first <= second && second <= a.time().await.unwrap());
}

/// The protocol begins versions with the milliseconds since 1970.
async fn versions_that_begin_with_the_time_are_counted_on(a: View<'_>, b: View<'_>) {
    for (n, first) in [1_796_011_445_413_u64, 32_503_680_000_000].into_iter().enumerate() {
        let key = key("times", n);
        store(a, settled::Change { record: record(first, 1, State::Created), ..claim(&key) }).await;
        let expected = Some(Version(first));
        store(b, settled::Change { expected, record: record(first + 1, 1, settled()), ..claim(&key) }).await;
        assert_eq!(a.get(&key).await.unwrap().unwrap().record.version(), Version(first + 1));
    }
}

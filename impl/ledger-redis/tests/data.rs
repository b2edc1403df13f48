//! What the scripts do to the server's data.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::time::{Duration, SystemTime};

use common::{begin, change, claim, key, open, settled, store};
use settled::protocol::{State, Time, Version};
use settled::{Change, Draw, Filter, Ledger, LedgerError, Liveness, Remains, Renewal, Resource, Stored};

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64
}

fn on(resource: &str, change: Change) -> Change {
    Change { resource: Some(Resource { scope: "s".into(), name: resource.into() }), ..change }
}

#[tokio::test]
async fn a_store_happens_entirely_or_not_at_all() {
    let (server, ledger) = begin().await;
    assert!(store(&ledger, on("door", claim(&key(1)))).await);
    let line = server.command(&["KEYS", "{settled}:l:*"]).unwrap().trim().to_owned();
    let dump = || {
        server
            .command(&[
                "EVAL",
                "local d = {} for _, k in ipairs(redis.call('KEYS', '{settled}:*')) do d[#d+1] = k .. '=' .. \
        redis.sha1hex(redis.call('DUMP', k)) end table.sort(d) return d",
                "0",
            ])
            .unwrap()
    };
    // Each of the keys that a script touches, one after the other, is something else than it should be.
    for name in ["{settled}:unsettled", "{settled}:due", &line, "{settled}:h:scope/tool/1", "{settled}:r:scope/tool/1"]
    {
        let kept = server.command(&["RENAMENX", name, "kept"]).is_ok();
        server.command(&["SET", name, "something else"]).unwrap();
        let before = dump();
        let mut settling = on("door", change(&key(1), 2, settled()));
        settling.keep_until = Some(Time(1_000));
        let failed = ledger.compare_and_set(settling).await.unwrap_err();
        assert!(
            !matches!(failed, LedgerError::Poisoned(_)) && failed.to_string().contains("another prefix"),
            "{name}: {failed}"
        );
        let failed = ledger.forget(&key(1), Version(1), Remains::Nothing).await;
        assert!(failed.is_err(), "{name}: {failed:?}");
        assert_eq!(dump(), before, "{name}");
        server.command(&["DEL", name]).unwrap();
        if kept {
            server.command(&["RENAME", "kept", name]).ok();
        }
    }
    assert_eq!(ledger.get(&key(1)).await.unwrap().unwrap().record.version(), Version(1));
    assert!(store(&ledger, change(&key(1), 2, settled())).await);
    assert!(ledger.scan(Filter::Unsettled).await.unwrap().is_empty());
}

#[tokio::test]
async fn only_tombstones_ever_expire_by_themselves() {
    let (server, ledger) = begin().await;
    let ttl = || {
        ["r", "h"].map(|kind| {
            server
                .command(&["PTTL", &format!("{{settled}}:{kind}:scope/tool/1")])
                .unwrap()
                .trim()
                .parse::<i64>()
                .unwrap()
        })
    };
    assert!(store(&ledger, claim(&key(1))).await);
    assert_eq!(ttl(), [-1, -1]);
    let soon = Time(now() + 50);
    assert!(store(&ledger, Change { keep_until: Some(soon), ..change(&key(1), 2, settled()) }).await);
    assert_eq!(ttl(), [-1, -1]);
    assert!(ledger.forget(&key(1), Version(2), Remains::Tombstone { keep_until: soon }).await.unwrap());
    let day = 86_400_000;
    assert!(ttl().iter().all(|ttl| (day - 5_000..=day + 50).contains(ttl)), "{:?}", ttl());
    let buried = ledger.get(&key(1)).await.unwrap().unwrap();
    assert!(buried.tombstone && buried.asked.is_empty() && buried.keep_until == Some(soon));
    assert!(ledger.history(&key(1)).await.unwrap().is_empty());

    // It comes to life: nothing of it may expire any more.
    let mut again = change(&key(1), 3, State::Created);
    again.record = common::record(3, 2, State::Created);
    assert!(store(&ledger, again).await);
    assert_eq!(ttl(), [-1, -1]);
    assert_eq!(ledger.history(&key(1)).await.unwrap().len(), 1);
    assert!(!ledger.get(&key(1)).await.unwrap().unwrap().tombstone);
}

#[tokio::test]
async fn a_tombstone_may_be_advanced_without_a_new_operation() {
    let (server, ledger) = begin().await;
    assert!(store(&ledger, on("door", claim(&key(1)))).await);
    assert!(store(&ledger, change(&key(1), 2, settled())).await);
    assert!(ledger.forget(&key(1), Version(2), Remains::Tombstone { keep_until: Time(now()) }).await.unwrap());
    let third = change(&key(1), 3, settled());
    assert!(store(&ledger, third.clone()).await);
    assert_eq!(ledger.history(&key(1)).await.unwrap(), [third]);
    for name in ["{settled}:r:scope/tool/1", "{settled}:h:scope/tool/1"] {
        assert_eq!(server.command(&["PTTL", name]).unwrap().trim(), "-1", "{name} may not expire any more");
    }
    let entry = ledger.get(&key(1)).await.unwrap().unwrap();
    assert!(!entry.tombstone && entry.asked.is_empty() && entry.resource.is_some() && entry.place == 1, "{entry:?}");
}

#[tokio::test]
async fn what_the_server_has_removed_is_no_longer_due() {
    let (server, ledger) = begin().await;
    for id in 0..150 {
        assert!(store(&ledger, claim(&key(id))).await);
        assert!(store(&ledger, Change { keep_until: Some(Time(10 + id % 3)), ..change(&key(id), 2, settled()) }).await);
    }
    for id in (0..150).filter(|id| id % 10 != 0) {
        server
            .command(&["DEL", &format!("{{settled}}:r:scope/tool/{id}"), &format!("{{settled}}:h:scope/tool/{id}")])
            .unwrap();
    }
    let (mut due, mut after) = (Vec::new(), None);
    loop {
        let some = ledger.due(Time(11), after.as_ref(), 4).await.unwrap();
        after = some.last().cloned();
        match some.len() {
            0 => break,
            n => assert!(n <= 4),
        }
        due.extend(some);
    }
    assert_eq!(due.len(), 10);
    assert!(due.is_sorted_by_key(|entry| entry.keep_until));
    let listed = server.command(&["ZCARD", "{settled}:due"]).unwrap();
    // Those that are due at 12 have not been looked at: 50 of them.
    assert_eq!(listed.trim(), "60");
}

#[tokio::test]
async fn everything_is_listed_page_by_page_and_at_once() {
    let (_server, ledger) = begin().await;
    let mut all = Vec::new();
    for id in 0..90_u64 {
        all.push(key(id));
        assert!(store(&ledger, claim(&key(id))).await);
        if id % 3 > 0 {
            let keep_until = (id % 3 == 1).then_some(Time(u64::MAX - id % 2));
            assert!(store(&ledger, Change { keep_until, ..change(&key(id), 2, settled()) }).await);
        }
    }
    all.sort();
    let keys = |entries: Vec<settled::Entry>| entries.into_iter().map(|entry| entry.key).collect::<Vec<_>>();
    assert_eq!(keys(ledger.scan(Filter::All).await.unwrap()), all);
    for (filter, count) in [(Filter::All, 90), (Filter::Unsettled, 30)] {
        for limit in [1, 7, 1_000] {
            let (mut listed, mut after) = (Vec::new(), None);
            loop {
                let page = ledger.page(filter, after.as_ref(), limit).await.unwrap();
                assert!(page.len() <= limit);
                let Some(last) = page.last() else { break };
                after = Some(last.clone());
                listed.extend(keys(page));
            }
            listed.sort();
            listed.dedup();
            assert_eq!(listed.len(), count, "{filter:?} {limit}");
        }
    }
    assert_eq!(ledger.due(Time(u64::MAX), None, 1_000).await.unwrap().len(), 30, "what is kept for ever is never due");
}

#[tokio::test]
async fn owners_are_forgotten_when_nobody_names_them() {
    let (server, ledger) = begin().await;
    let first = ledger.register(Duration::from_secs(9)).await.unwrap();
    let second = ledger.register(Duration::from_secs(9)).await.unwrap();
    assert!(second > first);
    // One has an operation under way.
    assert!(store(&ledger, claim(&key(1))).await);
    server.command(&["ZADD", "{settled}:unsettled", &first.to_string(), "scope/tool/1"]).unwrap();
    for owner in [first, second] {
        server.command(&["ZADD", "{settled}:leases", "1000", &owner.to_string()]).unwrap();
        assert_eq!(ledger.liveness(owner).await.unwrap(), Liveness::Lapsed);
        assert_eq!(ledger.renew(owner, Duration::from_secs(9)).await.unwrap(), Renewal::Fenced);
    }
    let third = ledger.register(Duration::from_secs(9)).await.unwrap();
    let left = server.command(&["ZRANGE", "{settled}:leases", "0", "-1"]).unwrap();
    assert_eq!(left.split_whitespace().collect::<Vec<_>>(), [first.to_string(), third.to_string()]);
    assert_eq!(server.command(&["HLEN", "{settled}:hosts"]).unwrap().trim(), "2");
    // Nobody knows what has become of an owner that is not known: it is not called gone.
    assert_eq!(ledger.liveness(second).await.unwrap(), Liveness::Lapsed);
    ledger.retire(first).await.unwrap();
    assert_eq!(ledger.liveness(first).await.unwrap(), Liveness::Gone);
    assert_eq!(ledger.renew(first, Duration::from_secs(9)).await.unwrap(), Renewal::Fenced);
    assert_eq!(ledger.liveness(third).await.unwrap(), Liveness::Alive);
}

#[tokio::test]
async fn ledgers_with_other_prefixes_and_other_keys_of_the_server_stay_apart() {
    let (server, ledger) = begin().await;
    server.command(&["SET", "mine", "1"]).unwrap();
    let other = open(&format!("{}?prefix=other", server.url())).await.unwrap();
    assert!(store(&ledger, claim(&key(1))).await);
    assert!(other.get(&key(1)).await.unwrap().is_none());
    assert!(other.scan(Filter::All).await.unwrap().is_empty());
    assert!(store(&other, claim(&key(1))).await);
    assert_eq!(ledger.compare_and_set(claim(&key(1))).await.unwrap(), Stored::Refused);
    let keys = server.command(&["KEYS", "*"]).unwrap();
    assert!(
        keys.split_whitespace()
            .all(|key| key == "mine" || key.starts_with("{settled}:") || key.starts_with("{other}:")),
        "{keys}"
    );
}

#[tokio::test]
async fn a_change_is_told_at_once_and_polling_does_without() {
    let (server, ledger) = begin().await;
    let other = open(&server.url()).await.unwrap();
    assert!(store(&ledger, claim(&key(1))).await);
    // The first time makes the connection.
    other.changed(&key(1), Some(Version(1))).await.unwrap();
    for version in 1..6 {
        let started = std::time::Instant::now();
        let waiting = async {
            other.changed(&key(1), Some(Version(version))).await.unwrap();
            started.elapsed()
        };
        let storing = async {
            tokio::time::sleep(Duration::from_millis(60)).await;
            assert!(store(&ledger, change(&key(1), version + 1, State::Created)).await);
        };
        let (waited, ()) = tokio::join!(waiting, storing);
        assert!(waited > Duration::from_millis(50) && waited < Duration::from_millis(200), "{version}: {waited:?}");
    }
    // Without a change it ends, too.
    let started = std::time::Instant::now();
    other.changed(&key(1), Some(Version(6))).await.unwrap();
    let waited = started.elapsed();
    assert!(waited > Duration::from_millis(300) && waited < Duration::from_millis(1_500), "{waited:?}");

    // A server that allows no subscriptions.
    server.command(&["ACL", "SETUSER", "quiet", "on", ">pw", "~*", "+@all", "-subscribe"]).unwrap();
    let quiet = open(&server.url().replace("redis://:s3cret%2Fof%3Atests@", "redis://quiet:pw@")).await.unwrap();
    let started = std::time::Instant::now();
    let waiting = async {
        while quiet.get(&key(1)).await.unwrap().unwrap().record.version() == Version(6) {
            quiet.changed(&key(1), Some(Version(6))).await.unwrap();
        }
        started.elapsed()
    };
    let storing = async {
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert!(store(&ledger, change(&key(1), 7, State::Created)).await);
    };
    let (waited, ()) = tokio::join!(waiting, storing);
    assert!(waited < Duration::from_secs(3), "{waited:?}");
}

#[tokio::test]
async fn the_retry_budget_is_shared_and_odd_numbers_do_no_harm() {
    let (server, ledger) = begin().await;
    let other = open(&server.url()).await.unwrap();
    let draw = |requests, take| Draw { requests, take, per_mille: 100, burst: 2 };
    assert!(ledger.draw(draw(0, true)).await.unwrap() && other.draw(draw(0, true)).await.unwrap());
    assert!(!ledger.draw(draw(9, true)).await.unwrap());
    assert!(other.draw(draw(1, true)).await.unwrap());
    assert!(!other.draw(draw(u64::MAX, false)).await.unwrap());
    assert!(ledger.draw(draw(0, true)).await.unwrap());
    let large = Draw { requests: u64::MAX, take: true, per_mille: u32::MAX, burst: u32::MAX };
    assert!(ledger.draw(large).await.unwrap() && ledger.draw(large).await.unwrap());
    let none = Draw { requests: 5, take: true, per_mille: 1_000, burst: 0 };
    assert!(!ledger.draw(none).await.unwrap());
}

#[tokio::test]
async fn a_later_layout_is_left_alone() {
    let (server, ledger) = begin().await;
    drop(ledger);
    server.command(&["SET", "{settled}:ledger:format", "2"]).unwrap();
    let refused = open(&server.url()).await.unwrap_err();
    assert!(refused.to_string().contains("later version"), "{refused}");
    assert!(!refused.to_string().contains("s3cret"), "{refused}");
}

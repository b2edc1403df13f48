//! Many at once.

use std::sync::Arc;

use settled::{Filter, Stored};
use settled_protocol::State;
use tokio::task::JoinSet;

use super::{held, store, told};
use crate::Views;
use crate::make::{change, claim, key, settled};

pub(super) async fn one_of_many_claims_wins(views: &Views) {
    for round in 0..5 {
        let key = key("races", round);
        let mut claims = JoinSet::new();
        for i in 0..100 {
            let ledger = Arc::clone(if i % 2 == 0 { &views.a } else { &views.b });
            // All of them equal: what they say must not be what decides.
            let claim = claim(&key);
            claims.spawn(async move { ledger.compare_and_set(claim).await.unwrap() });
        }
        let won = claims.join_all().await.into_iter().filter(|stored| *stored != Stored::Refused).count();
        assert_eq!(won, 1);
        assert_eq!(told(views, &key).await.len(), 1);
    }
}

pub(super) async fn advances_never_share_a_version(views: &Views) {
    let key = key("advances", 1);
    store(&views.a, claim(&key)).await;
    let mut tasks = JoinSet::new();
    for i in 0..8 {
        let ledger = Arc::clone(if i % 2 == 0 { &views.a } else { &views.b });
        let key = key.clone();
        tasks.spawn(async move {
            let mut won = Vec::new();
            while won.len() < 10 {
                let held = ledger.get(&key).await.unwrap().unwrap().record.version();
                let mut next = change(&key, held.0 + 1, State::Created);
                next.event = format!("{i} {}", held.0 + 1);
                if ledger.compare_and_set(next).await.unwrap() != Stored::Refused {
                    won.push((held.0 + 1, i));
                }
            }
            won
        });
    }
    let mut won = tasks.join_all().await.concat();
    won.sort_unstable();
    assert_eq!(won.iter().map(|(version, _)| *version).collect::<Vec<_>>(), (2..=81).collect::<Vec<_>>());
    // What is stored is what those stored who were told so.
    let events: Vec<_> = told(views, &key).await.into_iter().skip(1).map(|change| change.event).collect();
    assert_eq!(events, won.iter().map(|(version, i)| format!("{i} {version}")).collect::<Vec<_>>());
}

pub(super) async fn what_was_read_is_never_taken_back(views: &Views) {
    let key = key("reads", 1);
    store(&views.a, claim(&key)).await;
    let writer = tokio::spawn({
        let (a, key) = (Arc::clone(&views.a), key.clone());
        async move {
            for version in 2..=150 {
                store(&a, change(&key, version, State::Created)).await;
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        }
    });
    let mut last = 1;
    let mut round = 0;
    while !writer.is_finished() {
        let ledger = if round % 3 == 0 { &views.a } else { &views.b };
        let seen = match round % 4 {
            0 | 1 => ledger.get(&key).await.unwrap().unwrap().record.version().0,
            2 => ledger.history(&key).await.unwrap().last().unwrap().record.version().0,
            _ => ledger.scan(Filter::All).await.unwrap()[0].record.version().0,
        };
        assert!(seen >= last, "version {seen} after version {last}");
        last = seen;
        round += 1;
        // A ledger that never pauses leaves the writer no turn.
        tokio::task::yield_now().await;
    }
    writer.await.unwrap();
    assert!(round > 4 && held(views, &key).await.unwrap().record.version().0 == 150);
}

/// Changes that a ledger may store together must not mix up their answers.
pub(super) async fn many_keys_at_once(views: &Views) {
    let mut tasks = JoinSet::new();
    for i in 0..200 {
        let ledger = Arc::clone(if i % 2 == 0 { &views.a } else { &views.b });
        tasks.spawn(async move {
            let key = key("many", format!("{i:03}"));
            let mut first = claim(&key);
            first.asked = Some(vec![i as u8; i * 50].into());
            store(&ledger, first.clone()).await;
            // One refused change in the middle of the others.
            assert_eq!(ledger.compare_and_set(first).await.unwrap(), Stored::Refused);
            store(&ledger, change(&key, 2, settled())).await;
        });
    }
    tasks.join_all().await;
    let entries = views.b.scan(Filter::All).await.unwrap();
    assert_eq!(entries.len(), 200);
    for (i, entry) in entries.iter().enumerate() {
        assert_eq!(entry.key, key("many", format!("{i:03}")));
        assert!(entry.asked == vec![i as u8; i * 50] && entry.record.is_settled());
    }
}

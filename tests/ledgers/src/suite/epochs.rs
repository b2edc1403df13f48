//! Ownerships and the shared time.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::JoinSet;

use crate::Views;

const LEASE: Duration = Duration::from_secs(60);

pub(super) async fn none_is_handed_out_twice(views: &Views) {
    let mut given = HashSet::new();
    for _ in 0..10 {
        for ledger in [&views.a, &views.b] {
            let epoch = ledger.register(LEASE).await.unwrap();
            assert!(given.insert(epoch), "{epoch} was handed out twice");
            if epoch.0 % 3 == 0 {
                ledger.retire(epoch).await.unwrap();
            }
        }
    }
}

pub(super) async fn none_is_handed_out_twice_at_once(views: &Views) {
    let mut owners = JoinSet::new();
    for i in 0..60 {
        let ledger = Arc::clone(if i % 2 == 0 { &views.a } else { &views.b });
        owners.spawn(async move { ledger.register(LEASE).await.unwrap() });
    }
    let given: HashSet<_> = owners.join_all().await.into_iter().collect();
    assert_eq!(given.len(), 60);
}

pub(super) async fn time_is_shared_and_never_goes_back(views: &Views) {
    let mut last = None;
    for i in 0..200 {
        let ledger = if i % 2 == 0 { &views.a } else { &views.b };
        let now = ledger.time().await.unwrap();
        if i > 0 {
            assert_eq!(now.is_some(), last.is_some(), "one view has a time, the other none");
            assert!(now >= last, "{now:?} after {last:?}");
        }
        last = now;
    }
    let Some(first) = last else { return };
    // It is the time of day, and it passes as time does.
    let here = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64;
    assert!(first.0.abs_diff(here) < 60_000, "{first} is not the time of day in milliseconds ({here})");
    tokio::time::sleep(Duration::from_millis(400)).await;
    let passed = views.b.time().await.unwrap().unwrap().since(first);
    assert!((300..3_000).contains(&passed), "{passed} ms in 400 ms");
}

//! The order of arrival changes nothing.

use proptest::prelude::*;
use settled_sync::store::Store;
use settled_sync::wire::{Applied, Sent};

use crate::common::{NOW, Place, all_targets, check, fold, history, upload};

/// Uploads each device's operations in parts, the devices and parts in random order, and some of them twice.
pub async fn arrive(store: &dyn Store, histories: &[(String, Vec<Sent>)], random: &mut fastrand::Rng) {
    let mut parts: Vec<(&str, &[Sent])> = Vec::new();
    for (device, made) in histories {
        let mut rest = &made[..];
        while !rest.is_empty() {
            let (part, left) = rest.split_at(random.usize(1..=rest.len()));
            parts.extend(std::iter::repeat_n((device.as_str(), part), random.usize(1..3)));
            rest = left;
        }
    }
    random.shuffle(&mut parts);
    for (device, part) in parts {
        store.apply(upload(device, NOW, part), NOW).await.unwrap();
    }
}

/// Whatever comes in which order to two stores: their targets are equal.
pub async fn to_two(one: &Place, two: &Place, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let histories: Vec<_> = (0..random.usize(1..4))
        .map(|device| {
            let (device, count) = (format!("device-{device}"), random.u64(1..30));
            (device.clone(), history(&mut random, &device, NOW, count))
        })
        .collect();
    let (one, two) = (one.open().await, two.open().await);
    arrive(&*one, &histories, &mut random).await;
    arrive(&*two, &histories, &mut random).await;
    let all: usize = histories.iter().map(|(_, made)| made.len()).sum();
    assert_eq!(check(&*one).await.len(), all);
    assert_eq!(check(&*two).await.len(), all);
    let views = |targets: Vec<settled_sync::wire::Target>| {
        targets.into_iter().map(|target| (target.target, target.view)).collect::<Vec<_>>()
    };
    assert_eq!(views(all_targets(&*one).await), views(all_targets(&*two).await));
}

/// The states as they are stored, which hold more than is shown, and the same by the core.
fn stored(place: &Place) -> Vec<(String, String)> {
    let file = rusqlite::Connection::open(place.url.strip_prefix("sqlite:").unwrap()).unwrap();
    let rows = |sql: &str| {
        let mut statement = file.prepare(sql).unwrap();
        let rows =
            statement.query_map([], |row| Ok((row.get::<_, String>(0).unwrap(), row.get::<_, String>(1).unwrap())));
        rows.unwrap().collect::<Result<Vec<_>, _>>().unwrap()
    };
    let operations = rows("SELECT operation, device FROM operations ORDER BY cursor").into_iter().zip(1..);
    let applied = operations.map(|((operation, _), cursor)| {
        let operation = serde_json::from_str(&operation).unwrap();
        Applied { cursor, operation, redated: false }
    });
    let folded = fold(&applied.collect::<Vec<_>>()).into_iter();
    let folded: Vec<_> = folded
        .map(|(target, (state, _))| (target.as_str().to_owned(), serde_json::to_string(&state).unwrap()))
        .collect();
    assert_eq!(rows("SELECT target, state FROM targets ORDER BY target"), folded);
    folded
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn sqlite(seed: u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (one, two) = (Place::sqlite(), Place::sqlite());
        runtime.block_on(to_two(&one, &two, seed));
        assert_eq!(stored(&one), stored(&two));
    }
}

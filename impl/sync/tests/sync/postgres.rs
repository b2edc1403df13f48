//! The same on PostgreSQL: one server for all of it, and what only PostgreSQL has.

use settled_sync::store::StoreError;
use settled_test_services::postgres::Postgres;

use crate::common::{NOW, Place, check, history, options, upload};
use crate::{answers, clocks, order, process, schemas, together};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_it() {
    let mut server = Postgres::start().unwrap();
    let place = |name: &str| Place::postgres(&server, name);
    let (kinds, held, repeats) = (place("kinds"), place("held"), place("repeats"));
    let (later, pages, off, jumps) = (place("later"), place("pages"), place("off"), place("jumps"));
    tokio::join!(
        answers::every_kind(&kinds),
        answers::held(&held),
        answers::repeats(&repeats),
        schemas::later(&later),
        schemas::pages(&pages),
        clocks::days_off(&off),
        clocks::jumping(&jumps, 99),
    );
    for seed in 0..3 {
        order::to_two(&place(&format!("order_{seed}")), &Place::sqlite(), seed).await;
    }
    // Two servers on one database.
    let both = place("two_servers");
    together::the_same_at_once(&[both.open().await, both.open().await]).await;
    process::kills(&place("kills"), 5).await;
    process::stopped(&place("stopped"), true).await;
    newer(&server, &place("newer")).await;
    gone(&mut server).await;
}

async fn newer(server: &Postgres, place: &Place) {
    drop(place.open().await);
    server.sql("UPDATE newer.sync_store SET format = 2").unwrap();
    let error = place.open_with(options()).await.err().unwrap().to_string();
    assert!(error.contains("newer version of settled"), "{error}");
    let secret = "postgres://x:sesame@127.0.0.1:1/db";
    let error = settled_sync::store::open(secret, options()).await.err().unwrap().to_string();
    assert!(!error.contains("sesame"), "{error}");
}

/// The database goes away, and comes back.
async fn gone(server: &mut Postgres) {
    let place = Place::postgres(server, "gone");
    let store = place.open().await;
    let made = history(&mut fastrand::Rng::with_seed(3), "a", NOW, 40);
    store.apply(upload("a", NOW, &made[..20]), NOW).await.unwrap();
    server.stop();
    let error = store.apply(upload("a", NOW, &made), NOW).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert!(matches!(store.head().await, Err(StoreError::Unavailable(_))));
    server.start_again().unwrap();
    assert_eq!(check(&*store).await.len(), 20);
    let uploaded = store.apply(upload("a", NOW, &made), NOW).await.unwrap();
    assert_eq!(uploaded.head, 40);
    assert_eq!(check(&*store).await.len(), 40);
}

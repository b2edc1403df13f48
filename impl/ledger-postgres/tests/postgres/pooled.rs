//! Through PgBouncer in transaction mode, with fewer connections to the server than to itself.

use settled::Ledger;
use settled_test_services::pgbouncer::PgBouncer;

use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_needs_a_session_of_its_own() {
    let server = server();
    let bouncer = PgBouncer::start(&server, 2).unwrap();
    let url = bouncer.url(&server);
    let mut ledgers = Vec::new();
    for _ in 0..4 {
        ledgers.push(shared(&url).await);
    }
    let mut calls = Vec::new();
    for id in 0..200 {
        // Each key is wanted by two processes at once.
        for ledger in [&ledgers[id % 4], &ledgers[(id + 1) % 4]] {
            let ledger = ledger.clone();
            calls.push(tokio::spawn(async move {
                let by = ledger.register(60 * SECOND).await.unwrap();
                whole(&ledger, key(id), by).await
            }));
        }
    }
    let mut stored = 0;
    for call in calls {
        stored += call.await.unwrap();
    }
    assert_eq!(stored, 400, "each key claimed and settled once");
    assert_eq!(ledgers[0].scan(settled::Filter::Unsettled).await.unwrap().len(), 0);
    assert_eq!(ledgers[0].scan(settled::Filter::All).await.unwrap().len(), 200);
    let mut paged: Vec<settled::Entry> = Vec::new();
    loop {
        let page = ledgers[0].page(settled::Filter::All, paged.last(), 70).await.unwrap();
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    let keys: std::collections::BTreeSet<_> = paged.iter().map(|entry| &entry.key).collect();
    assert_eq!((paged.len(), keys.len()), (200, 200), "every entry on one page");
    assert_eq!(ledgers[1].history(&key(7)).await.unwrap().len(), 2);
    let listeners = "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'LISTEN%'";
    assert_eq!(server.sql(listeners).unwrap(), "0", "a session of the pool's was made to listen");
}

#[tokio::test]
async fn it_can_listen_at_the_server_itself() {
    let server = server();
    let bouncer = PgBouncer::start(&server, 2).unwrap();
    let direct: String = url::form_urlencoded::byte_serialize(server.url().as_bytes()).collect();
    let ledger = open(&format!("{}&listen_url={direct}", bouncer.url(&server))).await;
    let by = ledger.register(60 * SECOND).await.unwrap();
    assert_eq!(whole(&ledger, key(1), by).await, 2);
    tokio::time::sleep(SECOND).await;
    let listeners = "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'LISTEN%'";
    assert_eq!(server.sql(listeners).unwrap(), "1");
}

#[tokio::test]
async fn a_pool_that_drops_settings_in_silence_is_noticed() {
    let server = server();
    server.sql("ALTER SYSTEM SET log_statement = 'all'").unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
    let bouncer = PgBouncer::start_with(&server, 2, "ignore_startup_parameters = options").unwrap();
    let ledger = open(&bouncer.url(&server)).await;
    let by = ledger.register(60 * SECOND).await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(whole(&ledger, key(1), by).await, 2);
    let listeners = "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'LISTEN%'";
    assert_eq!(server.sql(listeners).unwrap(), "0", "a session of the pool's was made to listen");
    assert!(!server.log().contains("LISTEN settled_"), "{}", server.log());
}

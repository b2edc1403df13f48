//! What the ledger promises on which server, and what the weaker promise means.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{change, claim, key, open, settled, store};
use settled::protocol::Version;
use settled::{Ledger, LedgerError, Promise, Remains, Stored};
use settled_test_services::redis::Redis;
use tracing_subscriber::fmt::MakeWriter;

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Log;
    fn make_writer(&self) -> Log {
        self.clone()
    }
}

/// What is promised on the server at this URL, and what was logged at connect.
async fn judged(url: &str) -> (Promise, String) {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let ledger = open(url).await.unwrap();
    let said = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(!said.contains("s3cret"), "{said}");
    (ledger.promise(), said)
}

#[tokio::test]
async fn the_server_s_settings_decide_and_a_warning_tells() {
    let server = Redis::start().unwrap();
    let (promise, said) = judged(&server.url()).await;
    assert_eq!((promise, &*said), (Promise::Kept, ""));
    for (name, bad, good, why) in [
        ("appendfsync", "everysec", "always", "appendfsync is `everysec`"),
        ("no-appendfsync-on-rewrite", "yes", "no", "no-appendfsync-on-rewrite is on"),
        ("maxmemory-policy", "allkeys-lru", "noeviction", "records may be evicted"),
        ("appendonly", "no", "yes", "appendonly is off"),
    ] {
        server.command(&["CONFIG", "SET", name, bad]).unwrap();
        let (promise, said) = judged(&server.url()).await;
        assert!(matches!(&promise, Promise::MayBeLost(reason) if reason.contains(why)), "{name}: {promise:?}");
        assert!(
            said.contains("WARN") && said.contains(why) && said.contains("settled check redis-failover"),
            "{name}: {said}"
        );
        let (promise, said) = judged(&format!("{}?trust=durable", server.url())).await;
        assert_eq!((promise, &*said), (Promise::Kept, ""), "{name}");
        server.command(&["CONFIG", "SET", name, good]).unwrap();
    }
}

#[tokio::test]
async fn a_server_that_does_not_tell_its_settings_promises_nothing() {
    let server = Redis::start().unwrap();
    server.command(&["ACL", "SETUSER", "tenant", "on", ">pw", "~*", "&*", "+@all", "-config"]).unwrap();
    let url = server.url().replace("redis://:s3cret%2Fof%3Atests@", "redis://tenant:pw@");
    let (promise, said) = judged(&url).await;
    assert!(matches!(&promise, Promise::MayBeLost(why) if why.contains("can't be checked")), "{promise:?}");
    assert!(said.contains("can't be checked") && !said.contains(":pw"), "{said}");

    server.command(&["ACL", "SETUSER", "nobody", "on", ">pw", "~other:*", "+@all"]).unwrap();
    let refused = open(&server.url().replace("redis://:s3cret%2Fof%3Atests@", "redis://nobody:pw@")).await.unwrap_err();
    assert!(refused.to_string().contains("the user needs"), "{refused}");
    let refused = open(&server.url().replace("s3cret", "guess")).await.unwrap_err();
    assert!(refused.to_string().contains("check the user and the password"), "{refused}");
    assert!(!refused.to_string().contains("guess"), "{refused}");
}

/// Waits until the replica follows its primary.
fn follows(replica: &Redis) {
    let give_up = Instant::now() + Duration::from_secs(20);
    while !replica.command(&["INFO", "replication"]).unwrap().contains("master_link_status:up") {
        assert!(Instant::now() < give_up, "{}", replica.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test]
async fn replicas_weaken_the_promise_and_are_refused_themselves() {
    let primary = Redis::start().unwrap();
    let replica = Redis::with().replica_of(&primary).start().unwrap();
    follows(&replica);
    let (promise, said) = judged(&primary.url()).await;
    assert!(matches!(&promise, Promise::MayBeLost(why) if why.contains("asynchronous replication")), "{promise:?}");
    assert!(said.contains("may take effect twice") && !said.contains("does not rule it out"), "{said}");
    let (promise, said) = judged(&format!("{}?wait=1", primary.url())).await;
    assert!(matches!(promise, Promise::MayBeLost(_)) && said.contains("does not rule it out"), "{said}");
    let refused = open(&replica.url()).await.unwrap_err();
    assert!(refused.to_string().contains("read-only replica"), "{refused}");
}

#[tokio::test]
async fn a_primary_that_becomes_a_replica_is_unavailable() {
    let (primary, ledger) = common::begin().await;
    let other = Redis::start().unwrap();
    assert!(store(&ledger, claim(&key(1))).await);
    primary.command(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]).unwrap();
    // It has the other one's data now, which is none: not a reason to call this ledger's lost.
    follows(&primary);
    let refused = ledger.compare_and_set(claim(&key(2))).await.unwrap_err();
    assert!(matches!(&refused, LedgerError::Unavailable(why) if why.contains("replica")), "{refused}");
}

#[tokio::test]
async fn with_wait_a_store_needs_its_replicas() {
    let primary = Redis::start().unwrap();
    let replica = Redis::with().replica_of(&primary).start().unwrap();
    follows(&replica);
    let ledger = Arc::new(open(&format!("{}?wait=1&wait_timeout=300ms", primary.url())).await.unwrap());
    ledger.register(Duration::from_secs(9)).await.unwrap();
    // Many at once share their waits.
    let stores: Vec<_> = (0..200)
        .map(|id| {
            let ledger = ledger.clone();
            tokio::spawn(async move { store(&ledger, claim(&key(id))).await })
        })
        .collect();
    for stored in stores {
        assert!(stored.await.unwrap());
    }
    assert_eq!(replica.command(&["EXISTS", "{settled}:r:scope/tool/199"]).unwrap().trim(), "1");

    replica.freeze();
    let started = Instant::now();
    let failed = ledger.compare_and_set(claim(&key("frozen"))).await.unwrap_err();
    assert!(matches!(&failed, LedgerError::Unavailable(why) if why.contains("0 of 1 replicas")), "{failed}");
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    // It is there, but is not to be taken for durable.
    let read = ledger.get(&key("frozen")).await.unwrap_err();
    assert!(matches!(&read, LedgerError::Unavailable(why) if why.contains("0 of 1 replicas")), "{read}");
    // What changes nothing needs nobody.
    assert_eq!(ledger.compare_and_set(claim(&key("frozen"))).await.unwrap(), Stored::Refused);
    replica.thaw();
    let give_up = Instant::now() + Duration::from_secs(10);
    while ledger.compare_and_set(claim(&key(Instant::now().elapsed().as_nanos()))).await.is_err() {
        assert!(Instant::now() < give_up);
    }
    assert!(ledger.get(&key("frozen")).await.unwrap().is_some(), "a later write was acknowledged");
    assert!(ledger.forget(&key(1), Version(1), Remains::Nothing).await.unwrap());
}

/// Not a promise, but its absence: this is why the ledger warns.
#[tokio::test]
async fn a_failover_loses_acknowledged_claims_without_wait() {
    let mut primary = Redis::start().unwrap();
    let replica = Redis::with().replica_of(&primary).start().unwrap();
    follows(&replica);
    let ledger = open(&primary.url()).await.unwrap();
    replica.freeze();
    assert!(store(&ledger, claim(&key(1))).await, "acknowledged");
    primary.kill();
    replica.thaw();
    replica.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    let after = open(&replica.url()).await.unwrap();
    if after.get(&key(1)).await.unwrap().is_none() {
        // The same call is claimed, and would be carried out, a second time.
        assert!(store(&after, claim(&key(1))).await);
    } else {
        // It was on its way already when the replica was frozen, and was read before the connection ended.
        eprintln!("this time the claim had reached the replica");
    }
}

/// The process that knows of the loss says so, if it is its server that has lost something.
#[tokio::test]
async fn a_server_with_older_data_is_found_out() {
    let (mut server, ledger) = common::begin().await;
    assert!(store(&ledger, claim(&key(1))).await);
    let copy = tempfile::tempdir().unwrap();
    let files = server.directory().join("appendonlydir");
    let copied = |from: &std::path::Path, to: &std::path::Path| {
        assert!(std::process::Command::new("cp").arg("-rT").arg(from).arg(to).status().unwrap().success());
    };
    copied(&files, copy.path());
    assert!(store(&ledger, change(&key(1), 2, settled())).await);
    let epoch = ledger.register(Duration::from_secs(9)).await.unwrap();
    server.kill();
    std::fs::remove_dir_all(&files).unwrap();
    copied(copy.path(), &files);
    server.start_again().unwrap();
    let lost = ledger.get(&key(1)).await.unwrap_err();
    assert!(matches!(&lost, LedgerError::Poisoned(why) if why.contains("it has 1, and had 3")), "{lost}");
    let lost = ledger.compare_and_set(claim(&key(2))).await.unwrap_err();
    assert!(matches!(&lost, LedgerError::Poisoned(_)), "{lost}");
    // Whoever begins now gets no epoch that was given away before.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let next = open(&server.url()).await.unwrap();
    assert!(next.register(Duration::from_secs(9)).await.unwrap() > epoch);
}

#[tokio::test]
async fn older_data_behind_the_same_connection_is_found_out() {
    let (server, ledger) = common::begin().await;
    assert!(store(&ledger, claim(&key(1))).await && store(&ledger, claim(&key(2))).await);
    server.command(&["SET", "{settled}:ledger:changes", "1"]).unwrap();
    let lost = ledger.compare_and_set(claim(&key(3))).await.unwrap_err();
    assert!(matches!(&lost, LedgerError::Poisoned(why) if why.contains("it has 1, and had 2")), "{lost}");
    assert_eq!(server.command(&["EXISTS", "{settled}:r:scope/tool/3"]).unwrap().trim(), "0");
}

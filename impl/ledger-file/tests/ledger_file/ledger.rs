//! The ledger's promises, as the process that holds the directory and as its guest.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::suite::make::{LEASE, alive, change, claim, key, settled};
use bytes::Bytes;
use settled::{Filter, Ledger, LedgerError, Liveness, MemoryLedger, Remains, Renewal, Stored};
use settled_ledger_file::{FileLedger, FileLedgerOptions};
use settled_protocol::{State, Version};
use tempfile::tempdir;

fn open(dir: &Path) -> FileLedger {
    FileLedger::open(dir, FileLedgerOptions::default()).unwrap()
}

async fn claimed(ledger: &FileLedger, scope: &str, id: u32) -> bool {
    let stored = ledger.compare_and_set(claim(&key(scope, id))).await;
    stored.unwrap() != Stored::Refused
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_keeps_the_promises() {
    let memory: Arc<dyn Ledger> = Arc::new(MemoryLedger::new());
    crate::suite::run(Arc::clone(&memory), memory).await;
}

#[tokio::test]
async fn the_holder_keeps_the_promises() {
    let dir = tempdir().unwrap();
    let holder = open(dir.path());
    assert!(holder.is_holder());
    let holder: Arc<dyn Ledger> = Arc::new(holder);
    crate::suite::run(Arc::clone(&holder), holder).await;
}

#[tokio::test]
async fn guests_keep_the_promises() {
    let dir = tempdir().unwrap();
    let holder = open(dir.path());
    let (one, other) = (open(dir.path()), open(dir.path()));
    assert!(holder.is_holder() && !one.is_holder() && !other.is_holder());
    crate::suite::run(Arc::new(one), Arc::new(other)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn holder_and_guest_keep_the_promises_together() {
    let dir = tempdir().unwrap();
    let holder = open(dir.path());
    let guest = open(dir.path());
    crate::suite::run(Arc::new(holder), Arc::new(guest)).await;
}

#[tokio::test]
async fn all_is_there_after_reopening() {
    let dir = tempdir().unwrap();
    let (mut entries, mut epochs) = (Vec::new(), Vec::new());
    for round in 0..4 {
        let ledger = open(dir.path());
        assert_eq!(ledger.scan(Filter::All).await.unwrap(), entries);
        epochs.push(ledger.register(LEASE).await.unwrap());
        for id in 0..10 {
            assert!(claimed(&ledger, "reopen", round * 10 + id).await);
        }
        let first = key("reopen", round * 10);
        let end = change(&first, 2, settled());
        ledger.compare_and_set(end).await.unwrap();
        let gone = key("reopen", round * 10 + 1);
        assert!(ledger.forget(&gone, Version(1), Remains::Nothing).await.unwrap());
        entries = ledger.scan(Filter::All).await.unwrap();
        assert_eq!(entries.len() as u32, (round + 1) * 9);
        ledger.close();
        let closed = ledger.get(&first).await;
        assert!(matches!(closed, Err(LedgerError::Unavailable(_))));
    }
    let ledger = open(dir.path());
    assert_eq!(ledger.scan(Filter::Unsettled).await.unwrap().len(), 32);
    assert_eq!(ledger.history(&key("reopen", 0)).await.unwrap().len(), 2);
    assert!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
    for epoch in epochs {
        assert!(!alive(&ledger, epoch).await);
    }
}

#[tokio::test]
async fn files_are_private() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("a/ledger");
    let ledger = open(&path);
    ledger.register(LEASE).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for entry in fs::read_dir(&path).unwrap().map(Result::unwrap) {
        let expected = if entry.path().is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&entry.path()), expected, "{:?}", entry.file_name());
    }
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_will_do() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("x".repeat(200)).join("y".repeat(200));
    let holder = open(&path);
    let guest = open(&path);
    assert!(!guest.is_holder());
    assert!(claimed(&guest, "long", 1).await && !claimed(&holder, "long", 1).await);
}

#[test]
fn only_an_existing_ledger_is_looked_at() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("none");
    for path in [dir.path(), &path] {
        let error = FileLedger::open_existing(path).unwrap_err().to_string();
        assert!(error.contains("there is no ledger in"), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    open(dir.path()).close();
    assert!(FileLedger::open_existing(dir.path()).unwrap().is_holder());
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_nothing_else_suffers() {
    let dir = tempdir().unwrap();
    let (holder, guest) = (open(dir.path()), open(dir.path()));
    for (id, ledger) in [&holder, &guest].into_iter().enumerate() {
        let key = key("large", id);
        let mut large = claim(&key);
        large.outcome = Some(Bytes::from(vec![1; (64 << 20) + 1]));
        let error = ledger.compare_and_set(large.clone()).await.unwrap_err();
        assert!(matches!(&error, LedgerError::TooLarge(why) if why.contains("nothing was stored")), "{error}");
        assert_eq!(ledger.get(&key).await.unwrap(), None);
        // With the arguments asked with and the event, this is just within the limit.
        large.outcome = Some(Bytes::from(vec![1; (64 << 20) - 100]));
        assert_ne!(ledger.compare_and_set(large.clone()).await.unwrap(), Stored::Refused);
        assert!(ledger.get(&key).await.unwrap() == Some(large.apply(None, |_| 0)));
    }
}

#[tokio::test]
async fn corruption_is_reported_with_its_place() {
    let dir = tempdir().unwrap();
    let ledger = open(dir.path());
    for id in 0..3 {
        assert!(claimed(&ledger, "damage", id).await);
    }
    drop(ledger);
    let log = dir.path().join("log.0000000000000000");
    let mut bytes = fs::read(&log).unwrap();
    bytes[40] ^= 1;
    fs::write(&log, bytes).unwrap();
    let error = FileLedger::open(dir.path(), FileLedgerOptions::default()).unwrap_err();
    assert!(matches!(error, LedgerError::Corrupt(_)));
    let error = error.to_string();
    assert!(error.contains("log.0000000000000000") && error.contains("byte 0"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_take_over_from_a_holder_that_closes() {
    let dir = tempdir().unwrap();
    let mut ledgers: Vec<Arc<FileLedger>> = Vec::new();
    for _ in 0..4 {
        ledgers.push(Arc::new(open(dir.path())));
    }
    let epoch = ledgers[3].register(LEASE).await.unwrap();
    let mut claims = tokio::task::JoinSet::new();
    for task in 0..16 {
        let ledger = Arc::clone(&ledgers[3]);
        claims.spawn(async move {
            for id in 0..200 {
                assert!(claimed(&ledger, "handover", task * 1000 + id).await);
            }
        });
    }
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if let Some(holder) = ledgers[..3].iter().find(|ledger| ledger.is_holder()) {
            holder.close();
        }
    }
    claims.join_all().await;
    let found = ledgers[3].scan(Filter::All).await.unwrap();
    assert_eq!(found.len(), 16 * 200);
    assert!(ledgers.iter().filter(|ledger| ledger.is_holder()).count() == 1);
    assert!(alive(&*ledgers[3], epoch).await);
}

#[tokio::test]
async fn a_wait_goes_on_after_the_holder_has_gone() {
    let dir = tempdir().unwrap();
    let (holder, guest) = (open(dir.path()), Arc::new(open(dir.path())));
    let key = key("wait", 1);
    let waiting = tokio::spawn({
        let (guest, key) = (Arc::clone(&guest), key.clone());
        async move { guest.changed(&key, None).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(holder);
    let first = change(&key, 1, State::Created);
    guest.compare_and_set(first).await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_replaced_directory_is_not_taken_for_the_ledger() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("ledger");
    let (holder, guest) = (open(&path), open(&path));
    assert!(claimed(&guest, "moved", 1).await);
    fs::rename(&path, dir.path().join("elsewhere")).unwrap();
    drop(holder);
    let started = Instant::now();
    for replaced in [false, true] {
        if replaced {
            fs::create_dir(&path).unwrap();
        }
        let lost = guest.compare_and_set(claim(&key("moved", 1))).await;
        assert!(matches!(lost, Err(LedgerError::Unavailable(_))), "{lost:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
}

#[tokio::test]
async fn closing_a_guest_ends_its_calls() {
    let dir = tempdir().unwrap();
    let (_holder, guest) = (open(dir.path()), Arc::new(open(dir.path())));
    let waiting = tokio::spawn({
        let guest = Arc::clone(&guest);
        async move { guest.changed(&key("close", 1), None).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let started = Instant::now();
    guest.close();
    let ended = waiting.await.unwrap();
    assert!(matches!(ended, Err(LedgerError::Unavailable(_))), "{ended:?}");
    assert!(started.elapsed() < Duration::from_millis(500));
}

#[tokio::test]
async fn strangers_on_the_socket_do_no_harm() {
    let dir = tempdir().unwrap();
    let (_holder, guest) = (open(dir.path()), open(dir.path()));
    let hello = *b"settled\x03";
    let huge = [&hello[..], &[255; 64]].concat();
    let nonsense = [&hello[..], &[9, 0, 0, 0], &[77; 9]].concat();
    for message in [&b"GET / HTTP/1.1\r\n\r\n"[..], &huge, &nonsense] {
        let mut stranger = UnixStream::connect(dir.path().join("socket")).unwrap();
        stranger.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stranger.write_all(message).unwrap();
        let mut heard = Vec::new();
        // The holder greets, and hangs up.
        if let Err(error) = stranger.read_to_end(&mut heard) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        assert!(heard.starts_with(&hello));
    }
    assert!(claimed(&guest, "strangers", 1).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_holder_grants_the_living_a_fresh_lease_and_the_lapsed_none() {
    let dir = tempdir().unwrap();
    let (holder, next, guest) = (open(dir.path()), open(dir.path()), open(dir.path()));
    let short = Duration::from_millis(400);
    let lapsed = guest.register(short).await.unwrap();
    tokio::time::sleep(short + Duration::from_millis(50)).await;
    assert_eq!(guest.renew(lapsed, LEASE).await.unwrap(), Renewal::Fenced);
    let living = guest.register(short).await.unwrap();
    tokio::time::sleep(short * 3 / 4).await;
    holder.close();
    assert!(claimed(&next, "leases", 1).await && next.is_holder());
    // Its lease would be over by now, had it not begun anew.
    tokio::time::sleep(short / 2).await;
    assert_eq!(next.liveness(living).await.unwrap(), Liveness::Alive);
    assert_eq!(guest.renew(living, LEASE).await.unwrap(), Renewal::Held);
    assert_eq!(next.liveness(lapsed).await.unwrap(), Liveness::Lapsed);
    assert_eq!(guest.renew(lapsed, LEASE).await.unwrap(), Renewal::Fenced);
    // Whoever has retired, and whoever has closed, is gone, though its process is there.
    guest.retire(living).await.unwrap();
    assert_eq!(next.liveness(living).await.unwrap(), Liveness::Gone);
    guest.close();
    assert_eq!(next.liveness(lapsed).await.unwrap(), Liveness::Gone);
}

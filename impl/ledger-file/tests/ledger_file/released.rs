//! A ledger that the first released version wrote, `released_v1`: eight keys, every second one settled; the first one begun
//! anew, the seventh forgotten; two epochs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::suite::make::{LEASE, change, claim, key, record, settled};
use bytes::Bytes;
use settled::{Change, Entry, Filter, Ledger, Remains, Stored};
use settled_ledger_file::{FileLedger, FileLedgerOptions};
use settled_protocol::{Epoch, State, Time, Version};
use tempfile::{TempDir, tempdir};

fn released() -> TempDir {
    let dir = tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/released_v1");
    for file in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
    }
    dir
}

fn changes(id: u64) -> Vec<Change> {
    let key = key("old", id);
    let mut changes = vec![claim(&key)];
    if id.is_multiple_of(2) {
        let mut end = change(&key, 2, settled());
        end.outcome = Some(Bytes::from_static(b"done"));
        end.note = Some("a note".to_owned());
        changes.push(end);
    }
    if id == 0 {
        let mut again = change(&key, 3, State::Created);
        again.record = record(3, 2, State::Created);
        again.asked = Some(Bytes::from_static(b"again"));
        changes.push(again);
    }
    changes
}

fn entry(id: u64) -> Entry {
    let changes = changes(id).into_iter();
    changes.fold(None, |entry: Option<Entry>, change| Some(change.apply(entry.as_ref(), |_| 0))).unwrap()
}

async fn check(ledger: &FileLedger) {
    for id in [0, 1, 2, 3, 4, 5, 7] {
        assert_eq!(ledger.get(&key("old", id)).await.unwrap(), Some(entry(id)));
        assert_eq!(ledger.history(&key("old", id)).await.unwrap(), changes(id));
    }
    assert_eq!(ledger.get(&key("old", 6)).await.unwrap(), None);
    assert_eq!(ledger.scan(Filter::Unsettled).await.unwrap().len(), 5);
    let due = ledger.due(Time(u64::MAX), None, 100).await.unwrap();
    assert!(due.iter().all(|entry| entry.key.scope() != "old"), "nothing was said of how long they are to be kept");
}

#[tokio::test]
async fn what_the_released_version_wrote_is_read_and_goes_on() {
    let dir = released();
    let mut options = FileLedgerOptions::default();
    options.log.segment_bytes = 2 << 10;
    let ledger = FileLedger::open(dir.path(), options.clone()).unwrap();
    check(&ledger).await;
    assert_eq!(ledger.register(LEASE).await.unwrap(), Epoch(3));
    // A key of then goes on.
    let next = change(&key("old", 1), 2, settled());
    assert_ne!(ledger.compare_and_set(next.clone()).await.unwrap(), Stored::Refused);
    assert_eq!(ledger.history(&key("old", 1)).await.unwrap(), [changes(1), vec![next]].concat());
    assert!(ledger.forget(&key("old", 1), Version(2), Remains::Nothing).await.unwrap());
    assert_ne!(ledger.compare_and_set(claim(&key("old", 1))).await.unwrap(), Stored::Refused);
    check(&ledger).await;
    // Until what it wrote has been compacted away.
    let mut id = 0_u32;
    while dir.path().join("log.0000000000000000").exists() || dir.path().join("log.0000000000000780").exists() {
        let key = key("new", id);
        ledger.compare_and_set(claim(&key)).await.unwrap();
        ledger.forget(&key, Version(1), Remains::Nothing).await.unwrap();
        id += 1;
        if id.is_multiple_of(100) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(id < 20_000);
    }
    check(&ledger).await;
    ledger.close();
    let ledger = FileLedger::open(dir.path(), options).unwrap();
    check(&ledger).await;
    assert!(ledger.register(LEASE).await.unwrap() > Epoch(3));
}

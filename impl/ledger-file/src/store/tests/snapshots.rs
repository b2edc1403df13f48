//! Snapshots are believed only if they are whole, and of this log.

use settled_protocol::Time;

use super::*;
use crate::snapshot::{self, SNAPSHOT};

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Stores some keys, half of which are settled; the first of them makes all the others differ between two calls.
fn fill(store: &Store, from: u64, to: u64) {
    for id in from..to {
        let key = key("snapshots", id);
        let mut begin = claim(&key);
        begin.resource = (id % 3 == 0).then(|| Resource { scope: "s".to_owned(), name: "r".to_owned() });
        assert!(run(store.compare_and_set(&begin, first(id))).unwrap());
        if id % 2 == 0 {
            let mut end = change(&key, 2, settled());
            end.keep_until = Some(Time(id * 1000));
            assert!(run(store.compare_and_set(&end, first(id))).unwrap());
        }
    }
}

/// All that a ledger tells: all entries, a line, what is due.
type Told = (Vec<Entry>, Vec<Entry>, Vec<Entry>);

fn told(store: &Store) -> Told {
    let line = store.line(&Resource { scope: "s".to_owned(), name: "r".to_owned() }).unwrap();
    (store.scan(Filter::All).unwrap(), line, store.due(Time(u64::MAX), None, usize::MAX).unwrap())
}

/// A ledger with a snapshot and something after it.
fn with_snapshot(seed: u64) -> (Fixture, Told) {
    let fixture = Fixture::new(seed);
    let (store, mut keeper) = fixture.try_open_kept().unwrap();
    fill(&store, 0, 20);
    keeper.snapshot().unwrap();
    fill(&store, 20, 24);
    assert!(run(store.forget(&key("snapshots", 2), Version(2), Remains::Nothing, first(100))).unwrap());
    let told = told(&store);
    drop((store, keeper));
    (fixture, told)
}

#[test]
fn a_ledger_is_the_same_with_and_without_its_snapshot() {
    let (fixture, before) = with_snapshot(1);
    let loaded = snapshot::load(&fixture.disk).unwrap().unwrap();
    assert!(Log::has(&fixture.disk, &loaded.meta.mark).unwrap());
    assert_eq!(loaded.index.keys(), 20);
    let whole = fixture.disk.counts();
    assert_eq!(told(&fixture.open()), before);
    assert_eq!(fixture.disk.counts().0, whole.0 + 1, "the last batch is written anew, and no more");
    fixture.disk.replace(SNAPSHOT, None);
    assert_eq!(told(&fixture.open()), before);
}

#[test]
fn a_snapshot_spares_reading_the_log() {
    let (fixture, before) = with_snapshot(2);
    let log = crate::log::segment_name(0);
    let mut bytes = fixture.disk.bytes(&log).unwrap();
    // A batch that the snapshot covers. Whoever reads the frame still notices.
    bytes[40] ^= 1;
    fixture.disk.replace(&log, Some(bytes));
    let store = fixture.open();
    assert_eq!(
        store.get(&key("snapshots", 5)).unwrap().as_ref(),
        before.0.iter().find(|e| e.key == key("snapshots", 5))
    );
    assert!(matches!(store.get(&key("snapshots", 0)), Err(LedgerError::Corrupt(_))));
    drop(store);
    fixture.disk.replace(SNAPSHOT, None);
    assert!(matches!(fixture.try_open(), Err(LedgerError::Corrupt(_))));
}

#[test]
fn a_damaged_snapshot_changes_nothing() {
    let (fixture, before) = with_snapshot(3);
    let bytes = fixture.disk.bytes(SNAPSHOT).unwrap();
    for i in 0..bytes.len() {
        for cut in [false, true] {
            let mut damaged = bytes.clone();
            if cut {
                damaged.truncate(i)
            } else {
                damaged[i] ^= 1 << (i % 8)
            }
            fixture.disk.replace(SNAPSHOT, Some(damaged));
            assert!(snapshot::load(&fixture.disk).is_err(), "byte {i}, cut {cut}");
            if i % 97 == 0 {
                assert_eq!(told(&fixture.open()), before);
            }
        }
    }
    let longer = [&bytes[..], &[0]].concat();
    fixture.disk.replace(SNAPSHOT, Some(longer));
    assert!(snapshot::load(&fixture.disk).is_err());
}

#[test]
fn a_snapshot_of_another_log_is_not_believed() {
    let (fixture, before) = with_snapshot(4);
    let (other, theirs) = with_snapshot(5);
    let store = other.open();
    fill(&store, 30, 40);
    let theirs_longer = told(&store);
    drop(store);
    // Equal requests have equal tokens here: only what was added differs.
    let (store, mut keeper) = other.try_open_kept().unwrap();
    keeper.snapshot().unwrap();
    drop((store, keeper));
    assert_eq!(theirs, before);
    // A snapshot of a longer log, and one of a log that went on otherwise.
    fixture.disk.replace(SNAPSHOT, other.disk.bytes(SNAPSHOT));
    assert_eq!(told(&fixture.open()), before);
    let store = fixture.open();
    for id in 60..90 {
        assert!(run(store.compare_and_set(&claim(&key("snapshots", id)), first(id))).unwrap());
    }
    let ours = told(&store);
    drop(store);
    assert_ne!(ours, theirs_longer);
    assert_eq!(told(&fixture.open()), ours);
}

#[test]
fn a_log_that_lost_its_end_does_not_get_it_from_the_snapshot() {
    let fixture = Fixture::new(6);
    let (store, mut keeper) = fixture.try_open_kept().unwrap();
    fill(&store, 0, 6);
    let short = fixture.disk.copy(7);
    let before = told(&store);
    fill(&store, 6, 8);
    keeper.snapshot().unwrap();
    // As if the index had been ahead of the mark.
    let mut loaded = snapshot::load(&fixture.disk).unwrap().unwrap();
    fill(&store, 8, 10);
    drop((store, keeper));
    let store = Fixture { disk: short, dir: tempfile::tempdir().unwrap() };
    let (opened, mut keeper) = store.try_open_kept().unwrap();
    keeper.snapshot().unwrap();
    drop((opened, keeper));
    loaded.meta.mark = snapshot::load(&store.disk).unwrap().unwrap().meta.mark;
    let mut writer = snapshot::Writer::begin(&store.disk).unwrap();
    writer.index(&loaded.index, || true).unwrap();
    writer.finish(&loaded.meta).unwrap();
    assert_eq!(told(&store.open()), before);
}

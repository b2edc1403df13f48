//! Requests that are sent again, batches whose items build on each other, and disks that fail.

use std::collections::HashSet;

use settled_protocol::State;
use tempfile::TempDir;

mod compaction;
mod scale;
mod snapshots;

use super::*;
use crate::log::disk::{FaultDisk, Faults};
use crate::log::{Log, LogOptions};
use crate::make::{LEASE, change, claim, key, settled};

struct Fixture {
    disk: FaultDisk,
    dir: TempDir,
}

impl Fixture {
    fn new(seed: u64) -> Fixture {
        Fixture { disk: FaultDisk::new(seed), dir: tempfile::tempdir().unwrap() }
    }

    fn open(&self) -> Store {
        self.try_open().unwrap()
    }

    fn try_open(&self) -> Result<Store, LedgerError> {
        self.try_open_kept().map(|(store, _)| store)
    }

    /// Nothing is compacted unless the test does it.
    fn try_open_kept(&self) -> Result<(Store, Keeper), LedgerError> {
        let held = DirLock::try_acquire(self.dir.path()).unwrap().unwrap();
        let options = FileLedgerOptions {
            log: LogOptions { segment_bytes: 16 << 10, preallocate_bytes: 2 << 10 },
            ..FileLedgerOptions::default()
        };
        let owners = Arc::new(Owners::new(self.dir.path()));
        Store::on(Arc::new(self.disk.clone()), self.dir.path(), &options, owners, Some(held), Run::Threads)
    }
}

const fn first(token: Token) -> Ticket {
    Ticket { token, again: false }
}

const fn again(token: Token) -> Ticket {
    Ticket { token, again: true }
}

#[tokio::test]
async fn a_store_that_is_sent_again_is_made_once_and_answered_truly() {
    let fixture = Fixture::new(1);
    let mut store = fixture.open();
    let key = key("again", 1);
    let set = async |store: &Store, version, ticket| {
        let change = change(&key, version, State::Created);
        store.compare_and_set(&change, ticket).await.unwrap()
    };
    // A new holder knows as much as the old one.
    for (round, reopen) in [(0, false), (100, true)] {
        assert!(set(&store, 1, first(round + 1)).await);
        if reopen {
            drop(store);
            store = fixture.open();
        }
        assert!(set(&store, 1, again(round + 1)).await, "stored before");
        assert!(!set(&store, 1, again(round + 2)).await, "another one's, though equal");
        assert!(set(&store, 2, again(round + 3)).await, "not stored before");
        assert!(set(&store, 3, first(round + 4)).await);
        assert!(set(&store, 2, again(round + 3)).await, "stored before, and replaced");
        assert!(!set(&store, 2, again(round + 5)).await);
        assert_eq!(store.history(&key).unwrap().len(), 3);

        let forget =
            async |store: &Store, ticket| store.forget(&key, Version(3), Remains::Nothing, ticket).await.unwrap();
        assert!(forget(&store, first(round + 6)).await);
        if reopen {
            drop(store);
            store = fixture.open();
        }
        assert!(forget(&store, again(round + 6)).await, "forgotten before");
        assert!(!forget(&store, again(round + 7)).await, "by someone else");
        assert!(set(&store, 1, again(round + 1)).await, "stored before, and forgotten");
        assert_eq!(store.get(&key).unwrap(), None, "and not stored again");
        assert!(!set(&store, 2, again(round + 8)).await);
    }
}

#[tokio::test]
async fn items_of_one_batch_may_build_on_each_other() {
    let fixture = Fixture::new(2);
    let store = fixture.open();
    let keys: Vec<Key> = (0..4).map(|i| key("batch", i)).collect();
    // The same task queues them all before the committer can have answered, so they share few batches.
    let mut waiting = Vec::new();
    for version in 1..=30 {
        for key in &keys {
            let end = version == 30;
            let change = change(key, version, if end { settled() } else { State::Created });
            let ticket = first(version);
            let store = &store;
            waiting.push(Box::pin(async move { store.compare_and_set(&change, ticket).await.unwrap() }));
        }
    }
    let mut stored = Vec::new();
    let mut polled: Vec<_> = waiting.iter_mut().map(|w| futures_poll(w.as_mut())).collect();
    for (future, early) in waiting.into_iter().zip(polled.drain(..)) {
        stored.push(match early {
            Some(stored) => stored,
            None => future.await,
        });
    }
    assert!(stored.iter().all(|stored| *stored));
    let batches = fixture.disk.counts().1;
    assert!(batches < 120, "{batches} syncs for 120 stores");
    drop(store);
    let store = fixture.open();
    for key in &keys {
        let versions: Vec<u64> = store.history(key).unwrap().iter().map(|change| change.record.version().0).collect();
        assert_eq!(versions, (1..=30).collect::<Vec<_>>());
    }
    assert_eq!(store.scan(Filter::Unsettled).unwrap(), []);
    assert_eq!(store.scan(Filter::All).unwrap().len(), 4);
}

/// Polls once, which queues the item.
fn futures_poll<F: Future + ?Sized>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn after_a_failed_sync_or_write_nothing_is_acknowledged() {
    for seed in 0..40 {
        let fixture = Fixture::new(seed);
        let store = fixture.open();
        let n = 1 + seed % 10;
        let (fail_sync, fail_write) = match seed % 3 {
            0 => (Some(n), None),
            1 => (None, Some(n)),
            _ => (None, None),
        };
        fixture.disk.set_faults(Faults {
            fail_sync,
            fail_write,
            capacity: (seed % 3 == 2).then_some(4 << 10),
            short_writes: seed % 2 == 0,
            stop_after: None,
        });
        let (mut acknowledged, mut failed) = (HashSet::new(), false);
        for id in 0..40 {
            match store.compare_and_set(&claim(&key("poison", id)), first(id)).await {
                Ok(stored) => {
                    assert!(stored && !failed, "acknowledged after a failure");
                    acknowledged.insert(key("poison", id));
                }
                Err(LedgerError::Poisoned(_)) => {
                    failed = true;
                    assert_eq!(store.get(&key("poison", id)).unwrap(), None);
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert!(failed && store.register(LEASE).await.is_err());
        assert!(store.forget(&key("poison", 0), Version(1), Remains::Nothing, first(99)).await.is_err());
        drop(store);
        fixture.disk.crash();
        let store = fixture.open();
        let found = store.scan(Filter::All).unwrap();
        let kept: HashSet<Key> = found.into_iter().map(|entry| entry.key).collect();
        assert!(kept.is_superset(&acknowledged), "seed {seed}");
        assert!(kept.len() <= acknowledged.len() + 1);
        assert!(store.compare_and_set(&claim(&key("poison", 1000)), first(1)).await.unwrap());
    }
}

#[tokio::test]
async fn a_closed_store_lets_go_of_its_directory() {
    let fixture = Fixture::new(3);
    let store = fixture.open();
    let again = DirLock::try_acquire(fixture.dir.path()).unwrap();
    assert!(again.is_none());
    store.close();
    assert!(store.tenure().is_over() && store.register(LEASE).await.is_err());
    let again = DirLock::try_acquire(fixture.dir.path()).unwrap();
    assert!(again.is_some());
}

#[test]
fn records_of_a_later_version_are_told_from_damage() {
    for (frame, later) in [(&[200, 1, 2][..], true), (&[1, 1, 2][..], false)] {
        let fixture = Fixture::new(4);
        let disk = Arc::new(fixture.disk.clone());
        let (mut log, _) = Log::open(disk, LogOptions::default(), |_, _| Ok(())).unwrap();
        log.append(&[frame]).unwrap();
        match fixture.try_open().err().unwrap() {
            LedgerError::Unavailable(why) => assert!(later && why.contains("format 200"), "{why}"),
            LedgerError::Corrupt(why) => assert!(!later, "{why}"),
            LedgerError::Poisoned(why) | LedgerError::TooLarge(why) => panic!("{why}"),
        }
    }
}

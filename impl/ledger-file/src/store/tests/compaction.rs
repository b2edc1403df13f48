//! Compaction and snapshots leave all that is kept as it is, whatever happens to them.

use std::collections::BTreeMap;

use fastrand::Rng;
use settled_protocol::{Epoch, Time};

use super::*;
use crate::make::record;

/// What the ledger should hold.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    keys: BTreeMap<Key, (Entry, Vec<Change>)>,
    last_epoch: u32,
}

/// One thing to do.
#[derive(Clone, Debug)]
enum Act {
    Store(Box<Change>),
    Forget(Key, Version, Remains),
    Register,
    Compact,
    Snapshot,
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn resource(n: u64) -> Resource {
    Resource { scope: "compaction".to_owned(), name: n.to_string() }
}

impl Model {
    /// Something that the ledger should accept.
    fn act(&self, random: &mut Rng) -> Act {
        let key = key("compaction", random.u64(..12));
        let held = self.keys.get(&key).map(|(entry, _)| entry);
        let version = held.map_or(0, |entry| entry.record.version().0);
        match (random.u8(..20), held) {
            (0, _) => return Act::Register,
            (1 | 2, _) => return Act::Compact,
            (3, _) => return Act::Snapshot,
            (4..=7, Some(_)) => return Act::Forget(key, Version(version), Remains::Nothing),
            (8, Some(_)) => {
                let keep_until = Time(random.u64(..300_000));
                return Act::Forget(key, Version(version), Remains::Tombstone { keep_until });
            }
            _ => {}
        }
        let settled_now = held.is_some_and(|entry| entry.record.is_settled());
        let generation = held.map_or(1, |entry| entry.record.generation()) + u32::from(settled_now);
        let end = held.is_some() && !settled_now && random.bool();
        let mut next = change(&key, version + 1, if end { settled() } else { State::Created });
        next.record = record(version + 1, generation, if end { settled() } else { State::Created });
        next.event = format!("{} {}", random.u64(..), "x".repeat(random.usize(..300)));
        if held.is_none() || settled_now {
            next.asked = Some(bytes::Bytes::from(random.u64(..).to_string()));
            next.resource = random.bool().then(|| resource(random.u64(..2)));
        }
        if end {
            next.keep_until = random.bool().then(|| Time(random.u64(..300_000)));
            next.outcome = Some(bytes::Bytes::from(random.u64(..).to_string()));
        }
        Act::Store(Box::new(next))
    }

    fn done(&mut self, act: &Act) {
        match act {
            Act::Store(change) => {
                let before = self.keys.get(&change.key);
                // Places are the ledger's to give.
                let entry = change.apply(before.map(|(entry, _)| entry), |_| 0);
                let mut changes =
                    before.filter(|(entry, _)| !entry.tombstone).map(|(_, c)| c.clone()).unwrap_or_default();
                changes.push(Change::clone(change));
                self.keys.insert(change.key.clone(), (entry, changes));
            }
            Act::Forget(key, _, Remains::Nothing) => drop(self.keys.remove(key)),
            Act::Forget(key, _, Remains::Tombstone { keep_until }) => {
                if let Some((entry, changes)) = self.keys.get_mut(key) {
                    *entry = entry.clone().buried(*keep_until);
                    changes.clear();
                }
            }
            Act::Register => self.last_epoch += 1,
            Act::Compact | Act::Snapshot => {}
        }
    }

    /// What is wrong with what the ledger holds.
    fn differs(&self, store: &Store) -> Option<String> {
        let bare = |mut entry: Entry| {
            entry.place = 0;
            entry
        };
        let entries = |unsettled: bool| {
            let all = self.keys.values().map(|(entry, _)| entry.clone());
            all.filter(|entry| !unsettled || !entry.record.is_settled()).collect::<Vec<_>>()
        };
        for (filter, unsettled) in [(Filter::All, false), (Filter::Unsettled, true)] {
            let found: Vec<_> = store.scan(filter).unwrap().into_iter().map(bare).collect();
            if found != entries(unsettled) {
                return Some(format!("{filter:?}: {found:#?} instead of {:#?}", entries(unsettled)));
            }
        }
        for id in 0..12 {
            let key = key("compaction", id);
            let (entry, changes) = self.keys.get(&key).map(|(e, c)| (Some(e.clone()), c.clone())).unwrap_or_default();
            if store.get(&key).unwrap().map(bare) != entry || store.history(&key).unwrap() != changes {
                return Some(format!("{key}"));
            }
        }
        for n in 0..2 {
            let line = store.line(&resource(n)).unwrap();
            let expected = entries(true).into_iter().filter(|entry| entry.resource == Some(resource(n)));
            let mut expected: Vec<Key> = expected.map(|entry| entry.key).collect();
            // In the order of coming, which each operation's events tell.
            let mut found: Vec<Key> = line.iter().map(|entry| entry.key.clone()).collect();
            if !line.is_sorted_by(|a, b| a.place < b.place) {
                return Some(format!("the line's order: {found:?}"));
            }
            found.sort();
            expected.sort();
            if found != expected {
                return Some(format!("line {n}: {found:?} instead of {expected:?}"));
            }
        }
        for now in [100_000, 200_000, u64::MAX] {
            let is_due =
                |entry: &Entry| entry.record.is_settled() && entry.keep_until.is_some_and(|until| until <= Time(now));
            let expected: Vec<Entry> = entries(false).into_iter().filter(is_due).collect();
            let (mut due, mut after) = (Vec::new(), None::<Entry>);
            while let Some(entry) = store.due(Time(now), after.as_ref(), 1).unwrap().pop() {
                due.push(bare(entry.clone()));
                after = Some(entry);
            }
            due.sort_by(|a, b| a.key.cmp(&b.key));
            if due != expected {
                return Some(format!("due at {now}: {due:#?} instead of {expected:#?}"));
            }
        }
        None
    }
}

/// Does something that should be accepted.
fn act(store: &Store, keeper: &mut Keeper, act: &Act, token: Token) -> Result<(), LedgerError> {
    match act {
        Act::Store(change) => assert!(run(store.compare_and_set(change, first(token)))?),
        Act::Forget(key, version, remains) => assert!(run(store.forget(key, *version, *remains, first(token)))?),
        Act::Register => drop(run(store.register(LEASE))?),
        Act::Compact => drop(keeper.compact()?),
        Act::Snapshot => keeper.snapshot()?,
    }
    Ok(())
}

#[test]
fn what_is_kept_stays_as_it_is() {
    let (mut compacted, mut begins) = (0, 0);
    for seed in 0..20 {
        let mut random = Rng::with_seed(seed);
        let fixture = Fixture::new(seed);
        let (mut store, mut keeper) = fixture.try_open_kept().unwrap();
        let mut model = Model::default();
        let mut places: BTreeMap<(Key, u32), u64> = BTreeMap::new();
        for token in 0..150 {
            let next = model.act(&mut random);
            act(&store, &mut keeper, &next, token).unwrap();
            model.done(&next);
            if let Act::Forget(forgotten, ..) = &next {
                places.retain(|(key, _), _| key != forgotten);
            }
            compacted += u32::from(matches!(next, Act::Compact));
            if matches!(next, Act::Compact | Act::Snapshot) || random.u8(..10) == 0 {
                if random.bool() {
                    drop((store, keeper));
                    (store, keeper) = fixture.try_open_kept().unwrap();
                }
                assert_eq!(model.differs(&store), None, "seed {seed}, {token}: {next:?}");
                for entry in store.scan(Filter::All).unwrap() {
                    let place = *places.entry((entry.key, entry.record.generation())).or_insert(entry.place);
                    assert_eq!(entry.place, place);
                }
            }
        }
        begins = begins.max(store.chains.log().begin());
        let live: u64 = store.index.list(false).iter().map(|(_, slot)| slot.bytes()).sum();
        assert_eq!(store.size().live_bytes, live);
        assert_eq!(store.size().keys, model.keys.len() as u64);
        assert_eq!(run(store.register(LEASE)).unwrap(), Epoch(model.last_epoch + 1), "no epoch is given away twice");
    }
    assert!(compacted > 80 && begins > 0);
}

/// Stops everything after each operation on the disk in turn, and then fails the power or kills the process.
#[test]
fn a_crash_at_any_step_loses_nothing() {
    for seed in 0..3 {
        let base = Fixture::new(seed);
        let (store, mut keeper) = base.try_open_kept().unwrap();
        let (mut random, mut begun) = (Rng::with_seed(seed), Model::default());
        let mut token = 0;
        while store.chains.log().segments().len() < 4 {
            let next = begun.act(&mut random);
            if !matches!(next, Act::Compact | Act::Snapshot) {
                act(&store, &mut keeper, &next, token).unwrap();
                begun.done(&next);
                token += 1;
            }
        }
        drop((store, keeper));
        let (mut steps, mut finished) = (0, false);
        while !finished {
            let disk = base.disk.copy(seed * 1000 + steps);
            let fixture = Fixture { disk, dir: tempfile::tempdir().unwrap() };
            let (store, mut keeper) = fixture.try_open_kept().unwrap();
            // All that happens from here on happens in the same order each time.
            let (mut random, mut model) = (random.clone(), begun.clone());
            let begin = store.chains.log().begin();
            fixture.disk.set_faults(Faults { stop_after: Some(steps), ..Faults::default() });
            let mut doubt = None;
            finished = true;
            let mut script = vec![Act::Compact, Act::Snapshot, Act::Compact];
            script.push(model.act(&mut random));
            script.push(Act::Snapshot);
            for next in script {
                token += 1;
                if act(&store, &mut keeper, &next, token).is_err() {
                    doubt = Some(next);
                    finished = false;
                    break;
                }
                model.done(&next);
            }
            steps += 1;
            assert!(!finished || store.chains.log().begin() > begin, "nothing was removed");
            drop((store, keeper));
            if steps % 3 == 0 {
                fixture.disk.kill()
            } else {
                fixture.disk.crash()
            }
            let (store, mut keeper) = fixture.try_open_kept().unwrap();
            let mut wrong = model.differs(&store);
            if let (Some(_), Some(doubt)) = (&wrong, &doubt) {
                model.done(doubt);
                wrong = model.differs(&store);
            }
            assert_eq!(wrong, None, "seed {seed}, stopped after {steps}, in {doubt:?}");
            // And it goes on from there.
            keeper.snapshot().unwrap();
            while keeper.compact().unwrap() {}
            keeper.snapshot().unwrap();
            assert_eq!(model.differs(&store), None, "seed {seed}, stopped after {steps}, in {doubt:?}");
            drop((store, keeper));
            assert_eq!(model.differs(&fixture.open()), None);
        }
        assert!(steps > 20, "{steps}");
    }
}

#[test]
fn long_chains_and_busy_keys_are_copied_too() {
    let fixture = Fixture::new(1);
    let (store, mut keeper) = fixture.try_open_kept().unwrap();
    let mut model = Model::default();
    let long = key("compaction", 1);
    let store_one = |model: &mut Model, store: &Store, mut change: Change, bytes: usize| {
        let token = change.record.version().0;
        change.outcome = Some(vec![token as u8; bytes].into());
        assert!(run(store.compare_and_set(&change, first(token))).unwrap());
        model.done(&Act::Store(Box::new(change)));
    };
    for version in 1..=5 {
        store_one(&mut model, &store, change(&long, version, State::Created), 3 << 20);
    }
    for id in [2, 3] {
        let mut begin = claim(&key("compaction", id));
        begin.resource = Some(resource(0));
        store_one(&mut model, &store, begin, 100);
    }
    for _ in 0..2 {
        let end = store.chains.log().segments().last().copied().unwrap();
        // A part is read by its own, too.
        while store.chains.log().begin() < end {
            assert!(keeper.compact().unwrap());
        }
        assert_eq!(model.differs(&store), None);
        let version = model.keys[&long].0.record.version().0 + 1;
        store_one(&mut model, &store, change(&long, version, State::Created), 3 << 20);
        assert!(run(store.compare_and_set(&change(&long, version, State::Created), again(version))).unwrap());
        store_one(&mut model, &store, change(&long, version + 1, State::Created), 3 << 20);
    }
    let before = store.chains.log().end();
    for id in [1, 2, 9] {
        let key = KeyHash::of(&key("compaction", id));
        keeper.submit(Write::MoveNow { before }, key, Vec::new()).unwrap().wait().unwrap();
    }
    assert!(store.index.get(KeyHash::of(&long)).unwrap().position() >= before);
    assert_eq!(model.differs(&store), None);
    drop((store, keeper));
    assert_eq!(model.differs(&fixture.open()), None);
}

#[test]
fn a_request_that_is_sent_again_is_recognised_after_compaction() {
    let fixture = Fixture::new(2);
    let (store, mut keeper) = fixture.try_open_kept().unwrap();
    let (kept, gone) = (key("again", 1), key("again", 2));
    for (i, key) in (0..).zip([&kept, &gone]) {
        assert!(run(store.compare_and_set(&claim(key), first(10 * i))).unwrap());
        assert!(run(store.compare_and_set(&change(key, 2, settled()), first(10 * i + 1))).unwrap());
    }
    assert!(run(store.forget(&gone, Version(2), Remains::Nothing, first(12))).unwrap());
    let epoch = run(store.register(LEASE)).unwrap();
    let lapsed = run(store.register(Duration::from_millis(1))).unwrap();
    run(store.retire(epoch)).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    run(store.renew(lapsed, LEASE)).unwrap();
    // The last file is begun with a batch that doesn't fit any more.
    let mut filler = claim(&key("again", 3));
    filler.outcome = Some(vec![1; 20 << 10].into());
    assert!(run(store.compare_and_set(&filler, first(20))).unwrap());
    let end = *store.chains.log().segments().last().unwrap();
    while store.chains.log().begin() < end {
        assert!(keeper.compact().unwrap());
    }
    let mut stores = Some((store, keeper));
    for reopened in [false, true] {
        if reopened {
            drop(stores.take());
            stores = Some(fixture.try_open_kept().unwrap());
        }
        let store = &stores.as_ref().unwrap().0;
        let set = |change: &Change, ticket| run(store.compare_and_set(change, ticket)).unwrap();
        assert!(set(&claim(&kept), again(0)) && set(&change(&kept, 2, settled()), again(1)));
        assert!(set(&claim(&gone), again(10)) && set(&change(&gone, 2, settled()), again(11)));
        assert!(run(store.forget(&gone, Version(2), Remains::Nothing, again(12))).unwrap());
        assert!(!run(store.forget(&gone, Version(2), Remains::Nothing, again(13))).unwrap());
        assert!(!set(&claim(&kept), again(99)));
        assert_eq!(store.get(&gone).unwrap(), None);
    }
    drop(stores);
    let disk: Arc<dyn Disk> = Arc::new(fixture.disk.clone());
    let replayed = replay::open(&disk, fixture.dir.path(), LogOptions::default()).unwrap();
    assert_eq!(replayed.seen.over, [(epoch, true), (lapsed, false)].into());
    assert_eq!(replayed.epoch, lapsed);
}

#[test]
fn a_file_that_is_missing_is_told_from_one_that_was_removed() {
    let fixture = Fixture::new(3);
    let (store, mut keeper) = fixture.try_open_kept().unwrap();
    for id in 0..200 {
        assert!(run(store.compare_and_set(&claim(&key("missing", id)), first(id))).unwrap());
    }
    assert!(keeper.compact().unwrap());
    keeper.snapshot().unwrap();
    let all = store.scan(Filter::All).unwrap();
    drop((store, keeper));
    let with = |change: &dyn Fn(&FaultDisk)| {
        let fixture = Fixture { disk: fixture.disk.copy(1), dir: tempfile::tempdir().unwrap() };
        change(&fixture.disk);
        fixture.try_open().map(|store| store.scan(Filter::All).unwrap())
    };
    assert_eq!(with(&|_| {}).unwrap(), all);
    let logs: Vec<String> = fixture.disk.names().into_iter().filter(|name| name.starts_with("log.")).collect();
    assert!(logs.len() > 2, "{logs:?}");
    for snapshot in [true, false] {
        for log in logs.iter().rev().skip(1) {
            let error = with(&|disk| {
                if !snapshot {
                    disk.replace("snapshot", None);
                }
                disk.replace(log, None);
            });
            assert!(matches!(&error, Err(LedgerError::Corrupt(why)) if why.contains("is missing")), "{log}: {error:?}");
        }
        // Without the marker nothing says that what came before wasn't lost.
        let error = with(&|disk| {
            if !snapshot {
                disk.replace("snapshot", None);
            }
            disk.replace("LEDGER", None);
        });
        assert!(matches!(&error, Err(LedgerError::Corrupt(why)) if why.contains("is missing")), "{error:?}");
    }
    // What a crash has kept from being removed is removed.
    let left = with(&|disk| disk.replace("log.0000000000000000", Some(vec![1; 100])));
    assert_eq!(left.unwrap(), all);
}

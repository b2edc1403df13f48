//! What merging and synchronising operations costs, beside Automerge, on the same registers and sets, in one run.
//!
//! `cargo bench -p settled-sync` (a number as an argument: so many operations instead of 100,000).
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use automerge::sync::{Message, State, SyncDoc};
use automerge::transaction::Transactable;
use automerge::{ActorId, AutoCommit, Change as AutomergeChange, ObjType, ROOT, ReadDoc};
use comfy_table::{Table, presets};
use fastrand::Rng;
use settled_protocol::merge::{Change, HybridClock, HybridTime, Merged, Name, OpId, Operation, Value};
use settled_sync::device::{Remote, Rounds};
use settled_sync::server::{self, ServerOptions};
use settled_sync::store::{self, StoreOptions};
use settled_sync::{Device, DeviceOptions, Schema};

const SCHEMA: &str = "version = 1\n[kinds]\ntags = \"add-wins\"\n[kinds.task]\ntitle = \"latest\"\n";
const TARGETS: usize = 1_000;
const DEVICES: usize = 2;

/// What one operation does: to a register or to a set, of this number, with this value.
#[derive(Clone, Copy)]
struct Act {
    device: usize,
    target: usize,
    value: i64,
}

fn acts(count: usize) -> Vec<Act> {
    let mut random = Rng::with_seed(7);
    let act = |at| Act { device: at % DEVICES, target: random.usize(..TARGETS), value: random.i64(0..1_000_000) };
    (0..count).map(act).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Register,
    Set,
}

fn change(kind: Kind, act: Act) -> (Name, Change) {
    let name = |text: String| Name::new(text).unwrap();
    match kind {
        Kind::Register => {
            let set = Change::Set(Value::Text(act.value.to_string()));
            (name(format!("task/{}", act.target)), Change::Field(name("title".into()), Box::new(set)))
        }
        Kind::Set => (name(format!("tags/{}", act.target)), Change::Add(Value::Text(act.value.to_string()))),
    }
}

fn operations(kind: Kind, acts: &[Act]) -> Vec<Operation> {
    let mut clocks = [HybridClock::new(HybridTime::default(), u64::MAX); DEVICES];
    let mut random = Rng::with_seed(8);
    let operation = |(at, act): (usize, &Act)| {
        let wall = 1_700_000_000_000 + at as u64 / 10;
        let (target, change) = change(kind, *act);
        let device = Name::new(format!("device-{}", act.device)).unwrap();
        let op_id = OpId::version_7(wall, random.u128(..));
        Operation { op_id, device, time: clocks[act.device].tick(wall), target, change }
    };
    acts.iter().enumerate().map(operation).collect()
}

/// Each device's changes, one for each operation, on documents that begin alike.
fn automerge_changes(kind: Kind, acts: &[Act]) -> (AutoCommit, Vec<AutomergeChange>) {
    let mut begun = AutoCommit::new().with_actor(ActorId::from([0u8; 16]));
    let objects: Vec<_> =
        (0..TARGETS).map(|target| begun.put_object(ROOT, target.to_string(), ObjType::Map).unwrap()).collect();
    begun.commit();
    let mut devices: Vec<_> =
        (0..DEVICES).map(|device| begun.fork().with_actor(ActorId::from([device as u8 + 1; 16]))).collect();
    for act in acts {
        let device = &mut devices[act.device];
        match kind {
            Kind::Register => device.put(&objects[act.target], "title", act.value.to_string()).unwrap(),
            Kind::Set => device.put(&objects[act.target], act.value.to_string(), true).unwrap(),
        }
        device.commit();
    }
    let heads = begun.get_heads();
    let mut each: Vec<_> = devices.iter_mut().map(|device| device.get_changes(&heads).into_iter()).collect();
    let mut all = Vec::with_capacity(acts.len());
    for act in acts {
        all.extend(each[act.device].next());
    }
    (begun, all)
}

/// The median of three.
fn median(mut measure: impl FnMut() -> Duration) -> Duration {
    let mut all = [measure(), measure(), measure()];
    all.sort();
    all[1]
}

fn merge(kind: Kind, acts: &[Act]) -> [Duration; 4] {
    let schema = Schema::parse(SCHEMA).unwrap();
    let operations = operations(kind, acts);
    let json: Vec<Vec<u8>> = operations.iter().map(|operation| serde_json::to_vec(operation).unwrap()).collect();
    let mut states: BTreeMap<Name, Merged> = BTreeMap::new();
    let join = |states: &mut BTreeMap<Name, Merged>, operation: &Operation| {
        if !states.contains_key(&operation.target) {
            states.insert(operation.target.clone(), schema.nothing(&operation.target).unwrap());
        }
        states.get_mut(&operation.target).unwrap().apply(operation).unwrap();
    };
    let ours = median(|| {
        states.clear();
        let begun = Instant::now();
        operations.iter().for_each(|operation| join(&mut states, operation));
        begun.elapsed()
    });
    let ours_from_bytes = median(|| {
        states.clear();
        let begun = Instant::now();
        json.iter().for_each(|bytes| join(&mut states, &serde_json::from_slice(bytes).unwrap()));
        begun.elapsed()
    });
    let (begun, changes) = automerge_changes(kind, acts);
    let bytes: Vec<Vec<u8>> = changes.iter().map(|change| change.raw_bytes().to_vec()).collect();
    let mut document = begun.clone();
    let theirs = median(|| {
        let (mut fresh, changes) = (begun.clone(), changes.clone());
        let begun = Instant::now();
        fresh.apply_changes(changes).unwrap();
        let took = begun.elapsed();
        document = fresh;
        took
    });
    let theirs_from_bytes = median(|| {
        let mut fresh = begun.clone();
        let begun = Instant::now();
        let changes: Vec<_> = bytes.iter().map(|bytes| AutomergeChange::from_bytes(bytes.clone()).unwrap()).collect();
        fresh.apply_changes(changes).unwrap();
        begun.elapsed()
    });
    // Both have merged the same: as many registers, as many elements.
    let elements: usize = match kind {
        Kind::Register => states.len(),
        Kind::Set => {
            states.values().map(|state| if let Merged::AddWins { added, .. } = state { added.len() } else { 0 }).sum()
        }
    };
    let objects = document.keys(ROOT).map(|key| document.get(ROOT, key).unwrap().unwrap().1);
    let their_elements: usize = objects.collect::<Vec<_>>().iter().map(|object| document.length(object)).sum();
    assert_eq!(elements, their_elements);
    [ours, ours_from_bytes, theirs, theirs_from_bytes]
}

/// From one device's queue to the server's disk to another device's disk, everything synced.
fn sync_ours(acts: &[Act]) -> [Duration; 3] {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let place = tempfile::tempdir().unwrap();
    let schema = || Schema::parse(SCHEMA).unwrap();
    let device =
        |name: &str| Arc::new(Device::open(&place.path().join(name), schema(), DeviceOptions::default()).unwrap());
    let (one, two) = (device("one"), device("two"));
    let begun = Instant::now();
    for some in acts.chunks(100) {
        one.act_all(some.iter().map(|act| change(Kind::Register, *act))).unwrap();
    }
    let queued = begun.elapsed();
    runtime.block_on(async {
        let kept = StoreOptions { schema: schema(), bound: Duration::from_mins(10), most: 1000 };
        let store = store::open(&format!("sqlite:{}", place.path().join("server.db").display()), kept).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let remote = Remote::new(&format!("http://{}", listener.local_addr().unwrap()), None).unwrap();
        tokio::spawn(server::serve(listener, store, ServerOptions::default(), std::future::pending()));
        let rounds = Rounds { batch: 1000, pull: 1000, ..Rounds::default() };
        let begun = Instant::now();
        let synced = rounds.run(&one, &remote, |_| {}).await.unwrap();
        let up = begun.elapsed();
        assert_eq!(synced.applied, acts.len());
        let begun = Instant::now();
        assert_eq!(rounds.run(&two, &remote, |_| {}).await.unwrap().pulled, acts.len() as u64);
        assert_eq!(one.views(), two.views());
        [queued, up, begun.elapsed()]
    })
}

/// From one document to another, in memory, and both saved to a file once, synced.
fn sync_theirs(acts: &[Act]) -> [Duration; 3] {
    let acts: Vec<Act> = acts.iter().map(|act| Act { device: 0, ..*act }).collect();
    let begun = Instant::now();
    let (start, changes) = automerge_changes(Kind::Register, &acts);
    let queued = begun.elapsed();
    let (mut one, mut two) = (start.clone(), start);
    one.apply_changes(changes).unwrap();
    let (mut of_one, mut of_two) = (State::new(), State::new());
    let begun = Instant::now();
    loop {
        let up = one.sync().generate_sync_message(&mut of_one).map(Message::encode);
        if let Some(bytes) = &up {
            two.sync().receive_sync_message(&mut of_two, Message::decode(bytes).unwrap()).unwrap();
        }
        let down = two.sync().generate_sync_message(&mut of_two).map(Message::encode);
        if let Some(bytes) = &down {
            one.sync().receive_sync_message(&mut of_one, Message::decode(bytes).unwrap()).unwrap();
        }
        if up.is_none() && down.is_none() {
            break;
        }
    }
    let synced = begun.elapsed();
    assert_eq!(one.get_heads(), two.get_heads());
    let begun = Instant::now();
    for document in [&mut one, &mut two] {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &document.save()).unwrap();
        file.sync_all().unwrap();
    }
    [queued, synced, begun.elapsed()]
}

fn main() {
    let count = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(100_000);
    let acts = acts(count);
    let rate = |took: Duration| format!("{:.0}", count as f64 / took.as_secs_f64());
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([&format!("{count} operations, merged/s"), "settled", "Automerge 0.12"]);
    for (kind, what) in [(Kind::Register, "registers"), (Kind::Set, "sets")] {
        let [ours, ours_from_bytes, theirs, theirs_from_bytes] = merge(kind, &acts);
        table.add_row([format!("{what}, decoded"), rate(ours), rate(theirs)]);
        table.add_row([format!("{what}, from bytes"), rate(ours_from_bytes), rate(theirs_from_bytes)]);
    }
    println!("{table}\n");
    let seconds = |took: Duration| format!("{:.2} s", took.as_secs_f64());
    let (ours, theirs) = (sync_ours(&acts), sync_theirs(&acts));
    println!(
        "{count} operations from one device to another:\n  settled: {} to queue them (synced every 100), {} up over HTTP into SQLite, {} down to the other's log",
        seconds(ours[0]),
        seconds(ours[1]),
        seconds(ours[2])
    );
    println!(
        "  Automerge: {} to make them, {} from document to document in memory, {} to save both once",
        seconds(theirs[0]),
        seconds(theirs[1]),
        seconds(theirs[2])
    );
}

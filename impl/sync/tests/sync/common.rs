//! What the tests of the server share: stores, operations, and what must always be so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use settled_protocol::merge::{Change, HybridTime, Merged, Name, OpId, Operation, Value};
use settled_sync::Schema;
use settled_sync::store::{self, Store, StoreError, StoreOptions};
use settled_sync::wire::{Answer, Applied, Became, Cursor, Sent, Target, Upload, Uploaded};
use settled_test_services::postgres::Postgres;
use tempfile::TempDir;

pub const SCHEMA: &str = r#"
version = 3
[kinds]
votes = "counter"
seen = "union"
[kinds.task]
title = "latest"
finished = "earliest"
best = "max"
worst = "min"
tags = "add-wins"
count = "counter"
"#;

pub const MOST: usize = 1_000;
pub const BOUND: Duration = Duration::from_secs(600);
/// The server's clock, where a test sets it.
pub const NOW: u64 = 1_800_000_000_000;

pub fn schema() -> Schema {
    Schema::parse(SCHEMA).unwrap()
}

pub fn options() -> StoreOptions {
    StoreOptions { schema: schema(), bound: BOUND, most: MOST }
}

/// Where a store is, or will be.
pub struct Place {
    pub url: String,
    _directory: Option<TempDir>,
}

impl Place {
    pub fn sqlite() -> Place {
        let directory = tempfile::tempdir().unwrap();
        Place { url: format!("sqlite:{}", directory.path().join("sync.db").display()), _directory: Some(directory) }
    }

    /// A schema of its own: a database of its own would take longer.
    pub fn postgres(server: &Postgres, name: &str) -> Place {
        Place { url: format!("{}&schema={name}", server.url()), _directory: None }
    }

    pub async fn open(&self) -> Arc<dyn Store> {
        self.open_with(options()).await.unwrap()
    }

    pub async fn open_with(&self, options: StoreOptions) -> Result<Arc<dyn Store>, StoreError> {
        store::open(&self.url, options).await
    }
}

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub fn at(millis: u64) -> HybridTime {
    HybridTime { millis, count: 0 }
}

/// An operation of this device, named by a number.
pub fn operation(device: &str, number: u64, millis: u64, target: &str, change: Change) -> Sent {
    let digest = settled_protocol::Digest::of(format!("{device} {number}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_bytes()[..16]);
    let (op_id, time) = (OpId::from_bytes(bytes), HybridTime { millis, count: u32::try_from(number).unwrap() });
    let operation = Operation { op_id, device: name(device), time, target: name(target), change };
    Sent { operation, after: HybridTime::default() }
}

pub fn field(of: &str, change: Change) -> Change {
    Change::Field(name(of), Box::new(change))
}

pub fn upload(device: &str, now: u64, operations: &[Sent]) -> Upload {
    Upload { device: name(device), schema: 3, now, operations: operations.to_vec() }
}

/// A random change, and the target that it is for. Removals name additions that there may have been.
pub fn any_change(random: &mut fastrand::Rng, known: &[OpId]) -> (String, Change) {
    let target = format!("task/{}", random.u8(0..4));
    let value = match random.u8(0..4) {
        0 => Value::Null,
        1 => Value::Number(random.i64(-2..3)),
        2 => Value::Bool(random.bool()),
        _ => Value::Text(["", "a", "1", "\u{1F980}", "\0"][random.usize(0..5)].to_owned()),
    };
    let observed: BTreeSet<OpId> = known.iter().filter(|_| random.bool()).copied().collect();
    match random.u8(0..9) {
        0 => ("votes".to_owned(), Change::Count(random.i64(-3..4))),
        1 => (format!("seen/{}", random.u8(0..3)), Change::Add(value)),
        2 => (target, field("title", Change::Set(value))),
        3 => (target, field("finished", Change::Set(value))),
        4 => (target, field("best", Change::Set(value))),
        5 => (target, field("worst", Change::Set(value))),
        6 => (target, field("count", Change::Count(1))),
        7 => (target, field("tags", Change::Add(value))),
        _ => (target, field("tags", Change::Remove { value, observed })),
    }
}

/// Operations of a device in the order in which it makes them.
pub fn history(random: &mut fastrand::Rng, device: &str, now: u64, count: u64) -> Vec<Sent> {
    let mut known = Vec::new();
    (0..count)
        .map(|number| {
            let (target, change) = any_change(random, &known);
            let sent = operation(device, number, now - 1_000 + number, &target, change);
            known.push(sent.operation.op_id);
            known.drain(..known.len().saturating_sub(8));
            sent
        })
        .collect()
}

pub fn wall() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Everything that the store has applied, page by page.
pub async fn pull_all(store: &dyn Store, page: usize) -> Vec<Applied> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let pulled = store.operations(after, page).await.unwrap();
        assert_eq!(pulled.cursor, pulled.operations.last().map_or(after, |last| last.cursor));
        assert!(pulled.operations.len() <= page);
        if pulled.operations.is_empty() {
            assert_eq!(pulled.head, after);
            return all;
        }
        after = pulled.cursor;
        all.extend(pulled.operations);
    }
}

pub async fn all_targets(store: &dyn Store) -> Vec<Target> {
    let mut all: Vec<Target> = Vec::new();
    loop {
        let after = all.last().map(|target| target.target.as_str().to_owned()).unwrap_or_default();
        let page = store.targets("", &after, 3).await.unwrap();
        all.extend(page.targets);
        if !page.more {
            return all;
        }
    }
}

/// The states of these operations' targets, by the core.
pub fn fold(operations: &[Applied]) -> BTreeMap<Name, (Merged, Cursor)> {
    let (schema, mut states) = (schema(), BTreeMap::new());
    for applied in operations {
        let target = &applied.operation.target;
        let state = states.entry(target.clone()).or_insert_with(|| (schema.nothing(target).unwrap(), 0));
        state.0.apply(&applied.operation).unwrap();
        state.1 = applied.cursor;
    }
    states
}

/// What must hold of every store at every time: cursors have no gaps, each operation was applied once, and every target's state is what the
/// core makes of its operations. Returns them.
pub async fn check(store: &dyn Store) -> Vec<Applied> {
    let operations = pull_all(store, 7).await;
    for (place, applied) in operations.iter().enumerate() {
        assert_eq!(applied.cursor, place as u64 + 1);
    }
    let ids: BTreeSet<OpId> = operations.iter().map(|applied| applied.operation.op_id).collect();
    assert_eq!(ids.len(), operations.len(), "an operation was applied twice");
    let folded = fold(&operations).into_iter();
    let folded: Vec<Target> =
        folded.map(|(target, (state, cursor))| Target { target, view: state.view(), cursor }).collect();
    assert_eq!(all_targets(store).await, folded);
    operations
}

/// An answer without what says whether it is the first or a repeat.
pub fn settled(answers: &[Answer]) -> Vec<Answer> {
    let first = |is: Became| match is {
        Became::Applied { cursor, time, redated, .. } => Became::Applied { cursor, time, redated, repeated: false },
        other => other,
    };
    answers.iter().cloned().map(|answer| Answer { is: first(answer.is), ..answer }).collect()
}

pub fn repeated(uploaded: &Uploaded) -> Vec<bool> {
    uploaded.answers.iter().map(|answer| matches!(answer.is, Became::Applied { repeated: true, .. })).collect()
}

//! `cases/merge.json`: what the core makes of operations, for the clients in other languages to be held against.
//!
//! `SETTLED_WRITE_CASES=1 cargo test -p settled-sync --test sync cases` writes the file anew.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;
use settled_protocol::merge::{
    Change, HybridClock, HybridTime, Merged, Name, OpId, Operation, Rule, Stamp, Times, Value, View,
};
use settled_sync::Schema;

const LARGEST: i64 = (1 << 53) - 1;

/// Texts whose order by UTF-8 is not that by UTF-16, and other edges, in their order.
const TEXTS: [&str; 12] =
    ["", " ", "A", "a", "a\u{0}", "aa", "ä", "\u{7ff}", "\u{d7ff}", "\u{fffd}", "\u{10000}", "😀😀"];

/// The whole file.
#[derive(Serialize, Deserialize)]
struct Cases {
    about: String,
    /// In their order.
    values: Vec<Value>,
    /// In their order.
    stamps: Vec<Stamp>,
    ticks: Vec<Tick>,
    shown: Vec<Shown>,
    schema: Schema,
    fits: Vec<Fits>,
    merges: Vec<Merge>,
}

#[derive(Serialize, Deserialize)]
struct Tick {
    last: HybridTime,
    wall: u64,
    gives: HybridTime,
}

/// By which time a device shows an operation that waits, once it has heard of others.
#[derive(Serialize, Deserialize)]
struct Shown {
    /// The times that these were sent with, and were given.
    heard: Vec<[HybridTime; 2]>,
    time: HybridTime,
    gives: HybridTime,
}

#[derive(Serialize, Deserialize)]
struct Fits {
    change: Change,
    target: Name,
    fits: bool,
}

/// Operations on one target, whose kind is in the schema, and what they come to in any order.
#[derive(Serialize, Deserialize)]
struct Merge {
    operations: Vec<Operation>,
    view: serde_json::Value,
    /// For an add-wins set: what a removal of each element has to name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    additions: Vec<(Value, Vec<OpId>)>,
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn schema() -> Schema {
    let simple = ["latest", "earliest", "max", "min", "union", "add-wins", "counter"];
    let mut kinds: serde_json::Map<_, _> = simple.iter().map(|word| ((*word).to_owned(), json!(word))).collect();
    kinds.insert("map".into(), json!({ "title": "latest", "tags": "add-wins", "__proto__": "counter", "best": { "time": "min", "😀": "union" } }));
    serde_json::from_value(json!({ "version": 3, "kinds": kinds })).unwrap()
}

/// Small, so that much is equal.
fn time(random: &mut fastrand::Rng) -> HybridTime {
    HybridTime { millis: random.u64(1_000..1_003), count: random.u32(0..2) }
}

fn stamp(number: u128, random: &mut fastrand::Rng) -> Stamp {
    let device = random.choice(["p", "q", "\u{fffd}", "\u{10000}"]).unwrap();
    Stamp { time: time(random), device: name(device), op_id: OpId::version_7(1_000, number) }
}

fn value(random: &mut fastrand::Rng) -> Value {
    random.choice(values()).unwrap()
}

fn values() -> Vec<Value> {
    let numbers = [-LARGEST, -1, 0, 1, 9, 10, LARGEST - 1, LARGEST];
    let mut all = vec![Value::Null, Value::Bool(false), Value::Bool(true)];
    all.extend(numbers.map(Value::Number));
    all.extend(TEXTS.map(Value::from));
    all
}

fn change(rule: &Rule, before: u128, random: &mut fastrand::Rng) -> Change {
    match rule {
        Rule::Latest | Rule::Earliest | Rule::Max | Rule::Min => Change::Set(value(random)),
        Rule::Counter => Change::Count(random.choice([-LARGEST, -7, 0, 1, 5, LARGEST]).unwrap()),
        Rule::Union => Change::Add(value(random)),
        // Few elements, so that they are added and removed often.
        Rule::AddWins => {
            let value = random
                .choice([Value::Null, Value::Number(1), "1".into(), "\u{10000}".into(), "\u{fffd}".into()])
                .unwrap();
            if random.bool() {
                return Change::Add(value);
            }
            let seen = (0..before).filter(|_| random.bool()).map(|number| OpId::version_7(1_000, number));
            Change::Remove { value, observed: seen.collect() }
        }
        Rule::Map(fields) => {
            let (name, rule) = random.choice(fields).unwrap();
            Change::Field(name.clone(), Box::new(change(rule, before, random)))
        }
    }
}

/// What JavaScript's numbers don't hold is written as a text.
fn shown(view: &View) -> serde_json::Value {
    match view {
        View::Count(sum) if sum.unsigned_abs() > LARGEST as u128 => json!(sum.to_string()),
        View::Map(fields) => fields
            .iter()
            .map(|(name, view)| (name.as_str().to_owned(), shown(view)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        view => serde_json::to_value(view).unwrap(),
    }
}

fn merged(schema: &Schema, operations: &[Operation]) -> Merged {
    let mut state = schema.nothing(&operations[0].target).unwrap();
    operations.iter().for_each(|operation| state.apply(operation).unwrap());
    state
}

fn additions(state: &Merged) -> Vec<(Value, Vec<OpId>)> {
    let Merged::AddWins { added, .. } = state else { return Vec::new() };
    added.keys().map(|value| (value.clone(), state.additions(value).into_iter().collect())).collect()
}

fn merge(schema: &Schema, operations: Vec<Operation>) -> Merge {
    let state = merged(schema, &operations);
    Merge { view: shown(&state.view()), additions: additions(&state), operations }
}

fn tick(last: HybridTime, wall: u64) -> Tick {
    Tick { last, wall, gives: HybridClock::new(last, 0).tick(wall) }
}

fn shown_at(heard: &[[HybridTime; 2]], time: HybridTime) -> HybridTime {
    let mut times = Times::default();
    heard.iter().for_each(|[sent, given]| times.note(*sent, *given));
    times.shown(time)
}

/// All times around those that matter, after each of these histories.
fn moves() -> Vec<Shown> {
    let at = |millis, count| HybridTime { millis, count };
    let first = [at(3, 0), at(9, 1)];
    let histories = [
        vec![],
        vec![[at(3, 0); 2]],
        vec![first],
        vec![first, [at(5, 0); 2], [at(10, 0); 2]],
        vec![first, [at(5, 0), at(12, 0)]],
        vec![first, [at(5, 0), at(8, 0)]],
        vec![first, [at(5, 0), at(9, 1)]],
        vec![[at(3, 0), at(9, u32::MAX)]],
        vec![[at(30, 0), at(9, 0)]],
    ];
    let times = [at(2, 9), at(3, 0), at(3, 1), at(6, 0), at(9, 1), at(9, 2), at(20, 0)];
    let each = |heard: Vec<_>| times.map(|time| Shown { gives: shown_at(&heard, time), time, heard: heard.clone() });
    histories.into_iter().flat_map(each).collect()
}

fn fits(schema: &Schema, target: &str, change: Change) -> Fits {
    let target = name(target);
    Fits { fits: schema.check(&target, &change).is_ok(), target, change }
}

/// Operations of one name that differ all the same, which no device makes: replicas take the same one.
fn namesakes(schema: &Schema) -> impl Iterator<Item = Merge> {
    let kinds = ["latest", "earliest", "max", "min", "counter"];
    kinds.into_iter().map(|kind| {
        let operations = [3, 7, 5].map(|number| Operation {
            op_id: OpId::version_7(1_000, 1),
            device: name("p"),
            time: HybridTime::default(),
            target: name(&format!("{kind}/namesakes")),
            change: if kind == "counter" { Change::Count(number) } else { Change::Set(Value::Number(number)) },
        });
        merge(schema, operations.to_vec())
    })
}

fn write() -> Cases {
    let mut random = fastrand::Rng::with_seed(9);
    let schema = schema();
    let at = |millis, count| HybridTime { millis, count };
    let mut stamps: Vec<_> = (0..40).map(|number| stamp(number, &mut random)).collect();
    stamps.sort();
    let merges = schema.kinds.iter().flat_map(|(kind, rule)| {
        let many = if matches!(rule, Rule::Map(_)) { 12 } else { 4 };
        (0..many).map(|case| (kind.clone(), rule.clone(), case)).collect::<Vec<_>>()
    });
    let merges = merges.map(|(kind, rule, case)| {
        let operations = (0..2 + 3 * case).map(|number| {
            let Stamp { time, device, op_id } = stamp(number, &mut random);
            let target = name(&format!("{kind}/{case}"));
            Operation { op_id, device, time, target, change: change(&rule, number, &mut random) }
        });
        merge(&schema, operations.collect())
    });
    let merges = merges.chain(namesakes(&schema)).collect();
    let field = |field: &str, change| Change::Field(name(field), Box::new(change));
    let set = |number: i64| Change::Set(Value::Number(number));
    Cases {
        about: "What the protocol core makes of operations. Sums beyond 2^53 - 1 are written as texts.".into(),
        values: values(),
        stamps,
        ticks: vec![
            tick(at(0, 0), 5),
            tick(at(5, 0), 5),
            tick(at(5, 7), 4),
            tick(at(5, u32::MAX), 4),
            tick(at(5, u32::MAX), 6),
        ],
        shown: moves(),
        fits: vec![
            fits(&schema, "latest/1", set(LARGEST)),
            fits(&schema, "latest", set(-LARGEST)),
            fits(&schema, "latest/1", set(LARGEST + 1)),
            fits(&schema, "latest/1", Change::Count(1)),
            fits(&schema, "lates/1", set(1)),
            fits(&schema, "counter/1", Change::Count(-LARGEST - 1)),
            fits(&schema, "counter/1", set(1)),
            fits(&schema, "union/1", Change::Add("".into())),
            fits(&schema, "add-wins/1/2", Change::Add(Value::Null)),
            fits(&schema, "map/1", set(1)),
            fits(&schema, "map/1", field("title", set(1))),
            fits(&schema, "map/1", field("titl", set(1))),
            fits(&schema, "map/1", field("toString", set(1))),
            fits(&schema, "map/1", field("__proto__", Change::Count(1))),
            fits(&schema, "map/1", field("best", field("😀", Change::Add(Value::Bool(true))))),
            fits(&schema, "map/1", field("best", field("time", Change::Add(Value::Null)))),
            fits(&schema, "map/1", field("none", field("none", set(1)))),
            fits(&schema, "toString/1", set(1)),
        ],
        merges,
        schema,
    }
}

/// One case a line, so that a change shows where it is.
fn lines(cases: &Cases) -> String {
    let serde_json::Value::Object(fields) = serde_json::to_value(cases).unwrap() else { unreachable!() };
    let fields = fields.into_iter().map(|(name, value)| match value {
        serde_json::Value::Array(all) => {
            let all: Vec<_> = all.iter().map(ToString::to_string).collect();
            format!("\"{name}\": [\n{}\n]", all.join(",\n"))
        }
        other => format!("\"{name}\": {other}"),
    });
    format!("{{\n{}\n}}\n", fields.collect::<Vec<_>>().join(",\n"))
}

#[test]
fn the_shared_cases_are_what_the_core_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/merge.json");
    if std::env::var_os("SETTLED_WRITE_CASES").is_some() {
        std::fs::write(&path, lines(&write())).unwrap();
    }
    let cases: Cases = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(cases.values.is_sorted() && cases.stamps.is_sorted());
    for case in &cases.ticks {
        assert_eq!(HybridClock::new(case.last, 0).tick(case.wall), case.gives);
    }
    for case in &cases.shown {
        assert_eq!(shown_at(&case.heard, case.time), case.gives);
    }
    for case in &cases.fits {
        assert_eq!(cases.schema.check(&case.target, &case.change).is_ok(), case.fits, "{:?}", case.change);
    }
    let mut kinds = BTreeMap::<&str, usize>::new();
    for case in &cases.merges {
        let state = merged(&cases.schema, &case.operations);
        assert_eq!(shown(&state.view()), case.view, "{:#?}", case.operations);
        assert_eq!(additions(&state), case.additions);
        *kinds.entry(case.operations[0].target.as_str().split('/').next().unwrap()).or_default() += 1;
    }
    assert_eq!(kinds.len(), cases.schema.kinds.len(), "each rule has a case: {kinds:?}");
}

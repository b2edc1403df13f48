//! A line that is changed, left out, doubled or put elsewhere is noticed: as a violation, or as a gap.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::BTreeMap;

use common::*;
use serde_json::Value;
use settled::HistoryLine;
use settled_verify::Verifier;

/// What was done to a line.
#[derive(Clone, Copy, Debug)]
enum Mutation {
    Drop,
    Double,
    Swap,
    /// Alters the field of this number, among all that the line has.
    Alter(usize),
}

/// Fields that nothing can be held against: they are for people, or may be as they like.
const FREE: [&str; 15] = [
    // Texts for people, and what was asked and sent, of which histories keep no digest.
    "/arguments",
    "/because",
    "/note",
    "/reason",
    // Clocks and draws: any would do, if nothing was decided by them.
    "/at",
    "/step/now",
    "/step/draw",
    // What a step did not depend on.
    "/step/by",
    "/step/policy",
    "/policy",
    "/step/what/resume",
    // What a refusal was of.
    "/version",
    // When it began to count.
    "/from",
    // Who was the first to be told, and whether "not applied" would have counted, where nothing followed from it.
    "/replayed",
    "/conclusive",
];

/// Whether the second line can't come before the first one: of others, any order would do.
fn depends(one: &Value, two: &Value) -> bool {
    let event = |line: &Value| line["event"].as_str().unwrap_or_default().to_owned();
    let is = |line: &Value, state: &str| event(line) == "stored" && line["state"] == state;
    let is_outcome = matches!(two["answer"].as_str(), Some("done" | "failed"));
    match (&*event(one), &*event(two)) {
        ("started", _) | ("asked", "stored" | "joined") | ("sent", "replied") => true,
        ("replied" | "lost" | "escalated", "stored") => true,
        ("stored", "sent") => is(one, "dispatched"),
        ("stored", "answered") => is(one, "settled") && is_outcome,
        _ => false,
    }
}

/// Every single value in a line, by its path.
fn fields(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| fields(value, &format!("{path}/{name}"), found)),
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(index, value)| fields(value, &format!("{path}/{index}"), found));
        }
        _ => found.push(path.to_owned()),
    }
}

/// Another value of the same kind.
fn altered(value: &Value) -> Value {
    match value {
        Value::Null => Value::from(1),
        Value::Bool(is) => Value::from(!is),
        Value::Number(number) => Value::from(number.as_u64().unwrap_or_default() + 1),
        Value::String(text) if text.len() == 64 => Value::from("0".repeat(64)),
        Value::String(text) if text == "done" => Value::from("failed"),
        Value::String(text) => Value::from(format!("{text}x")),
        other => other.clone(),
    }
}

fn mutate(lines: &[HistoryLine], at: usize, mutation: Mutation) -> Option<(Vec<Value>, String)> {
    let mut values: Vec<_> = lines.iter().map(|line| serde_json::to_value(line).unwrap()).collect();
    let what = match mutation {
        Mutation::Drop => {
            values.remove(at);
            "drop".to_owned()
        }
        Mutation::Double => {
            values.insert(at, values[at].clone());
            "double".to_owned()
        }
        Mutation::Swap => {
            // What came first has the smaller number, wherever it stands: so the numbers are swapped.
            let other = at + 1;
            if other == values.len() || !depends(&values[at], &values[other]) {
                return None;
            }
            let (one, two) = (values[at]["n"].clone(), values[other]["n"].clone());
            values[at]["n"] = two;
            values[other]["n"] = one;
            "swap".to_owned()
        }
        Mutation::Alter(number) => {
            let mut found = Vec::new();
            fields(&values[at], "", &mut found);
            let path = found[number % found.len()].clone();
            let is_unused = path == "/step/what/observed/conclusive"
                && values[at]["step"]["what"]["observed"]["observation"] != "not-applied";
            if is_unused || FREE.iter().any(|free| path.starts_with(free)) {
                return None;
            }
            let value = values[at].pointer_mut(&path).unwrap();
            *value = altered(value);
            path
        }
    };
    Some((values, what))
}

/// The lines of one operation, numbered as if nothing else had happened.
fn of_one_key(lines: &[HistoryLine], key: &settled::protocol::Key) -> Vec<HistoryLine> {
    let of_it = |line: &&HistoryLine| line.key.as_ref().is_none_or(|its| its == key);
    let mut lines: Vec<_> = lines.iter().filter(of_it).cloned().collect();
    (1..).zip(&mut lines).for_each(|(n, line)| line.n = n);
    lines
}

fn is_noticed(lines: Vec<HistoryLine>) -> bool {
    let mut verifier = Verifier::new(ENDED);
    lines.into_iter().for_each(|line| verifier.line(line));
    let report = verifier.finish();
    report.is_violated() || !report.gaps().is_empty() || report.unfinished > 0
}

#[tokio::test(start_paused = true)]
async fn a_changed_line_is_noticed() {
    let mut tried = 0;
    let mut unnoticed: BTreeMap<String, usize> = BTreeMap::new();
    for kind in kinds() {
        let run = run_of(kind).await;
        let mut keys: Vec<_> = run.lines.iter().filter_map(|line| line.key.clone()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let lines = of_one_key(&run.lines, &key);
            assert!(!is_noticed(lines.clone()));
            for at in 0..lines.len() {
                // Each field of a line comes up in one of the runs.
                let alterations = (0..40).filter(|number| (at + number) % 10 == 0).map(Mutation::Alter);
                for mutation in [Mutation::Drop, Mutation::Double, Mutation::Swap].into_iter().chain(alterations) {
                    let Some((values, what)) = mutate(&lines, at, mutation) else { continue };
                    tried += 1;
                    let read: Result<Vec<HistoryLine>, _> = values.into_iter().map(serde_json::from_value).collect();
                    // What can't be read is noticed.
                    if read.is_ok_and(|read| !is_noticed(read)) {
                        let event = serde_json::to_value(&lines[at]).unwrap()["event"].clone();
                        *unnoticed.entry(format!("{} {what}", event.as_str().unwrap())).or_default() += 1;
                    }
                }
            }
        }
    }
    assert!(tried > 1_000, "{tried}");
    // An answer that came when a person had been asked already, and changed nothing.
    unnoticed.remove("replied /digest");
    assert_eq!(unnoticed, BTreeMap::new(), "of {tried}");
}

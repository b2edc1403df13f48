//! The transition relation of the core for proofs without bounds: every typed policy × state × event, with
//! attempts, owners, times and data told as relations. It is kept in `proofs/smt/relation.json`, from which the proofs
//! build their formulas; a change of the core fails here.
//! `UPDATE=1 cargo test -p settled-protocol --test relation` writes it anew.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod concrete;
mod cover;
mod describe;
mod dims;

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value, json};

use concrete::{Builder, REPRESENTATIVES};
use dims::{DIMS, Point};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proofs/smt/relation.json");

/// Every point that does something, by what it does. All representatives of a point must do the same: that makes the
/// table a faithful picture of the core.
fn relation() -> (usize, BTreeMap<String, Vec<Point>>) {
    let mut builder = Builder::default();
    let mut by_consequence: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    let mut count = 0;
    for policy in dims::policies() {
        for state in dims::states() {
            let mut of = policy;
            for (to, from) in of.iter_mut().zip(state) {
                *to = (*to).max(from);
            }
            for point in dims::events(&of) {
                count += 1;
                let mut seen: Option<Option<Value>> = None;
                for r in 0..REPRESENTATIVES {
                    let Some(at) = builder.build(&point, r) else { continue };
                    let step = at.policy.step(at.record.as_ref(), &at.event);
                    let then = describe::describe(at.record.as_ref(), &at.event, &step);
                    match &seen {
                        None => seen = Some(then),
                        Some(first) => assert_eq!(*first, then, "depends on more than {:?}", named(&point)),
                    }
                }
                if let Some(Some(then)) = seen {
                    by_consequence.entry(then.to_string()).or_default().push(point);
                }
            }
        }
    }
    (count, by_consequence)
}

fn named(point: &Point) -> Vec<(&'static str, &'static str)> {
    (0..dims::N).filter(|dim| point[*dim] != 0).map(|dim| (DIMS[dim].1, dims::value(point, dim))).collect()
}

fn table() -> String {
    let (count, relation) = relation();
    let mut values = Map::new();
    for (group, name, all) in DIMS {
        values.entry(*group).or_insert_with(|| json!({}))[*name] = json!(all);
    }
    let mut text = String::new();
    writeln!(
        text,
        "{{\"about\": \"Generated from the protocol core: see model/protocol/tests/relation. \
         Pairs that are in no row change nothing.\","
    )
    .unwrap();
    writeln!(text, "\"pairs\": {count},\n\"values\": {},\n\"rows\": [", Value::Object(values)).unwrap();
    let mut rows = Vec::new();
    for (then, points) in relation {
        let then = serde_json::from_str(&then).unwrap();
        rows.extend(cover::cover(&points).iter().map(|row| (*row, cover::show(row, &then).to_string())));
    }
    rows.sort_by_key(|(row, _)| (row[dims::WHAT], row[dims::PHASE], *row));
    let lines: Vec<String> = rows.into_iter().map(|(_, line)| line).collect();
    writeln!(text, "{}\n]}}", lines.join(",\n")).unwrap();
    text
}

#[test]
fn the_relation_is_the_one_that_is_proved() {
    let table = table();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(FILE, &table).unwrap();
    }
    let proved = std::fs::read_to_string(FILE).unwrap_or_default();
    for (line, (is, was)) in (1..).zip(table.lines().zip(proved.lines())) {
        assert_eq!(
            is, was,
            "proofs/smt/relation.json, line {line}: the core has changed; if it is meant, run with UPDATE=1, \
             then proofs/check"
        );
    }
    assert_eq!(table.lines().count(), proved.lines().count());
}

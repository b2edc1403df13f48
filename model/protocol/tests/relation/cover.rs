//! Points with the same consequence, written as few rows: each row a set of values in every dimension.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::dims::{DIMS, N, Point};

/// In each dimension the set of values, as bits; bit 0: it doesn't apply.
pub type Row = [u16; N];

/// Rows that hold exactly these points, each in one of them.
pub fn cover(points: &[Point]) -> Vec<Row> {
    let mut rows: Vec<Row> = points.iter().map(|point| point.map(|index| 1 << index)).collect();
    loop {
        let count = rows.len();
        for dim in (0..N).rev() {
            let mut merged: BTreeMap<Row, u16> = BTreeMap::new();
            for row in rows {
                let mut rest = row;
                rest[dim] = 0;
                *merged.entry(rest).or_default() |= row[dim];
            }
            rows = merged
                .into_iter()
                .map(|(mut row, values)| {
                    row[dim] = values;
                    row
                })
                .collect();
        }
        if rows.len() == count {
            return rows;
        }
    }
}

/// A row as the table shows it: a dimension that is not named may have any value.
pub fn show(row: &Row, then: &Value) -> Value {
    let mut shown = Map::new();
    for (dim, (group, name, values)) in DIMS.iter().enumerate() {
        let all = ((1 << values.len()) - 1) << 1;
        if row[dim] & all == all || row[dim] == 1 {
            continue;
        }
        let of_row = (1..).zip(*values).filter(|(bit, _)| row[dim] & (1 << bit) != 0).map(|(_, value)| *value);
        let group = shown.entry(*group).or_insert_with(|| json!({}));
        group[*name] = json!(of_row.collect::<Vec<_>>());
    }
    shown.insert("then".into(), then.clone());
    Value::Object(shown)
}

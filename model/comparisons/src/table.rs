//! What came out, for people.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::measure::Measured;
use crate::spin::SpinReport;

/// One model on one engine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The model.
    pub what: String,
    /// The engine, and how it was set.
    pub engine: String,
    /// Distinct states.
    pub unique_states: usize,
    /// Time from beginning to verdict. Spin's has the time for translating and compiling in it.
    pub seconds: f64,
    /// Distinct states in each second of the search alone.
    pub states_per_second: f64,
    /// Peak of memory by distinct states; `None` where it is not known, or where there are too few states to say.
    pub bytes_per_state: Option<f64>,
    /// What was found.
    pub verdict: String,
}

/// Below this many states, memory is what the program itself takes.
const MANY: usize = 10_000;

impl Row {
    /// Of a run of our explorer, or of stateright.
    pub fn measured(what: &str, engine: &str, its: &Measured) -> Row {
        let counted = &its.counted;
        let unfinished = if counted.exhaustive { "" } else { " (not finished)" };
        Row {
            what: what.to_owned(),
            engine: engine.to_owned(),
            unique_states: counted.unique_states,
            seconds: its.seconds,
            states_per_second: counted.unique_states as f64 / its.seconds.max(1e-9),
            bytes_per_state: its.peak_bytes.and_then(|bytes| per_state(bytes, counted.unique_states)),
            verdict: verdict(&counted.violated) + unfinished,
        }
    }

    /// Of a run of Spin. Its memory is what it says itself that it asked for.
    pub fn spin(what: &str, engine: &str, its: &SpinReport) -> Row {
        Row {
            what: what.to_owned(),
            engine: engine.to_owned(),
            unique_states: its.states,
            seconds: (its.building + its.search).as_secs_f64(),
            states_per_second: its.states as f64 / its.search.as_secs_f64().max(1e-9),
            bytes_per_state: per_state(its.memory, its.states),
            verdict: verdict(&its.property_names()),
        }
    }

    /// Of Spin where it is not installed.
    pub fn missing(what: &str, engine: &str) -> Row {
        Row {
            what: what.to_owned(),
            engine: engine.to_owned(),
            unique_states: 0,
            seconds: 0.0,
            states_per_second: 0.0,
            bytes_per_state: None,
            verdict: "not installed: apt-get install spin gcc".to_owned(),
        }
    }
}

fn per_state(bytes: u64, states: usize) -> Option<f64> {
    (states >= MANY).then(|| bytes as f64 / states as f64)
}

fn verdict(violated: &[String]) -> String {
    if violated.is_empty() { "all hold".to_owned() } else { format!("violated: {}", violated.join(", ")) }
}

/// All rows in one table.
pub fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["model", "engine", "unique states", "states/s", "bytes/state", "seconds", "verdict"]);
    for row in rows {
        table.add_row([
            row.what.clone(),
            row.engine.clone(),
            grouped(row.unique_states),
            if row.unique_states < MANY { "-".into() } else { grouped(row.states_per_second as usize) },
            row.bytes_per_state.map_or_else(|| "-".into(), |bytes| format!("{bytes:.0}")),
            format!("{:.3}", row.seconds),
            row.verdict.clone(),
        ]);
    }
    for column in 2..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

/// 1234567 as 1,234,567.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

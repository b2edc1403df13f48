//! What came out, for people.

use comfy_table::{CellAlignment, Table, presets};

use crate::aims::{Aim, number};
use crate::load::Measured;
use crate::suite::{CALLERS, Report, Row, What};

/// The whole report.
pub fn report(report: &Report) -> String {
    let mut parts = vec![calls(&report.rows)];
    parts.push(format!(
        "Calls a second; p50 and p99 in microseconds. {} processors{}. Medians of rounds in turn.",
        report.processors,
        if report.sync_delay > 0.0 {
            format!(", {} ms added to each sync of a file", report.sync_delay)
        } else {
            String::new()
        }
    ));
    parts.push(format!("\nWhere the time of a guarded call goes (file ledger)\n{}", layers(report)));
    parts.push(
        "Each line is what it adds to the line before it; the processors' time is that of all threads together.".into(),
    );
    parts.push(format!("\nThe bare log taken apart: microseconds of each durable write\n{}", stages(report)));
    parts.push(format!("\nSingle parts, without waiting: microseconds a call\n{}", single(report)));
    if let Some(many) = many(report) {
        parts.push(format!("\n{many}"));
    }
    parts.push(format!("\n{}", aims(&report.aims)));
    parts.join("\n")
}

pub(crate) fn table(header: impl IntoIterator<Item = String>, rows: Vec<Vec<String>>, left: usize) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    let header: Vec<String> = header.into_iter().collect();
    let columns = header.len();
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in left..columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

pub(crate) fn header(first: &[&str], each: &[&str]) -> Vec<String> {
    let columns = CALLERS.iter().flat_map(|callers| each.iter().map(move |each| format!("{callers}: {each}")));
    first.iter().map(|text| (*text).to_owned()).chain(columns).collect()
}

fn calls(rows: &[Row]) -> String {
    let lines = rows.iter().map(|row| {
        let mut line = vec![row.on.clone(), row.name.clone()];
        for run in &row.runs {
            // A batch of syncs stands for as many records.
            let batch = if row.what == What::Syncs { " syncs".to_owned() } else { String::new() };
            line.push(format!("{}{batch}", number(run.per_second)));
            line.push(number(run.p50));
            line.push(number(run.p99));
        }
        line
    });
    table(header(&["on", "what"], &["calls/s", "p50", "p99"]), lines.collect(), 2)
}

/// The rows of the file ledger from the disk upwards, each less the one below.
fn layers(report: &Report) -> String {
    let layers = [
        (What::Syncs, "two syncs of the disk"),
        (What::BareLog, "+ the log: queue, batches, waking up"),
        (What::BareLedger, "+ the ledger: encoding, index, compare-and-set"),
        (What::CallsWithoutHistory, "+ the engine: keys, fingerprints, in-flight table, core, tasks"),
        (What::Calls, "+ the history"),
    ];
    let mut lines = Vec::new();
    let mut below: Option<Vec<Cost>> = None;
    for (what, name) in layers {
        let Some(row) = report.rows.iter().find(|row| row.on == "file" && row.what == what) else { continue };
        let costs: Vec<Cost> = row.runs.iter().map(|run| Cost::of(run, what)).collect();
        let mut line = vec![name.to_owned()];
        for (at, cost) in costs.iter().enumerate() {
            let before = below.as_ref().and_then(|below| below.get(at));
            line.push(signed(cost.time - before.map_or(0.0, |before| before.time), before.is_some()));
            line.push(match (cost.cpu, before.map(|before| before.cpu)) {
                (Some(cpu), Some(Some(before))) => signed(cpu - before, true),
                (Some(cpu), _) => number(cpu),
                (None, _) => "–".to_owned(),
            });
        }
        lines.push(line);
        below = Some(costs);
    }
    if let Some(calls) = report.rows.iter().find(|row| row.on == "file" && row.what == What::Calls) {
        let mut line = vec!["= a guarded call".to_owned()];
        for run in &calls.runs {
            let cost = Cost::of(run, What::Calls);
            line.push(number(cost.time));
            line.push(cost.cpu.map_or_else(|| "–".to_owned(), number));
        }
        lines.push(line);
    }
    table(header(&["layer"], &["µs waited", "µs of CPU"]), lines, 1)
}

/// What one call costs: the time until it has ended, and of processors.
struct Cost {
    time: f64,
    cpu: Option<f64>,
}

impl Cost {
    fn of(run: &Measured, what: What) -> Cost {
        match what {
            // A call needs two of them, and shares them with the others of its batch.
            What::Syncs => Cost { time: 2.0 * run.p50, cpu: run.cpu.map(|cpu| 2.0 * cpu) },
            _ => Cost { time: run.p50, cpu: run.cpu },
        }
    }
}

fn signed(value: f64, with_sign: bool) -> String {
    if with_sign && value >= 0.0 { format!("+{}", number(value)) } else { number(value) }
}

fn stages(report: &Report) -> String {
    let lines = report.stages.iter().map(|(callers, its)| {
        vec![
            callers.to_string(),
            number(its.queue),
            number(its.write),
            number(its.sync),
            number(its.wake_up),
            number(its.batch),
        ]
    });
    let header = ["callers", "in the queue", "write", "sync", "waking up", "records in a batch"].map(str::to_owned);
    table(header, lines.collect(), 0)
}

fn single(report: &Report) -> String {
    let lines = report.parts.iter().map(|part| vec![part.what.to_owned(), number(part.micros)]);
    table(["part", "µs"].map(str::to_owned), lines.collect(), 1)
}

fn many(report: &Report) -> Option<String> {
    let many = report.many.as_ref()?;
    let mut text =
        format!("{} keys on the file ledger: {} bytes of disk a call, ", number(many.keys as f64), number(many.disk));
    if let Some(memory) = many.memory {
        text += &format!("{} bytes of memory a key, ", number(memory));
    }
    text += &format!("opened in {} s", number(many.open));
    if let Some(whole) = many.open_without_snapshot {
        text += &format!(" ({} s without the snapshot)", number(whole));
    }
    text += &format!(
        "; {} calls a second for the first tenth, {} for the last.",
        number(many.first_tenth),
        number(many.last_tenth)
    );
    Some(text)
}

/// The aims as lines of text.
pub fn aims(aims: &[Aim]) -> String {
    let lines = aims.iter().map(|its| {
        let sign = if its.met { "✓" } else { "✗" };
        format!("{sign} {}: {} ({} of the aim)", its.aim, its.measured, number(its.reached))
    });
    lines.collect::<Vec<_>>().join("\n")
}

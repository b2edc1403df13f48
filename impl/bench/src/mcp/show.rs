//! What came out, for people.

use crate::aims::number;
use crate::mcp::contest::{Report, Row};
use crate::mcp::memory::{IN_FLIGHT, Memory};
use crate::mcp::{Link, Tool};
use crate::show::{header, table};
use crate::suite::CALLERS;

/// The whole report.
pub fn report(report: &Report) -> String {
    let mut parts = vec![calls(report)];
    parts.push(format!(
        "Calls a second with 1, 16 and 128 in flight; p50 and p99 in microseconds. Added: to the p50 of no proxy with 1 in flight, \
         on the same connection of the client. A sync of this disk takes {} µs; a guarded call needs two. {} processors. Medians \
         of rounds in turn.",
        number(report.sync),
        report.processors
    ));
    parts.extend(report.rows.iter().filter_map(|row| Some(format!("{}: {}", row.name, row.problem.as_ref()?))));
    if !report.memory.is_empty() {
        parts.push(format!("\nMemory resident in the proxy, {IN_FLIGHT} calls in flight\n{}", memory(&report.memory)));
    }
    parts.join("\n")
}

fn calls(report: &Report) -> String {
    let lines = report.rows.iter().map(|row| {
        let mut line = vec![way(row), row.name.clone(), what(row), added(report, row)];
        for place in 0..CALLERS.len() {
            match row.runs.get(place) {
                Some(run) if run.calls > 0 => line.extend([run.per_second, run.p50, run.p99].map(number)),
                // Failed, or too slow for a single call.
                _ => line.extend(["–"; 3].map(str::to_owned)),
            }
        }
        line
    });
    table(header(&["transport", "through", "call", "added"], &["calls/s", "p50", "p99"]), lines.collect(), 3)
}

fn way(row: &Row) -> String {
    let name = |link| if link == Link::Stdio { "stdio" } else { "HTTP" };
    match row.back {
        Some(back) => format!("{}>{}", name(row.front), name(back)),
        None => name(row.front).to_owned(),
    }
}

fn what(row: &Row) -> String {
    match row.tool {
        Tool::Read => "passed".to_owned(),
        Tool::Charge => "guarded".to_owned(),
    }
}

fn added(report: &Report, row: &Row) -> String {
    let p50 = |row: &Row| row.runs.first().filter(|run| run.calls > 0).map(|run| run.p50);
    match (row.back, p50(row), report.without_proxy(row.front).and_then(p50)) {
        (Some(_), Some(with), Some(without)) => number((with - without).max(0.0)),
        _ => "–".to_owned(),
    }
}

fn memory(all: &[Memory]) -> String {
    let longest = all.iter().map(|memory| memory.resident.len()).max().unwrap_or_default();
    let mut lines = Vec::new();
    for place in 0..longest {
        let at = all.iter().find_map(|memory| memory.resident.get(place));
        let mut line = vec![at.map(|(calls, _)| calls.to_string()).unwrap_or_default()];
        line.extend(all.iter().map(|memory| {
            let bytes = memory.resident.get(place).map(|(_, bytes)| *bytes as f64);
            bytes.map_or_else(|| "–".to_owned(), |bytes| format!("{:.1} MiB", bytes / f64::from(1 << 20)))
        }));
        lines.push(line);
    }
    let mut rates = vec!["calls/s".to_owned()];
    rates.extend(all.iter().map(|memory| number(memory.per_second)));
    lines.push(rates);
    let columns = all.iter().map(|memory| if memory.tool == Tool::Read { "passed" } else { "guarded" });
    table(["calls"].into_iter().chain(columns).map(str::to_owned), lines, 0)
}

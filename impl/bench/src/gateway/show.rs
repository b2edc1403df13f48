//! What came out, for people.

use crate::aims::number;
use crate::gateway::contest::{Report, Row};
use crate::load::Measured;
use crate::show::{header, table};
use crate::suite::CALLERS;

/// The whole report.
pub fn report(report: &Report) -> String {
    let mut parts = vec![calls(report)];
    parts.push(format!(
        "Requests a second with 1, 16 and 128 in flight; p50 and p99 in microseconds. Added: to no proxy, with 1 in flight. A sync of \
         this disk takes {} µs; a first call through settled needs two before its answer, one through nginx + Redis waits for \
         none. {} processors. Medians of rounds in turn.",
        number(report.sync),
        report.processors
    ));
    parts.extend(report.skipped.iter().map(|(name, why)| format!("{name}: {why}")));
    parts.join("\n")
}

fn calls(report: &Report) -> String {
    let lines = report.rows.iter().map(|row| {
        let mut line = vec![row.name.clone(), row.call.name().to_owned()];
        line.extend([|run: &Measured| run.p50, |run: &Measured| run.p99].map(|of| added(report, row, of)));
        for place in 0..CALLERS.len() {
            match row.runs.get(place) {
                Some(run) if run.calls > 0 => line.extend([run.per_second, run.p50, run.p99].map(number)),
                // Too slow for a single call.
                _ => line.extend(["–"; 3].map(str::to_owned)),
            }
        }
        line
    });
    table(header(&["through", "request", "added p50", "added p99"], &["req/s", "p50", "p99"]), lines.collect(), 2)
}

fn added(report: &Report, row: &Row, of: fn(&Measured) -> f64) -> String {
    let one = |row: &Row| row.runs.first().filter(|run| run.calls > 0).map(of);
    match (one(row), report.without_proxy()) {
        (Some(with), Some(without)) if !std::ptr::eq(row, without) => {
            one(without).map_or_else(|| "–".to_owned(), |without| number((with - without).max(0.0)))
        }
        _ => "–".to_owned(),
    }
}

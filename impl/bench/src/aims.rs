//! What is aimed at, in the disk's own units, and what was reached.

use serde::Serialize;

use crate::load::Measured;
use crate::suite::{Report, Row, What};

/// One aim, with what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Aim {
    /// What is aimed at.
    pub aim: String,
    /// What was measured.
    pub measured: String,
    /// Measured by aim, such that 1 is just reached and more is better.
    pub reached: f64,
    /// Whether it is met.
    pub met: bool,
}

impl Aim {
    fn at_least(aim: impl Into<String>, least: f64, measured: f64, unit: &str) -> Aim {
        let text = format!("{}{unit}", number(measured));
        Aim { aim: aim.into(), measured: text, reached: measured / least, met: measured >= least }
    }

    fn at_most(aim: impl Into<String>, most: f64, measured: f64, unit: &str) -> Aim {
        let text = format!("{}{unit}", number(measured));
        Aim { aim: aim.into(), measured: text, reached: most / measured.max(1e-9), met: measured <= most }
    }
}

/// A disk whose syncs take this long or longer, in microseconds, is a slow one: more calls share a sync there.
const SLOW: f64 = 2_000.0;

/// All aims about what was measured.
pub fn aims(report: &Report) -> Vec<Aim> {
    let mut aims = in_syncs(report);
    aims.extend(beside_the_bare_log(report));
    aims.extend(duplicates(report));
    aims.extend(peers(report));
    aims.extend(many(report));
    aims
}

fn row(report: &Report, what: What) -> Option<&Row> {
    report.rows.iter().find(|row| row.kind == "file" && row.on == "file" && row.what == what)
}

fn run(report: &Report, what: What, callers: usize) -> Option<&Measured> {
    row(report, what)?.at(callers)
}

/// S: syncs a second of one thread that writes one record at a time; t: how long one takes.
fn in_syncs(report: &Report) -> Vec<Aim> {
    let Some(disk) = run(report, What::Syncs, 1) else {
        return Vec::new();
    };
    let (s, t) = (disk.per_second, disk.p50);
    let slow = t >= SLOW;
    let calls = |callers| run(report, What::Calls, callers);
    let rate = |callers, least: f64| {
        let aim = format!("guarded calls, {}: at least {least} S", so_many(callers));
        calls(callers).map(|run| Aim::at_least(aim, least, run.per_second / s.max(1e-9), " S"))
    };
    let (p99, p99_text) = if slow { (2.5, "2.5") } else { (5.0, "5") };
    let device = |callers, most: f64| {
        let aim = format!("bytes written to the disk for a call, {}: at most {most}", so_many(callers));
        calls(callers).and_then(|run| run.written).map(|bytes| Aim::at_most(aim, most, bytes, ""))
    };
    let all = [
        rate(1, 0.47),
        calls(1).map(|run| Aim::at_most("guarded calls, 1 caller: half within 2.3 t", 2.3, run.p50 / t, " t")),
        rate(16, if slow { 7.0 } else { 4.5 }),
        calls(16).map(|run| {
            Aim::at_most(format!("guarded calls, 16 callers: 99 % within {p99_text} t"), p99, run.p99 / t, " t")
        }),
        rate(128, if slow { 50.0 } else { 22.0 }),
        device(1, 8_500.0),
        device(128, 650.0),
    ];
    all.into_iter().flatten().collect()
}

fn beside_the_bare_log(report: &Report) -> Vec<Aim> {
    let aim = |callers: usize| {
        let (bare, calls) = (run(report, What::BareLog, callers)?, run(report, What::Calls, callers)?);
        let share = 100.0 * calls.per_second / bare.per_second.max(1e-9);
        let text = format!("guarded calls beside the bare log, {}: at least 90 %", so_many(callers));
        Some(Aim::at_least(text, 90.0, share, " %"))
    };
    crate::suite::CALLERS.into_iter().filter_map(aim).collect()
}

fn duplicates(report: &Report) -> Option<Aim> {
    let best = row(report, What::Duplicates)?.runs.iter().map(|run| run.per_second).max_by(f64::total_cmp)?;
    Some(Aim::at_least("duplicates: at least 1,000,000 a second", 1e6, best, " a second"))
}

/// On the same server: at least as many calls as the pattern. Beside the file ledger: many times fewer.
fn peers(report: &Report) -> Vec<Aim> {
    let mut aims = Vec::new();
    for pattern in report.rows.iter().filter(|row| row.what == What::Pattern) {
        let same = report.rows.iter().find(|row| row.on == pattern.on && row.what == What::Calls);
        for theirs in &pattern.runs {
            let callers = theirs.callers;
            if let Some(ours) = same.and_then(|row| row.at(callers)) {
                let times = ours.per_second / theirs.per_second.max(1e-9);
                let text =
                    format!("{}, {}: at least as many guarded calls as {}", pattern.on, so_many(callers), pattern.name);
                aims.push(Aim::at_least(text, 1.0, times, " times"));
            }
        }
        let at_128 = run(report, What::Calls, 128).zip(pattern.at(128));
        if let Some((ours, theirs)) = at_128 {
            let least = if pattern.kind == "redis" { 5.0 } else { 4.0 };
            let times = ours.per_second / theirs.per_second.max(1e-9);
            let text = format!("file ledger, 128 callers: at least {least} times {} on {}", pattern.name, pattern.on);
            aims.push(Aim::at_least(text, least, times, " times"));
        }
    }
    aims
}

fn many(report: &Report) -> Vec<Aim> {
    let Some(many) = &report.many else {
        return Vec::new();
    };
    let records = 2.0 * many.keys as f64;
    let whole = many.open_without_snapshot.unwrap_or(many.open);
    let mut aims = vec![
        Aim::at_most("disk for each call: at most 500 bytes", 500.0, many.disk, " bytes"),
        Aim::at_least(
            "opening without a snapshot: at least 3,000,000 records a second",
            3e6,
            records / whole.max(1e-9),
            " a second",
        ),
        Aim::at_most("opening: at most 0.5 s for each million keys", 0.5, many.open * 1e6 / many.keys as f64, " s"),
        Aim::at_least(
            "the last tenth of the calls as fast as the first: at least 90 %",
            90.0,
            100.0 * many.last_tenth / many.first_tenth.max(1e-9),
            " %",
        ),
    ];
    aims.extend(
        many.memory.map(|bytes| Aim::at_most("memory for each settled key: at most 96 bytes", 96.0, bytes, " bytes")),
    );
    aims
}

fn so_many(callers: usize) -> String {
    if callers == 1 { "1 caller".to_owned() } else { format!("{callers} callers") }
}

/// A number as people read it: about three digits, thousands grouped.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && digit.is_ascii_digit() && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match rest {
        Some(rest) => format!("{grouped}.{rest}"),
        None => grouped,
    }
}

//! What was found, for people and for programs.

use std::fmt::Write as _;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::gather::Stats;
use super::scrape::Process;
use super::story::Counts;

/// Everything, as JSON.
#[derive(Serialize)]
pub struct Whole<'a> {
    /// What the ledger says.
    pub ledger: &'a Stats,
    /// What a running process has counted.
    pub process: Option<&'a Process>,
}

/// The states in which an operation can be, in the order of its life.
const STATES: [&str; 8] =
    ["intent created", "dispatched", "unknown", "escalated", "confirmed", "succeeded", "failed", "abandoned"];

/// So many unknown operations and lines are listed.
const LISTED: usize = 20;

/// Everything, as text.
pub fn text(stats: &Stats, process: Option<&Process>) -> String {
    let mut text = format!("ledger       {}\n", stats.ledger);
    if let Some(why) = &stats.may_lose {
        line(&mut text, "promise", &format!("may lose what it has acknowledged: {why}"));
    }
    if let Some(bytes) = stats.disk_bytes {
        line(&mut text, "disk", &format!("{} ({} bytes)", size(bytes), bytes));
    }
    let among =
        if stats.all { String::new() } else { "; there are more settled ones (--records N looks at more)".to_owned() };
    line(&mut text, "operations", &format!("{}{among}", stats.operations));
    line(&mut text, "tombstones", &format!("{}; retention over and still there: {}", stats.tombstones, stats.over));
    let owners = &stats.owners;
    let more =
        if owners.not_looked_up > 0 { format!(", earlier ones: {}", owners.not_looked_up) } else { String::new() };
    line(
        &mut text,
        "processes",
        &format!(
            "{} alive, {} with a lease that has run out, {} ended{more}",
            owners.alive, owners.lapsed, owners.gone
        ),
    );
    fates(&mut text, stats);
    let _ = write!(text, "\n{}", states(stats));
    unknown(&mut text, stats);
    lines(&mut text, stats);
    if let Some(process) = process {
        counted(&mut text, process);
    }
    text
}

fn line(text: &mut String, name: &str, value: &str) {
    // Writing to a string can't fail.
    let _ = writeln!(text, "{name:<12} {value}");
}

fn fates(text: &mut String, stats: &Stats) {
    let (fates, histories) = (&stats.fates, &stats.histories);
    let share = fates.retry_share().map_or_else(String::new, |share| format!(", {} of them retries", percent(share)));
    line(text, "attempts", &format!("{}{share}{}", fates.attempts, in_brackets(&fates.retries)));
    line(text, "unknowns", &format!("{}{}", sum(&fates.unknowns), in_brackets(&fates.unknowns)));
    let rate = fates.recovery_rate().map_or_else(String::new, |rate| format!(", {} without a person", percent(rate)));
    line(
        text,
        "… settled",
        &format!(
            "{}{rate}{}; a person was asked {} times",
            sum(&fates.recovered_by),
            in_brackets(&fates.recovered_by),
            fates.escalations
        ),
    );
    line(text, "others", &format!("{}{}", sum(&fates.settled_by), in_brackets(&fates.settled_by)));
    if histories.read < histories.of {
        let text_of = format!(
            "the steps of {} of {} operations that took more than the usual two were read (--histories N reads more)",
            histories.read, histories.of
        );
        line(text, "", &text_of);
    }
}

fn sum(counts: &Counts) -> u64 {
    counts.values().sum()
}

fn in_brackets(counts: &Counts) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    format!(" ({})", parts.join(", "))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn states(stats: &Stats) -> Table {
    let present: Vec<&str> =
        STATES.into_iter().filter(|state| stats.by_tool.values().any(|its| its.contains_key(state))).collect();
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(std::iter::once("tool").chain(present.iter().copied()));
    for (tool, its) in &stats.by_tool {
        let counts = present.iter().map(|state| its.get(state).copied().unwrap_or_default().to_string());
        table.add_row(std::iter::once(tool.clone()).chain(counts));
    }
    right(&mut table, 1..=present.len());
    table
}

fn right(table: &mut Table, columns: std::ops::RangeInclusive<usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

fn unknown(text: &mut String, stats: &Stats) {
    if stats.unknown.is_empty() {
        return;
    }
    let escalated = stats.unknown.iter().filter(|its| its.escalated).count();
    let _ =
        writeln!(text, "\n\nunknown now: {}, of which a person has been asked about {escalated}", stats.unknown.len());
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(["key", "since", "cause", "attempts", "a person was asked"]);
    for its in stats.unknown.iter().take(LISTED) {
        let asked = if its.escalated { "yes" } else { "no" };
        table.add_row([
            its.key.clone(),
            age(its.age_seconds),
            its.cause.into(),
            its.attempts.to_string(),
            asked.into(),
        ]);
    }
    let _ = write!(text, "{table}");
    and_more(text, stats.unknown.len());
}

fn lines(text: &mut String, stats: &Stats) {
    if stats.lines.is_empty() {
        return;
    }
    let waiting: u64 = stats.lines.iter().map(|line| line.waiting).sum();
    let _ = writeln!(text, "\n\nresources held: {}, operations that wait: {waiting}", stats.lines.len());
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(["resource", "held by", "its state", "waiting"]);
    for its in stats.lines.iter().take(LISTED) {
        table.add_row([its.resource.clone(), its.held_by.clone(), its.state.into(), its.waiting.to_string()]);
    }
    right(&mut table, 3..=3);
    let _ = write!(text, "{table}");
    and_more(text, stats.lines.len());
}

fn and_more(text: &mut String, all: usize) {
    if all > LISTED {
        let _ = write!(text, "\nand {} more (--json shows all)", all - LISTED);
    }
}

fn counted(text: &mut String, its: &Process) {
    let _ = writeln!(text, "\n\nthe process, since it began");
    let answers: Vec<String> = its.answers.iter().map(|(answer, count)| format!("{answer} {count}")).collect();
    let share = if its.calls > 0 { percent(its.deduplicated as f64 / its.calls as f64) } else { percent(0.0) };
    line(text, "calls", &format!("{} ({}), {share} of them deduplicated", its.calls, answers.join(", ")));
    line(text, "conflicts", &its.conflicts.to_string());
    line(text, "fenced", &format!("{}; took over {}", its.fenced, its.takeovers));
    line(text, "retries", &format!("{} put off: the budget was used up", its.retry_budget_refused));
    let took = |seconds: Option<f64>| seconds.map_or_else(|| "–".to_owned(), |its| format!("{:.2} ms", its * 1e3));
    let stores = format!("{}, half within {}, 99 % within {}", its.stores, took(its.store_p50), took(its.store_p99));
    line(text, "writes", &stores);
}

fn age(seconds: u64) -> String {
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1_024.0 && unit + 1 < UNITS.len() {
        value /= 1_024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS.get(unit).copied().unwrap_or_default())
}

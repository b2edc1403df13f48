//! The report for people.

use std::fmt::Write;

use comfy_table::{Cell, Color, LineStyle, Table, TableStyle};
use settled_audit::{ExperimentReport, Found, Listed, Outcome, Report, ToolReport, Verdict};

const WIDTH: u16 = 120;
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));
/// More changes and answers than these are in the JSON report only.
const MOST_SHOWN: usize = 2;

/// The whole report.
pub(super) fn text(report: &Report) -> String {
    let mut text = head(report);
    for tool in &report.tools {
        text.push('\n');
        text.push_str(&of_tool(tool));
    }
    if report.tools.is_empty() {
        text.push('\n');
        text.push_str(&listed(&report.listed));
    } else if !report.listed.is_empty() {
        let _ = writeln!(text, "\nNot called: {} other tools.", report.listed.len());
    }
    if !report.tools.is_empty() {
        let _ = writeln!(text, "\n{}", end(report));
    }
    text
}

fn head(report: &Report) -> String {
    let server = &report.server;
    let mut text = format!("{} {}, MCP {}", server.name, server.version, server.revision);
    if !report.watched.is_empty() {
        let _ = write!(text, "; watched: {}", report.watched.join(", "));
    }
    text.push('\n');
    if !report.noise.is_empty() {
        let _ = writeln!(text, "Changes by itself, and is not counted: {}", some(&report.noise, 5));
    }
    text
}

fn some(names: &[String], most: usize) -> String {
    match names.len() > most {
        true => format!("{} and {} more", names.get(..most).unwrap_or_default().join(", "), names.len() - most),
        false => names.join(", "),
    }
}

fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_width(WIDTH);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    table.set_header(heads.iter().map(Cell::new));
    table
}

fn of_tool(tool: &ToolReport) -> String {
    let mut text = format!("{}  (annotations: {})\n", tool.name, tool.annotations.words());
    let _ = writeln!(text, "  arguments: {}", serde_json::Value::Object(tool.arguments.clone()));
    if !tool.effect.is_empty() {
        let _ = writeln!(text, "  one call:  {}", tool.effect.join("; "));
    }
    let mut table = table(&["experiment", "verdict", "runs", "what was seen"]);
    for experiment in &tool.experiments {
        let verdict = Cell::new(experiment.verdict);
        let verdict = match experiment.verdict {
            Verdict::Safe => verdict.fg(Color::Green),
            Verdict::Duplicate | Verdict::WrongRecord => verdict.fg(Color::Red),
            Verdict::Unknown => verdict.fg(Color::Yellow),
            Verdict::NotTried => verdict,
        };
        table.add_row([
            Cell::new(experiment.experiment),
            verdict,
            Cell::new(runs(experiment)),
            Cell::new(seen(experiment)),
        ]);
    }
    let _ = writeln!(text, "{table}");
    for claim in &tool.claims {
        let found = match claim.found {
            Found::Held => "held",
            Found::Untrue => "is untrue",
            Found::Unknown => "could not be tested",
        };
        let _ = writeln!(text, "  {} {found}: {}", claim.claim, claim.because);
    }
    if let Some(suggestion) = &tool.suggestion {
        let _ = writeln!(text, "  For settled.toml:");
        for line in suggestion.lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

fn runs(experiment: &ExperimentReport) -> String {
    let all: u32 = experiment.counts.values().sum();
    let such = experiment.counts.get(&experiment.verdict).copied().unwrap_or_default();
    match experiment.verdict {
        Verdict::NotTried => String::new(),
        _ => format!("{such}/{all}"),
    }
}

fn seen(experiment: &ExperimentReport) -> String {
    let mut text = experiment.because.clone();
    if experiment.verdict.is_defect() {
        for change in experiment.changes.iter().take(MOST_SHOWN) {
            let _ = write!(text, "\n{change}");
        }
        if experiment.verdict == Verdict::WrongRecord {
            for answer in experiment.answers.iter().rev().take(MOST_SHOWN).rev() {
                let _ = write!(text, "\nanswer: {answer}");
            }
        }
    } else if experiment.because.contains("error") || experiment.because.contains("another") {
        for answer in experiment.answers.iter().skip(1).take(1) {
            let _ = write!(text, "\nanswer: {answer}");
        }
    }
    text
}

fn listed(tools: &[Listed]) -> String {
    let mut table = table(&["tool", "annotations", "arguments"]);
    for tool in tools {
        let arguments = match &tool.needs_arguments {
            None => "from its schema, or a file".to_owned(),
            Some(why) => why.clone(),
        };
        table.add_row([tool.name.clone(), tool.annotations.words(), arguments]);
    }
    format!(
        "{table}\n\nNo tool was called. Choose: --tool NAME, with --watch DIR, --watch sqlite:FILE, --watch postgres://… or\n\
         --observer TOOL to see what it changes. Real calls are made then: let the server work on something that may be written to.\n"
    )
}

fn end(report: &Report) -> String {
    let defects = report.tools.iter().flat_map(|tool| &tool.experiments).filter(|one| one.verdict.is_defect()).count();
    let untrue = report.tools.iter().flat_map(|tool| &tool.claims).filter(|claim| claim.found == Found::Untrue).count();
    match report.outcome() {
        Outcome::Nothing => "Nothing found.".to_owned(),
        Outcome::Defects => {
            format!("Found: {defects} experiments with duplicates or wrong records, {untrue} untrue claims.")
        }
        Outcome::OnlyUnknown => "Of a tool nothing could be told: see why above.".to_owned(),
    }
}

//! `settled check`: a table of protocol × property, and the shortest counterexample for each violation.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use comfy_table::{Cell, CellAlignment, Color, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use settled_model::description::Faults;
use settled_model::{Description, Limits, PropertyName, Report, Trace, Verdict};

use crate::failure::{Exit, Failure};

/// Model-checks protocols: shipped ones by name, your own by file name.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Names of shipped protocols, or TOML files. All shipped protocols, if none is given.
    #[arg(value_name = "NAME|FILE.toml")]
    protocols: Vec<String>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// Write the first counterexample to a file, for programs.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print nothing but the counterexamples, as Mermaid sequence diagrams.
    #[arg(long, conflicts_with_all = ["json", "quiet"])]
    diagram: bool,
    /// Only the table, no counterexamples.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    bounds: Bounds,
    /// Stop after about this many states; what is not decided then is "not finished".
    #[arg(long, value_name = "N", default_value_t = 200_000_000, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    max_states: usize,
    /// Stop after this time; what is not decided then is "not finished".
    #[arg(long, value_name = "SPAN", default_value = "10m", value_parser = parse_time)]
    max_time: Duration,
}

/// Bounds that override those of the descriptions.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Bounds (override those of the description)")]
pub struct Bounds {
    /// Logical calls (1 to 3).
    #[arg(long, value_name = "N")]
    operations: Option<u8>,
    /// How often each logical call may be made, retries included (1 to 4).
    #[arg(long, value_name = "N")]
    calls: Option<u8>,
    /// Guard processes (0 to 3; 0: none).
    #[arg(long, value_name = "N")]
    processes: Option<u8>,
    /// Attempts of one operation (1 to 4).
    #[arg(long, value_name = "N")]
    attempts: Option<u8>,
    /// Crashes of guard processes (0 to 4): the same as `--fault guard-crashes=N`.
    #[arg(long, value_name = "N")]
    crashes: Option<u8>,
    /// Timeouts of guards, or of direct callers (0 to 4): the same as `--fault timeouts=N`.
    #[arg(long, value_name = "N")]
    timeouts: Option<u8>,
    /// The bound of any fault by its name (0 to 4), e.g. `--fault lost-replies=2`; can be given more than once.
    #[arg(long, value_name = "FAULT=N", value_parser = parse_fault)]
    fault: Vec<(&'static str, u8)>,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    const MOST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time <= MOST { Ok(time) } else { Err("at most 365 days".to_owned()) }
}

fn parse_fault(text: &str) -> Result<(&'static str, u8), String> {
    let allowed = || format!("the faults are: {}", Faults::NAMES.join(", "));
    let (name, bound) = text.split_once('=').ok_or_else(|| format!("FAULT=N is expected; {}", allowed()))?;
    let name = Faults::NAMES.iter().find(|known| **known == name).ok_or_else(allowed)?;
    let bound = bound.parse().map_err(|_| format!("“{bound}” is not a number from 0 to 4"))?;
    Ok((name, bound))
}

impl Bounds {
    fn apply(&self, description: &mut Description) {
        let set = |field: &mut u8, value: Option<u8>| *field = value.unwrap_or(*field);
        set(&mut description.caller.operations, self.operations);
        set(&mut description.caller.calls, self.calls);
        set(&mut description.guard.processes, self.processes);
        set(&mut description.tool.attempts, self.attempts);
        set(&mut description.faults.guard_crashes, self.crashes);
        set(&mut description.faults.timeouts, self.timeouts);
        for (name, bound) in &self.fault {
            if let Some(field) = description.faults.bound(name) {
                *field = *bound;
            }
        }
    }
}

/// Runs the command.
pub fn run(args: CheckArgs) -> Result<Exit, Failure> {
    let names: Vec<String> = if args.protocols.is_empty() {
        settled_model::library::SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect()
    } else {
        args.protocols.clone()
    };
    // All of the input is read before anything is explored: bad input costs nobody a minute.
    let descriptions = names
        .iter()
        .map(|name| {
            let mut description = load(name)?;
            args.bounds.apply(&mut description);
            description.validate().map_err(|error| Failure::input(format!("{name}: {error}")))?;
            Ok(description)
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let limits = Limits { states: args.max_states, time: args.max_time, ..Limits::default() };
    let mut reports = Vec::new();
    for description in &descriptions {
        reports.push(explore(description, limits)?);
    }
    if let Some(file) = &args.trace {
        write_trace(file, &reports)?;
    }
    if args.json {
        crate::output::json(&reports.iter().map(ReportJson::of).collect::<Vec<_>>())?;
    } else if args.diagram {
        for (report, (property, trace)) in
            reports.iter().flat_map(|report| report.violations().map(move |v| (report, v)))
        {
            let title = format!("%% {}: {}", report.description.name, property.name());
            crate::output::line(format!("{title}\n{}\n", trace.mermaid()))?;
        }
    } else {
        crate::output::line(table(&reports))?;
        if !args.quiet {
            for report in &reports {
                for line in details(report) {
                    crate::output::line(line)?;
                }
            }
        }
        crate::output::line(summary(&reports))?;
    }
    Ok(if reports.iter().any(|report| report.violations().next().is_some()) {
        Exit::Violated
    } else if reports.iter().all(Report::all_hold) {
        Exit::Good
    } else {
        Exit::NotFinished
    })
}

/// A shipped protocol by name, or one from a file.
pub fn load(name: &str) -> Result<Description, Failure> {
    // A file never stands in for a shipped protocol of its name.
    let loaded =
        if settled_model::library::text(name).is_none() && (name.ends_with(".toml") || Path::new(name).is_file()) {
            settled_model::load_file(Path::new(name))
        } else {
            settled_model::library::load(name)
        };
    loaded.map_err(|error| Failure::input(error.to_string()))
}

/// Checks one protocol, with a progress bar on a terminal.
pub fn explore(description: &Description, limits: Limits) -> Result<Report, Failure> {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix}: {pos} states, {per_sec}, {msg}") {
        bar.set_style(style);
    }
    bar.set_prefix(description.name.clone());
    let report = settled_model::check(description, limits, |progress| {
        bar.set_position(progress.states as u64);
        bar.set_message(format!("{} distinct, depth {}", progress.unique_states, progress.depth));
    })
    .map_err(|error| Failure::input(format!("{}: {error}", description.name)))?;
    bar.finish_and_clear();
    Ok(report)
}

/// The table of protocol × property.
pub fn table(reports: &[Report]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    let mut header = vec![Cell::new("protocol")];
    header.extend(PropertyName::ALL.iter().map(|property| Cell::new(property.name().replace(' ', "\n"))));
    header.extend(["states", "depth", "time"].map(Cell::new));
    table.set_header(header);
    for report in reports {
        let mut row = vec![Cell::new(&report.description.name)];
        row.extend(report.verdicts.iter().map(|(_, verdict)| match verdict {
            Verdict::Holds => Cell::new("holds").fg(Color::Green),
            Verdict::Violated(trace) => Cell::new(format!("✗ {}", trace.steps.len())).fg(Color::Red),
            Verdict::NotFinished => Cell::new("not\nfinished").fg(Color::Yellow),
            Verdict::NotApplicable => Cell::new("–"),
        }));
        row.push(Cell::new(report.unique_states).set_alignment(CellAlignment::Right));
        row.push(Cell::new(report.depth).set_alignment(CellAlignment::Right));
        row.push(Cell::new(format!("{:.2} s", report.elapsed.as_secs_f64())).set_alignment(CellAlignment::Right));
        table.add_row(row);
    }
    table
}

fn details(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let violations: Vec<_> = report.violations().collect();
    if violations.is_empty() {
        return lines;
    }
    lines.push(format!("\n{}: {}", report.description.name, report.description.about));
    for (property, trace) in violations {
        lines.push(format!(
            "\n  “{}” is violated after {} steps; the shortest run:",
            property.name(),
            trace.steps.len()
        ));
        lines.push(trace.text());
    }
    lines
}

fn summary(reports: &[Report]) -> String {
    let unfinished = reports
        .iter()
        .filter(|report| report.verdicts.iter().any(|(_, verdict)| matches!(verdict, Verdict::NotFinished)));
    let violated = reports.iter().filter(|report| report.violations().next().is_some()).count();
    let hold = reports.iter().filter(|report| report.all_hold()).count();
    let unfinished = unfinished.count();
    let mut text = format!("\n{hold} hold, {violated} violated");
    if unfinished > 0 {
        text += &format!(", {unfinished} not finished (a limit was reached: see --max-states and --max-time)");
    }
    text + ". ✗ N: violated, shortest run N steps. “holds”: in every reachable state within the bounds of the description \
            (`settled protocols show NAME`), explored exhaustively."
}

fn write_trace(file: &Path, reports: &[Report]) -> Result<(), Failure> {
    let trace = reports.iter().flat_map(Report::violations).map(|(_, trace)| trace).next();
    let Some(trace) = trace else {
        eprintln!("settled: no property is violated, so {} was not written", file.display());
        return Ok(());
    };
    let text = serde_json::to_string_pretty(trace).map_err(|error| Failure::internal(error.to_string()))?;
    std::fs::write(file, text + "\n").map_err(|error| Failure::input(format!("{}: {error}", file.display())))
}

#[derive(Serialize)]
struct ReportJson<'a> {
    protocol: &'a Description,
    exhaustive: bool,
    unique_states: usize,
    depth: usize,
    seconds: f64,
    properties: Vec<PropertyJson<'a>>,
}

#[derive(Serialize)]
struct PropertyJson<'a> {
    property: &'static str,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    counterexample: Option<&'a Trace>,
}

impl<'a> ReportJson<'a> {
    fn of(report: &'a Report) -> Self {
        ReportJson {
            protocol: &report.description,
            exhaustive: report.exhaustive,
            unique_states: report.unique_states,
            depth: report.depth,
            seconds: report.elapsed.as_secs_f64(),
            properties: report
                .verdicts
                .iter()
                .map(|(property, verdict)| {
                    let (verdict, counterexample) = match verdict {
                        Verdict::Holds => ("holds", None),
                        Verdict::Violated(trace) => ("violated", Some(trace.as_ref())),
                        Verdict::NotFinished => ("not finished", None),
                        Verdict::NotApplicable => ("not applicable", None),
                    };
                    PropertyJson { property: property.name(), verdict, counterexample }
                })
                .collect(),
        }
    }
}

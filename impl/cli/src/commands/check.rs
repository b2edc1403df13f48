//! `settled check`: a table of protocol × property, and the shortest counterexample for each violation.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use settled_model::{Limits, PropertyName, Report, Suggestions, Trace, Verdict};

use super::bounds::{Bounds, LimitArgs, parse_time};
use super::matrix::matrix;
use super::protocol::{explore, load, parse_property};
use super::report::ReportJson;
use super::suggest;
use crate::failure::{Exit, Failure};
use crate::output::line;

/// Model-checks protocols: shipped ones by name, your own by file name.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Names of shipped protocols, or TOML files. All shipped protocols, if none is given.
    #[arg(value_name = "NAME|FILE.toml")]
    protocols: Vec<String>,
    /// All shipped protocols.
    #[arg(long, conflicts_with = "protocols")]
    all: bool,
    /// Decide only this property; can be given more than once. See `settled properties`.
    #[arg(long, value_name = "PROPERTY", value_parser = parse_property)]
    property: Vec<PropertyName>,
    /// For each violated property, search for the smallest change of the description that repairs it.
    #[arg(long)]
    suggest: bool,
    /// How long to search for each.
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = parse_time, requires = "suggest")]
    suggest_time: Duration,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    limits: LimitArgs,
}

/// What to print and write.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
struct OutputArgs {
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// Print nothing but the counterexamples, as Mermaid sequence diagrams.
    #[arg(long, conflicts_with_all = ["json", "quiet", "suggest"])]
    diagram: bool,
    /// Only the table, no counterexamples.
    #[arg(long, short)]
    quiet: bool,
    /// Write the first counterexample to a file, for programs (JSON).
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write the first counterexample to a file, as a sequence diagram.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the first counterexample to a file, as a page to step through.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// How long to search, at most, for a run with one fault less.
const FEWER_FAULTS: Duration = Duration::from_secs(10);

/// A report, and what was suggested for its violations.
type Checked = (Report, Vec<(PropertyName, Suggestions)>);

/// Runs the command.
pub fn run(args: CheckArgs) -> Result<Exit, Failure> {
    let names: Vec<String> = if args.protocols.is_empty() {
        settled_model::library::SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect()
    } else {
        args.protocols.clone()
    };
    // All of the input is read before anything is explored: bad input costs nobody a minute.
    let descriptions = names.iter().map(|name| args.bounds.apply(load(name)?)).collect::<Result<Vec<_>, Failure>>()?;
    let mut limits = args.limits.limits();
    if !args.property.is_empty() {
        limits.wanted = args.property.iter().copied().collect();
    }
    let mut checked: Vec<Checked> = Vec::new();
    for description in &descriptions {
        let report = explore(description, limits)?;
        let suggestions = if args.suggest { suggest::search(&report, limits, args.suggest_time)? } else { Vec::new() };
        checked.push((report, suggestions));
    }
    // Nothing is proved by a question that says nothing.
    if checked.iter().all(|(report, _)| says_nothing(report)) {
        let names: Vec<_> = args.property.iter().map(|property| property.name()).collect();
        return Err(Failure::input(format!(
            "“{}” says nothing of {}: see `settled properties` for what each is said of",
            names.join("”, “"),
            if checked.len() == 1 { "this protocol" } else { "any of these protocols" }
        )));
    }
    write_files(&args.output, &checked)?;
    print(&args.output, &checked, limits)?;
    Ok(exit(&checked))
}

fn exit(checked: &[Checked]) -> Exit {
    if checked.iter().any(|(report, _)| report.violations().next().is_some()) {
        Exit::Violated
    } else if checked.iter().all(|(report, _)| report.all_hold()) {
        Exit::Good
    } else {
        Exit::NotFinished
    }
}

fn print(output: &OutputArgs, checked: &[Checked], limits: Limits) -> Result<(), Failure> {
    let reports = checked.iter().map(|(report, _)| report);
    if output.json {
        let all: Vec<_> = checked.iter().map(|(report, suggestions)| ReportJson::of(report, suggestions)).collect();
        crate::output::json(&all)?;
    } else if output.diagram {
        for (report, (property, trace)) in reports.flat_map(|report| report.violations().map(move |v| (report, v))) {
            let title = format!("%% {}: {}", report.description.name, property.name());
            line(format!("{title}\n{}\n", trace.mermaid()))?;
        }
    } else {
        let reports: Vec<Report> = reports.cloned().collect();
        line(matrix(&reports))?;
        for (report, suggestions) in checked {
            if !output.quiet {
                details(report, limits)?;
            }
            if !suggestions.is_empty() {
                line(format!("\n{}: what could be changed", report.description.name))?;
            }
            for (property, suggestions) in suggestions {
                line(suggest::text(*property, suggestions))?;
            }
        }
        line(summary(&reports))?;
    }
    Ok(())
}

fn details(report: &Report, limits: Limits) -> Result<(), Failure> {
    if !report.any_number_of.is_empty() {
        let faults: Vec<_> = report.any_number_of.iter().map(|fault| fault.name()).collect();
        line(format!("\n{}: all that holds, holds with any number of {}", report.description.name, faults.join(", ")))?;
    }
    if report.violations().next().is_some() {
        line(format!("\n{}: {}", report.description.name, report.description.about))?;
    }
    for (property, trace) in report.violations() {
        let steps = trace.steps.len();
        line(format!("\n  “{}” is violated after {steps} steps; the shortest run:", property.name()))?;
        line(trace.text())?;
        let limits = Limits { time: limits.time.min(FEWER_FAULTS), ..limits };
        if let Some(less) = settled_model::with_fewer_faults(&report.description, trace, limits) {
            line(format!("\n  It needs fewer faults in a run of {} steps:", less.steps.len()))?;
            line(less.text())?;
        }
    }
    Ok(())
}

/// Whether none of the properties that were asked for says anything of it.
fn says_nothing(report: &Report) -> bool {
    report.verdicts.iter().all(|(_, verdict)| *verdict == Verdict::NotApplicable)
}

fn summary(reports: &[Report]) -> String {
    let unfinished = |report: &&Report| report.verdicts.iter().any(|(_, verdict)| *verdict == Verdict::NotFinished);
    let violated = reports.iter().filter(|report| report.violations().next().is_some()).count();
    let idle = reports.iter().filter(|report| says_nothing(report)).count();
    let hold = reports.iter().filter(|report| report.all_hold()).count() - idle;
    let unfinished = reports.iter().filter(unfinished).count();
    let mut text = format!("\n{hold} hold, {violated} violated");
    if unfinished > 0 {
        text += &format!(", {unfinished} not finished (a limit was reached: see --max-states and --max-time)");
    }
    if idle > 0 {
        text += &format!(", {idle} of which nothing is said by what was asked");
    }
    text + ".\nThe bounds of a protocol: `settled protocols show NAME`."
}

fn write_files(output: &OutputArgs, checked: &[Checked]) -> Result<(), Failure> {
    let first = checked.iter().flat_map(|(report, _)| report.violations()).map(|(_, trace)| trace).next();
    write_trace(output.trace.as_deref(), first, |trace| {
        serde_json::to_string_pretty(trace).map_err(|error| Failure::internal(error.to_string()))
    })?;
    write_trace(output.svg.as_deref(), first, |trace| Ok(trace.svg()))?;
    write_trace(output.html.as_deref(), first, |trace| Ok(trace.html()))
}

/// Writes a counterexample to a file, if one is asked for and there is one.
pub fn write_trace(
    file: Option<&Path>,
    trace: Option<&Trace>,
    form: impl Fn(&Trace) -> Result<String, Failure>,
) -> Result<(), Failure> {
    match (file, trace) {
        (None, _) => Ok(()),
        (Some(file), None) => {
            eprintln!("settled: no counterexample was found, so {} was not written", file.display());
            Ok(())
        }
        (Some(file), Some(trace)) => {
            let text = form(trace)?;
            std::fs::write(file, text.trim_end().to_owned() + "\n")
                .map_err(|error| Failure::input(format!("{}: {error}", file.display())))
        }
    }
}

//! `settled diff`: what changes from one protocol to another.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use settled_model::{Diff, Ending, EndingsDiff, FieldChange, PropertyChange, Report, Trace, Verdict};

use super::bounds::{Bounds, LimitArgs};
use super::check::write_trace;
use super::protocol::{bar, explore, load};
use super::report::verdict_json;
use crate::failure::{Exit, Failure};
use crate::output::line;

/// How many ways in which runs can end are printed of each side; all are in the JSON.
const SHOWN: usize = 12;

/// Compares two protocols: the fields that differ, the properties that change, and how runs can end.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The first: the name of a shipped protocol, or a TOML file.
    before: String,
    /// The second. Its counterexamples are shown.
    after: String,
    /// Print the comparison as JSON.
    #[arg(long)]
    json: bool,
    /// Write the first new counterexample to a file, as a page to step through.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Runs the command.
pub fn run(args: DiffArgs) -> Result<Exit, Failure> {
    let (first, second) = (args.bounds.apply(load(&args.before)?)?, args.bounds.apply(load(&args.after)?)?);
    let limits = args.limits.limits();
    let (before, after) = (explore(&first, limits)?, explore(&second, limits)?);
    let bar = bar("diff", "{spinner} {prefix}: looking at how runs can end");
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    let diff = settled_model::diff(&before, &after, limits).map_err(|error| Failure::input(error.to_string()))?;
    bar.finish_and_clear();
    let new = diff.properties.iter().filter(|change| change.is_worse());
    let first_new = new.filter_map(|change| verdict_json(&change.after).1).next();
    write_trace(args.html.as_deref(), first_new, |trace| Ok(trace.html()))?;
    if args.json {
        crate::output::json(&DiffJson::of(&before, &after, &diff))?;
    } else {
        print(&before, &after, &diff)?;
    }
    let undecided = |report: &Report| report.verdicts.iter().any(|(_, verdict)| *verdict == Verdict::NotFinished);
    Ok(match diff.is_worse() {
        true => Exit::Violated,
        false if undecided(&before) || undecided(&after) => Exit::NotFinished,
        false => Exit::Good,
    })
}

fn print(before: &Report, after: &Report, diff: &Diff) -> Result<(), Failure> {
    line(format!("{} → {}", before.description.name, after.description.name))?;
    line(if diff.fields.is_empty() { "\nNo field differs." } else { "\nFields that differ:" })?;
    for field in &diff.fields {
        line(format!("  {field}"))?;
    }
    line(if diff.properties.is_empty() { "\nBoth violate nothing, and no verdict changes." } else { "\nProperties:" })?;
    for change in &diff.properties {
        line(format!("  {}: {}", change.property.name(), words(change)))?;
    }
    for change in diff.properties.iter().filter(|change| change.is_worse()) {
        if let Some(trace) = verdict_json(&change.after).1 {
            line(format!("\n“{}” is violated now, after {} steps:", change.property.name(), trace.steps.len()))?;
            line(trace.text())?;
        }
    }
    print_endings(diff)?;
    let count = |test: fn(&PropertyChange) -> bool| diff.properties.iter().filter(|change| test(change)).count();
    line(format!(
        "\n{} now violated, {} no longer violated, {} violated by both.",
        count(PropertyChange::is_worse),
        count(|change| violated(&change.before) && !violated(&change.after)),
        count(|change| violated(&change.before) && violated(&change.after)),
    ))?;
    Ok(())
}

fn violated(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Violated(_))
}

fn words(change: &PropertyChange) -> String {
    let one = |verdict: &Verdict| match verdict {
        Verdict::Violated(trace) => format!("violated after {} steps", trace.steps.len()),
        Verdict::NotApplicable => "says nothing".to_owned(),
        other => verdict_json(other).0.to_owned(),
    };
    match (&change.before, &change.after) {
        (Verdict::Violated(_), Verdict::Holds) => format!("now holds (was {})", one(&change.before)),
        (before, after @ Verdict::Violated(_)) if !violated(before) => {
            format!("now {} (was: {})", one(after), one(before))
        }
        (before, after) => format!("{} → {}", one(before), one(after)),
    }
}

fn print_endings(diff: &Diff) -> Result<(), Failure> {
    match &diff.endings {
        EndingsDiff::Incomparable(why) => line(format!("\nHow runs can end was not compared: {why}."))?,
        EndingsDiff::Compared { only_before, only_after, common, exhaustive, with_records } => {
            let ledger = if *with_records { "" } else { "; ledgers left out, since one has no guard" };
            line(format!("\nHow runs can end ({common} ways in common{ledger}):"))?;
            if !exhaustive {
                line("  (a limit was reached: what is said of one alone may be so of the other as well)")?;
            }
            ways("no longer possible", only_before)?;
            ways("possible now", only_after)?;
        }
    }
    Ok(())
}

fn ways(title: &str, endings: &[Ending]) -> Result<(), Failure> {
    line(format!("  {title}: {}", if endings.is_empty() { "nothing" } else { "" }).trim_end())?;
    for ending in endings.iter().take(SHOWN) {
        line(format!("    {ending}"))?;
    }
    if let Some(more @ 1..) = endings.len().checked_sub(SHOWN) {
        line(format!("    … and {more} more (see --json)"))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct DiffJson<'a> {
    before: &'a str,
    after: &'a str,
    worse: bool,
    fields: &'a [FieldChange],
    properties: Vec<ChangeJson<'a>>,
    endings: EndingsJson<'a>,
}

#[derive(Serialize)]
struct ChangeJson<'a> {
    property: &'static str,
    before: &'static str,
    after: &'static str,
    worse: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    counterexample_before: Option<&'a Trace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counterexample_after: Option<&'a Trace>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum EndingsJson<'a> {
    Compared {
        only_before: &'a [Ending],
        only_after: &'a [Ending],
        common: usize,
        exhaustive: bool,
        with_records: bool,
    },
    NotCompared {
        not_compared: &'static str,
    },
}

impl<'a> DiffJson<'a> {
    fn of(before: &'a Report, after: &'a Report, diff: &'a Diff) -> Self {
        let properties = diff.properties.iter().map(|change| {
            let ((word_before, trace_before), (word_after, trace_after)) =
                (verdict_json(&change.before), verdict_json(&change.after));
            ChangeJson {
                property: change.property.name(),
                before: word_before,
                after: word_after,
                worse: change.is_worse(),
                counterexample_before: trace_before,
                counterexample_after: trace_after,
            }
        });
        let endings = match &diff.endings {
            EndingsDiff::Incomparable(why) => EndingsJson::NotCompared { not_compared: why },
            EndingsDiff::Compared { only_before, only_after, common, exhaustive, with_records } => {
                EndingsJson::Compared {
                    only_before,
                    only_after,
                    common: *common,
                    exhaustive: *exhaustive,
                    with_records: *with_records,
                }
            }
        };
        DiffJson {
            before: &before.description.name,
            after: &after.description.name,
            worse: diff.is_worse(),
            fields: &diff.fields,
            properties: properties.collect(),
            endings,
        }
    }
}

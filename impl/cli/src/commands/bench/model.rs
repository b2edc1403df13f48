//! `settled bench model`: the model checker beside plain stateright and Spin.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde::Serialize;
use settled_comparisons::aims::{self, Aim};
use settled_comparisons::suite::{self, Group, Outcome, SuiteError};
use settled_comparisons::{Work, growth, measure, table};

use crate::failure::{Exit, Failure};
use crate::output::line;

/// Measures the model checker: beside plain stateright and Spin, on the same models. A few minutes; nothing else should run.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// Print the numbers as JSON.
    #[arg(long)]
    json: bool,
    /// Smaller models and shorter limits: less than a minute.
    #[arg(long)]
    quick: bool,
    /// Measure nothing but how time and states grow with the bounds, and draw that to a file.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    svg: Option<PathBuf>,
    /// Part of a measurement: does this work, given as JSON, and writes what it took.
    #[arg(long, hide = true, value_name = "WORK")]
    measure: Option<String>,
}

#[derive(Serialize)]
struct Numbers<'a> {
    runs: &'a [Outcome],
    aims: &'a [Aim],
}

/// Runs the command.
pub fn run(args: ModelArgs) -> Result<Exit, Failure> {
    if let Some(work) = &args.measure {
        return measured(work);
    }
    if let Some(file) = &args.svg {
        draw(file, args.quick)?;
        return Ok(Exit::Good);
    }
    let outcomes = outcomes(args.quick)?;
    let aims = aims::aims(&outcomes);
    if args.json {
        crate::output::json(&Numbers { runs: &outcomes, aims: &aims })?;
    } else {
        let rows: Vec<_> = outcomes.iter().map(|its| its.row.clone()).collect();
        line(table(&rows))?;
        line("Time is from beginning to verdict; Spin's has translating and compiling in it.\n")?;
        line(aims::lines(&aims))?;
    }
    // Aims that are not met are no violations: how fast it is depends on the machine.
    Ok(Exit::Good)
}

fn outcomes(quick: bool) -> Result<Vec<Outcome>, Failure> {
    let items = suite::items(quick).map_err(failure)?;
    let mut outcomes = Vec::new();
    for (number, item) in items.iter().enumerate() {
        if item.group != Group::Unsafe {
            eprintln!("{} of {}: {}", number + 1, items.len(), item.what);
        }
        outcomes.push(suite::run(item, &mut in_child).map_err(failure)?);
    }
    suite::slowest_unsafe(&mut outcomes);
    Ok(outcomes)
}

fn in_child(work: &Work) -> Result<measure::Measured, measure::MeasureError> {
    let work = serde_json::to_string(work).map_err(std::io::Error::from)?;
    let program = std::env::current_exe()?;
    measure::in_child(Command::new(program).args(["bench", "model", "--measure", &work]))
}

fn measured(work: &str) -> Result<Exit, Failure> {
    let work: Work = serde_json::from_str(work).map_err(|error| Failure::input(format!("--measure: {error}")))?;
    let mut failed = None;
    measure::report(|| {
        work.run().unwrap_or_else(|error| {
            failed = Some(error);
            measure::Counted::default()
        })
    })?;
    match failed {
        None => Ok(Exit::Good),
        Some(error) => Err(Failure::input(format!("--measure: {error}"))),
    }
}

fn draw(file: &Path, quick: bool) -> Result<(), Failure> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let points = growth::points(if quick { 1 } else { 10 }, threads).map_err(failure)?;
    let text = growth::svg(&points).map_err(|error| Failure::internal(error.to_string()))?;
    std::fs::write(file, text).map_err(|error| Failure::input(format!("{}: {error}", file.display())))
}

fn failure(error: SuiteError) -> Failure {
    Failure::internal(error.to_string())
}

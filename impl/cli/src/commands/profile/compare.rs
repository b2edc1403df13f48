//! `settled profile compare`: profiles side by side.

use std::path::PathBuf;

use clap::Args;
use settled_profile::{Report, report};

use crate::failure::{Exit, Failure};
use crate::output;

/// Sets results side by side: versions of a framework, or a framework without `settled` and behind it.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Files that `settled profile run --json` wrote
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write a page of them to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: CompareArgs) -> Result<Exit, Failure> {
    let read = |path: &PathBuf| report::read(path).map_err(|error| Failure::input(error.to_string()));
    let reports: Vec<Report> = args.files.iter().map(read).collect::<Result<_, _>>()?;
    if let Some(path) = &args.html {
        let written = std::fs::write(path, report::html(&reports));
        written.map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
    }
    output::line(report::compare(&reports).trim_end())?;
    Ok(Exit::Good)
}

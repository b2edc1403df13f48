//! `settled profile show`: what was measured, again.

use std::path::PathBuf;

use clap::Args;
use settled_profile::report;

use crate::failure::{Exit, Failure};
use crate::output;

/// Prints results that were measured before, as `settled profile run` did.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// A file that `settled profile run --json` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only this adapter; may be given several times
    #[arg(long, value_name = "NAME")]
    adapter: Vec<String>,
}

/// Runs the command.
pub fn run(args: ShowArgs) -> Result<Exit, Failure> {
    let mut report = report::read(&args.file).map_err(|error| Failure::input(error.to_string()))?;
    let there: Vec<_> = report.profiles.iter().map(|profile| profile.adapter.clone()).collect();
    if let Some(unknown) = args.adapter.iter().find(|name| !there.contains(name)) {
        let there: std::collections::BTreeSet<_> = there.into_iter().collect();
        let there = there.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Failure::input(format!("{}: there is no {unknown}; there are {there}", args.file.display())));
    }
    report.profiles.retain(|profile| args.adapter.is_empty() || args.adapter.contains(&profile.adapter));
    output::line(report::table(&report).trim_end())?;
    Ok(Exit::Good)
}

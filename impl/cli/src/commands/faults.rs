//! `settled faults`: what can go wrong in a model, by name.

use clap::Args;
use serde::Serialize;
use settled_model::Fault;

use crate::failure::{Exit, Failure};
use crate::output::line;

/// Lists the faults: the names for `--fault NAME=N` and for `[faults]` in a description, and what each is.
#[derive(Debug, Args)]
pub struct FaultsArgs {
    /// Print them as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct FaultJson {
    name: &'static str,
    says: &'static str,
}

/// Runs the command.
pub fn run(args: FaultsArgs) -> Result<Exit, Failure> {
    if args.json {
        let all = Fault::ALL.iter().map(|fault| FaultJson { name: fault.name(), says: fault.says() });
        crate::output::json(&all.collect::<Vec<_>>())?;
        return Ok(Exit::Good);
    }
    let width = Fault::ALL.iter().map(|fault| fault.name().len()).max().unwrap_or_default();
    for fault in Fault::ALL {
        line(format!("{:<width$}  {}", fault.name(), fault.says()))?;
    }
    Ok(Exit::Good)
}

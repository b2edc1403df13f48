//! `settled stats`: what a ledger holds, and how its operations fared.

mod gather;
mod scrape;
mod show;
mod story;

use clap::Args;

use crate::failure::{Exit, Failure};
use crate::ledger::LedgerArgs;
use crate::runtime::block_on;

/// Counts what a ledger holds: operations by state, unknown ones with their age, waiting lines, and what became of unknowns. It
/// only reads, also while the ledger is in use.
#[derive(Debug, Args)]
pub struct StatsArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    /// Look at so many settled operations at most; those that are not settled are always looked at
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    records: usize,
    /// Look at the steps of so many operations at most
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    histories: usize,
    /// Add what a running process has counted since it began: its `--metrics` address
    #[arg(long, value_name = "URL")]
    metrics: Option<String>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: StatsArgs) -> Result<Exit, Failure> {
    block_on(async move {
        let process = match &args.metrics {
            Some(url) => Some(scrape::process(url).await?),
            None => None,
        };
        let opened = args.ledger.open_existing().await?;
        let limits = gather::Limits { records: args.records, histories: args.histories };
        let stats = gather::gather(&opened, limits).await?;
        if args.json {
            crate::output::json(&show::Whole { ledger: &stats, process: process.as_ref() })?;
        } else {
            crate::output::line(show::text(&stats, process.as_ref()))?;
        }
        Ok(Exit::Good)
    })
}

//! `settled bench engine`: guarded calls beside the disk's own limit, and beside what is usually written by hand.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use settled_bench::many::{self, Job};
use settled_bench::{BenchError, Settings, show, suite};

use crate::failure::{Exit, Failure};
use crate::ledger;
use crate::output::line;
use crate::runtime::block_on;

/// Measures guarded calls and duplicates with 1, 16 and 128 callers, memory, disk and opening, beside bare syncs of the same
/// disk. A few minutes; nothing else should run.
#[derive(Debug, Args)]
pub struct EngineArgs {
    /// Print the numbers as JSON.
    #[arg(long)]
    json: bool,
    /// One short round and fewer keys: about half a minute.
    #[arg(long)]
    quick: bool,
    /// Also measure this ledger, beside the usual pattern on the same server; may be given several times. Give it a database
    /// of its own: records of the measurement stay there
    #[arg(long, value_name = "URL")]
    ledger: Vec<String>,
    /// Where the files are written, below a directory that goes away afterwards [default: the present directory]. Syncs of a
    /// file system in memory say nothing
    #[arg(long, value_name = "DIR", default_value = ".", hide_default_value = true)]
    dir: PathBuf,
    /// Makes each sync take this much longer, as on a slower disk, for example 2ms
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "0s", hide_default_value = true)]
    sync_delay: Duration,
    /// How many rounds [default: 5, or 1 if it is to be quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Measure memory and opening with so many keys; 0: don't [default: 1000000, or 50000 if it is to be quick]
    #[arg(long, value_name = "N")]
    keys: Option<u64>,
    /// Part of a measurement: does this job, given as JSON, and writes what it took.
    #[arg(long, hide = true, value_name = "JOB")]
    job: Option<String>,
}

/// Runs the command.
pub fn run(args: EngineArgs) -> Result<Exit, Failure> {
    if let Some(job) = &args.job {
        let job: Job = serde_json::from_str(job).map_err(|error| Failure::input(format!("--job: {error}")))?;
        let done = block_on(async move { many::run(job).await.map_err(failure) })?;
        let done = serde_json::to_string(&done).map_err(|error| Failure::internal(error.to_string()))?;
        line(done)?;
        return Ok(Exit::Good);
    }
    let dir = tempfile::Builder::new().prefix("settled-bench-").tempdir_in(&args.dir);
    let dir = dir.map_err(|error| Failure::input(format!("--dir {}: {error}", args.dir.display())))?;
    let mut settings = Settings::new(dir.path().to_path_buf(), args.quick);
    settings.sync_delay = args.sync_delay;
    settings.ledgers = args.ledger;
    settings.rounds = args.rounds.map_or(settings.rounds, |rounds| rounds as usize);
    settings.keys = args.keys.unwrap_or(settings.keys);
    let program = std::env::current_exe()?;
    let job = move |job: &str| {
        let mut command = Command::new(&program);
        command.args(["bench", "engine", "--job", job]);
        command
    };
    let report = block_on(async move { suite::run(&settings, job, |what| eprintln!("{what}")).await.map_err(failure) });
    dir.close()?;
    let report = report?;
    if args.json {
        crate::output::json(&report)?;
    } else {
        line(show::report(&report))?;
    }
    // Aims that are not met are no violations: how fast it is depends on the machine.
    Ok(Exit::Good)
}

fn failure(error: BenchError) -> Failure {
    match error {
        BenchError::Open(error) => ledger::failure(error),
        other => Failure::nothing(other.to_string()),
    }
}

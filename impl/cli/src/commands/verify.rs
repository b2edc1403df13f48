//! `settled verify`: what really happened, held against the core and the properties.

use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::{Table, presets};
use settled_ledgers::OpenOptions;
use settled_verify::{Evidence, Judged, Report, VerifyError, read_effects, verify};

use crate::failure::{Exit, Failure};
use crate::ledger::{self, HISTORY_FILE};
use crate::output::line;
use crate::runtime;

/// Verifies what a run has left: takes each step of its histories again, puts the records of all processes in order, and
/// evaluates every property.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Histories (files, or directories with *.jsonl files) and ledgers: a directory of a ledger is both.
    #[arg(value_name = "PATH|LEDGER", required_unless_present = "ledger")]
    evidence: Vec<String>,
    /// The ledger that the processes shared: it has what those that were killed could not write down.
    #[arg(long, value_name = "DIR|URL")]
    ledger: Option<String>,
    /// The tool's own journal: a line of JSON for each effect, {"key":"scope/tool/id"}, with "generation" and "attempt" if
    /// known. It is taken for all that happened.
    #[arg(long, value_name = "FILE")]
    effects: Option<PathBuf>,
    /// Nothing is under way any more: what is still open, or kept beyond its time, is a violation.
    #[arg(long)]
    ended: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: VerifyArgs) -> Result<Exit, Failure> {
    let report = runtime::block_on(async {
        let evidence = gather(&args).await?;
        verify(&evidence).await.map_err(failure)
    })?;
    if args.json {
        crate::output::json(&report)?;
    } else {
        line(table(&report))?;
        line(report.findings())?;
    }
    Ok(if report.is_violated() {
        Exit::Violated
    } else if report.gaps.is_empty() {
        Exit::Good
    } else {
        Exit::NotFinished
    })
}

async fn gather(args: &VerifyArgs) -> Result<Evidence, Failure> {
    let mut evidence = Evidence { ended: args.ended, ..Evidence::default() };
    let mut named = args.ledger.clone();
    for given in &args.evidence {
        let path = Path::new(given);
        let is_history = path.is_file() || path.is_dir() && !is_ledger(path);
        if is_history {
            evidence.histories.push(path.to_owned());
            continue;
        }
        if named.replace(given.clone()).is_some_and(|before| before != *given) {
            return Err(Failure::input(format!(
                "{given}: a second ledger; histories of one ledger are verified at a time"
            )));
        }
        let beside = path.join(HISTORY_FILE);
        if beside.is_file() {
            evidence.histories.push(beside);
        }
    }
    if let Some(url) = named {
        let opened = settled_ledgers::open_existing(&url, OpenOptions::default()).await.map_err(ledger::failure)?;
        evidence.ledger = Some(opened.ledger);
    }
    if let Some(file) = &args.effects {
        evidence.effects = read_effects(file).map_err(failure)?;
        evidence.effects_known = true;
    }
    Ok(evidence)
}

/// Whether a directory is that of a ledger, and not only of histories.
fn is_ledger(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_history = |name: &str| name.split('.').nth(1) == Some("jsonl");
    entries.map(|entry| entry.file_name()).any(|name| !name.to_str().is_some_and(is_history))
}

fn failure(error: VerifyError) -> Failure {
    match error {
        VerifyError::Ledger(error) => Failure::from(error),
        other => Failure::input(other.to_string()),
    }
}

fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(["property", "checks", "verdict"]);
    for Judged { property, checks, verdict } in &report.properties {
        table.add_row([property.name().to_owned(), checks.to_string(), verdict.to_string()]);
    }
    table
}

//! `settled bench gateway`: what the HTTP gateway adds to a request, beside no proxy, nginx, and nginx with Redis.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use settled_bench::BenchError;
use settled_bench::gateway::{self, Settings, show};

use crate::failure::{Exit, Failure};
use crate::output::line;
use crate::runtime::block_on;

/// Measures first calls and replays through `settled gateway` with 1, 16 and 128 in flight, beside no proxy, nginx as a bare reverse
/// proxy, and the usual pattern of nginx with Redis, where they are installed. A minute or two; nothing else should run.
#[derive(Debug, Args)]
pub struct GatewayArgs {
    /// Print the numbers as JSON.
    #[arg(long)]
    json: bool,
    /// One short round: about ten seconds.
    #[arg(long)]
    quick: bool,
    /// Also measure with this ledger (postgres://… or redis://…); may be given several times
    #[arg(long, value_name = "URL")]
    ledger: Vec<String>,
    /// Where ledgers are written, below a directory that goes away afterwards [default: the present directory]. Syncs of a file
    /// system in memory say nothing
    #[arg(long, value_name = "DIR", default_value = ".", hide_default_value = true)]
    dir: PathBuf,
    /// How many rounds [default: 5, or 1 if it is to be quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// How long each measurement takes.
    #[arg(long, hide = true, value_name = "TIME", value_parser = humantime::parse_duration)]
    span: Option<Duration>,
}

/// An API that does nothing: what `settled bench gateway` calls.
#[derive(Debug, Args)]
pub struct ServerArgs {}

/// Runs the command.
pub fn run(args: GatewayArgs) -> Result<Exit, Failure> {
    let dir = tempfile::Builder::new().prefix("settled-bench-").tempdir_in(&args.dir);
    let dir = dir.map_err(|error| Failure::input(format!("--dir {}: {error}", args.dir.display())))?;
    let (span, rounds) = if args.quick { (Duration::from_millis(250), 1) } else { (Duration::from_secs(1), 5) };
    let settings = Settings {
        program: std::env::current_exe()?,
        // nginx takes no path that depends on where it runs.
        dir: dir.path().canonicalize()?,
        span: args.span.unwrap_or(span),
        rounds: args.rounds.map_or(rounds, |rounds| rounds as usize),
        ledgers: args.ledger.into_iter().map(named).collect(),
    };
    let report = block_on(async move { gateway::run(&settings, |what| eprintln!("{what}")).await.map_err(failure) });
    dir.close()?;
    let report = report?;
    if args.json {
        crate::output::json(&report)?;
    } else {
        line(show::report(&report))?;
    }
    Ok(Exit::Good)
}

/// Runs the API.
pub fn serve(_: &ServerArgs) -> Result<Exit, Failure> {
    block_on(async { gateway::server::serve(|url| println!("{url}")).await.map_err(failure) })?;
    Ok(Exit::Good)
}

fn failure(error: BenchError) -> Failure {
    Failure::nothing(error.to_string())
}

/// A ledger is called by its scheme: its URL may hold a password.
fn named(url: String) -> (String, String) {
    let name = url.split(':').next().unwrap_or_default();
    (if name.starts_with("postgres") { "PostgreSQL" } else { name }.to_owned(), url)
}

//! `settled replay`: a counterexample carried out with real processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use settled_model::Trace;
use settled_replay::{All, Options, Program, Verdict, table};
use tokio::signal::unix::{SignalKind, signal};

use super::protocol::bar;
use crate::failure::{Exit, Failure};
use crate::output::line;
use crate::runtime::block_on;

/// Carries out counterexamples with real processes, and says whether reality agrees with the model.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Traces (from `settled check NAME --trace FILE`), or names of shipped protocols: all counterexamples of those.
    #[arg(value_name = "TRACE.json|NAME", required_unless_present = "all")]
    what: Vec<String>,
    /// All counterexamples of all shipped protocols; and each one's schedule against the sound protocol for such a tool.
    #[arg(long, conflicts_with = "what")]
    all: bool,
    /// Print what came of it as JSON.
    #[arg(long)]
    json: bool,
    /// Keep each replay's files (logs, histories, ledger, effects) in a directory of its own in this one.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Keep the records there instead of in a directory that goes away: a path or a URL. See `settled mcp --help`.
    #[arg(long, value_name = "PATH|URL")]
    ledger: Option<String>,
    /// Let the sound protocols' guards be `settled mcp` proxies in front of an MCP server, where a configuration can say what
    /// they are told; without, the engine alone.
    #[arg(long, value_enum, default_value_t = Host::Engine)]
    host: Host,
    /// How long the next thing that the trace says may take to happen.
    #[arg(long, value_name = "SPAN", default_value = "20s", value_parser = super::bounds::parse_time)]
    patience: Duration,
}

/// What stands as a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Host {
    /// The engine, as a library.
    Engine,
    /// The proxy.
    Proxy,
}

/// A process of a replay: started by `settled replay`.
#[derive(Debug, Args)]
pub struct PartArgs {
    /// Its instructions.
    spec: PathBuf,
    /// Its part.
    role: String,
    /// Which of those that have played this part it is.
    incarnation: u32,
}

/// How many replays run at once. They mostly wait.
const AT_ONCE: usize = 8;

/// Runs a process of a replay.
pub fn run_part(args: &PartArgs) -> Result<Exit, Failure> {
    settled_replay::part::run(&args.spec, &args.role, args.incarnation)
        .map_err(|error| Failure::nothing(error.to_string()))?;
    Ok(Exit::Good)
}

/// Runs the command.
pub fn run(args: ReplayArgs) -> Result<Exit, Failure> {
    if let Some(keep) = &args.keep {
        let failed =
            |error| Failure::input(format!("{}: {error}; --keep needs a directory to write to", keep.display()));
        std::fs::create_dir_all(keep).map_err(failed)?;
        tempfile::tempfile_in(keep).map_err(failed)?;
    }
    let program = Program { path: std::env::current_exe()?, arguments: vec!["replay-part".to_owned()] };
    let proxy = match args.host {
        Host::Engine => None,
        Host::Proxy => Some(program.path.clone()),
    };
    let options = Options {
        program,
        proxy,
        patience: args.patience,
        ledger: args.ledger.clone(),
        keep: args.keep.clone(),
        mistakes: true,
    };
    let is_file = |what: &&String| what.ends_with(".json") || Path::new(what).is_file();
    let (files, names): (Vec<&String>, Vec<&String>) = args.what.iter().partition(is_file);
    let names: Vec<String> = names.into_iter().cloned().collect();
    let traces = files.into_iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    block_on(async move {
        let replays = replay_all(&args, &options, &traces, &names);
        // What is given up here takes its processes and its files with it.
        tokio::select! {
            exit = replays => exit,
            () = interrupted() => {
                // Those that ran beside each other are dropped on other threads, which takes a moment.
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(Exit::Code(130))
            }
        }
    })
}

/// ^C, or a request to end.
async fn interrupted() {
    let mut ended = signal(SignalKind::terminate()).ok();
    let ended = async {
        match &mut ended {
            Some(ended) => drop(ended.recv().await),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        Ok(()) = tokio::signal::ctrl_c() => {}
        () = ended => {}
    }
}

async fn replay_all(
    args: &ReplayArgs,
    options: &Options,
    traces: &[(String, Trace)],
    names: &[String],
) -> Result<Exit, Failure> {
    let mut exit = Exit::Good;
    for (file, trace) in traces {
        let outcome =
            settled_replay::replay(trace, options).await.map_err(|error| Failure::input(format!("{file}: {error}")))?;
        match args.json {
            true => crate::output::json(&outcome)?,
            false => line(table::outcome(&outcome))?,
        }
        exit = match outcome.verdict {
            Verdict::Agrees => exit,
            Verdict::Parted { step: 0, .. } => {
                return Err(Failure::input(format!("{file}: the processes of its replay could not be started")));
            }
            _ => Exit::Violated,
        };
    }
    if args.all || !names.is_empty() {
        let all = replay_shipped(names, options).await?;
        match args.json {
            true => crate::output::json(&all)?,
            false => line(table::all(&all))?,
        }
        if !all.agrees() {
            exit = Exit::Violated;
        }
    }
    Ok(exit)
}

async fn replay_shipped(names: &[String], options: &Options) -> Result<All, Failure> {
    let bar = bar("replay", "{spinner} {prefix}: {pos} counterexamples, {msg}");
    let all = settled_replay::all(names, options, AT_ONCE, |row| {
        bar.inc(1);
        let verdict = match &row.replay.verdict {
            Verdict::Agrees => "agrees",
            Verdict::Differs => "differs",
            Verdict::Parted { .. } => "parted",
            Verdict::NoImplementation { .. } => "nothing to replay it on",
        };
        bar.set_message(format!("{}: {verdict}", row.protocol));
    })
    .await;
    bar.finish_and_clear();
    all.map_err(|error| Failure::input(error.to_string()))
}

fn read(file: &str) -> Result<(String, Trace), Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| Failure::input(format!("{file}: {error}")))?;
    let trace = settled_replay::read(&text).map_err(|error| Failure::input(format!("{file}: {error}")))?;
    Ok((file.to_owned(), trace))
}

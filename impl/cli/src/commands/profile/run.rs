//! `settled profile run`: the matrix.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use settled_profile::install::{Cache, Wanted};
use settled_profile::matrix::{self, Plan, Watch};
use settled_profile::report::{self, Ongoing};
use settled_profile::run::{Behind, Programs, abandon_all};
use settled_profile::{Adapter, Cell, FORMAT, Outcome, Profile, Report, Run, Variant, predict};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::cache::CacheArgs;
use super::machine;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::runtime::block_on;

/// Runs adapters through the cells, counts their effects, and says what became of them.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Adapters: shipped ones by their names, or directories; NAME@VERSION for another version
    #[arg(value_name = "NAME|DIR[@VERSION]", required_unless_present = "all")]
    adapters: Vec<String>,
    /// All shipped adapters that are installed
    #[arg(long, conflicts_with = "adapters")]
    all: bool,
    /// Only this cell (`settled profile cells`); may be given several times
    #[arg(long, value_name = "CELL", value_parser = cell)]
    cell: Vec<Cell>,
    /// Only this variant; may be given several times
    #[arg(long, value_name = "VARIANT")]
    variant: Vec<String>,
    /// How often each cell is run
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    /// How many runs there are at once [default: as many as processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    jobs: Option<u32>,
    /// What is put between the framework and its tool
    #[arg(long, value_name = "WHAT")]
    behind: Option<BehindArg>,
    /// How many seconds a run may take; one that takes longer is stuck
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(5..=86_400))]
    deadline: u64,
    /// Write the results to this file, as JSON: each cell's as soon as it is measured
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Go on with what the file of `--json` has already: only what it lacks is measured
    #[arg(long = "continue", requires = "json")]
    go_on: bool,
    /// Write a page of the results to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// What random moments are drawn from [default: a random number]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Keep the runs' directories in here: states, effects, what the frameworks printed
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Exit with 1 if a struck run did not end as once
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum BehindArg {
    /// `settled gateway` for HTTP, `settled mcp` for MCP
    Settled,
}

fn cell(name: &str) -> Result<Cell, String> {
    Cell::named(name).ok_or_else(|| "there is no such cell; `settled profile cells` lists them".to_owned())
}

/// Runs the command.
pub fn run(args: RunArgs) -> Result<Exit, Failure> {
    let cache = args.cache.cache()?;
    let chosen = chosen(&args, &cache)?;
    let begun = Report {
        format: FORMAT.to_owned(),
        made: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        command: std::iter::once("settled".to_owned()).chain(std::env::args().skip(1)).collect::<Vec<_>>().join(" "),
        settled: env!("CARGO_PKG_VERSION").to_owned(),
        machine: machine::machine(),
        seed: args.seed.unwrap_or_else(machine::seed),
        profiles: Vec::new(),
    };
    let mut ongoing = match (&args.json, args.go_on) {
        (Some(file), true) => Ongoing::go_on(begun, file).map_err(|error| Failure::input(error.to_string()))?,
        (file, _) => Ongoing::new(begun, file.clone()),
    };
    let own = std::env::current_exe()?;
    let jobs = args.jobs.unwrap_or_else(machine::cores);
    let mut plan = Plan {
        programs: Programs { tool: vec![own.clone().into(), "profile-tool".into()], settled: own },
        cells: Cell::ALL.iter().copied().filter(|cell| args.cell.is_empty() || args.cell.contains(cell)).collect(),
        repeat: args.repeat,
        made: BTreeMap::new(),
        seed: ongoing.report().seed,
        behind: args.behind.map(|BehindArg::Settled| Behind::Settled),
        deadline: Duration::from_secs(args.deadline),
        keep: args.keep.clone(),
        jobs: Arc::new(Semaphore::new(jobs as usize)),
        postgres: None,
    };
    let (mut lacking, mut unserved) = (Vec::new(), Vec::new());
    for (adapter, variant) in &chosen {
        let cells = ongoing.lacks(&plan, adapter, variant);
        match ongoing.measured(&plan, adapter, variant) {
            // What its protocol predicts may be another thing by now.
            Some(measured) if cells.is_empty() => annotate(measured, adapter, variant),
            _ => lacking.push(Lacking {
                adapter: adapter.clone(),
                variant: variant.clone(),
                made: ongoing.made(&plan, adapter, variant, &cells),
                cells,
            }),
        }
    }
    if lacking.len() < chosen.len() {
        eprintln!("settled: {} of {} variants are measured already", chosen.len() - lacking.len(), chosen.len());
    }
    let report = block_on(async {
        let needs = |lacking: &Lacking| lacking.variant.needs.is_some();
        if lacking.iter().any(needs) {
            match settled_profile::database::Server::start().await {
                Ok(server) => plan.postgres = Some(server),
                Err(error) => {
                    let needy = lacking.extract_if(.., |lacking| needs(lacking));
                    unserved.extend(needy.map(|needy| format!("{}: {error}", needy.name())));
                }
            }
        }
        tokio::select! {
            measured = measure(&plan, &lacking, ongoing) => measured,
            () = told_to_end() => Err(Failure::nothing(match &args.json {
                Some(_) => "told to end before all runs were over; the file has the cells that were: `--continue` measures the others",
                None => "told to end before all runs were over; nothing is written",
            })),
        }
    });
    // Whatever is left of a run ends with the harness, however that ends.
    abandon_all();
    let (report, mut failed) = report?;
    failed.extend(unserved);
    let report = report.end(&chosen).map_err(|error| Failure::input(error.to_string()))?;
    if let Some(path) = &args.html {
        write(path, &report::html(std::slice::from_ref(&report)))?;
    }
    output::line(report::table(&report).trim_end())?;
    let bad = |profile: &Profile| {
        profile.cells.iter().any(|cell| cell.counts.outcomes.keys().any(|kind| kind != Outcome::Once.kind()))
    };
    if !failed.is_empty() {
        return Err(Failure::input(failed.join("\n")));
    }
    match args.strict && report.profiles.iter().any(bad) {
        true => Ok(Exit::Violated),
        false => Ok(Exit::Good),
    }
}

/// SIGINT or SIGTERM.
async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

fn write(path: &std::path::Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure::input(format!("{}: {error}", path.display())))
}

/// The variants that are meant, of adapters that are installed.
fn chosen(args: &RunArgs, cache: &Cache) -> Result<Vec<(Adapter, Variant)>, Failure> {
    let input = |error: settled_profile::install::InstallError| Failure::input(error.to_string());
    let names = match args.all {
        true => settled_profile::files::shipped(),
        false => args.adapters.clone(),
    };
    let mut chosen = Vec::new();
    let mut seen = Vec::new();
    for name in &names {
        let wanted = Wanted::named(name).map_err(input)?;
        let adapter = match cache.installed(&wanted) {
            Err(settled_profile::install::InstallError::Missing { .. }) if args.all => {
                eprintln!("settled: {name} is not installed, and left out");
                continue;
            }
            other => other.map_err(input)?,
        };
        for variant in adapter.ways() {
            seen.push(format!("{}/{}", adapter.name, variant.name));
            if args.variant.is_empty() || args.variant.contains(&variant.name) {
                chosen.push((adapter.clone(), variant));
            }
        }
    }
    if chosen.is_empty() && seen.is_empty() {
        return Err(Failure::input("none is installed; `settled profile install --all` installs them"));
    }
    if chosen.is_empty() {
        return Err(Failure::input(format!("there is no such variant; there are {}", seen.join(", "))));
    }
    Ok(chosen)
}

fn annotate(profile: &mut Profile, adapter: &Adapter, variant: &Variant) {
    if let Err(error) = predict::annotate(profile, adapter, variant) {
        eprintln!("settled: {}/{}: nothing is predicted: {error}", adapter.name, variant.name);
    }
}

/// Shows how a variant's profile comes on, and hands each cell on.
struct Progress {
    adapter: Adapter,
    variant: Variant,
    bar: ProgressBar,
    cells: mpsc::UnboundedSender<Profile>,
}

impl Watch for Progress {
    fn run(&self, cell: Cell, run: &Run) {
        self.bar.inc(1);
        self.bar.set_message(format!("{}/{} {cell}: {}", self.adapter.name, self.variant.name, run.outcome));
    }

    fn cell(&self, mut profile: Profile) {
        annotate(&mut profile, &self.adapter, &self.variant);
        // Nobody takes it any more once the harness has been told to end.
        let _ = self.cells.send(profile);
    }
}

/// What is to be measured of a variant.
struct Lacking {
    adapter: Adapter,
    variant: Variant,
    cells: Vec<Cell>,
    /// The runs of these cells that there are already.
    made: BTreeMap<Cell, Vec<Run>>,
}

impl Lacking {
    fn name(&self) -> String {
        format!("{}/{}", self.adapter.name, self.variant.name)
    }

    /// The plan of this variant alone.
    fn plan(&self, of_all: &Plan) -> Plan {
        // Why the others are not tried is part of a profile.
        let left_out = of_all.cells.iter().filter(|cell| self.adapter.left_out(&self.variant, **cell).is_some());
        let cells = self.cells.iter().chain(left_out).copied().collect();
        Plan { cells, made: self.made.clone(), ..of_all.clone() }
    }
}

/// Measures these cells of these variants, and takes each into the report when all its runs are over. A variant that can't be run does
/// not keep the others from being measured: why it can't is said in the end.
async fn measure(plan: &Plan, chosen: &[Lacking], mut report: Ongoing) -> Result<(Ongoing, Vec<String>), Failure> {
    let expected = |of: &Lacking| matrix::expected(&of.plan(plan), &of.adapter, &of.variant);
    let bar = ProgressBar::new(chosen.iter().map(expected).sum());
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {elapsed} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(250));
    let (hand_on, mut measured) = mpsc::unbounded_channel();
    let mut under_way = JoinSet::new();
    for of in chosen {
        let (plan, name) = (of.plan(plan), of.name());
        let (adapter, variant) = (of.adapter.clone(), of.variant.clone());
        let (bar, cells) = (bar.clone(), hand_on.clone());
        under_way.spawn(async move {
            let progress = Progress { adapter: adapter.clone(), variant: variant.clone(), bar, cells };
            let watch: Arc<dyn Watch> = Arc::new(progress);
            let made = matrix::profile(&plan, &adapter, &variant, &watch).await;
            made.map(|_| name.clone()).map_err(|error| format!("{name}: {error}"))
        });
    }
    drop(hand_on);
    let mut failed = Vec::new();
    loop {
        tokio::select! {
            Some(profile) = measured.recv() => {
                report.add(profile).map_err(|error| Failure::input(error.to_string()))?;
            }
            Some(ended) = under_way.join_next() => {
                match ended.map_err(|error| Failure::internal(error.to_string()))? {
                    Ok(name) if bar.is_hidden() => {
                        eprintln!("settled: {} of {} variants: {name}", chosen.len() - under_way.len(), chosen.len());
                    }
                    Ok(_) => {}
                    Err(why) => failed.push(why),
                }
            }
            else => break,
        }
    }
    bar.finish_and_clear();
    Ok((report, failed))
}

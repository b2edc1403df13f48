//! `settled simulate`: runs of the whole implementation on a simulated clock, network and disk.

use std::fs;
use std::io::{IsTerminal, stderr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use settled_simulation::{Coverage, Failed, Outcome, Plan, Plant, Profile, Runs, SimulationError, Summary, reachable};

use crate::failure::{Exit, Failure};
use crate::output::{json, line};

/// Simulates the whole implementation: guards, their ledger, its disk, the network and the tools, on one clock.
///
/// Each seed draws tools, callers and faults, and runs them on this very code. What callers were told is held against what really
/// happened. The same seed always takes the same course. A seed that goes wrong is made as small as possible, and its story told.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// How much goes wrong.
    #[arg(long, value_enum, default_value_t = ProfileArg::Stormy)]
    profile: ProfileArg,
    /// Run what this file describes instead: one that was written for a seed that went wrong.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "count", "profile", "plant", "jobs", "need_coverage"])]
    plan: Option<PathBuf>,
    /// Tell all that happens (one seed, or a plan).
    #[arg(long)]
    story: bool,
    /// How many threads; by default as many as there are processors.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Put in a defect on purpose, to see that it is found.
    #[arg(long, value_enum, value_name = "DEFECT")]
    plant: Option<PlantArg>,
    /// Fail if a state, a transition or a fault that can happen did not.
    #[arg(long)]
    need_coverage: bool,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProfileArg {
    Calm,
    Stormy,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PlantArg {
    ResendUnknown,
    BelieveErrors,
    ObserveEarly,
    IgnoreArguments,
    AcknowledgeEarly,
    AnswerBeforeStore,
}

impl From<ProfileArg> for Profile {
    fn from(profile: ProfileArg) -> Profile {
        match profile {
            ProfileArg::Calm => Profile::Calm,
            ProfileArg::Stormy => Profile::Stormy,
        }
    }
}

impl From<PlantArg> for Plant {
    fn from(plant: PlantArg) -> Plant {
        match plant {
            PlantArg::ResendUnknown => Plant::ResendUnknown,
            PlantArg::BelieveErrors => Plant::BelieveErrors,
            PlantArg::ObserveEarly => Plant::ObserveEarly,
            PlantArg::IgnoreArguments => Plant::IgnoreArguments,
            PlantArg::AcknowledgeEarly => Plant::AcknowledgeEarly,
            PlantArg::AnswerBeforeStore => Plant::AnswerBeforeStore,
        }
    }
}

fn failure(error: SimulationError) -> Failure {
    Failure::internal(error.to_string())
}

/// Runs the command.
pub fn run(args: SimulateArgs) -> Result<Exit, Failure> {
    if let Some(file) = &args.plan {
        let text = fs::read_to_string(file).map_err(|e| Failure::input(format!("{}: {e}", file.display())))?;
        let plan: Plan = serde_json::from_str(&text)
            .map_err(|e| Failure::input(format!("{}: not a plan of `settled simulate`: {e}", file.display())))?;
        plan.check().map_err(|e| Failure::input(format!("{}: {e}", file.display())))?;
        return one(&plan, args.story, args.json);
    }
    let (profile, plant) = (Profile::from(args.profile), args.plant.map(Plant::from));
    if args.count == 1 && args.story {
        return one(&Plan::draw(args.seed, profile, plant), true, args.json);
    }
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let runs = Runs { from: args.seed, count: args.count, profile, plant, jobs, enough: 1 };
    let bar = if stderr().is_terminal() { ProgressBar::new(args.count) } else { ProgressBar::hidden() };
    let summary = runs.run(&|done| bar.set_position(done)).map_err(failure)?;
    bar.finish_and_clear();
    if args.json {
        json(&summary)?;
    } else {
        show(&summary)?;
    }
    if let Some(failed) = summary.failed.first() {
        explain(failed, &args)?;
        return Ok(Exit::Violated);
    }
    Ok(if args.need_coverage && misses(&summary.coverage) > 0 { Exit::Violated } else { Exit::Good })
}

/// One run.
fn one(plan: &Plan, told: bool, as_json: bool) -> Result<Exit, Failure> {
    let outcome = plan.run(told).map_err(failure)?;
    for what in &outcome.story {
        line(what)?;
    }
    if as_json {
        json(&outcome.violations)?;
    } else {
        tell(&outcome)?;
    }
    Ok(if outcome.violations.is_empty() { Exit::Good } else { Exit::Violated })
}

fn tell(outcome: &Outcome) -> Result<(), Failure> {
    for violation in &outcome.violations {
        line(format!("violated: {}: {}", violation.property.name(), violation.what))?;
    }
    line(format!(
        "seed {}: {:.1} s of simulated time, {} events (digest {:016x}), {} calls, {} sends, {} effects, {} violations",
        outcome.seed,
        outcome.simulated.as_secs_f64(),
        outcome.events,
        outcome.digest,
        outcome.calls,
        outcome.sends,
        outcome.effects,
        outcome.violations.len(),
    ))?;
    Ok(())
}

fn misses(coverage: &Coverage) -> usize {
    coverage.missed_states().len() + coverage.missed_transitions().len() + coverage.missed_faults().len()
}

fn show(summary: &Summary) -> Result<(), Failure> {
    let Summary { coverage, .. } = summary;
    line(format!("seeds                    {}", summary.runs))?;
    line(format!("simulated time           {}", humantime::format_duration(rounded(summary.simulated))))?;
    line(format!(
        "took                     {:.1} s, {:.0} seeds a second",
        summary.elapsed.as_secs_f64(),
        summary.runs as f64 / summary.elapsed.as_secs_f64().max(1e-9)
    ))?;
    line(format!("events                   {}", summary.events))?;
    line(format!("calls, sends, effects    {}, {}, {}", summary.calls, summary.sends, summary.effects))?;
    line(format!("seeds with violations    {}", summary.failed.len()))?;
    table("faults", coverage.faults.iter().map(|(name, times)| ((*name).to_owned(), *times)))?;
    table("answers", coverage.answers.iter().map(|(name, times)| ((*name).to_owned(), *times)))?;
    table("steps", coverage.steps.iter().map(|(name, times)| ((*name).to_owned(), *times)))?;
    let (all, missed) = (reachable().len(), coverage.missed_transitions());
    line(format!("\ncore transitions         {} of {all} (kind of tool × state × event × state)", all - missed.len()))?;
    let mut never: Vec<String> = coverage.missed_states().into_iter().map(|state| format!("state {state}")).collect();
    never.extend(coverage.missed_faults().into_iter().map(|fault| format!("fault: {fault}")));
    never.extend(missed.iter().map(ToString::to_string));
    if !never.is_empty() {
        line(format!("\nnever happened ({}):", never.len()))?;
        for what in never {
            line(format!("  {what}"))?;
        }
    }
    Ok(())
}

fn rounded(duration: std::time::Duration) -> std::time::Duration {
    std::time::Duration::from_secs(duration.as_secs())
}

fn table(title: &str, rows: impl Iterator<Item = (String, u64)>) -> Result<(), Failure> {
    line(format!("\n{title}"))?;
    for (name, times) in rows {
        line(format!("  {name:<42} {times:>10}"))?;
    }
    Ok(())
}

/// What went wrong with a seed, as small as it can be made.
fn explain(failed: &Failed, args: &SimulateArgs) -> Result<(), Failure> {
    let (profile, plant) = (Profile::from(args.profile), args.plant.map(Plant::from));
    let Some(first) = failed.violations.first() else { return Ok(()) };
    let plan = Plan::draw(failed.seed, profile, plant);
    let smallest = plan.minimised(first.property).map_err(failure)?;
    let outcome = smallest.run(true).map_err(failure)?;
    let file = std::env::temp_dir().join(format!("settled-simulation-{}.json", failed.seed));
    fs::write(&file, serde_json::to_string_pretty(&smallest).map_err(|e| Failure::internal(e.to_string()))?)?;
    let planted = plant.map(|plant| format!(" --plant {}", plant.name())).unwrap_or_default();
    let profile = match profile {
        Profile::Calm => "calm",
        Profile::Stormy => "stormy",
    };
    for text in [
        format!("\nseed {} violates {}: {}", failed.seed, first.property.name(), first.what),
        format!("again:     settled simulate --seed {} --profile {profile}{planted}", failed.seed),
        format!("smallest:  settled simulate --plan {} --story", file.display()),
        format!(
            "\nthe smallest run that goes wrong in this way ({} of {} calls, {} of {} faults):",
            smallest.calls.len(),
            plan.calls.len(),
            smallest.faults.len(),
            plan.faults.len()
        ),
    ] {
        eprintln!("{text}");
    }
    for what in &outcome.story {
        eprintln!("{what}");
    }
    Ok(())
}

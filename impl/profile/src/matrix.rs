//! All cells of one variant of an adapter, each of them repeated.

use std::collections::BTreeMap;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::adapter::{Adapter, Service, Variant};
use crate::cell::Cell;
use crate::database::Server;
use crate::outcome::{Bite, Counts, Outcome};
use crate::profile::{CellResult, Profile, Run};
use crate::run::{self, Behind, Moments, Programs, RunError, Seen, Setting, resolved};

/// How profiles are made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The programs of the harness.
    pub programs: Programs,
    /// The cells, in the order of the matrix.
    pub cells: Vec<Cell>,
    /// How often each is run.
    pub repeat: u32,
    /// What was made of them before: it counts, and only what is missing is run.
    pub made: BTreeMap<Cell, Vec<Run>>,
    /// What random moments are drawn from.
    pub seed: u64,
    /// What the tool is behind.
    pub behind: Option<Behind>,
    /// How long a run may take.
    pub deadline: Duration,
    /// Where the runs' directories are kept.
    pub keep: Option<PathBuf>,
    /// How many runs there are at once, of all profiles together.
    pub jobs: Arc<Semaphore>,
    /// The server for the variants that need one.
    pub postgres: Option<Server>,
}

/// What a framework runs on, in its own words.
#[must_use]
pub fn runtime(adapter: &Adapter) -> String {
    let Some((first, rest)) = adapter.runtime.split_first() else { return String::new() };
    let output = std::process::Command::new(resolved(&adapter.directory, first))
        .args(rest)
        .current_dir(&adapter.directory)
        .stdin(std::process::Stdio::null())
        .output();
    let Ok(output) = output else { return String::new() };
    let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let said = String::from_utf8_lossy(&said).lines().next().unwrap_or_default().trim().to_owned();
    // `node --version` prints a bare number.
    match said.strip_prefix('v') {
        Some(number) if first.ends_with("node") => format!("Node.js {number}"),
        _ => said,
    }
}

/// Who is told how a profile comes on.
pub trait Watch: Send + Sync {
    /// A run is over.
    fn run(&self, _cell: Cell, _run: &Run) {}

    /// All runs of a cell are over: the profile with this cell alone.
    fn cell(&self, _profile: Profile) {}
}

/// Nobody.
impl Watch for () {}

/// Makes the profile of a variant.
///
/// # Errors
/// [`RunError`] if a process of the harness or the framework can't be started.
pub async fn profile(
    plan: &Plan,
    adapter: &Adapter,
    variant: &Variant,
    watch: &Arc<dyn Watch>,
) -> Result<Profile, RunError> {
    let setting = Setting {
        programs: plan.programs.clone(),
        directory: adapter.directory.clone(),
        start: adapter.start.clone(),
        resume: adapter.resume.clone(),
        environment: variant.environment.clone(),
        transport: adapter.transport_of(variant),
        behind: plan.behind,
        postgres: plan.postgres.clone().filter(|_| variant.needs == Some(Service::Postgres)),
        deadline: plan.deadline,
        keep: plan.keep.as_ref().map(|keep| keep.join(&adapter.name).join(&variant.name)),
    };
    let mut left_out = BTreeMap::new();
    let mut cells = Vec::new();
    for cell in &plan.cells {
        match adapter.left_out(variant, *cell) {
            Some(reason) => drop(left_out.insert(cell.name().to_owned(), reason)),
            None => cells.push(*cell),
        }
    }
    let reference = reference(plan, &setting, &cells).await?;
    let mut runs: BTreeMap<Cell, Vec<Option<Run>>> = BTreeMap::new();
    let mut trials: Vec<(Cell, Moments)> = Vec::new();
    for cell in &cells {
        let made = plan.made.get(cell).cloned().unwrap_or_default();
        let moments = moments(plan, adapter, variant, *cell, &reference).into_iter().skip(made.len());
        trials.extend(moments.map(|moments| (*cell, moments)));
        runs.insert(*cell, made.into_iter().map(Some).collect());
    }
    let empty = Profile {
        adapter: adapter.name.clone(),
        variant: variant.name.clone(),
        framework: adapter.framework.clone(),
        version: adapter.version.clone(),
        runtime: runtime(adapter),
        transport: adapter.transport_of(variant).name().to_owned(),
        behind: plan.behind.map(|_| "settled".to_owned()),
        cells: Vec::new(),
        left_out,
    };
    let mut under_way = JoinSet::new();
    for (cell, moments) in trials {
        let of_cell = runs.entry(cell).or_default();
        let place = of_cell.len();
        of_cell.push(None);
        let (plan, setting, watch) = (plan.clone(), setting.clone(), Arc::clone(watch));
        under_way.spawn(async move {
            let run = match struck(&plan, &setting, cell, moments).await {
                // Its program is not there: no run will be.
                Err(error @ RunError::Start { .. }) => return Err(error),
                Err(error) => untried(&error),
                Ok(run) => run,
            };
            watch.run(cell, &run);
            Ok::<_, RunError>((cell, place, run))
        });
    }
    let mut whole = empty.clone();
    while let Some(ended) = under_way.join_next().await {
        let (cell, place, run) = ended.map_err(|error| RunError::Directory(std::io::Error::other(error)))??;
        let Some(of_cell) = runs.get_mut(&cell) else { continue };
        if let Some(slot) = of_cell.get_mut(place) {
            *slot = Some(run);
        }
        // They are reported in the order in which they were begun, whichever was over first.
        if let Some(all) = of_cell.iter().cloned().collect::<Option<Vec<Run>>>() {
            let counts = counts(&all);
            let result = CellResult { cell, property: None, fault: None, counts, predicted: None, runs: all };
            watch.cell(Profile { cells: vec![result.clone()], ..empty.clone() });
            whole.cells.push(result);
        }
    }
    whole.cells.sort_by_key(|result| result.cell);
    Ok(whole)
}

/// How many runs [`profile`] makes at most.
#[must_use]
pub fn expected(plan: &Plan, adapter: &Adapter, variant: &Variant) -> u64 {
    let cells = plan.cells.iter().filter(|cell| adapter.left_out(variant, **cell).is_none());
    let missing = cells.map(|cell| {
        let all = if *cell == Cell::KillAtWrites { sampled(plan) } else { plan.repeat };
        u64::from(all).saturating_sub(plan.made.get(cell).map_or(0, |made| made.len() as u64))
    });
    missing.sum()
}

/// A run that the harness or the machine could not make says nothing of the framework.
fn untried(error: &RunError) -> Run {
    let reason = error.to_string();
    Run {
        outcome: Outcome::Error(reason.clone()),
        bite: Bite::Missed(reason),
        effects: BTreeMap::new(),
        events: Vec::new(),
        seconds: 0.0,
    }
}

/// Whether its moment was found in another run.
const fn follows_another(cell: Cell) -> bool {
    matches!(cell, Cell::KillAtRandom | Cell::KillAtWrites | Cell::TornWrite)
}

/// A run of a cell. One whose fault did not strike because it is not like the one that was timed and watched is made again, and struck
/// earlier; so is one that the machine did not let the harness make.
async fn struck(plan: &Plan, setting: &Setting, cell: Cell, mut moments: Moments) -> Result<Run, RunError> {
    let mut tries = 4;
    loop {
        let made = permitted(plan, run::run(setting, cell, moments)).await;
        tries -= 1;
        let missed = match &made {
            Ok((run, _)) => matches!(run.bite, Bite::Missed(_)) && follows_another(cell),
            Err(error) => !matches!(error, RunError::Start { .. }),
        };
        if !missed || tries == 0 {
            return made.map(|(run, _)| run);
        }
        if made.is_ok() {
            moments.after = moments.after.map(|after| after / 2);
            moments.write = moments.write.map(|write| write.saturating_sub(1).max(1));
        }
    }
}

async fn permitted<T>(plan: &Plan, work: impl Future<Output = T>) -> T {
    // It is never closed.
    let _permit = plan.jobs.acquire().await;
    work.await
}

/// Runs without a fault, as far as a cell needs to know of one: watched for its writes, and unwatched for its time.
async fn reference(plan: &Plan, setting: &Setting, cells: &[Cell]) -> Result<Seen, RunError> {
    let without = |watched| {
        let moments = Moments { watched, ..Moments::default() };
        async move { permitted(plan, run::run(setting, Cell::NoFault, moments)).await.map(|(_, seen)| seen) }
    };
    let mut seen = Seen::default();
    if cells.iter().any(|cell| matches!(cell, Cell::KillAtWrites | Cell::TornWrite)) {
        seen = without(true).await?;
    }
    if cells.contains(&Cell::KillAtRandom) {
        seen.span = without(false).await?.span;
    }
    Ok(seen)
}

/// How many writes are struck in `kill-at-writes`: few, if each cell is to be run once only.
fn sampled(plan: &Plan) -> u32 {
    plan.repeat.saturating_mul(3).min(12)
}

/// When each run of a cell is struck.
fn moments(plan: &Plan, adapter: &Adapter, variant: &Variant, cell: Cell, reference: &Seen) -> Vec<Moments> {
    let mut hasher = DefaultHasher::new();
    (&adapter.name, &variant.name, cell.name(), plan.seed).hash(&mut hasher);
    let mut random = fastrand::Rng::with_seed(hasher.finish());
    match cell {
        Cell::KillAtRandom => {
            // Not quite to its end: a run can be a little faster than the one that was timed.
            let any = |random: &mut fastrand::Rng| reference.span.mul_f64(0.9 * random.f64());
            (0..plan.repeat).map(|_| Moments { after: Some(any(&mut random)), ..Moments::default() }).collect()
        }
        Cell::KillAtWrites => {
            let count = sampled(plan).min(reference.writes).max(1);
            let place = |index: u32| {
                let (index, count, all) = (u64::from(index), u64::from(count), u64::from(reference.writes));
                u32::try_from(1 + index * all.saturating_sub(1) / (count - 1).max(1)).unwrap_or(1)
            };
            (0..count).map(|index| Moments { write: Some(place(index)), ..Moments::default() }).collect()
        }
        Cell::TornWrite => {
            let (write, called) = (reference.before_c, reference.called);
            vec![Moments { write, called, ..Moments::default() }; plan.repeat as usize]
        }
        _ => vec![Moments::default(); plan.repeat as usize],
    }
}

/// Counts the runs of a cell.
#[must_use]
pub fn counts(runs: &[Run]) -> Counts {
    let mut counts = Counts::default();
    for run in runs {
        match &run.bite {
            Bite::Missed(_) => counts.missed += 1,
            Bite::Struck => {
                *counts.outcomes.entry(Outcome::kind(&run.outcome).to_owned()).or_default() += 1;
                counts.most = counts.most.max(run.effects.values().copied().max().unwrap_or(0));
            }
        }
    }
    counts
}

//! Frameworks that are known to behave in some way: the harness must say so.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use settled_profile::install::{Cache, Wanted};
use settled_profile::matrix::{self, Plan, Watch};
use settled_profile::run::{Behind, Programs};
use settled_profile::{Bite, Cell, Outcome, Profile, Run};
use tempfile::TempDir;
use tokio::sync::Semaphore;

/// An adapter of toys, with a variant for each way to behave and each transport.
struct Toys {
    whole: TempDir,
}

impl Toys {
    fn make(ways: &[(&str, &str)]) -> Self {
        let whole = TempDir::new().unwrap();
        let directory = whole.path().join("toys");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("toys.py"), include_str!("toys.py")).unwrap();
        fs::create_dir(directory.join("pids")).unwrap();
        let pids = directory.join("pids").display().to_string();
        let variants = ways.iter().map(|(toy, transport)| {
            format!(
                "[[variant]]\nname = \"{toy}-{transport}\"\ntransport = \"{transport}\"\nenvironment = {{ TOY = \"{toy}\", TRANSPORT = \"{transport}\", TOY_PIDS = {pids:?} }}\n"
            )
        });
        let head = r#"
name = "toys"
about = "toys"
framework = "toys"
version = "1.0.0"
runtime = ["python3", "--version"]
start = ["python3", "toys.py", "start"]
resume = ["python3", "toys.py", "resume"]
workloads = ["steps", "approval"]
"#;
        let text = format!("{head}{}", variants.collect::<String>());
        fs::write(directory.join("adapter.toml"), text).unwrap();
        Self { whole }
    }

    fn path(&self) -> PathBuf {
        self.whole.path().join("toys")
    }

    /// The processes that toys said they had started.
    fn processes(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.path().join("pids")).unwrap();
        let texts = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
        texts.flat_map(|text| text.lines().map(|pid| Path::new("/proc").join(pid)).collect::<Vec<_>>()).collect()
    }

    fn run(&self, cells: &[Cell], behind: Option<Behind>) -> BTreeMap<(String, Cell), Run> {
        let settled = crate::program::settled();
        let plan = Plan {
            programs: Programs { tool: vec![settled.clone().into(), "profile-tool".into()], settled },
            cells: cells.to_vec(),
            repeat: 1,
            made: BTreeMap::new(),
            seed: 1,
            behind,
            deadline: Duration::from_secs(if cells == [Cell::KillAfterEffect] { 20 } else { 120 }),
            keep: None,
            jobs: Arc::new(Semaphore::new(4)),
            postgres: None,
        };
        let cache = Cache::at(self.path().join("cache"));
        let adapter = cache.installed(&Wanted::named(&self.path().display().to_string()).unwrap()).unwrap();
        let watch: Arc<dyn Watch> = Arc::new(());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let profiles: Vec<Profile> = runtime.block_on(async {
            let tasks: Vec<_> = adapter
                .ways()
                .into_iter()
                .map(|variant| {
                    let (plan, adapter, watch) = (plan.clone(), adapter.clone(), Arc::clone(&watch));
                    tokio::spawn(async move { matrix::profile(&plan, &adapter, &variant, &watch).await.unwrap() })
                })
                .collect();
            let mut profiles = Vec::new();
            for task in tasks {
                profiles.push(task.await.unwrap());
            }
            profiles
        });
        let runs = profiles.into_iter().flat_map(|profile| {
            let variant = profile.variant.clone();
            profile.cells.into_iter().map(move |result| ((variant.clone(), result.cell), result.runs[0].clone()))
        });
        runs.collect()
    }
}

fn of<'a>(runs: &'a BTreeMap<(String, Cell), Run>, toy: &str, cell: Cell) -> &'a Run {
    runs.get(&(toy.to_owned(), cell)).unwrap_or_else(|| panic!("{toy} was not tried in {cell}"))
}

#[track_caller]
fn ends(runs: &BTreeMap<(String, Cell), Run>, toy: &str, cell: Cell, outcome: &Outcome) {
    let run = of(runs, toy, cell);
    assert_eq!((&run.outcome, &run.bite), (outcome, &Bite::Struck), "{toy} in {cell}: {run:#?}");
}

#[test]
fn each_outcome_is_told_from_the_others() {
    let toys = Toys::make(&[
        ("repeats", "http"),
        ("intent", "http"),
        ("twice", "http"),
        ("forgets", "http"),
        ("gives-up", "http"),
        ("short", "http"),
    ]);
    let runs = toys.run(&[Cell::NoFault, Cell::KillBeforeEffect, Cell::KillAfterRecord, Cell::ApprovedTwice], None);
    ends(&runs, "repeats-http", Cell::NoFault, &Outcome::Once);
    ends(&runs, "repeats-http", Cell::KillBeforeEffect, &Outcome::Once);
    ends(&runs, "repeats-http", Cell::KillAfterRecord, &Outcome::Once);
    ends(&runs, "repeats-http", Cell::ApprovedTwice, &Outcome::Once);
    ends(&runs, "intent-http", Cell::KillBeforeEffect, &Outcome::Lost);
    ends(&runs, "twice-http", Cell::NoFault, &Outcome::Duplicate(2));
    ends(&runs, "forgets-http", Cell::KillAfterRecord, &Outcome::Lost);
    ends(&runs, "gives-up-http", Cell::KillAfterRecord, &Outcome::Error("GivenUp: no way on with STATE/x".to_owned()));
    ends(&runs, "short-http", Cell::NoFault, &Outcome::Lost);
    // Its `b` is never called, so nothing was tried.
    let missed = of(&runs, "short-http", Cell::KillBeforeEffect);
    assert_eq!(missed.bite, Bite::Missed("the run ended before the fault (exit 0)".to_owned()), "{missed:#?}");
    // A step had happened twice at the moment of the kill: not what the cell promises.
    assert!(matches!(of(&runs, "twice-http", Cell::KillBeforeEffect).bite, Bite::Missed(_)));
}

#[test]
fn a_run_that_does_not_end_is_stuck() {
    let toys = Toys::make(&[("hangs", "http")]);
    let runs = toys.run(&[Cell::KillAfterEffect], None);
    ends(&runs, "hangs-http", Cell::KillAfterEffect, &Outcome::Stuck);
}

#[test]
fn a_kill_reaches_what_has_left_the_group_and_nothing_is_left_of_a_run() {
    let toys = Toys::make(&[("detached", "http"), ("leaves", "http"), ("escapes", "http")]);
    let runs = toys.run(&[Cell::NoFault, Cell::KillBeforeEffect, Cell::KillAfterRecord], None);
    for toy in ["detached-http", "leaves-http", "escapes-http"] {
        ends(&runs, toy, Cell::NoFault, &Outcome::Once);
        ends(&runs, toy, Cell::KillBeforeEffect, &Outcome::Once);
        ends(&runs, toy, Cell::KillAfterRecord, &Outcome::Once);
    }
    let processes = toys.processes();
    assert!(processes.len() >= 12, "{processes:?}");
    for process in processes {
        assert!(!is_alive(&process), "{} is left", process.display());
    }
}

fn is_alive(process: &Path) -> bool {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

const TRANSPORTS: &[(&str, &str)] = &[("repeats", "http"), ("repeats", "mcp-http"), ("repeats", "mcp-stdio")];

/// Cells in which a framework that records a step after it repeats its effect.
const REPEATED: &[Cell] =
    &[Cell::KillAfterEffect, Cell::AnswerLost, Cell::AnswersLost, Cell::DeliveredTwice, Cell::ApprovedThenKilled];

#[test]
fn what_is_repeated_without_settled_happens_once_behind_it() {
    let toys = Toys::make(TRANSPORTS);
    let cells: Vec<Cell> = REPEATED.iter().copied().chain([Cell::NoFault, Cell::KillBeforeEffect]).collect();
    let (before, after) = (toys.run(&cells, None), toys.run(&cells, Some(Behind::Settled)));
    for (toy, transport) in TRANSPORTS {
        let toy = format!("{toy}-{transport}");
        for cell in REPEATED {
            ends(&before, &toy, *cell, &Outcome::Duplicate(2));
            ends(&after, &toy, *cell, &Outcome::Once);
        }
        for cell in [Cell::NoFault, Cell::KillBeforeEffect] {
            ends(&before, &toy, cell, &Outcome::Once);
            ends(&after, &toy, cell, &Outcome::Once);
        }
    }
}

#[test]
fn an_answer_is_lost_as_often_as_its_caller_tries_again() {
    let toys = Toys::make(&[("repeats", "http"), ("tries-thrice", "http"), ("tries-on", "http"), ("intent", "http")]);
    let cells = [Cell::AnswerLost, Cell::AnswersLost];
    let runs = toys.run(&cells, None);
    // The process that gives up, and then the one that resumes.
    ends(&runs, "repeats-http", Cell::AnswersLost, &Outcome::Duplicate(2));
    ends(&runs, "tries-thrice-http", Cell::AnswerLost, &Outcome::Duplicate(2));
    ends(&runs, "tries-thrice-http", Cell::AnswersLost, &Outcome::Duplicate(4));
    // What tries without end comes to an answer.
    ends(&runs, "tries-on-http", Cell::AnswersLost, &Outcome::Duplicate(6));
    ends(&runs, "intent-http", Cell::AnswersLost, &Outcome::Once);
    // Whoever calls again while the guard waits has given up as well.
    let behind = toys.run(&[Cell::AnswerLost, Cell::AnswersLost, Cell::LateEffect], Some(Behind::Settled));
    assert_eq!(behind.len(), 12);
    for (toy, cell) in behind.keys() {
        ends(&behind, toy, *cell, &Outcome::Once);
    }
}

#[test]
fn faults_of_the_disk_and_of_signals_strike() {
    let toys = Toys::make(&[("repeats", "http")]);
    let cells = [
        Cell::KillAfterAnswer,
        Cell::KillAtWrites,
        Cell::Cancelled,
        Cell::ToolRestarted,
        Cell::LateEffect,
        Cell::DiskFull,
        Cell::DiskReadOnly,
        Cell::TornWrite,
        Cell::StoppedAndWoken,
        Cell::ResumedTwice,
        Cell::ResumedAtOnce,
        Cell::ApprovedAtOnce,
        Cell::DeniedThenApproved,
    ];
    let runs = toys.run(&cells, None);
    for cell in cells {
        let run = of(&runs, "repeats-http", cell);
        assert_eq!(run.bite, Bite::Struck, "{cell}: {run:#?}");
    }
    let repeated = [
        Cell::KillAfterAnswer,
        Cell::Cancelled,
        Cell::ToolRestarted,
        Cell::LateEffect,
        Cell::DiskFull,
        Cell::DiskReadOnly,
        Cell::StoppedAndWoken,
    ];
    for cell in repeated {
        ends(&runs, "repeats-http", cell, &Outcome::Duplicate(2));
    }
    ends(&runs, "repeats-http", Cell::ResumedTwice, &Outcome::Once);
    // It does not record that it was denied.
    ends(&runs, "repeats-http", Cell::DeniedThenApproved, &Outcome::Duplicate(1));
    assert!(matches!(of(&runs, "repeats-http", Cell::ResumedAtOnce).outcome, Outcome::Duplicate(2 | 3)));
    assert!(matches!(of(&runs, "repeats-http", Cell::ApprovedAtOnce).outcome, Outcome::Duplicate(2 | 3)));
}

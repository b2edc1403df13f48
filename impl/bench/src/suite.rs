//! All that is measured, in turn: see [`run`].

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use settled::{Engine, JsonLines, Ledger, NoHistory};
use settled_ledger_file::{FileLedger, FileLedgerOptions};
use settled_ledgers::OpenOptions;

use crate::aims::{self, Aim};
use crate::bare_log::{self, Stages};
use crate::disk;
use crate::error::BenchError;
use crate::guarded;
use crate::load::{Measured, median};
use crate::many::{self, Many};
use crate::parts::{self, Part};
use crate::peers::Peer;
use crate::usage;

/// How many callers there are, one number after the other.
pub const CALLERS: [usize; 3] = [1, 16, 128];

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Below this directory everything is written; nothing is left there.
    pub dir: PathBuf,
    /// Each measurement takes this long, and a fifth of it before.
    pub span: Duration,
    /// How often everything is measured; medians count.
    pub rounds: usize,
    /// Added to each sync of the file ledger and of the bare disk, as on a slower disk.
    pub sync_delay: Duration,
    /// URLs of further ledgers.
    pub ledgers: Vec<String>,
    /// How many keys to measure memory and opening with; 0: not at all.
    pub keys: u64,
}

impl Settings {
    /// Five rounds of a second, and a million keys; `quick`: one round of a quarter of that, and 50,000 keys.
    pub fn new(dir: PathBuf, quick: bool) -> Settings {
        let (span, rounds, keys) =
            if quick { (Duration::from_millis(250), 1, 50_000) } else { (Duration::from_secs(1), 5, 1_000_000) };
        Settings { dir, span, rounds, sync_delay: Duration::ZERO, ledgers: Vec::new(), keys }
    }
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// `fdatasync` of one thread; as many records at once as there would be callers. Calls are syncs.
    Syncs,
    /// Two records for each call on the bare log.
    BareLog,
    /// The two writes of a call on the ledger alone.
    BareLedger,
    /// Guarded calls, without a history.
    CallsWithoutHistory,
    /// Guarded calls.
    Calls,
    /// Calls with keys that are known.
    Duplicates,
    /// What is usually written by hand.
    Pattern,
}

/// One thing with each number of callers.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// On which ledger or server: `file`, or its URL.
    pub on: String,
    /// Of which kind: `file`, `postgres`, `redis`, `memory`.
    pub kind: String,
    /// What.
    pub what: What,
    /// In words.
    pub name: String,
    /// The median run of each number of callers.
    pub runs: Vec<Measured>,
}

impl Row {
    /// With so many callers.
    pub fn at(&self, callers: usize) -> Option<&Measured> {
        CALLERS.iter().zip(&self.runs).find_map(|(its, run)| (*its == callers).then_some(run))
    }
}

/// Everything that came out.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Processors.
    pub processors: usize,
    /// What was added to each sync, in milliseconds.
    pub sync_delay: f64,
    /// Calls and syncs.
    pub rows: Vec<Row>,
    /// The bare log taken apart, with each number of callers.
    pub stages: Vec<(usize, Stages)>,
    /// Single parts of a call.
    pub parts: Vec<Part>,
    /// Very many keys.
    pub many: Option<Many>,
    /// What is aimed at.
    pub aims: Vec<Aim>,
}

/// Who takes part.
enum Contestant {
    Syncs,
    BareLog,
    File(What),
    Other { url: String, kind: String, ledger: Arc<dyn Ledger>, engine: Engine, what: What },
    Peer { url: String, kind: String, peer: Peer },
}

impl Contestant {
    fn row(&self) -> Row {
        let (on, kind, what) = match self {
            Contestant::Syncs => ("file", "file", What::Syncs),
            Contestant::BareLog => ("file", "file", What::BareLog),
            Contestant::File(what) => ("file", "file", *what),
            Contestant::Other { url, kind, what, .. } => (url.as_str(), kind.as_str(), *what),
            Contestant::Peer { url, kind, .. } => (url.as_str(), kind.as_str(), What::Pattern),
        };
        let name = match (what, self) {
            (_, Contestant::Peer { peer, .. }) => peer.name(),
            (What::Syncs, _) => "bare fdatasync (batches)",
            (What::BareLog, _) => "bare log, 2 records a call",
            (What::BareLedger, _) => "ledger alone, 2 writes a call",
            (What::CallsWithoutHistory, _) => "guarded calls, no history",
            (What::Calls, _) => "guarded calls",
            (What::Duplicates, _) => "duplicates",
            (What::Pattern, _) => "pattern",
        };
        Row { on: on.to_owned(), kind: kind.to_owned(), what, name: name.to_owned(), runs: Vec::new() }
    }
}

/// Measures everything. `program` makes the command that does a part in a process of its own (see [`many::many`]); `progress`
/// is told what is being measured.
///
/// # Errors
/// If something does not work: then there is nothing to measure.
pub async fn run(
    settings: &Settings,
    program: impl Fn(&str) -> Command + Send + 'static,
    progress: impl Fn(&str),
) -> Result<Report, BenchError> {
    usage::watch(&settings.dir);
    let contestants = contestants(settings).await?;
    let mut all: Vec<Vec<Vec<Measured>>> = contestants.iter().map(|_| vec![Vec::new(); CALLERS.len()]).collect();
    let mut stages = Vec::new();
    for round in 0..settings.rounds.max(1) {
        progress(&format!("round {} of {}", round + 1, settings.rounds.max(1)));
        for (contestant, runs) in contestants.iter().zip(&mut all) {
            for (callers, runs) in CALLERS.into_iter().zip(runs) {
                let (measured, its_stages) = measure(contestant, callers, settings).await?;
                runs.push(measured);
                stages.extend(its_stages.map(|its| (callers, its)));
            }
        }
    }
    for contestant in &contestants {
        if let Contestant::Peer { peer, .. } = contestant {
            peer.clean_up().await?;
        }
    }
    let rows: Vec<Row> = contestants
        .iter()
        .zip(all)
        .map(|(contestant, runs)| Row { runs: runs.into_iter().filter_map(median).collect(), ..contestant.row() })
        .collect();
    drop(contestants);
    progress("the parts of a call");
    let parts =
        in_new_dir(&settings.dir, "parts", |dir| async move { parts::parts(&dir, settings.span / 2).await }).await?;
    let many = match settings.keys {
        0 => None,
        keys => {
            progress(&format!("memory, disk and opening with {keys} keys"));
            let dir = settings.dir.join("many");
            let its = dir.clone();
            let measuring = tokio::task::spawn_blocking(move || many::many(&its, keys, program));
            let many = measuring.await.map_err(|_| BenchError::Ended("a measurement"))?;
            std::fs::remove_dir_all(&dir).map_err(BenchError::file(&dir))?;
            Some(many?)
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let sync_delay = settings.sync_delay.as_secs_f64() * 1e3;
    let stages = CALLERS.into_iter().filter_map(|callers| Some((callers, middle(&stages, callers)?))).collect();
    let mut report = Report { processors, sync_delay, rows, stages, parts, many, aims: Vec::new() };
    report.aims = aims::aims(&report);
    Ok(report)
}

/// The stages of the round whose sync took neither longest nor shortest.
fn middle(stages: &[(usize, Stages)], callers: usize) -> Option<Stages> {
    let mut its: Vec<Stages> = stages.iter().filter(|(with, _)| *with == callers).map(|(_, its)| *its).collect();
    its.sort_by(|a, b| a.sync.total_cmp(&b.sync));
    its.get(its.len() / 2).copied()
}

async fn contestants(settings: &Settings) -> Result<Vec<Contestant>, BenchError> {
    let mut all = vec![Contestant::Syncs, Contestant::BareLog];
    all.extend([What::BareLedger, What::CallsWithoutHistory, What::Calls, What::Duplicates].map(Contestant::File));
    for url in &settings.ledgers {
        let opened = settled_ledgers::open(url, OpenOptions::default()).await?;
        let engine = guarded::engine(opened.ledger.clone(), Arc::new(NoHistory)).await?;
        let kind = opened.kind.to_string();
        for what in [What::BareLedger, What::Calls, What::Duplicates] {
            let (ledger, engine) = (opened.ledger.clone(), engine.clone());
            all.push(Contestant::Other { url: opened.display.clone(), kind: kind.clone(), ledger, engine, what });
        }
        if let Some(peer) = Peer::of(url).await? {
            all.push(Contestant::Peer { url: opened.display, kind, peer });
        }
    }
    Ok(all)
}

async fn measure(
    contestant: &Contestant,
    callers: usize,
    settings: &Settings,
) -> Result<(Measured, Option<Stages>), BenchError> {
    let (span, delay) = (settings.span, settings.sync_delay);
    let measured = match contestant {
        Contestant::Syncs => disk::syncs(&settings.dir, callers, span, delay).await?,
        Contestant::BareLog => {
            let calls = |dir: PathBuf| async move { bare_log::calls(&dir, callers, span, delay).await };
            let (measured, stages) = in_new_dir(&settings.dir, "bare-log", calls).await?;
            return Ok((measured, Some(stages)));
        }
        Contestant::File(what) => {
            let calls = |dir: PathBuf| async move { on_files(&dir, *what, callers, settings).await };
            in_new_dir(&settings.dir, "ledger", calls).await?
        }
        Contestant::Other { url, ledger, engine, what, .. } => match what {
            What::BareLedger => guarded::bare_ledger(ledger, url, callers, span).await?,
            What::Duplicates => guarded::duplicates(engine, callers, span).await?,
            _ => guarded::new_calls(engine, callers, span).await?,
        },
        Contestant::Peer { peer, .. } => peer.calls(callers, span).await?,
    };
    Ok((measured, None))
}

/// On a file ledger that begins empty.
async fn on_files(dir: &Path, what: What, callers: usize, settings: &Settings) -> Result<Measured, BenchError> {
    let ledger = open_file(dir.join("ledger"), settings.sync_delay).await?;
    if what == What::BareLedger {
        return guarded::bare_ledger(&ledger, "file", callers, settings.span).await;
    }
    let history = dir.join("history.jsonl");
    let engine = if what == What::CallsWithoutHistory {
        guarded::engine(ledger, Arc::new(NoHistory)).await?
    } else {
        let history = JsonLines::append_to(&history).map_err(BenchError::file(&history))?;
        guarded::engine(ledger, Arc::new(history)).await?
    };
    let measured = match what {
        What::Duplicates => guarded::duplicates(&engine, callers, settings.span).await?,
        _ => guarded::new_calls(&engine, callers, settings.span).await?,
    };
    engine.idle().await;
    Ok(measured)
}

async fn open_file(dir: PathBuf, sync_delay: Duration) -> Result<Arc<dyn Ledger>, BenchError> {
    let mut options = FileLedgerOptions::default();
    options.sync_delay = sync_delay;
    let opening = tokio::task::spawn_blocking(move || FileLedger::open(dir, options));
    let ledger = opening.await.map_err(|_| BenchError::Ended("opening a ledger"))?;
    Ok(Arc::new(ledger.map_err(BenchError::ledger("file"))?))
}

/// Does something in a directory that is there only meanwhile.
async fn in_new_dir<T, F>(below: &Path, name: &str, work: impl FnOnce(PathBuf) -> F) -> Result<T, BenchError>
where
    F: Future<Output = Result<T, BenchError>>,
{
    let dir = tempfile::Builder::new().prefix(name).tempdir_in(below).map_err(BenchError::file(below))?;
    let done = work(dir.path().to_path_buf()).await;
    dir.close().map_err(BenchError::file(below))?;
    done
}

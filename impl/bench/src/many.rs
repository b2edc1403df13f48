//! A file ledger with very many keys: memory, disk, and the time to open it. Each part runs in a process of its own, whose memory
//! holds nothing else.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use settled::{Ledger, NoHistory};
use settled_ledger_file::{FileLedger, FileLedgerOptions};

use crate::error::BenchError;
use crate::guarded::{self, Scope};
use crate::usage::resident;

/// One part, for a process of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Job {
    /// Make so many calls on the ledger in this directory.
    Fill {
        /// The directory.
        dir: PathBuf,
        /// How many calls.
        keys: u64,
    },
    /// Open it.
    Open {
        /// The directory.
        dir: PathBuf,
    },
}

/// What a part took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Done {
    /// The seconds for each tenth of the calls; or for the opening.
    pub seconds: Vec<f64>,
    /// The bytes of memory that it took, as far as they are still resident at its end.
    pub resident: Option<u64>,
}

/// What very many keys take.
#[derive(Clone, Debug, Serialize)]
pub struct Many {
    /// How many keys there are, each of a call with 100 bytes of arguments and 100 bytes of result: two records.
    pub keys: u64,
    /// Calls a second during the first tenth.
    pub first_tenth: f64,
    /// Calls a second during the last tenth.
    pub last_tenth: f64,
    /// Bytes of disk for each call.
    pub disk: f64,
    /// Bytes of memory for each key, of a process that has just opened the ledger; `None` where the system doesn't tell.
    pub memory: Option<f64>,
    /// Seconds to open it.
    pub open: f64,
    /// Seconds to open it without the snapshot: all records are read; `None` if it has none.
    pub open_without_snapshot: Option<f64>,
}

/// Does a part, in the present process.
///
/// # Errors
/// If the ledger can't be used.
pub async fn run(job: Job) -> Result<Done, BenchError> {
    match job {
        Job::Fill { dir, keys } => {
            let engine = guarded::engine(open(&dir).await?, Arc::new(NoHistory)).await?;
            let scope = Scope::new();
            let mut seconds = Vec::new();
            for tenth in 0..10 {
                let begun = Instant::now();
                guarded::fill(&engine, &scope, keys * tenth / 10..keys * (tenth + 1) / 10).await?;
                seconds.push(begun.elapsed().as_secs_f64());
            }
            engine.idle().await;
            Ok(Done { seconds, resident: None })
        }
        Job::Open { dir } => {
            let before = resident();
            let begun = Instant::now();
            let ledger = open(&dir).await?;
            let seconds = vec![begun.elapsed().as_secs_f64()];
            let resident = resident().zip(before).map(|(now, before)| now.saturating_sub(before));
            drop(ledger);
            Ok(Done { seconds, resident })
        }
    }
}

async fn open(dir: &Path) -> Result<Arc<dyn Ledger>, BenchError> {
    let path = dir.to_path_buf();
    let opening = tokio::task::spawn_blocking(move || FileLedger::open(path, FileLedgerOptions::default()));
    let ledger = opening.await.map_err(|_| BenchError::Ended("opening a ledger"))?;
    Ok(Arc::new(ledger.map_err(BenchError::ledger(dir.display().to_string()))?))
}

/// Measures a ledger with so many keys below this directory. `program` makes the command that does a part, given as JSON, and
/// prints what came of it as JSON in its last line.
///
/// # Errors
/// If a part can't be done.
pub fn many(dir: &Path, keys: u64, program: impl Fn(&str) -> Command) -> Result<Many, BenchError> {
    let keys = keys.max(1_000);
    let (empty, full) = (dir.join("empty"), dir.join("full"));
    let child = |job: &Job| in_child(job, &program);
    child(&Job::Fill { dir: empty.clone(), keys: 10 })?;
    let filled = child(&Job::Fill { dir: full.clone(), keys })?;
    let disk = bytes_below(&full).map_err(BenchError::file(&full))?;
    let opened_empty = child(&Job::Open { dir: empty })?;
    let opened = child(&Job::Open { dir: full.clone() })?;
    let snapshots = snapshots(&full).map_err(BenchError::file(&full))?;
    for snapshot in &snapshots {
        std::fs::remove_file(snapshot).map_err(BenchError::file(snapshot))?;
    }
    let whole = if snapshots.is_empty() { None } else { Some(child(&Job::Open { dir: full.clone() })?) };
    let seconds = |done: &Done| done.seconds.first().copied().unwrap_or_default();
    let rate = |seconds: Option<&f64>| keys as f64 / 10.0 / seconds.copied().unwrap_or_default().max(1e-9);
    Ok(Many {
        keys,
        first_tenth: rate(filled.seconds.first()),
        last_tenth: rate(filled.seconds.last()),
        disk: disk as f64 / keys as f64,
        memory: opened
            .resident
            .zip(opened_empty.resident)
            .map(|(full, empty)| full.saturating_sub(empty) as f64 / keys as f64),
        open: seconds(&opened),
        open_without_snapshot: whole.as_ref().map(seconds),
    })
}

fn in_child(job: &Job, program: impl Fn(&str) -> Command) -> Result<Done, BenchError> {
    let job = serde_json::to_string(job).map_err(|error| BenchError::Other(error.to_string()))?;
    let output = program(&job).stdin(Stdio::null()).output();
    let output = output.map_err(|error| BenchError::Other(format!("a process could not be started: {error}")))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let done = said.lines().last().and_then(|line| serde_json::from_str(line).ok());
    match done {
        Some(done) if output.status.success() => Ok(done),
        _ => Err(BenchError::Other(format!(
            "a process that was to be measured ended with {}: {said}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}

/// The bytes of all files below a directory, by their lengths.
pub fn bytes_below(dir: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let its = entry.metadata()?;
        bytes += if its.is_dir() { bytes_below(&entry.path())? } else { its.len() };
    }
    Ok(bytes)
}

fn snapshots(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name() == "snapshot" {
            found.push(entry.path());
        }
    }
    Ok(found)
}

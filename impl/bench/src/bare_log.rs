//! The log with group commit alone: what a ledger on it can't surpass. Its time is taken apart.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use settled_ledger_file::group_commit::{GroupCommit, Item};
use settled_ledger_file::log::disk::FsDisk;
use settled_ledger_file::log::{Log, LogOptions};
use tokio::sync::oneshot;

use crate::disk::RECORD;
use crate::error::BenchError;
use crate::load::{Measured, closed_loop};

/// Where the time of one durable write goes, on average, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Stages {
    /// From being handed over to the beginning of the commit that it became part of: the commit before, the waking of the
    /// committer, the wait for others.
    pub queue: f64,
    /// Encoding the batch and writing it to the file.
    pub write: f64,
    /// The sync.
    pub sync: f64,
    /// From the end of the commit until the caller goes on.
    pub wake_up: f64,
    /// Records in a batch.
    pub batch: f64,
}

/// Sums of the above, of one caller.
#[derive(Default)]
struct Sums {
    writes: u64,
    queue: Duration,
    write: Duration,
    sync: Duration,
    wake_up: Duration,
}

fn stages(all: &[Arc<Mutex<Sums>>], batches: u64) -> Stages {
    let mut whole = Sums::default();
    for sums in all {
        let sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
        whole.writes += sums.writes;
        whole.queue += sums.queue;
        whole.write += sums.write;
        whole.sync += sums.sync;
        whole.wake_up += sums.wake_up;
    }
    let each = |sum: Duration| sum.as_secs_f64() * 1e6 / whole.writes.max(1) as f64;
    Stages {
        queue: each(whole.queue),
        write: each(whole.write),
        sync: each(whole.sync),
        wake_up: each(whole.wake_up),
        batch: whole.writes as f64 / batches.max(1) as f64,
    }
}

/// One record on its way.
struct Record {
    bytes: [u8; RECORD],
    handed_over: Instant,
    begun: Instant,
    wrote: Duration,
    synced: Duration,
    done: oneshot::Sender<Result<Took, Arc<str>>>,
}

struct Took {
    queue: Duration,
    write: Duration,
    sync: Duration,
    ended: Instant,
}

impl Item for Record {
    type Error = Arc<str>;

    fn complete(self, result: Result<(), Arc<str>>) {
        let took = Took {
            queue: self.begun.duration_since(self.handed_over),
            write: self.wrote,
            sync: self.synced,
            ended: Instant::now(),
        };
        // Nobody goes away before the answer.
        let _ = self.done.send(result.map(|()| took));
    }
}

/// Guarded calls as far as the log is concerned: two records each, one after the other, each durable before the next.
///
/// # Errors
/// If the log can't be opened or written.
pub async fn calls(
    dir: &Path,
    callers: usize,
    span: Duration,
    delay: Duration,
) -> Result<(Measured, Stages), BenchError> {
    let all: Vec<Arc<Mutex<Sums>>> = (0..callers).map(|_| Arc::default()).collect();
    let batches = Arc::new(AtomicU64::new(0));
    let log = Arc::new(start(dir, delay, batches.clone())?);
    let measured = closed_loop(callers, span, |number| {
        let (log, sums) = (log.clone(), all.get(number).cloned().unwrap_or_default());
        move |_| {
            let (log, sums) = (log.clone(), sums.clone());
            async move {
                for _ in 0..2 {
                    write(&log, &sums).await?;
                }
                Ok(())
            }
        }
    })
    .await?;
    Ok((measured, stages(&all, batches.load(Ordering::Relaxed))))
}

fn start(dir: &Path, delay: Duration, batches: Arc<AtomicU64>) -> Result<GroupCommit<Record>, BenchError> {
    let disk = FsDisk::open(dir).map_err(BenchError::file(dir))?.with_sync_delay(delay);
    let opened = Log::open(Arc::new(disk), LogOptions::default(), |_, _| Ok(()));
    let (mut log, _) = opened.map_err(|error| BenchError::Other(error.to_string()))?;
    let commit = move |records: &mut [Record]| {
        let begun = Instant::now();
        let bytes: Vec<&[u8]> = records.iter().map(|record| record.bytes.as_slice()).collect();
        log.append(&bytes).map_err(|error| Arc::from(error.to_string()))?;
        let synced = log.sync_time();
        let wrote = begun.elapsed().saturating_sub(synced);
        for record in records.iter_mut() {
            (record.begun, record.wrote, record.synced) = (begun, wrote, synced);
        }
        batches.fetch_add(1, Ordering::Relaxed);
        Ok(Some(synced))
    };
    GroupCommit::start("bare-log", commit).map_err(BenchError::file(dir))
}

async fn write(log: &GroupCommit<Record>, sums: &Mutex<Sums>) -> Result<(), BenchError> {
    let (done, told) = oneshot::channel();
    let now = Instant::now();
    let record = Record {
        bytes: [0x5a; RECORD],
        handed_over: now,
        begun: now,
        wrote: Duration::ZERO,
        synced: Duration::ZERO,
        done,
    };
    log.submit(record).map_err(|_| BenchError::Ended("the bare log"))?;
    let took = told.await.map_err(|_| BenchError::Ended("the bare log"))?;
    let took = took.map_err(|error| BenchError::Other(error.to_string()))?;
    let wake_up = took.ended.elapsed();
    let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
    sums.writes += 1;
    sums.queue += took.queue;
    sums.write += took.write;
    sums.sync += took.sync;
    sums.wake_up += wake_up;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_stages_are_the_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (span, delay) = (Duration::from_millis(300), Duration::from_millis(2));
        let (measured, stages) = calls(dir.path(), 1, span, delay).await.unwrap();
        assert!(measured.calls > 10, "{measured:?}");
        assert!((stages.batch - 1.0).abs() < 0.01, "{stages:?}");
        assert!(stages.sync >= 2_000.0, "{stages:?}");
        let mean = 1e6 / measured.per_second;
        let sum = 2.0 * (stages.queue + stages.write + stages.sync + stages.wake_up);
        assert!((0.8..1.2).contains(&(sum / mean)), "{stages:?}: {sum} of {mean}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn callers_share_batches() {
        let dir = tempfile::tempdir().unwrap();
        let (span, delay) = (Duration::from_millis(300), Duration::from_millis(2));
        let (_, stages) = calls(dir.path(), 16, span, delay).await.unwrap();
        assert!(stages.batch > 6.0, "{stages:?}");
    }
}

//! The disk's own limit: writes at ever new places of a file whose blocks are there already, each followed by `fdatasync`.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::load::{Measured, measured, new_histogram, note};
use crate::usage::Usage;

/// The bytes of one record.
pub const RECORD: usize = 256;

/// The bytes of the file that is written round and round.
const FILE: u64 = 8 << 20;

/// One thread that writes so many records at once and syncs them, for this long. Calls are syncs. `delay` is added to
/// each sync, as on a slower disk.
///
/// # Errors
/// If the directory can't be written to.
pub async fn syncs(dir: &Path, records: usize, span: Duration, delay: Duration) -> Result<Measured, BenchError> {
    let dir = dir.to_path_buf();
    let syncing = tokio::task::spawn_blocking(move || syncs_here(&dir, records, span, delay));
    syncing.await.map_err(|_| BenchError::Ended("the disk's measurement"))?
}

fn syncs_here(dir: &Path, records: usize, span: Duration, delay: Duration) -> Result<Measured, BenchError> {
    let path = dir.join("syncs");
    let failed = || BenchError::file(&path);
    let file = prepared(&path).map_err(failed())?;
    let bytes = vec![0x5a; records * RECORD];
    let mut times = new_histogram();
    let mut at = 0;
    let mut write_and_sync = |file: &File| {
        if at + bytes.len() as u64 > FILE {
            at = 0;
        }
        let begun = Instant::now();
        file.write_all_at(&bytes, at)?;
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        file.sync_data()?;
        at += bytes.len() as u64;
        Ok(begun.elapsed())
    };
    for _ in 0..10 {
        write_and_sync(&file).map_err(failed())?;
    }
    let before = Usage::now();
    let begun = Instant::now();
    while begun.elapsed() < span {
        note(&mut times, write_and_sync(&file).map_err(failed())?);
    }
    let its = measured(1, &times, begun.elapsed(), Usage::now().since(before));
    drop(file);
    std::fs::remove_file(&path).map_err(failed())?;
    Ok(its)
}

fn prepared(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path)?;
    file.write_all_at(&vec![0; FILE as usize], 0)?;
    file.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_delay_makes_syncs_slower() {
        let dir = tempfile::tempdir().unwrap();
        let span = Duration::from_millis(100);
        let slow = syncs(dir.path(), 16, span, Duration::from_millis(5)).await.unwrap();
        assert!(slow.p50 >= 5_000.0 && slow.per_second < 200.0, "{slow:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

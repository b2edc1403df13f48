//! What the tests of the log share.
#![allow(dead_code)] // each test binary uses a part

use std::sync::Arc;

use settled_ledger_file::log::disk::FaultDisk;
use settled_ledger_file::log::{Log, LogError, LogOptions, Recovery};

/// Segments and chunks so small that a short log has several.
pub const SMALL: LogOptions = LogOptions { segment_bytes: 8 << 10, preallocate_bytes: 2 << 10 };

pub struct Opened {
    pub log: Log,
    pub recovery: Recovery,
    pub frames: Vec<(u64, Vec<u8>)>,
}

impl Opened {
    pub fn bytes(&self) -> Vec<Vec<u8>> {
        self.frames.iter().map(|(_, bytes)| bytes.clone()).collect()
    }
}

pub fn open_with(disk: &FaultDisk, options: LogOptions) -> Result<Opened, LogError> {
    let mut frames = Vec::new();
    let (log, recovery) = Log::open(Arc::new(disk.clone()), options, |position, bytes| {
        frames.push((position, bytes.to_vec()));
        Ok(())
    })?;
    Ok(Opened { log, recovery, frames })
}

pub fn open(disk: &FaultDisk) -> Result<Opened, LogError> {
    open_with(disk, SMALL)
}

pub fn append(log: &mut Log, frames: &[Vec<u8>]) -> Result<Vec<u64>, LogError> {
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    log.append(&frames)
}

/// `len` bytes without a zero among them.
pub fn noise(random: &mut fastrand::Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.u8(1..)).collect()
}

/// Name of the segment that begins at `base`.
pub fn name(base: u64) -> String {
    format!("log.{base:016x}")
}

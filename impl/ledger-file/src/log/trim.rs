//! Removing the beginning of a log.

use std::sync::Arc;

use super::LogError;
use super::disk::{Disk, read_full_at};
use super::format::{HEADER, Header};
use super::marker::{self, Beginning};
use super::segment::{Segments, name};

/// Removes files from the beginning of a log while it is being written.
///
/// Where the log begins from then on is durable before the first file goes, so that files which a crash leaves behind are
/// told from files that are missing.
pub struct LogTrimmer {
    disk: Arc<dyn Disk>,
    segments: Segments,
}

impl LogTrimmer {
    pub(crate) fn new(disk: Arc<dyn Disk>, segments: Segments) -> Self {
        LogTrimmer { disk, segments }
    }

    /// Checks that the log's first file is where the next one to open the log will look for it.
    pub fn check_place(&self) -> Result<(), LogError> {
        let first = self.segments.begin();
        let segment = self.segments.at(first).ok_or(LogError::NoFrame { position: first })?;
        segment.file.in_place(0).map_err(|source| LogError::Displaced { file: segment.name(), source })
    }

    /// Removes all files before the one that begins at `base`, which must have a batch. Positions before it have no frame
    /// any more.
    pub fn remove_before(&self, base: u64) -> Result<(), LogError> {
        let missing = || LogError::NoFrame { position: base };
        let segment = self.segments.at(base).filter(|segment| segment.base == base).ok_or_else(missing)?;
        let mut header = [0; HEADER];
        let got = read_full_at(&*segment.file, &mut header, 0).map_err(|e| segment.error("read", e))?;
        let header = Header::decode(header.get(..got).unwrap_or_default(), base).ok_or_else(missing)?;
        // Not into another ledger's directory.
        segment.file.in_place(0).map_err(|source| LogError::Displaced { file: segment.name(), source })?;
        marker::replace(&*self.disk, Beginning { base, batch: header.number })?;
        for removed in self.segments.remove_before(base) {
            remove(&*self.disk, removed)?;
        }
        self.disk.sync_dir().map_err(|e| LogError::io("sync", ".", e))
    }
}

/// Removes the file of a segment.
pub(crate) fn remove(disk: &dyn Disk, base: u64) -> Result<(), LogError> {
    let name = name(base);
    match disk.remove(&name) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(LogError::io("remove", &name, e)),
        _ => Ok(()),
    }
}

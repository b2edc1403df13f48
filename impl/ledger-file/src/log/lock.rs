//! The lock that makes one process the writer of a directory.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::LogError;
use super::disk::{FileId, create_dir};

/// Holds the exclusive lock on a directory until it is dropped or its process ends, however it ends.
///
/// The directory itself is locked rather than a file in it: whoever finds the same log finds the same lock, whatever is
/// removed from the directory.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct DirLock {
    _dir: File,
    id: FileId,
}

impl DirLock {
    /// Takes the lock, or returns `None` at once if another holder, in this process or another, has it. Creates the
    /// directory where it doesn't exist.
    pub fn try_acquire(dir: &Path) -> Result<Option<DirLock>, LogError> {
        let error = |doing| move |e| LogError::io(doing, ".", e);
        loop {
            create_dir(dir).map_err(error("create"))?;
            let open = File::open(dir).map_err(error("open"))?;
            match open.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) => return Err(error("lock")(e)),
            }
            let id = FileId::of(&open.metadata().map_err(error("examine"))?);
            // The directory may have been replaced since it was opened.
            if FileId::at(dir).is_ok_and(|now| now == id) {
                return Ok(Some(DirLock { _dir: open, id }));
            }
        }
    }

    /// The directory that is locked.
    #[cfg_attr(loom, allow(dead_code))]
    pub(crate) fn id(&self) -> FileId {
        self.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("deep/er");
        let first = DirLock::try_acquire(&dir).unwrap();
        assert!(first.is_some());
        assert!(DirLock::try_acquire(&dir).unwrap().is_none());
        drop(first);
        assert!(DirLock::try_acquire(&dir).unwrap().is_some());
    }
}

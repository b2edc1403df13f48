//! The lock that makes one process the writer of a directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::LogError;
use super::disk::create_dir;

const NAME: &str = "LOCK";

/// Holds the exclusive lock on a directory until it is dropped or its process ends, however it ends.
///
/// The file `LOCK` stays behind on purpose: removing it would let two processes lock two files of the same name.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct DirLock {
    _file: File,
}

impl DirLock {
    /// Takes the lock, or returns `None` at once if another holder, in this process or another, has it. Creates the
    /// directory where it doesn't exist.
    pub fn try_acquire(dir: &Path) -> Result<Option<DirLock>, LogError> {
        create_dir(dir).map_err(|e| LogError::io("create the directory for", NAME, e))?;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(dir.join(NAME))
            .map_err(|e| LogError::io("open", NAME, e))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(DirLock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(LogError::io("lock", NAME, e)),
        }
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

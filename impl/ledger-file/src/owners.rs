//! Who is alive: each owner holds the operating system's lock on a file named after its epoch for as long as it lives.
//!
//! The system releases the lock when the process ends, however it ends, and not when it is merely stopped. A file gets its
//! name only once it is locked, and no epoch is given away twice, so a file that isn't locked belongs to a dead owner, for
//! good, and so does an epoch without a file.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use settled::LedgerError;
use settled_protocol::Epoch;

use crate::error::from_io;
use crate::sync::lock;

const DIRECTORY: &str = "owners";

/// The owners of a ledger, and those among them that this process is.
pub(crate) struct Owners {
    dir: PathBuf,
    ours: Mutex<Vec<File>>,
}

impl Owners {
    pub fn new(ledger: &Path) -> Owners {
        Owners { dir: ledger.join(DIRECTORY), ours: Mutex::default() }
    }

    /// Makes this process the owner of an epoch that was given to it.
    pub fn hold(&self, epoch: Epoch) -> Result<(), LedgerError> {
        let file = loop {
            match self.lock_new(epoch) {
                Ok(file) => break file,
                // A holder that recovers has removed the file before it was locked.
                Err(e) if e.kind() == io::ErrorKind::NotFound && self.dir.is_dir() => {}
                Err(e) => return Err(from_io("lock the owner's file in", &self.dir, &e)),
            }
        };
        lock(&self.ours).push(file);
        Ok(())
    }

    fn lock_new(&self, epoch: Epoch) -> io::Result<File> {
        match DirBuilder::new().mode(0o700).create(&self.dir) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let unnamed = self.dir.join(format!("new.{epoch}"));
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&unnamed)?;
        file.lock()?;
        fs::rename(&unnamed, self.path(epoch))?;
        Ok(file)
    }

    fn path(&self, epoch: Epoch) -> PathBuf {
        self.dir.join(epoch.to_string())
    }

    /// Whether an owner may be alive.
    pub fn alive(&self, epoch: Epoch) -> Result<bool, LedgerError> {
        let path = self.path(epoch);
        match is_locked(&path) {
            Ok(locked) => Ok(locked),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(from_io("test the lock on", &path, &e)),
        }
    }

    /// Ends the ownerships of this process.
    pub fn release(&self) {
        lock(&self.ours).clear();
    }

    /// Removes the files of dead owners.
    pub fn clean(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else {
            return;
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            // A file left behind does no harm.
            if let Ok(false) = is_locked(&path) {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

fn is_locked(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    // Shared, so that those who look at the same time don't take each other for the owner.
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_lives_as_long_as_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (Owners::new(dir.path()), Owners::new(dir.path()));
        assert!(!other.alive(Epoch(1)).unwrap());
        one.hold(Epoch(1)).unwrap();
        one.hold(Epoch(2)).unwrap();
        other.clean();
        assert!(other.alive(Epoch(1)).unwrap() && one.alive(Epoch(2)).unwrap());
        one.release();
        assert!(!other.alive(Epoch(1)).unwrap());
        other.clean();
        assert_eq!(fs::read_dir(dir.path().join(DIRECTORY)).unwrap().count(), 0);
    }
}

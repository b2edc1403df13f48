//! Who is alive: each owner holds the operating system's lock on a file named after its epoch for as long as it lives.
//!
//! The system releases the lock when the process ends, however it ends, and not when it is merely stopped. A file gets its
//! name only once it is locked, and no epoch is given away twice. So a file that isn't locked belongs to a dead owner, for
//! good. It must be the owner's own file, though, which names its own inode. One that is missing or that is another file
//! may have been removed while its owner lived: then the directory's holder decides, who knows its own owners and those of
//! the guests that are connected to it. An owner whose file was taken away soon makes another.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use settled::LedgerError;
use settled_protocol::Epoch;

use crate::error::from_io;
use crate::log::disk::FileId;
use crate::sync::lock;

/// The directory of the owners' files, within the ledger's.
pub(crate) const DIRECTORY: &str = "owners";

/// The owners of a ledger, and those among them that this process is.
pub(crate) struct Owners {
    dir: PathBuf,
    ours: Mutex<HashMap<Epoch, File>>,
    /// Those that connected guests are, each with the number of the connection.
    guests: Mutex<HashMap<Epoch, u64>>,
    /// The number of the last connection, also those of the times when this process held the directory before.
    connections: AtomicU64,
    /// Who lives, where that isn't seen from files.
    simulated: Option<Arc<dyn Processes>>,
}

/// The processes of a simulation.
pub trait Processes: Send + Sync + 'static {
    /// Whether the process that is this owner lives.
    fn lives(&self, owner: Epoch) -> bool;
    /// The owners whose processes live.
    fn living(&self) -> Vec<Epoch>;
}

/// What an owner's file says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Alive,
    Dead,
    /// Nothing. The owner has died long ago, or its file was taken away.
    None,
}

impl Owners {
    pub fn new(ledger: &Path) -> Owners {
        Owners {
            dir: ledger.join(DIRECTORY),
            ours: Mutex::default(),
            guests: Mutex::default(),
            connections: AtomicU64::new(0),
            simulated: None,
        }
    }

    pub fn simulated(processes: Arc<dyn Processes>) -> Owners {
        Owners { simulated: Some(processes), ..Owners::new(Path::new("")) }
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
        lock(&self.ours).insert(epoch, file);
        Ok(())
    }

    /// Makes the files of this process's owners anew that were taken away.
    pub fn keep(&self) {
        for (epoch, held) in lock(&self.ours).iter_mut() {
            let id = held.metadata().map(|meta| FileId::of(&meta));
            if matches!((id, FileId::at(&self.path(*epoch))), (Ok(held), Ok(found)) if held == found) {
                continue;
            }
            match self.lock_new(*epoch) {
                Ok(file) => *held = file,
                Err(error) => tracing::debug!(%error, %epoch, "can't make an owner's file anew"),
            }
        }
    }

    fn lock_new(&self, epoch: Epoch) -> io::Result<File> {
        match DirBuilder::new().mode(0o700).create(&self.dir) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let unnamed = self.dir.join(format!("new.{epoch}"));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unnamed)?;
        file.lock()?;
        // On a full disk it says nothing, and the holder is asked.
        let _ = file.write_all(file.metadata()?.ino().to_string().as_bytes());
        fs::rename(&unnamed, self.path(epoch))?;
        Ok(file)
    }

    fn path(&self, epoch: Epoch) -> PathBuf {
        self.dir.join(epoch.to_string())
    }

    /// Whether an owner may be alive, as far as its file says.
    pub fn sign(&self, epoch: Epoch) -> Result<Sign, LedgerError> {
        if let Some(processes) = &self.simulated {
            return Ok(if processes.lives(epoch) { Sign::Alive } else { Sign::Dead });
        }
        if lock(&self.ours).contains_key(&epoch) {
            return Ok(Sign::Alive);
        }
        let path = self.path(epoch);
        match sign(&path) {
            Ok(sign) => Ok(sign),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Sign::None),
            Err(e) => Err(from_io("test the lock on", &path, &e)),
        }
    }

    /// Whether an owner is this process, or a guest connected to it.
    pub fn knows(&self, epoch: Epoch) -> bool {
        lock(&self.ours).contains_key(&epoch) || lock(&self.guests).contains_key(&epoch)
    }

    /// The owners that this process is.
    pub fn ours(&self) -> Vec<Epoch> {
        lock(&self.ours).keys().copied().collect()
    }

    /// A number for a guest's connection.
    pub fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes whom a guest says to be.
    pub fn connected(&self, connection: u64, epochs: &[Epoch]) {
        lock(&self.guests).extend(epochs.iter().map(|epoch| (*epoch, connection)));
    }

    /// Forgets a guest.
    pub fn disconnected(&self, connection: u64) {
        lock(&self.guests).retain(|_, by| *by != connection);
    }

    /// Ends one ownership of this process, if it has it.
    pub fn give_up(&self, epoch: Epoch) {
        lock(&self.ours).remove(&epoch);
    }

    /// The owners that have a file, alive or not.
    pub fn files(&self) -> Vec<Epoch> {
        if let Some(processes) = &self.simulated {
            return processes.living();
        }
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Epoch)).collect()
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
            if let Ok(false) = File::open(&path).and_then(|file| is_locked(&file)) {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

fn sign(path: &Path) -> io::Result<Sign> {
    let mut file = File::open(path)?;
    if is_locked(&file)? {
        return Ok(Sign::Alive);
    }
    let meta = file.metadata()?;
    let mut named = String::new();
    let own = file.read_to_string(&mut named).is_ok() && named == meta.ino().to_string();
    // Its owner may have made another one meanwhile.
    let still = FileId::at(path)? == FileId::of(&meta);
    Ok(if own && still { Sign::Dead } else { Sign::None })
}

fn is_locked(file: &File) -> io::Result<bool> {
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
        assert_eq!(other.sign(Epoch(1)).unwrap(), Sign::None);
        one.hold(Epoch(1)).unwrap();
        one.hold(Epoch(2)).unwrap();
        other.clean();
        assert_eq!((other.sign(Epoch(1)).unwrap(), one.sign(Epoch(2)).unwrap()), (Sign::Alive, Sign::Alive));
        one.release();
        assert_eq!(other.sign(Epoch(1)).unwrap(), Sign::Dead);
        other.clean();
        assert_eq!(fs::read_dir(dir.path().join(DIRECTORY)).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_is_not_the_owners_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (Owners::new(dir.path()), Owners::new(dir.path()));
        one.hold(Epoch(1)).unwrap();
        let file = dir.path().join(DIRECTORY).join("1");
        let copy = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!((one.sign(Epoch(1)).unwrap(), other.sign(Epoch(1)).unwrap()), (Sign::Alive, Sign::None));
        fs::write(&file, copy).unwrap();
        assert_eq!(other.sign(Epoch(1)).unwrap(), Sign::None);
        one.keep();
        assert_eq!(other.sign(Epoch(1)).unwrap(), Sign::Alive);
        fs::remove_dir_all(dir.path().join(DIRECTORY)).unwrap();
        one.keep();
        assert_eq!(other.sign(Epoch(1)).unwrap(), Sign::Alive);
        one.release();
        one.keep();
        assert_eq!(other.sign(Epoch(1)).unwrap(), Sign::Dead);
    }

    #[test]
    fn a_guest_is_known_until_its_last_connection_ends() {
        let owners = Owners::new(Path::new("."));
        owners.connected(1, &[Epoch(5)]);
        owners.connected(2, &[Epoch(5)]);
        owners.disconnected(1);
        assert!(owners.knows(Epoch(5)));
        owners.disconnected(2);
        assert!(!owners.knows(Epoch(5)));
    }
}

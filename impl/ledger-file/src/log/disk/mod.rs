//! The files under a log, as a trait: the real ones, and simulated ones that fail.
//!
//! A [`Disk`] is one flat directory. It promises only what the log relies on, so that a simulation can be as unkind as a
//! real disk: what isn't synced may be lost, sector by sector and in any order.

mod fault;
mod fs;
#[cfg(all(feature = "fault-points", not(loom)))]
mod injected;
mod pages;
mod place;

use std::io;
use std::sync::Arc;

pub use fault::{FaultDisk, Faults};
pub use fs::FsDisk;
pub use place::Displaced;

pub(crate) use fs::create_dir;
#[cfg(all(feature = "fault-points", not(loom)))]
pub(crate) use injected::wrap;
pub(crate) use place::FileId;

/// Bytes that a disk writes wholly or not at all, even when power fails. Disks with larger sectors satisfy this too.
pub const SECTOR: usize = 512;

/// A directory of files. Names are plain file names.
pub trait Disk: Send + Sync + 'static {
    /// Creates an empty file that must not exist yet, readable by its owner only. Its name is durable after
    /// [`sync_dir`](Disk::sync_dir).
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Names of all files, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Gives a file another name, in the place of the file that has it. Durable after [`sync_dir`](Disk::sync_dir); until then
    /// a crash may undo it, but leaves one of the two files at the name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file. Those who have opened it can still read it.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the creation, renaming and removal of files durable.
    fn sync_dir(&self) -> io::Result<()>;
}

/// An open file, usable from any thread at once.
pub trait DiskFile: Send + Sync + 'static {
    /// Writes at `offset`, perhaps only a beginning of `bytes`; returns how many. A write past the end leaves zeros
    /// between.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Reads at `offset`, perhaps less than asked; 0 means the end of the file.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Makes the content durable, with as much of the metadata as reading it back needs (`fdatasync`).
    fn sync_data(&self) -> io::Result<()>;
    /// Makes content and all metadata durable (`fsync`).
    fn sync_all(&self) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts the file to `len` bytes; durable after [`sync_all`](DiskFile::sync_all).
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Whether the name that it was opened by, in the directory that it was opened in, still leads to this file, which has
    /// at least `len` bytes.
    fn in_place(&self, len: u64) -> Result<(), Displaced>;
}

/// Writes all of `bytes`, going on after short and interrupted writes.
pub fn write_all_at(file: &dyn DiskFile, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                bytes = bytes.get(n..).unwrap_or_default();
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Reads until `into` is full or the file ends; returns how many bytes were read.
pub fn read_full_at(file: &dyn DiskFile, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

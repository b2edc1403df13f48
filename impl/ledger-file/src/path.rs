//! What is at the path of a ledger.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use settled::LedgerError;

use crate::error::from_io;
use crate::log::{MARKER, SEGMENT, segment_name};
use crate::owners;

/// The longest path that the operating system takes, in bytes.
const LONGEST: usize = 4095;
/// Room for the names of what is in the directory.
const NAMES: usize = 64;

/// What there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing, or a directory with no sign of a ledger.
    None,
    /// A ledger, or what is left of one.
    Ledger,
}

/// The path to use for `dir`, which means the same wherever the process goes.
pub(crate) fn absolute(dir: &Path) -> Result<PathBuf, LedgerError> {
    let path = std::path::absolute(dir).map_err(|e| from_io("find", dir, &e))?;
    let bytes = path.as_os_str().len();
    if bytes + NAMES > LONGEST {
        let start = OsStr::from_bytes(path.as_os_str().as_bytes().get(..80).unwrap_or_default());
        return Err(LedgerError::Unavailable(format!(
            "the path `{}…` has {bytes} bytes, more than the {} that a ledger's directory may have: choose a shorter one",
            start.display(),
            LONGEST - NAMES
        )));
    }
    Ok(path)
}

/// Looks for a ledger in `dir`, and changes nothing.
pub(crate) fn look(dir: &Path) -> Result<Found, LedgerError> {
    match fs::metadata(dir) {
        Ok(meta) if !meta.is_dir() => return Err(not_a_directory(dir)),
        Ok(_) => {}
        Err(e) => return absent(dir, &e),
    }
    for name in [&*segment_name(0), MARKER, owners::DIRECTORY] {
        match fs::symlink_metadata(dir.join(name)) {
            Ok(_) => return Ok(Found::Ledger),
            Err(e) => absent(dir, &e)?,
        };
    }
    Ok(if has_segment(dir) { Found::Ledger } else { Found::None })
}

/// Whether there is a file of the log, of whatever part of it.
fn has_segment(dir: &Path) -> bool {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().as_bytes().starts_with(SEGMENT.as_bytes()))
}

/// Whether epochs were given away, the first of which is in the log's first batch.
fn had_owners(dir: &Path) -> bool {
    dir.join(owners::DIRECTORY).exists()
}

/// Checks that a ledger that had owners has a log, or at least the sign of one.
pub(crate) fn check_present(dir: &Path) -> Result<(), LedgerError> {
    let there = |name: &str| dir.join(name).exists();
    match had_owners(dir) && !there(MARKER) && !has_segment(dir) {
        true => Err(lost(dir, "missing")),
        false => Ok(()),
    }
}

/// Checks that a ledger whose log has no batch never had owners.
pub(crate) fn check_begun(dir: &Path) -> Result<(), LedgerError> {
    match had_owners(dir) {
        true => Err(lost(dir, "empty")),
        false => Ok(()),
    }
}

fn lost(dir: &Path, found: &str) -> LedgerError {
    LedgerError::Corrupt(format!(
        "the log is lost: `{}` says that there was one, but `{}` is {found}: restore the directory from a backup, or remove \
         the whole directory to begin anew, without all that was recorded",
        dir.join(owners::DIRECTORY).display(),
        dir.join(segment_name(0)).display()
    ))
}

/// The directory that was in use is no longer at its path.
pub(crate) fn replaced(dir: &Path) -> LedgerError {
    LedgerError::Unavailable(format!(
        "`{}` was removed or replaced while in use: put it back, or restart",
        dir.display()
    ))
}

fn absent(dir: &Path, error: &io::Error) -> Result<Found, LedgerError> {
    match error.kind() {
        ErrorKind::NotFound => Ok(Found::None),
        ErrorKind::NotADirectory => {
            let file = dir.ancestors().find(|path| path.exists()).unwrap_or(dir);
            Err(not_a_directory(file))
        }
        ErrorKind::PermissionDenied => Err(LedgerError::Unavailable(format!(
            "no permission to look into `{}`: use it as the user that it belongs to, or choose another directory",
            dir.display()
        ))),
        _ => Err(from_io("look at", dir, error)),
    }
}

fn not_a_directory(path: &Path) -> LedgerError {
    LedgerError::Unavailable(format!("`{}` is a file, not a directory: check the path", path.display()))
}

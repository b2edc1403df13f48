//! Whether a path still leads to the file that was opened by it.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What makes a file or a directory itself, whatever its name: its device and its inode. No other one has the same while it
/// is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub fn of(metadata: &Metadata) -> FileId {
        FileId { device: metadata.dev(), inode: metadata.ino() }
    }

    /// That of what `path` leads to now.
    pub fn at(path: &Path) -> io::Result<FileId> {
        std::fs::metadata(path).map(|metadata| FileId::of(&metadata))
    }
}

/// How an open file was lost to those who will look for it by its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Displaced {
    /// Nothing is at the directory's path.
    #[error("its directory was removed or renamed")]
    DirectoryGone,
    /// Another directory is at that path.
    #[error("its directory was replaced by another one")]
    DirectoryReplaced,
    /// The directory has no file of that name.
    #[error("the file was removed or renamed")]
    FileGone,
    /// Another file has its name.
    #[error("the file was replaced by another one")]
    FileReplaced,
    /// The file has become shorter.
    #[error("the file was cut to {found} of its {expected} bytes")]
    Cut {
        /// Its length, in bytes.
        found: u64,
        /// The length it had, in bytes.
        expected: u64,
    },
    /// The operating system doesn't say.
    #[error("whether the file is still in its place can't be found out: {0}")]
    Unknown(String),
}

impl Displaced {
    /// Checks that `directory` leads to the one with this identity, and the path of `file` in it to that file.
    pub(crate) fn check(directory: (&Path, FileId), file: (&Path, FileId), len: u64) -> Result<(), Displaced> {
        let unknown = |e: io::Error| Displaced::Unknown(e.to_string());
        match FileId::at(directory.0) {
            Ok(found) if found == directory.1 => {}
            Ok(_) => return Err(Displaced::DirectoryReplaced),
            Err(e) if is_absence(&e) => return Err(Displaced::DirectoryGone),
            Err(e) => return Err(unknown(e)),
        }
        match std::fs::metadata(file.0) {
            Ok(found) if FileId::of(&found) != file.1 => Err(Displaced::FileReplaced),
            Ok(found) if found.len() < len => Err(Displaced::Cut { found: found.len(), expected: len }),
            Ok(_) => Ok(()),
            Err(e) if is_absence(&e) => Err(Displaced::FileGone),
            Err(e) => Err(unknown(e)),
        }
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

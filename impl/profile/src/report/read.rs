//! Reading a report from a file.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::profile::{FORMAT, Report};

/// Why a report can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such file, or it can't be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is no report at all.
    #[error("{}: {error}; a report is what `settled profile run … --json FILE` writes", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        error: serde_json::Error,
    },
    /// It is a report in another format.
    #[error(
        "{}: its format is “{found}”, and this version of settled reads “{FORMAT}”: read it with the version that wrote it, \
         or measure again with `settled profile run`",
        path.display()
    )]
    OtherFormat {
        /// The file.
        path: PathBuf,
        /// The format that it says.
        found: String,
    },
}

#[derive(Deserialize)]
struct Head {
    format: String,
}

/// Reads a report that `settled profile run --json` wrote.
///
/// # Errors
/// [`ReadError`] if there is none, it is malformed, or in another format than [`FORMAT`].
pub fn read(path: &Path) -> Result<Report, ReadError> {
    let text = std::fs::read_to_string(path).map_err(|error| ReadError::Unreadable { path: path.to_owned(), error })?;
    let malformed = |error| ReadError::Malformed { path: path.to_owned(), error };
    // The format first: what another one calls its members would be reported as unknown.
    let head: Head = serde_json::from_str(&text).map_err(malformed)?;
    if head.format != FORMAT {
        return Err(ReadError::OtherFormat { path: path.to_owned(), found: super::words::plain(&head.format) });
    }
    serde_json::from_str(&text).map_err(malformed)
}

//! What keeps the runner from its work.

use std::io;
use std::path::{Path, PathBuf};

/// What keeps the runner from its work. None of it says anything about a mutant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MutantError {
    /// A patch lacks something, or says something that is not known.
    #[error("{patch}: {problem}")]
    Patch {
        /// The patch.
        patch: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A patch does not fit the tree.
    #[error("{patch} does not apply to {file}: the code has changed: renew the patch ({reason})")]
    Stale {
        /// The patch.
        patch: String,
        /// The file that it changes.
        file: String,
        /// Why not.
        reason: String,
    },
    /// There is no mutant of that name.
    #[error("there is no mutant `{0}`; `--list` names them all")]
    NoSuchMutant(String),
    /// The code as it is fails a check, so that a failure says nothing about a mutant.
    #[error("the code fails without any mutant: {command} ({by}); its output is in {}", log.display())]
    Baseline {
        /// The command that failed.
        command: String,
        /// What failed.
        by: String,
        /// Its output.
        log: PathBuf,
    },
    /// Another run is at work.
    #[error("another run is at work in {}: wait for its end", .0.display())]
    Taken(PathBuf),
    /// The tree can't be copied.
    #[error("`git ls-files` can't list the tree's files: {0}")]
    Git(String),
    /// Reading or writing failed.
    #[error("can't {doing} {}: {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl MutantError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MutantError {
        move |source| MutantError::Io { doing, path: path.to_owned(), source }
    }
}

//! What makes an audit impossible.

use std::path::PathBuf;

/// An audit that can't be made, or not be finished. What a server does wrong in answer to a *call* is no error: it is in the report.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// What was asked for can't be done.
    #[error("{0}")]
    Input(String),
    /// A file that can't be read or understood.
    #[error("{path}: {problem}")]
    File {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The server didn't start, or doesn't speak MCP.
    #[error("the server can't be used: {0}")]
    Server(String),
    /// What is to be watched can't be.
    #[error("can't watch {what}: {problem}")]
    Watch {
        /// What was to be watched.
        what: String,
        /// Why it can't be.
        problem: String,
    },
}

impl AuditError {
    /// Whether what was given is at fault, and not the server or what is watched.
    #[must_use]
    pub const fn is_input(&self) -> bool {
        matches!(self, Self::Input(_) | Self::File { .. })
    }

    pub(crate) fn server(problem: impl Into<String>) -> Self {
        Self::Server(problem.into())
    }
}

//! Errors of the configuration file.

use std::path::{Path, PathBuf};

/// Why a configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{}: can't be read: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It can't be used as it is.
    #[error("{}:{line}: {problem}", file.display())]
    Wrong {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what is allowed.
        problem: String,
    },
}

impl ConfigError {
    pub(super) fn syntax(file: &Path, text: &str, mut error: toml::de::Error) -> ConfigError {
        let span = error.span().unwrap_or_default();
        let at = text.get(span.clone()).unwrap_or_default().trim();
        // Without its input the error prints its message and the path of the field, and not the source's lines.
        error.set_input(None);
        let words = error.to_string();
        let mut problem = words.split_whitespace().collect::<Vec<_>>().join(" ");
        if !at.is_empty() && at.len() <= 40 && !at.contains('\n') && !problem.contains(at) {
            problem = format!("{problem} (at `{at}`)");
        }
        ConfigError::wrong(file, text, span.start, problem)
    }

    pub(super) fn wrong(file: &Path, text: &str, at: usize, problem: String) -> ConfigError {
        let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        ConfigError::Wrong { file: file.to_path_buf(), line, problem }
    }
}

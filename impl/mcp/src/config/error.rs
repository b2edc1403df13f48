//! Errors of the configuration file.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Wrong;

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
    /// It is not TOML, or a field is unknown or has the wrong type.
    #[error("{place}: {message}")]
    Syntax {
        /// Where.
        place: Place,
        /// What is wrong, and what is allowed.
        message: String,
    },
    /// A value can't be accepted, or contradicts another.
    #[error("{place}: `{field}` {problem}")]
    Wrong {
        /// Where.
        place: Place,
        /// The field, with its table.
        field: String,
        /// What is wrong, and what is allowed.
        problem: String,
    },
}

/// A place in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; `None` if it is about the file as a whole.
    pub line: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

impl Place {
    fn new(file: &Path, text: &str, span: Option<Range<usize>>) -> Place {
        let line = span.map(|span| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count());
        Place { file: file.to_path_buf(), line }
    }
}

impl ConfigError {
    pub(super) fn syntax(file: &Path, text: &str, mut error: toml::de::Error) -> ConfigError {
        let place = Place::new(file, text, error.span());
        let at = error.span().and_then(|span| text.get(span)).unwrap_or_default().trim();
        // Without its input the error prints its message and the path of the field, and not the source's lines.
        error.set_input(None);
        let words = error.to_string();
        let mut message = words.split_whitespace().collect::<Vec<_>>().join(" ");
        if !at.is_empty() && at.len() <= 40 && !at.contains('\n') && !message.contains(at) {
            message = format!("{message} (at `{at}`)");
        }
        ConfigError::Syntax { place, message }
    }

    pub(super) fn wrong(file: &Path, text: &str, wrong: Wrong) -> ConfigError {
        let place = Place::new(file, text, Some(wrong.span));
        ConfigError::Wrong { place, field: wrong.field, problem: wrong.problem }
    }
}

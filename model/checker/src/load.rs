//! Reading a protocol's description from TOML, with errors that name file, line and field.

use std::path::{Path, PathBuf};

use crate::description::Description;
use crate::validate::Unbuildable;

/// Why a description can't be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file can't be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It isn't such a description. The text names line, field and what is allowed.
    #[error("{file}: {error}")]
    Malformed {
        /// The file, or the shipped protocol's name.
        file: String,
        /// What is wrong, and where.
        error: Box<toml::de::Error>,
    },
    /// It is well formed, and can't be built.
    #[error("{file}: line {line}: {error}")]
    Unbuildable {
        /// The file, or the shipped protocol's name.
        file: String,
        /// The line of the field, or of the description's beginning.
        line: usize,
        /// The field, and what is allowed.
        error: Unbuildable,
    },
    /// There is no protocol of this name.
    #[error(
        "no shipped protocol is called “{name}”{near}: `settled protocols` lists them; a description of your own is a file whose name ends in .toml"
    )]
    NoSuchProtocol {
        /// The name.
        name: String,
        /// A question after the name that was meant, if one is near.
        near: String,
    },
}

/// Reads a description from a file.
///
/// # Errors
/// [`LoadError`] names file, line and field.
pub fn load_file(path: &Path) -> Result<Description, LoadError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| LoadError::Unreadable { path: path.to_owned(), source })?;
    parse(&path.display().to_string(), &text)
}

/// Reads a description from text.
///
/// # Errors
/// [`LoadError`] names `file`, line and field.
pub fn parse(file: &str, text: &str) -> Result<Description, LoadError> {
    let description: Description =
        toml::from_str(text).map_err(|error| LoadError::Malformed { file: file.to_owned(), error: Box::new(error) })?;
    description.validate().map_err(|error| LoadError::Unbuildable {
        file: file.to_owned(),
        line: line_of(text, &error.field),
        error,
    })?;
    Ok(description)
}

/// The line on which a field stands: `table.key = …` or `key = …` under its table; 1 if it is left to its default.
fn line_of(text: &str, field: &str) -> usize {
    let (table, key) = match field.split_once('.') {
        Some(parts) => parts,
        None => ("", field),
    };
    let mut inside = table.is_empty();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line == format!("[{field}]") {
            return number;
        }
        if line.starts_with('[') {
            inside = line.trim_matches(['[', ']']).trim() == table;
        }
        let name = line.split('=').next().unwrap_or_default().trim();
        if inside && name == key || name == format!("{table}.{key}") {
            return number;
        }
    }
    1
}

//! The file of effects: one line each, appended whole and synced by whichever process of the tool has it happen.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// An effect that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// The run that it was for.
    pub run: String,
    /// The step.
    pub step: String,
    /// The process that did it.
    pub process: u32,
}

/// All of them. A last line that is not whole has not happened.
///
/// # Errors
/// If the file can't be read, or is none of effects.
pub fn read(path: &Path) -> io::Result<Vec<Effect>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| Ok(serde_json::from_str(line)?)).collect()
}

pub fn append(path: &Path, effect: &Effect) -> io::Result<()> {
    let mut line = serde_json::to_vec(effect)?;
    line.push(b'\n');
    let mut file: File = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(&line)?;
    file.sync_data()
}

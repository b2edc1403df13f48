//! Standard output: a reader that goes away early (`| head`) is not an error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use serde::Serialize;

/// Prints a line.
pub fn line(text: impl Display) -> io::Result<()> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Prints a value as indented JSON.
pub fn json(value: &impl Serialize) -> io::Result<()> {
    line(serde_json::to_string_pretty(value)?)
}

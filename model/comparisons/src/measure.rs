//! Measures a run in a process of its own: a process's peak of memory is that of everything that it ever did.
//!
//! The process that measures calls [`in_child`] with a command that makes another process of the same program call
//! [`report`].

use std::fs;
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// What an engine counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Distinct states.
    pub unique_states: usize,
    /// Moves made.
    pub transitions: usize,
    /// The properties that are violated.
    pub violated: Vec<String>,
    /// Whether everything was explored.
    pub exhaustive: bool,
}

/// A run and what it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What was counted.
    pub counted: Counted,
    /// Time on the wall, from beginning to verdict.
    pub seconds: f64,
    /// The most memory that the process had resident, above what it had at the beginning, in bytes; `None` where the system
    /// doesn't tell (it does on Linux).
    pub peak_bytes: Option<u64>,
}

/// Why a run in a process of its own could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The process could not be started.
    #[error("the process that was to be measured could not be started: {0}")]
    Start(#[from] io::Error),
    /// It ended badly.
    #[error("the process that was measured ended with {status} and no result. It said:\n{output}")]
    Ended {
        /// How.
        status: std::process::ExitStatus,
        /// What it said.
        output: String,
    },
}

/// Stands before the result among whatever else the process writes.
const MARK: &str = "measured: ";

/// Runs this in the present process and measures it.
pub fn here(work: impl FnOnce() -> Counted) -> Measured {
    // So that the peak is that of the work alone, as far as the system can do that.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let before = resident("VmRSS:");
    let begun = Instant::now();
    let counted = work();
    let seconds = begun.elapsed().as_secs_f64();
    let peak_bytes = resident("VmHWM:").zip(before).map(|(peak, before)| peak.saturating_sub(before));
    Measured { counted, seconds, peak_bytes }
}

/// Runs this in the present process, measures it, and writes the result so that [`in_child`] finds it.
///
/// # Errors
/// If it can't be written.
pub fn report(work: impl FnOnce() -> Counted) -> io::Result<()> {
    let line = serde_json::to_string(&here(work))?;
    // In a line of its own, whatever was written before.
    writeln!(io::stdout().lock(), "\n{MARK}{line}")
}

/// Runs a command that calls [`report`], and gives the result.
///
/// # Errors
/// [`MeasureError`] if it can't be started or gives no result.
pub fn in_child(command: &mut Command) -> Result<Measured, MeasureError> {
    let output = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let result = said.lines().find_map(|line| serde_json::from_str(line.strip_prefix(MARK)?).ok());
    match result {
        Some(measured) if output.status.success() => Ok(measured),
        _ => Err(MeasureError::Ended {
            status: output.status,
            output: format!("{said}{}", String::from_utf8_lossy(&output.stderr)),
        }),
    }
}

/// A line of `/proc/self/status`, in bytes.
fn resident(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1_024)
}

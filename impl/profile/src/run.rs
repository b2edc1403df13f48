//! One run of one cell: the framework is started, the fault is done to it, it is resumed, and what the tool wrote down is
//! counted.

mod classify;
mod control;
mod faults;
mod flow;
mod front;
mod kill;
mod moments;
mod process;
mod script;
mod setting;
mod stage;
mod strike;
mod tidy;

use std::time::Duration;

pub use self::moments::{Moments, Seen};
pub use self::setting::{Behind, Programs, Setting, resolved};
pub use self::stage::abandon_all;

use crate::cell::Cell;
use crate::profile::Run;

/// Why nothing could be measured: the fault is the harness's or the machine's, not the framework's.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A process can't be started.
    #[error("can't start {program}: {error}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        error: std::io::Error,
    },
    /// A process of the harness does not come up.
    #[error("{program} does not listen after {} s: {says}", waited.as_secs())]
    Silent {
        /// Which.
        program: String,
        /// How long it was waited for.
        waited: Duration,
        /// What it says.
        says: String,
    },
    /// The run's directory can't be used.
    #[error("the run's directory: {0}")]
    Directory(#[from] std::io::Error),
    /// The database can't be had.
    #[error("{0}")]
    Database(String),
}

/// Runs a cell once; what came of it, and what was seen of its moments.
///
/// # Errors
/// [`RunError`] if the harness can't do its part.
pub async fn run(setting: &Setting, cell: Cell, moments: Moments) -> Result<(Run, Seen), RunError> {
    let mut flow = flow::Flow::begin(setting, cell, moments).await?;
    let last = script::play(&mut flow, cell).await?;
    flow.finish(&last).await
}

//! What a run is made with.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::adapter::Transport;

/// The programs of the harness itself.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The tool: what is put before its arguments, such as `settled profile-tool`.
    pub tool: Vec<OsString>,
    /// `settled`, for what stands behind it.
    pub settled: PathBuf,
}

/// What stands between a framework and its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// `settled mcp` or `settled gateway`.
    Settled,
}

/// How a variant of an adapter is run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The programs of the harness.
    pub programs: Programs,
    /// Where the adapter is installed: its commands run there.
    pub directory: PathBuf,
    /// What starts a run.
    pub start: Vec<String>,
    /// What resumes it.
    pub resume: Vec<String>,
    /// Variables of the adapter's variant.
    pub environment: BTreeMap<String, String>,
    /// How the tool is reached.
    pub transport: Transport,
    /// What the tool is behind.
    pub behind: Option<Behind>,
    /// The server in which each run gets a database, if it needs one.
    pub postgres: Option<crate::database::Server>,
    /// How long a run may take; one that takes longer is stuck.
    pub deadline: Duration,
    /// Where the runs' directories are kept, for someone to look at.
    pub keep: Option<PathBuf>,
}

/// A command as it is run in a directory: a first word with a slash is a path in there.
#[must_use]
pub fn resolved(directory: &Path, program: &str) -> PathBuf {
    match program.contains('/') {
        true => directory.join(program),
        false => PathBuf::from(program),
    }
}

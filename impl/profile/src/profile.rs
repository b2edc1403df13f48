//! What is written down: the published format of a profile (`schema/profile.schema.json`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::outcome::{Bite, Counts, Outcome};

/// The format of [`Report`], in its first member.
pub const FORMAT: &str = "settled-profile/1";

/// One file: what `settled profile run` has measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`FORMAT`].
    #[cfg_attr(test, schemars(extend("const" = FORMAT)))]
    pub format: String,
    /// When it was begun, in RFC 3339.
    pub made: String,
    /// The command that made it.
    pub command: String,
    /// The version of `settled`.
    pub settled: String,
    /// Where it was made.
    pub machine: Machine,
    /// What random moments were drawn from.
    pub seed: u64,
    /// One for each variant of each adapter.
    pub profiles: Vec<Profile>,
}

/// The machine that something was measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The operating system, with its kernel's version.
    pub system: String,
    /// The kind of processor.
    pub processor: String,
    /// How many of them.
    pub cores: u32,
}

/// What one variant of one framework did in each cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The adapter's name.
    pub adapter: String,
    /// The variant's.
    pub variant: String,
    /// The framework's package.
    pub framework: String,
    /// Its version.
    pub version: String,
    /// What it runs on, as that says itself: `Python 3.11.7`.
    pub runtime: String,
    /// How its tool is reached: `http`, `mcp-http` or `mcp-stdio`.
    pub transport: String,
    /// What stood between it and its tool: `settled`, or nothing.
    pub behind: Option<String>,
    /// What came of each cell that its variant can run.
    pub cells: Vec<CellResult>,
    /// The cells that it can't run, with the reason.
    pub left_out: BTreeMap<String, String>,
}

/// What came of one cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CellResult {
    /// Which.
    pub cell: Cell,
    /// The property of the model that is at stake (`settled properties`), if the model has one.
    pub property: Option<String>,
    /// The fault of the model that it is (`settled faults`), if the model has it.
    pub fault: Option<String>,
    /// Its runs, counted.
    pub counts: Counts,
    /// What the framework's protocol description predicts.
    pub predicted: Option<Prediction>,
    /// Each run.
    pub runs: Vec<Run>,
}

/// What the model says can come of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// The protocol it was predicted from.
    pub protocol: String,
    /// The outcomes that the model can reach: kinds of [`Outcome`].
    pub possible: Vec<String>,
    /// Whether every struck run ended in one of them.
    pub agrees: bool,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// What became of it.
    pub outcome: Outcome,
    /// Whether its fault struck.
    pub bite: Bite,
    /// How often each step took effect.
    pub effects: BTreeMap<String, u32>,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Milliseconds since the run began.
    pub at: u64,
    /// Who did it.
    pub who: Who,
    /// What, in a few words: `called b`, `effect b`, `answered b`, `killed`, `resumed (continue)`, `exit 0`.
    pub what: String,
}

/// Who takes part in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    /// The framework's process.
    Framework,
    /// The tool's process.
    Tool,
    /// Who tries the framework out: starts, kills, resumes.
    Harness,
}

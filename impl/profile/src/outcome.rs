//! What became of one run of one cell.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// What became of a run, from the effects that the tool wrote down itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every step took effect as often as it was wanted, and the framework says that the run is over.
    Once,
    /// A step took effect so many times (at least 2), or once where it was not wanted at all.
    Duplicate(u32),
    /// No step happened too often, one never did, and the framework says that the run is over, or knows no such run.
    Lost,
    /// No step happened too often, and the framework was neither finished nor had it given up when the time was over.
    Stuck,
    /// No step happened too often, and the framework gave up on the run, with these words.
    Error(String),
}

impl Outcome {
    /// Its kind, for counting: `once`, `duplicate`, `lost`, `stuck` or `error`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Duplicate(_) => "duplicate",
            Self::Lost => "lost",
            Self::Stuck => "stuck",
            Self::Error(_) => "error",
        }
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate(times) => write!(f, "duplicate({times})"),
            Self::Error(words) => write!(f, "error: {words}"),
            other => f.write_str(other.kind()),
        }
    }
}

/// Whether the fault hit what it was aimed at. A run that it did not hit says nothing, and is no pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Bite {
    /// The right process, at the right moment.
    Struck,
    /// Not, because of this.
    Missed(String),
}

/// The runs of one cell, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// By [`Outcome::kind`]; runs whose fault did not strike are not in it.
    pub outcomes: BTreeMap<String, u32>,
    /// Runs whose fault did not strike.
    pub missed: u32,
    /// The highest number of effects of one step.
    pub most: u32,
}

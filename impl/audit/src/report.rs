//! What an audit found.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::tool::Annotations;

/// The whole report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// `settled-audit/1`.
    pub format: String,
    /// The version of `settled`.
    pub settled: String,
    /// The server.
    pub server: ServerReport,
    /// What was watched.
    pub watched: Vec<String>,
    /// What changes by itself, and was therefore not counted.
    pub noise: Vec<String>,
    /// How often each experiment was made.
    pub repeat: u32,
    /// The tools that were called.
    pub tools: Vec<ToolReport>,
    /// The tools that were not called.
    pub listed: Vec<Listed>,
}

/// The server, as it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerReport {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The revision of MCP that was spoken.
    pub revision: String,
    /// How it was reached.
    pub transport: Transport,
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Standard input and output.
    Stdio,
    /// Streamable HTTP.
    Http,
}

/// A tool that was not called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// What it claims.
    pub annotations: Annotations,
    /// Why no arguments can be made for it from its schema, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_arguments: Option<String>,
}

/// A tool that was called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolReport {
    /// Its name.
    pub name: String,
    /// What it claims.
    pub annotations: Annotations,
    /// What it was called with; placeholders were filled in anew for each experiment.
    pub arguments: Map<String, Value>,
    /// What one call changes.
    pub effect: Vec<String>,
    /// The answer to one call.
    pub answer: String,
    /// What came of each experiment.
    pub experiments: Vec<ExperimentReport>,
    /// What became of what it claims.
    pub claims: Vec<Claim>,
    /// What fits in `settled.toml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// What is done with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Experiment {
    /// Once.
    Once,
    /// Twice, one after the other.
    Twice,
    /// The answer is dropped (over stdio the server is killed with it, over HTTP the connection is cut), and the call made again on
    /// a new connection.
    LostAnswer,
    /// The server is killed and started again between two calls.
    Restart,
    /// Several times at once.
    Concurrent,
    /// Several calls with different arguments at once: none may undo another.
    DifferentAtOnce,
    /// Twice with one idempotency key and one JSON-RPC id.
    RetriedId,
}

impl Experiment {
    /// All, in the order in which they are made.
    pub const ALL: [Experiment; 7] = [
        Self::Once,
        Self::Twice,
        Self::LostAnswer,
        Self::Restart,
        Self::Concurrent,
        Self::DifferentAtOnce,
        Self::RetriedId,
    ];
}

impl FromStr for Experiment {
    type Err = String;

    fn from_str(name: &str) -> Result<Experiment, String> {
        let named = Experiment::ALL.into_iter().find(|experiment| experiment.to_string() == name);
        named.ok_or_else(|| format!("one of {}", Experiment::ALL.map(|experiment| experiment.to_string()).join(", ")))
    }
}

impl Display for Experiment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Once => "once",
            Self::Twice => "twice",
            Self::LostAnswer => "lost-answer",
            Self::Restart => "restart",
            Self::Concurrent => "concurrent",
            Self::DifferentAtOnce => "different-at-once",
            Self::RetriedId => "retried-id",
        })
    }
}

/// What an experiment showed. The later outweighs the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It was not made.
    NotTried,
    /// The state was that after one call, and the answers were true.
    Safe,
    /// There was nothing to tell it by.
    Unknown,
    /// It took effect again.
    Duplicate,
    /// An answer said otherwise than what happened.
    WrongRecord,
}

impl Verdict {
    /// Whether it is a defect.
    #[must_use]
    pub const fn is_defect(self) -> bool {
        matches!(self, Self::Duplicate | Self::WrongRecord)
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotTried => "not tried",
            Self::Safe => "safe",
            Self::Unknown => "unknown",
            Self::Duplicate => "duplicate",
            Self::WrongRecord => "wrong record",
        })
    }
}

/// What came of one experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentReport {
    /// Which.
    pub experiment: Experiment,
    /// The worst that it showed.
    pub verdict: Verdict,
    /// How often it showed what.
    pub counts: BTreeMap<Verdict, u32>,
    /// Why, in the first run with that verdict.
    pub because: String,
    /// What changed there that should not have, or that should have and was to be seen.
    pub changes: Vec<String>,
    /// The answers there.
    pub answers: Vec<String>,
}

/// A claim, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// `readOnlyHint: true` or `idempotentHint: true`.
    pub claim: String,
    /// What became of it.
    pub found: Found,
    /// Why.
    pub because: String,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// Nothing was seen against it.
    Held,
    /// It is not so.
    Untrue,
    /// It could not be told.
    Unknown,
}

/// The report in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was called, or nothing was found.
    Nothing,
    /// A duplicate, a wrong record or an untrue claim.
    Defects,
    /// Of a tool nothing could be told.
    OnlyUnknown,
}

impl Report {
    /// The report in one word.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let has_defect = |tool: &ToolReport| {
            tool.experiments.iter().any(|experiment| experiment.verdict.is_defect())
                || tool.claims.iter().any(|claim| claim.found == Found::Untrue)
        };
        let is_untold = |tool: &ToolReport| tool.experiments.iter().all(|one| one.verdict != Verdict::Safe);
        if self.tools.iter().any(has_defect) {
            Outcome::Defects
        } else if self.tools.iter().any(is_untold) {
            Outcome::OnlyUnknown
        } else {
            Outcome::Nothing
        }
    }
}

/// The JSON Schema of a report.
#[must_use]
pub fn schema() -> Value {
    schemars::schema_for!(Report).to_value()
}

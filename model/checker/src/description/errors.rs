//! What errors say, and what they are taken for.

use serde::{Deserialize, Serialize};

/// What a tool says when it refuses a request before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rejects {
    /// That it is refused for good.
    ForGood,
    /// That it is busy, and may be asked again: the guard does so, with a new attempt.
    Busy,
}

/// What a guard takes an error or a silence for that proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InDoubt {
    /// An unknown outcome.
    Unknown,
    /// A tool that was too busy to run it.
    Busy,
}

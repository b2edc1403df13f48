//! What became of a mutant.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::layer::Layer;
use crate::mutant::Mutant;

/// What found a mutant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The first layer that failed.
    pub layer: Layer,
    /// What failed there: tests by name, the compiler's error, or `timeout`.
    pub by: String,
}

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The tests noticed it.
    Found(Found),
    /// No test noticed it.
    Survived,
    /// The patch makes no program, which says nothing about the tests.
    Broken(String),
}

/// A mutant that was tried, as it is kept for later.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) mutant: String,
    pub(crate) patch: String,
    pub(crate) verdict: Verdict,
    pub(crate) took: Duration,
}

/// A mutant that was tried.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The mutant.
    pub mutant: Mutant,
    /// What became of it.
    pub verdict: Verdict,
    /// How long that took.
    pub took: Duration,
}

impl Tried {
    /// Whether it was found by another layer than its patch says.
    pub fn elsewhere(&self) -> bool {
        matches!(&self.verdict, Verdict::Found(found) if found.layer != self.mutant.layer)
    }
}

//! The layers of the tests.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A layer of the tests. In the order in which they are tried: what comes first costs less, or says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Layer {
    /// The compiler: the mistake can't be written down.
    Types,
    /// Every interleaving, explored by the model checker.
    Model,
    /// The relation and the table of transitions, which the proofs without bounds are about.
    Proof,
    /// Unit tests and random runs, within one process.
    Proptest,
    /// Every interleaving of threads, explored by loom.
    Loom,
    /// The whole on a simulated disk, network and clock.
    Simulation,
    /// Real processes and services.
    Process,
}

impl Layer {
    /// All of them, in order.
    pub const ALL: [Layer; 7] =
        [Layer::Types, Layer::Model, Layer::Proof, Layer::Proptest, Layer::Loom, Layer::Simulation, Layer::Process];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Types => "types",
            Layer::Model => "model",
            Layer::Proof => "proof",
            Layer::Proptest => "proptest",
            Layer::Loom => "loom",
            Layer::Simulation => "simulation",
            Layer::Process => "process test",
        }
    }

    /// How long one of its commands may take. A mutant that hangs is found by that.
    pub fn timeout(self) -> Duration {
        Duration::from_secs(match self {
            Layer::Types => 3_600,
            Layer::Model => 1_200,
            Layer::Proof => 300,
            Layer::Proptest | Layer::Loom | Layer::Simulation => 600,
            Layer::Process => 1_200,
        })
    }
}

impl TryFrom<String> for Layer {
    type Error = String;

    fn try_from(text: String) -> Result<Layer, String> {
        text.parse()
    }
}

impl From<Layer> for &'static str {
    fn from(layer: Layer) -> &'static str {
        layer.name()
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Layer {
    type Err = String;

    fn from_str(text: &str) -> Result<Layer, String> {
        Layer::ALL
            .into_iter()
            .find(|layer| layer.name() == text || layer.name().replace(' ', "-") == text)
            .ok_or_else(|| format!("`{text}` is no layer; they are: {}", Layer::ALL.map(Layer::name).join(", ")))
    }
}

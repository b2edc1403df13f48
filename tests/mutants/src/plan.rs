//! Which checks can see a change of which file.
//!
//! A layer is left out only where it can't see the file: the model and the proofs hold `step` and what it uses, but carry keys and
//! arguments as opaque handles; loom holds what threads share; nothing but real servers runs SQL and Lua.

use std::fs;
use std::path::Path;

use crate::layer::Layer;

/// Tests of one package.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Check {
    /// The layer that they belong to.
    pub layer: Layer,
    /// The package.
    pub package: &'static str,
    /// Where it is.
    pub directory: &'static str,
    /// Which of its tests.
    pub tests: Tests,
}

/// Which tests of a package.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tests {
    /// Those in its modules.
    Unit,
    /// Those in this file.
    File(String),
    /// Those in these files.
    Files(&'static [&'static str]),
    /// Those in all files.
    AllFiles,
    /// All of them.
    All,
    /// Those with loom.
    Loom,
}

/// Stands for a package's unit tests where a file of tests is named.
const UNIT: &str = "unit";

/// Selected together with what is tested: see Cargo.toml.
const TOGETHER: [&str; 6] = ["-p", "settled-cli", "--features", "settled-cli/fault-points", "-p", "settled-mutants"];

impl Check {
    const fn new(layer: Layer, package: &'static str, directory: &'static str, tests: Tests) -> Check {
        Check { layer, package, directory, tests }
    }

    /// Only the tests in this file of the same package, or in its modules.
    pub(crate) fn only(&self, file: &str) -> Check {
        let tests = if file == UNIT { Tests::Unit } else { Tests::File(file.to_owned()) };
        Check { tests, ..self.clone() }
    }

    /// The arguments of `cargo test` in this tree.
    pub fn arguments(&self, tree: &Path) -> Vec<String> {
        let package = ["-p", self.package].into_iter();
        let files = test_files(&tree.join(self.directory).join("tests"));
        let (with_loom, without): (Vec<_>, Vec<_>) = files.into_iter().partition(|name| name.starts_with("loom_"));
        let each = |files: Vec<String>| files.into_iter().flat_map(|file| ["--test".to_owned(), file]);
        if self.tests == Tests::Loom {
            return package.chain(["--release"]).map(str::to_owned).chain(each(with_loom)).collect();
        }
        let mut arguments: Vec<String> = package.chain(TOGETHER).map(str::to_owned).collect();
        if matches!(self.tests, Tests::Unit | Tests::All) {
            arguments.push("--lib".to_owned());
        }
        let files = match &self.tests {
            Tests::Unit | Tests::Loom => Vec::new(),
            Tests::File(file) => vec![file.clone()],
            Tests::Files(files) => files.iter().map(|file| (*file).to_owned()).collect(),
            Tests::AllFiles | Tests::All => without,
        };
        arguments.extend(each(files));
        arguments
    }
}

/// The names of the integration tests in this directory.
fn test_files(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("main.rs").is_file() || path.extension().is_some_and(|ending| ending == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

const MODEL: Check = Check::new(Layer::Model, "settled-model", "model/checker", Tests::Files(&["checker"]));
const PROOF: Check =
    Check::new(Layer::Proof, "settled-protocol", "model/protocol", Tests::Files(&["relation", "transitions"]));
const STEPS: Check =
    Check::new(Layer::Proptest, "settled-protocol", "model/protocol", Tests::Files(&["record", "step"]));
const NAMES: Check =
    Check::new(Layer::Proptest, "settled-protocol", "model/protocol", Tests::Files(&["fingerprint", "key"]));
const SIMULATION: Check = Check::new(Layer::Simulation, "settled-simulation", "impl/simulation", Tests::All);
const PROCESSES: Check = Check::new(Layer::Process, "settled-tests", "tests", Tests::AllFiles);

const fn ledgers(files: &'static [&'static str]) -> Check {
    Check::new(Layer::Process, "settled-ledger-tests", "tests/ledgers", Tests::Files(files))
}

/// Of what threads share in the engine.
const SHARED: &[Check] = &[
    Check::new(Layer::Proptest, "settled-engine", "impl/engine", Tests::All),
    Check::new(Layer::Loom, "settled-engine", "impl/engine", Tests::Loom),
    SIMULATION,
    PROCESSES,
];

const CHECKS: &[(&str, &[Check])] = &[
    ("model/protocol/src/key.rs", &[NAMES]),
    ("model/protocol/src/canonical.rs", &[NAMES]),
    ("model/protocol/src/fingerprint.rs", &[NAMES]),
    ("model/protocol/", &[MODEL, PROOF, STEPS, SIMULATION]),
    ("impl/engine/src/busy.rs", SHARED),
    ("impl/engine/src/held.rs", SHARED),
    ("impl/engine/src/inflight.rs", SHARED),
    ("impl/engine/src/line_queue.rs", SHARED),
    ("impl/engine/src/outbox.rs", SHARED),
    (
        "impl/engine/",
        &[Check::new(Layer::Proptest, "settled-engine", "impl/engine", Tests::All), SIMULATION, PROCESSES],
    ),
    (
        "impl/ledger-file/src/group_commit.rs",
        &[
            Check::new(Layer::Proptest, "settled-ledger-file", "impl/ledger-file", Tests::All),
            Check::new(Layer::Loom, "settled-ledger-file", "impl/ledger-file", Tests::Loom),
            SIMULATION,
            ledgers(&["file", "killed", "resources"]),
        ],
    ),
    (
        "impl/ledger-file/",
        &[
            Check::new(Layer::Proptest, "settled-ledger-file", "impl/ledger-file", Tests::All),
            SIMULATION,
            ledgers(&["file", "killed", "resources"]),
        ],
    ),
    (
        "impl/ledger-postgres/",
        &[
            Check::new(Layer::Proptest, "settled-ledger-postgres", "impl/ledger-postgres", Tests::Unit),
            ledgers(&["postgres", "resources"]),
            Check::new(Layer::Process, "settled-ledger-postgres", "impl/ledger-postgres", Tests::AllFiles),
        ],
    ),
    (
        "impl/ledger-redis/",
        &[
            Check::new(Layer::Proptest, "settled-ledger-redis", "impl/ledger-redis", Tests::Unit),
            ledgers(&["redis", "resources"]),
            Check::new(Layer::Process, "settled-ledger-redis", "impl/ledger-redis", Tests::AllFiles),
        ],
    ),
    (
        "impl/mcp/",
        &[
            Check::new(Layer::Proptest, "settled-mcp", "impl/mcp", Tests::Unit),
            Check::new(Layer::Process, "settled-mcp", "impl/mcp", Tests::AllFiles),
            PROCESSES,
        ],
    ),
];

/// The checks that can see a change of this file, in the order of their layers.
pub fn checks(file: &str) -> &'static [Check] {
    CHECKS.iter().find(|(prefix, _)| file.starts_with(prefix)).map_or(&[], |(_, checks)| checks)
}

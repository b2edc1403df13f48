//! Mistakes of one line in core, engine, ledgers and proxy, and which layer of the tests is the first to find each.
//!
//! A mutant is a patch with a few words before it: what it does wrong, which property that breaks, and which layer should
//! find it. The runner applies each to a copy of the tree and runs the layers that apply to the file that it changes, the
//! cheapest one first. A mutant that no layer finds is a hole in the tests.

mod apply;
mod command;
mod error;
mod kept;
mod layer;
mod mutant;
mod outcome;
mod plan;
mod runner;
mod table;
mod tree;

pub use apply::mutated;
pub use error::MutantError;
pub use kept::Results;
pub use layer::Layer;
pub use mutant::{Area, Mutant, all, patches};
pub use outcome::{Found, Tried, Verdict};
pub use plan::{Check, Tests, checks};
pub use runner::{Runner, Settings};
pub use table::{markdown, summary, terminal};
pub use tree::{Place, root};

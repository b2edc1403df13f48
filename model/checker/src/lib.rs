//! The model checker of `settled`: worlds of callers, guards, ledger, network and tool around the protocol core, explored
//! exhaustively.
//!
//! A protocol is a [`Description`] in TOML. [`check`] explores every state of its world within its bounds and decides every
//! property; a violated one comes with its shortest [`Trace`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod apply;
mod check;
pub mod description;
pub mod library;
mod load;
pub mod model;
pub mod moves;
pub mod properties;
mod search;
mod tool;
mod trace;
pub mod world;

pub use check::{Limits, Progress, Report, Verdict, check};
pub use description::Description;
pub use load::{LoadError, load_file, parse};
pub use properties::PropertyName;
pub use trace::{FORMAT, Step, Trace, call_name};

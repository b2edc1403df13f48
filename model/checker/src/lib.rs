//! The model checker of `settled`: worlds of callers, guards, ledger, network and tool around the protocol core, explored
//! exhaustively.
//!
//! A protocol is a [`Description`] in TOML. [`check()`] explores every state of its world within its bounds and decides every
//! property; a violated one comes with its shortest [`Trace`]. A protocol that a description can't express is a state
//! machine of your own in place of the caller, the guard or the tool: see [`machine`] and [`check_rules`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod check;
pub mod description;
mod diff;
pub mod library;
mod load;
pub mod machine;
mod minimise;
mod model;
mod suggest;
mod validate;
pub mod world;

pub use check::{Limits, Progress, Reductions, Report, Verdict, check, check_rules};
pub use description::Description;
pub use diff::{
    CallEnding, Diff, Ending, Endings, EndingsDiff, FieldChange, PropertyChange, diff, endings, field_changes,
};
pub use load::{LoadError, load_file, parse};
pub use minimise::with_fewer_faults;
pub use settled_explorer::{
    FORMAT, Fault, Faults, Plain, PropertyName, PropertySet, Readable, Snapshot, Step, System, Trace,
};
pub use suggest::{Suggestion, Suggestions, suggest};
pub use validate::Unbuildable;
pub use world::{Rules, call_name};

//! Conformance profiles: an unchanged agent framework is driven through real faults, and the effects of its tool are counted.
//!
//! An [`Adapter`] says how a framework is installed, started and resumed. A [`Cell`] is one fault and what is done after it. A
//! [`Profile`] is what came of all cells, each of them repeated, with the events of every run.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod adapter;
mod cell;
pub mod database;
pub mod files;
pub mod install;
pub mod khan;
pub mod matrix;
mod outcome;
pub mod predict;
mod profile;
pub mod report;
pub mod run;
pub mod tool;
pub mod tracer;

pub use adapter::{Adapter, AdapterError, Variant};
pub use cell::{Cell, Workload};
pub use outcome::{Bite, Counts, Outcome};
pub use profile::{CellResult, Event, FORMAT, Machine, Prediction, Profile, Report, Run, Who};

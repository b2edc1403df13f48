//! Exploring worlds: every reachable state of a [`System`] within its fault budget, a verdict for each property, and
//! shortest runs as traces that people and programs can read.
//!
//! It knows nothing of protocols: those are `settled-model`'s.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod contract;
mod explore;
mod faults;
mod plain;
mod properties;
mod readable;
mod system;
pub mod trace;

pub use explore::{Exploration, Options, Progress, Reductions, Run, explore};
pub use faults::{Budget, Fault, Faults};
pub use plain::{Plain, PlainState};
pub use properties::{PropertyName, PropertySet};
pub use readable::{Readable, Said, Snapshot};
pub use system::System;
pub use trace::{FORMAT, Step, Trace};

//! Exploring worlds: every reachable state of a [`System`] within its fault budget, a verdict for each property, and
//! shortest runs as traces that people and programs can read.
//!
//! It knows nothing of protocols: those are `settled-model`'s.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod faults;
mod properties;
mod system;
pub mod trace;

pub use faults::{Budget, Fault, Faults};
pub use properties::{PropertyName, PropertySet};
pub use system::{Readable, Said, System};
pub use trace::{FORMAT, Snapshot, Step, Trace};

//! The whole implementation on a simulated clock, network and disk.
//!
//! A [`Plan`] is drawn from a seed: tools, callers, guards, a ledger, and what goes wrong. It is carried out on one thread, by
//! the code that runs in production: engines, and the file ledger on a disk that loses, tears and refuses. What really happened
//! is known here, so what callers were told can be held against it. The same plan always takes the same course.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod caller;
mod coverage;
mod draw;
mod fault;
mod faults;
mod guard;
mod log;
mod made;
mod many;
mod minimise;
mod person;
mod plan;
mod process;
mod proxy;
mod remote;
mod run;
mod server;
mod tool;
mod truth;
mod violation;
mod world;

pub use self::{
    coverage::{Coverage, Transition, all_faults, reachable},
    fault::{Fault, FaultAt},
    many::{Failed, Runs, Summary},
    plan::{CallPlan, Kind, LedgerKind, Plan, Plant, Profile, Rates, ToolPlan, Unrunnable},
    run::{Outcome, SimulationError},
    violation::{Property, Violation},
};

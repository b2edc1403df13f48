//! The engine on a scripted ledger and transport: one program, so that it is built and linked once.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::expect_used)]

// `support` is part of other crates' tests, too; they know this crate by its name in the workspace.
extern crate settled_engine as settled;

mod another_operation;
mod calls;
mod faults;
mod guard;
mod history;
mod kinds;
mod leases;
mod lines;
mod people;
mod properties;
mod queued;
mod recovery;
mod retention;
mod retries;
mod schedules;
mod settling;
mod support;

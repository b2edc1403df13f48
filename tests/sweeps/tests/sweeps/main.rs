//! Sweeps on real processes. A sample of each, or with `SETTLED_SWEEP=full` all of it; each prints a table and writes it to
//! `target/tests/`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod disks;
mod duplicates;
mod kills;
mod limits;
mod pairs;
mod servers;
mod stops;
mod takeover;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One sweep at a time: each runs many scenes at once by itself.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

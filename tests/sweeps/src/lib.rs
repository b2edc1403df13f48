//! Sweeps on real processes: one small scenario, run again and again, in which a process is killed at the first place where that
//! is possible, then at the second, until it passes without being killed; and the same with disks that fail.
//!
//! A [`Scene`](scene::Scene) is one run: a ledger of its own, guards and a tool as processes, and everything that callers were told.
//! [`scenario`] is what the callers do; [`sweep`] is the loop; [`table`] is what it prints.
#![allow(clippy::unwrap_used, clippy::expect_used)] // in tests a panic is a result

pub mod load;
pub mod places;
pub mod scenario;
pub mod scene;
pub mod seat;
pub mod sweep;
pub mod switch;
pub mod table;
pub mod tool;

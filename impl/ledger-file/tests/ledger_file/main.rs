//! The file ledger on real and simulated disks: one program, so that it is built and linked once.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;
mod group_commit;
mod kill;
mod ledger;
mod log_corruption;
mod log_crash;
mod log_files;
mod log_torn;
mod released;
mod soak;
mod suite;
mod tamper;

//! The embedded ledger: operation records in an append-only log on one disk, committed in groups, for any number of processes
//! on one directory.
//!
//! [`FileLedger`] is the way in. From the bottom up: [`log`] (durable batches of frames, recovery), [`group_commit`] (many
//! callers, one sync), the frames and the index over them, the store of the process that holds the directory, its upkeep
//! (compaction and snapshots), and the socket through which the others use it.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

#[cfg(not(loom))]
mod body;
#[cfg(not(loom))]
mod chain;
#[cfg(not(loom))]
mod clock;
#[cfg(not(loom))]
mod commit;
#[cfg(not(loom))]
mod connection;
#[cfg(not(loom))]
mod copy;
#[cfg(not(loom))]
mod due;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod forgotten;
#[cfg(not(loom))]
mod frame;
#[cfg(not(loom))]
mod frame_v1;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod fuzzing;
pub mod group_commit;
#[cfg(not(loom))]
mod index;
#[cfg(not(loom))]
mod leases;
#[cfg(not(loom))]
mod ledger;
pub mod log;
#[cfg(all(test, not(loom)))]
#[path = "../tests/ledger_file/suite/make.rs"]
mod make;
#[cfg(not(loom))]
mod mixer;
#[cfg(not(loom))]
mod open;
#[cfg(not(loom))]
mod options;
#[cfg(not(loom))]
mod owners;
#[cfg(not(loom))]
mod ownership;
#[cfg(not(loom))]
mod path;
#[cfg(not(loom))]
mod recent;
#[cfg(not(loom))]
mod replay;
#[cfg(not(loom))]
mod seat;
#[cfg(not(loom))]
mod server;
#[cfg(not(loom))]
mod setback;
#[cfg(not(loom))]
pub mod simulated;
#[cfg(not(loom))]
mod size;
#[cfg(not(loom))]
mod slot;
#[cfg(not(loom))]
mod snapshot;
#[cfg(not(loom))]
mod socket;
#[cfg(not(loom))]
mod store;
mod sync;
#[cfg(not(loom))]
mod tenure;
#[cfg(not(loom))]
mod upkeep;
#[cfg(not(loom))]
mod wire;

#[cfg(not(loom))]
pub use self::{ledger::FileLedger, options::FileLedgerOptions, size::LedgerSize};

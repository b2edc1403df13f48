//! What the engine and its ledgers take, beside the disk's own limit and beside what one would write by hand.
//!
//! * [`load`] keeps a number of callers busy and measures; [`usage`] reads what the process has used;
//! * what is measured: [`disk`] (bare syncs), [`bare_log`] (the log with group commit, without a ledger), [`guarded`] (calls through
//!   the engine), [`peers`] (the usual pattern on PostgreSQL and Redis), [`parts`] (single parts of a call), [`many`] (a ledger
//!   with very many keys);
//! * [`mcp`] is about the MCP proxy, [`gateway`] about the HTTP gateway, each beside others;
//! * [`suite`] measures all of it in turn, [`aims`] compares it with what is aimed at, [`show`] prints it.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod aims;
pub mod bare_log;
pub mod disk;
mod error;
pub mod gateway;
pub mod guarded;
pub mod load;
pub mod many;
pub mod mcp;
pub mod parts;
pub mod peers;
pub mod show;
pub mod suite;
pub mod usage;

pub use error::BenchError;
pub use suite::{Report, Settings};

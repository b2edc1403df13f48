//! An ordinary MCP server and an ordinary MCP client, to show what happens between them without and with `settled`.
//!
//! Neither knows anything of idempotency: [`charge_server`] does what it is told each time it is told, and
//! [`retrying_client`] does what most clients do when no answer comes: it calls again. Put together directly, one
//! intended charge becomes two. Both are ordinary functions, so that other programs can embed them, and binaries of
//! the same names.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod charge_server;
mod effects;
mod error;
mod report;
pub mod retrying_client;

pub use error::ExampleError;
pub use report::{Attempt, ClientReport, Outcome};

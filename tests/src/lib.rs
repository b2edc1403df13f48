//! The harness of the process tests: the real `settled` program between real MCP clients and servers, killed at chosen
//! and at random moments. What happened is counted in the file that the tools themselves write.
//!
//! A [`Stage`] is one test's world: a directory, an environment, and every process that was started in it. Processes are
//! looked at through `/proc`, so the tests run on Linux.
// A harness stops at the first surprise, and a panic is how a test says so.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod api;
mod binary;
mod breaker;
mod clients;
mod gateway;
mod http;
mod ledger;
mod process;
mod proxy;
mod running;
mod session;
mod stage;
mod wait;

pub use api::{Api, FAULT_HEADER, Fault, Upstream, WISH_HEADER};
pub use binary::{build, settled};
pub use breaker::{Breaker, Cut, address_of};
pub use clients::{ApiClient, Attempt, Client, Run, Server, Target};
pub use gateway::Gateway;
pub use http::{Exchange, HttpReply, get, post};
pub use ledger::Operation;
pub use process::Process;
pub use running::{Ended, Running};
pub use session::{Reply, Session};
pub use stage::Stage;
pub use wait::{PATIENCE, until};

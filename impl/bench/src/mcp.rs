//! What the MCP proxy adds to a call, beside no proxy and beside other proxies, in one run.
//!
//! A server that does nothing ([`server`]) is called through each of them by the same clients ([`stdio`], [`http`]), again and
//! again in turn ([`contest`]); [`memory`] makes very many calls through one proxy; [`show`] prints it.

pub mod contest;
pub mod http;
pub mod memory;
pub mod messages;
pub mod process;
pub mod server;
pub mod show;
pub mod stdio;

pub use contest::{Beside, Report, Settings, run};

use serde::Serialize;

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// Standard input and output of a process.
    Stdio,
    /// Streamable HTTP.
    Http,
}

/// Which tool is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    /// A read, which a guard passes.
    Read,
    /// One with an effect, which is guarded.
    Charge,
}

//! What the HTTP gateway adds to a request, beside no proxy, nginx as a bare reverse proxy, and the usual pattern of nginx with
//! Redis, in one run.
//!
//! A server that does nothing ([`server`]) is called through each of them by the same client ([`client`]), again and again in
//! turn ([`contest`]); [`nginx`] holds its configurations; [`show`] prints it.

pub mod client;
pub mod contest;
pub mod nginx;
pub mod server;
pub mod show;

pub use contest::{Report, Settings, run};

use serde::Serialize;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Call {
    /// A request without a key.
    Passed,
    /// A request with a key of its own.
    First,
    /// A request with a key that has been answered.
    Replay,
}

impl Call {
    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Call::Passed => "passed",
            Call::First => "first call",
            Call::Replay => "replay",
        }
    }
}

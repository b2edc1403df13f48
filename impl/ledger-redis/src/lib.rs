//! The ledger on a Redis server (or one that speaks its protocol and runs its scripts), for any number of processes and hosts.
//!
//! [`RedisLedger`] is the way in. Every change of state is one Lua script, so that it happens entirely or not at all, and in one
//! order for all processes. What Redis acknowledges it may still lose: how much that matters depends on the server's
//! settings and on its replicas; [`Ledger::promise`](settled::Ledger::promise) tells, and a warning at connect.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod address;
mod call;
mod entry;
mod failure;
mod ledger;
mod link;
mod names;
mod options;
mod replicas;
mod script;
mod server;
mod watch;

pub use self::{
    ledger::RedisLedger,
    options::{RedisOptions, Wait},
};

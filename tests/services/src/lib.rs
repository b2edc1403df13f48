//! Services that tests need: started on free loopback ports, killed, restarted, stopped.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod pgbouncer;
pub mod ports;
pub mod postgres;
pub mod redis;

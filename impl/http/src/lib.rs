//! The guard around HTTP: [`GuardLayer`], a tower layer for services, and [`GuardMiddleware`], a reqwest middleware for
//! clients.
//!
//! Both store HTTP messages as they would be sent ([`message`]), so that what is recorded can be read by anyone.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod classify;
mod client;
pub mod fingerprint;
pub mod idempotency_key;
pub mod message;
pub mod problem;
pub mod retry_after;
mod service;

pub use self::{
    client::{ClientError, Credentials, GuardMiddleware, GuardedRequest, Replayed},
    service::{Describe, Described, GuardLayer, GuardService, KeyRule, REPLAYED, Route, recovery_tool},
};

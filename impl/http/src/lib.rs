//! The guard around HTTP: [`GuardLayer`], a tower layer for services, and [`GuardMiddleware`], a reqwest middleware for
//! clients. [`Client`] has no guard of its own: it is for servers that take idempotency keys.
//!
//! Both store HTTP messages as they would be sent ([`message`]), so that what is recorded can be read by anyone.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod classify;
mod client;
pub mod fingerprint;
pub mod idempotency_key;
mod keyed;
pub mod message;
pub mod problem;
pub mod retry_after;
mod service;
pub mod sse;
pub mod tls;

pub use self::{
    client::{ClientError, Credentials, GuardMiddleware, GuardedRequest, Replayed},
    keyed::{Answer, Call, Client, ClientOptions, NotDone, Rejections, WhyUnknown},
    service::{Describe, Described, GuardLayer, GuardService, KeyRule, REPLAYED, Route, recovery_tool},
};

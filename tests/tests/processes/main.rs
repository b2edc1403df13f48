//! Whole processes, put together as a user would: one program, so that it is built and linked once.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod audit;
mod describe;
mod devices;
mod many;
mod metrics;
mod observers;
mod passthrough;
mod passthrough_http;
mod people;
mod published;
mod refusals;
mod restart;
mod stats;
mod sweep_http;

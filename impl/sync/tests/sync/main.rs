//! The sync server, and the shared cases.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod cases;
mod clocks;
mod common;
mod http;
mod openapi;
mod order;
mod postgres;
mod process;
mod schemas;
mod together;

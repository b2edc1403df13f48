//! Profiles of toy frameworks, and what they are made with.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod committed;
mod install;
mod khan;
mod ongoing;
mod page;
mod predict;
mod program;
mod report;
mod sample;
mod toys;
mod tracer;

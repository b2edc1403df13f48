//! The checker on shipped and hand-made protocols: one program, so that it is built and linked once.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod any_description;
mod checker;
mod faults;
mod line;
mod minimise;
mod properties;
mod reductions;
mod resume_contract;
mod shipped;
mod support;
mod theorems;
mod together;

//! A device: what it keeps, shows and sends, whatever happens to its disk, its clock and its connection.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod keeping;
mod reference;
mod simulation;
mod support;

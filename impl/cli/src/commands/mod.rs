//! One file for each command, and what several of them use.

pub mod audit;
pub mod bench;
mod bounds;
pub mod check;
pub mod demo;
pub mod diff;
pub mod explore;
pub mod faults;
pub mod gateway;
pub mod log;
mod matrix;
pub mod mcp;
pub mod profile;
pub mod profile_library;
pub mod properties;
mod protocol;
pub mod protocols;
pub mod replay;
mod report;
pub mod resolve;
pub mod simulate;
pub mod stats;
mod suggest;
pub mod sync;
pub mod verify;

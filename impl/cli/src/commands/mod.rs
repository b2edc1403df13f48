//! One file for each command.

pub mod check;
pub mod demo;
pub mod log;
pub mod mcp;
pub mod protocols;
pub mod resolve;

//! The server behind: its processes, and the way to it.

pub(crate) mod process;
pub(crate) mod server;
pub(crate) mod start;
pub(crate) mod supervisor;

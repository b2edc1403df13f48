//! The gateway between raw clients and a server on the loopback interface.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod charges;
mod keys;
mod kinds;
mod limits;
mod llm;
mod pages;
mod passing;
mod raw;
mod recovery;
mod reload;
mod streams;
mod support;
mod tls;
mod usage;

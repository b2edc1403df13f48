//! The proxy, in one process with its clients and servers: one program, so that it is built and linked once.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod admission;
mod confidential;
mod config;
mod declarations;
mod describing;
mod front_door;
mod front_sessions;
mod front_stateless;
mod front_streams;
mod front_upstream;
mod keys;
mod limits;
mod observing;
mod proxy;
mod servers;
mod slow;
mod support;
mod tasks;
mod told;
mod upstream_proof;
mod upstream_session;
mod upstream_streams;

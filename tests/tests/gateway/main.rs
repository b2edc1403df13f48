//! The gateway between real clients and an API that charges, and what goes wrong between them.
//!
//! `cargo test -p settled-tests --test gateway -- --nocapture` plays a sample of client × fault and prints it as a table;
//! `SETTLED_GATEWAY=full` plays all of it, `SETTLED_GATEWAY_ONLY='curl answer-lost'` what has all these words in its name.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bench;
mod crowd;
mod draft;
mod kills;
mod ledger_down;
mod routes;
mod streams;
mod table;

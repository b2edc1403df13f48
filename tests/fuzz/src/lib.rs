//! Fuzz targets for everything that parses. Each is a function of any bytes that must not panic; `tests/targets.rs` runs them.
//!
//! The bytes of the ledger's, of canonical JSON's and of the proxy's targets are choices from which an input is built: a
//! ledger and what happens to it, two spellings of arguments, a line of a client. Of the others they choose a text of the
//! corpus (`corpus/TARGET`) and what is done to it, so that most of it is still as it should be; they are tried as they
//! are, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a panic is the finding

pub mod arguments;
pub mod choices;
pub mod corpus;
pub mod events;
pub mod frames;
pub mod header;
pub mod ledger;
pub mod messages;
pub mod streams;
pub mod texts;

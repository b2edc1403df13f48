//! Checks what really happened against the protocol core and its properties.
//!
//! Every engine can write a history ([`settled::HistoryLine`]): what was asked, stored, sent, answered and observed, with
//! everything that each step of the core was given. This takes all of it in, from any number of processes, takes every step
//! again, puts the records of each key in the order of their versions, and evaluates every property. The ledger, if it is
//! given, fills in what processes that were killed could not write down; what is still missing is reported as a gap, and
//! never as held.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod chain;
mod effects;
mod end;
mod evidence;
mod facts;
mod memory;
mod property;
mod report;
mod resources;
mod runs;
mod search;
mod sent;
mod table;
mod told;
mod verdicts;
mod verifier;

pub use effects::Effect;
pub use evidence::{Evidence, VerifyError, read_effects, verify};
pub use memory::{Lines, verify_lines};
pub use property::Property;
pub use report::{Gap, Judged, Report, Verdict, Violation, Where};
pub use verifier::{Options, Verifier};

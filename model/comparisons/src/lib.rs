//! What the checker is measured against: the same questions, put to plain stateright and to Spin.
//!
//! * [`TwoPhaseCommit`]: one model for all three, stateright's own example;
//! * [`Promela`]: that one and two protocols of this project as Spin reads them, written a second time by hand;
//! * [`actors`]: at-most-once calls as stateright's actor framework asks for them;
//! * [`engines`] runs a model on an engine, [`spin`] runs Spin, [`measure`] measures a run in a process of its own, and
//!   [`table`] shows what came out;
//! * [`suite`] is all that is measured, [`aims`] what it is to show, and [`growth`] draws time and states over bounds.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod actors;
pub mod aims;
pub mod engines;
pub mod growth;
pub mod measure;
pub mod spin;
pub mod suite;
mod table;
mod two_phase_commit;
mod work;

pub use spin::Promela;
pub use table::{Row, table};
pub use two_phase_commit::{ManagerState, Message, Move, State, TransactionState, TwoPhaseCommit};
pub use work::{By, Model, Work, counted};

//! What every ledger promises, tried on each of them; and what real processes on one of them make of it while they, and the
//! ledger, are killed and frozen.
#![allow(clippy::unwrap_used, clippy::expect_used)] // in tests a panic is a result

pub mod make;
mod run;
pub mod stage;
mod suite;
mod tools;
pub mod worker;

pub use run::{SOON, Shared, Views, run};
pub use suite::cases;

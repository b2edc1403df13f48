//! Carries out a model's counterexample with real processes, and says whether reality agrees.
//!
//! [`replay`] starts callers, guards (the real engine), a ledger and a tool as processes of their own, is the network
//! between them, and lets each go on when the trace says so: it holds, loses, doubles and cuts messages, kills and stops
//! processes, and fails stores. What callers were told, what is in the ledger and in the tool's own file is compared with
//! the model after each step.

mod conductor;
mod devices;
mod judge;
mod link;
mod outcome;
pub mod part;
mod run;
mod safe;
mod shipped;
pub mod table;
mod verified;
mod wire;

pub use conductor::{Options, Parted, Program};
pub use outcome::{Outcome, Verdict, replay};
pub use run::{TraceError, read};
pub use safe::{Survival, sound_counterpart, survive};
pub use shipped::{All, Row, all};

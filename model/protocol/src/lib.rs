//! The protocol core of `settled`: tool calls that take effect at most once, and callers that are told the truth.
//!
//! Pure state machines: no I/O, no clock, no randomness, no `async`, no panics. The model checker and the engine call
//! the same [`Policy::step`]; nothing about the protocol is written anywhere else.
//!
//! Read in this order: [`record`] (what is stored), [`policy`] (what a tool declares, and what that permits), [`event`]
//! (what can happen), [`action`] (what the shell must do), [`step`](Policy::step) (all transitions).
#![no_std]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

extern crate alloc;

pub mod action;
pub mod canonical;
mod essence;
pub mod event;
pub mod fingerprint;
pub mod key;
pub mod merge;
pub mod policy;
pub mod record;
pub mod retry;
mod step;

pub use action::{Action, Actions, Answer, Dispatch, Durable, NotDurable, Refusal, Store, Wait};
pub use canonical::{CanonicalError, canonicalize};
pub use event::{ErrorClass, Event, Loss, Observation, Reply, SealScope, Start, What};
pub use fingerprint::{Digest, fingerprint};
pub use key::{Key, KeyError, composite_id};
pub use policy::{Ends, Policy, Repeat, Rules, ToolKind};
pub use record::{
    Attempt, AttemptId, Cause, Epoch, Handle, Millis, Outcome, Record, Sent, State, Time, Verdict, Version,
};
pub use retry::{Backoff, Retry};
pub use step::Step;

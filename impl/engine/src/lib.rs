//! `settled`: tool calls that take effect at most once, and callers that are told the truth.
//!
//! The engine drives the protocol core over a durable [`Ledger`] and a [`Tool`]: [`Engine::call`] is the way in.
//!
//! Within one process, the in-flight table lets duplicates join the call that is under way; between processes, and across
//! crashes, the ledger's compare-and-set decides. All transitions are the core's ([`protocol::Policy::step`]); here are the
//! writes, the sends, the waits and the answers that they lead to.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

#[cfg(not(loom))]
mod answers;
#[cfg(not(loom))]
mod attempt;
#[cfg(not(loom))]
mod bucket;
#[cfg(not(loom))]
mod budget;
#[cfg(not(loom))]
mod busy;
#[cfg(loom)]
pub mod busy;
#[cfg(not(loom))]
mod delivery;
#[cfg(not(loom))]
mod departure;
#[cfg(not(loom))]
mod drive;
#[cfg(not(loom))]
mod engine;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
pub mod fault;
#[cfg(not(loom))]
pub mod figures;
#[cfg(not(loom))]
mod guard;
#[cfg(not(loom))]
mod held;
#[cfg(loom)]
pub mod held;
#[cfg(not(loom))]
mod history;
#[cfg(not(loom))]
mod inflight;
#[cfg(loom)]
pub mod inflight;
#[cfg(not(loom))]
mod json_lines;
#[cfg(not(loom))]
mod keep;
#[cfg(not(loom))]
mod lease;
#[cfg(not(loom))]
mod ledger;
#[cfg(not(loom))]
mod line;
#[cfg(not(loom))]
mod line_queue;
#[cfg(loom)]
pub mod line_queue;
#[cfg(not(loom))]
mod maintain;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod operation;
#[cfg(not(loom))]
mod options;
#[cfg(not(loom))]
mod outbox;
#[cfg(loom)]
pub mod outbox;
#[cfg(not(loom))]
mod perform;
#[cfg(not(loom))]
pub mod presence;
#[cfg(not(loom))]
mod recover;
mod sync;
#[cfg(not(loom))]
pub mod task;
#[cfg(not(loom))]
mod time;
#[cfg(not(loom))]
mod tool;
#[doc(hidden)]
pub mod waiting;
#[cfg(not(loom))]
mod waits;
#[cfg(not(loom))]
mod words;

#[cfg(not(loom))]
pub use self::{
    bucket::Bucket,
    delivery::Delivery,
    engine::Engine,
    error::EngineError,
    guard::{
        Attempting, Failure, Guard, GuardError, Guarded, Handler, IntoFailure, Keyed, NotDone, OperationBuilder,
        applied,
    },
    history::{Body, HISTORY_VERSION, Happened, History, HistoryLine, NoHistory, Taken, ToDo},
    json_lines::JsonLines,
    ledger::{Change, Draw, Entry, Filter, Ledger, LedgerError, Liveness, Promise, Remains, Renewal, Resource, Stored},
    maintain::Resolve,
    memory::MemoryLedger,
    operation::{Answer, Answered, Limits, Operation},
    options::{Alerts, Clock, EngineOptions, LogAlerts, RetryBudget, SystemClock},
    recover::{Decided, DecidedAs, Decision, Recoverable, Recovered},
    tool::{Outgoing, Permit, Question, Seen, Tool, ToolReply},
    words::word as because,
};
#[cfg(not(loom))]
pub use settled_protocol as protocol;

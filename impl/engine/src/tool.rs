//! The tool as the engine sees it: something that may take effect when an attempt is sent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use settled_protocol::{AttemptId, Epoch, ErrorClass, Key, SealScope};

use crate::departure::Departure;
use crate::engine::Inner;

/// One attempt to be sent. It exists only after the write that it rests on was proved durable.
#[derive(Debug)]
pub struct Outgoing {
    /// The operation's key: for a tool that deduplicates, this is what to send along.
    pub key: Key,
    /// The attempt.
    pub attempt: AttemptId,
    /// The ownership under which it is sent.
    pub epoch: Epoch,
    /// The arguments to send.
    pub arguments: Bytes,
    pub(crate) on_the_wire: AtomicBool,
    pub(crate) permit: Permit,
}

/// The right to send an attempt: it ends when the process that has it is fenced, and when the attempt's time is over before
/// it was sent.
#[derive(Clone)]
pub struct Permit {
    pub(crate) of: Weak<Inner>,
    pub(crate) epoch: Epoch,
    pub(crate) departure: Arc<Departure>,
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl Permit {
    /// Whether it may be sent now. A transport that has queued a request asks right before its first byte, and answers
    /// [`ErrorClass::NotRun`] if not: its operation may have been taken over, or settled.
    pub fn holds(&self) -> bool {
        !self.departure.is_withdrawn() && self.of.upgrade().is_some_and(|inner| inner.ownership.holds(self.epoch))
    }
}

impl Outgoing {
    /// The right to send it, for a transport that queues.
    pub fn permit(&self) -> Permit {
        self.permit.clone()
    }

    /// To be called by the transport when the request has left this process entirely: nothing of it is queued here any
    /// more (rule 6).
    pub fn sent(&self) {
        self.on_the_wire.store(true, Ordering::Release);
    }
}

/// A tool's answer to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolReply {
    /// It took effect; the body of its result.
    Result(Bytes),
    /// It answered with an error; what that proves, and the body.
    Error(ErrorClass, Bytes),
    /// It did not run, but may when it is asked again: it could not be reached, or it is busy. It is asked again as the
    /// policy's budgets allow, after this long at least.
    Busy {
        /// How long the tool wants to be left alone.
        retry_after: Option<Duration>,
        /// The body of the error, for the caller if it is not asked again.
        body: Bytes,
    },
    /// The connection or the process ended before an answer came.
    ConnectionLost,
}

/// What is asked about when an outcome is unknown.
#[derive(Clone, Debug)]
pub struct Question {
    /// The operation's key.
    pub key: Key,
    /// Its latest attempt.
    pub attempt: AttemptId,
    /// The arguments that were sent.
    pub arguments: Bytes,
}

/// What reconciling saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The effect happened; the body of its result.
    Applied(Bytes),
    /// No effect is to be seen now.
    NotApplied,
    /// No effect happened, and what was to be sealed never will.
    Sealed,
    /// Nothing can be concluded.
    Unclear,
}

/// A tool and the way to it.
///
/// One call of [`dispatch`](Tool::dispatch) must be at most one delivery: nothing below may retry on its own (rule 1).
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// Sends one attempt and waits for its answer, however long that takes: the engine keeps the time. It is not dropped
    /// when the caller goes away.
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply;

    /// Asks whether an attempt was applied (observable tools). Must not change anything. What can't be found out is
    /// [`Seen::Unclear`], never [`Seen::NotApplied`].
    async fn observe(&self, _question: &Question) -> Seen {
        Seen::Unclear
    }

    /// Asks whether the operation was applied, and if not, never to apply what the scope says (sealable tools).
    async fn seal(&self, _question: &Question, _scope: SealScope) -> Seen {
        Seen::Unclear
    }
}

//! What can happen to an operation. Events carry everything that is not in the record: the time, random draws, replies.

use crate::record::{AttemptId, Epoch, Time, Verdict};

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// An event, as one process saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event<H> {
    /// When, by that process's clock.
    pub now: Time,
    /// That process's ownership: a dispatch that follows from the event is made under it.
    pub by: Epoch,
    /// A uniform random draw, for jitter.
    pub draw: u32,
    /// What happened.
    pub what: What<H>,
}

/// Whether a new operation is dispatched at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum Start {
    /// Created and dispatched in one durable write.
    Now,
    /// Only created: it is dispatched by a later [`What::Resume`].
    Later,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum What<H> {
    /// A caller asks for the operation (for the first time, or again).
    Call {
        /// Of the arguments that it asks with.
        fingerprint: H,
        /// Whether a new operation may be dispatched at once.
        start: Start,
    },
    /// The shell found the record at start-up, when its timer ran out, or when its owner died: take it further.
    Resume {
        /// The owner of a dispatched record is dead, or its lease has run out: take its place.
        take_over: bool,
        /// No process that held the latest dispatch can still put it on the wire: each is dead, or is the one that
        /// raises this event and has no send queued (rule 6).
        sender_done: bool,
        /// No other operation on the same resource has started since the first dispatch (idempotent tools).
        undisturbed: bool,
    },
    /// The tool answered an attempt.
    Reply {
        /// The attempt that the answer names.
        of: AttemptId,
        /// The answer.
        reply: Reply<H>,
    },
    /// An attempt's answer can't be waited for any longer.
    Lost {
        /// That attempt.
        of: AttemptId,
        /// Why.
        how: Loss,
    },
    /// The answer to [`Action::Observe`](crate::Action::Observe) or [`Action::Seal`](crate::Action::Seal).
    Observed {
        /// The attempt that was asked about, echoed.
        of: AttemptId,
        /// What was seen.
        observation: Observation<H>,
        /// Echoed from the action: whether "not applied" counts.
        conclusive: bool,
    },
    /// Transactional tools: the effect commits, in the transaction that this event's store is part of.
    Committed {
        /// The attempt that commits.
        of: AttemptId,
        /// The ownership that sent it.
        owner: Epoch,
        /// The result.
        result: H,
    },
    /// The alert for a person has been raised.
    Alerted,
    /// A person decides.
    Decide {
        /// As what it is to be settled.
        verdict: Verdict<H>,
        /// Nothing of it can be on its way any more; needed for "it did not happen" (rule 10) and for giving up.
        quiet: bool,
    },
    /// The caller wants it not to happen (rule 11).
    Cancel,
    /// An answer has reached a caller.
    Delivered {
        /// Which operation under the key it was the answer of.
        generation: u32,
        /// From when on it counts: later than now, if the caller may have given up before.
        from: Time,
    },
    /// Retention: forget the record if its time is over.
    Expire,
}

/// A tool's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum Reply<H> {
    /// It took effect.
    Result(H),
    /// It answered with an error.
    Error(ErrorClass, H),
}

/// What an error proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum ErrorClass {
    /// The tool did not run: the request was never sent, or was refused before the tool was reached.
    NotRun,
    /// The tool did not run now, but may when it is asked again: it could not be reached, or it is busy. Raise it after the
    /// wait that is due before the next attempt.
    Busy,
    /// Nothing, unless the tool declares its errors final: the effect may have come first.
    Unproven,
}

/// How an answer got lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum Loss {
    /// The time for an answer is over; a late one may still come.
    TimedOut,
    /// The connection or the tool's process ended.
    ConnectionLost,
}

/// How far a seal reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum SealScope {
    /// All attempts up to the one that the answer names.
    Attempts,
    /// The whole operation, for ever.
    Operation,
}

/// The answer of a reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum Observation<H> {
    /// The effect happened.
    Applied(H),
    /// No effect is to be seen.
    NotApplied,
    /// No effect happened, and the sealed attempts never will.
    Sealed(SealScope),
    /// Nothing can be concluded: the observer failed, or doesn't know.
    Unclear,
}

//! What the ledger stores of an operation.
//!
//! Fields are private: a record comes only from [`Policy::step`](crate::Policy::step) (or from a ledger that stored
//! one), so a state that the protocol never reaches can't be built by hand.

use core::{fmt, hash::Hash, num::NonZeroU32};

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// An opaque reference to data that the core never looks at (arguments, results, errors): a digest in the engine, one
/// byte in the model.
pub trait Handle: Copy + Eq + Ord + Hash + fmt::Debug {}
impl<T: Copy + Eq + Ord + Hash + fmt::Debug> Handle for T {}

/// A span of time in milliseconds.
pub type Millis = u64;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A point in time: milliseconds since the Unix epoch, by the clock of the process that raised the event.
    Time(u64)
}
number! {
    /// One ownership: the fencing token of a process that may dispatch. Never reused within a ledger.
    Epoch(u32)
}
number! {
    /// The compare-and-set version of a record. It grows by one with every store, and never restarts (rule 5).
    Version(u64)
}

impl Time {
    /// This time, `span` later. Saturates instead of overflowing.
    pub fn after(self, span: Millis) -> Time {
        Time(self.0.saturating_add(span))
    }

    /// Milliseconds since `earlier`; 0 if the clock went backwards.
    pub fn since(self, earlier: Time) -> Millis {
        self.0.saturating_sub(earlier.0)
    }
}

/// One dispatch of an operation to its tool, numbered from 1. Attempts only grow (rule 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Attempt(NonZeroU32);

impl Attempt {
    /// The first attempt of an operation.
    pub const FIRST: Attempt = Attempt(NonZeroU32::MIN);

    /// The attempt after this one. Saturates at `u32::MAX`, far beyond any retry budget.
    pub fn next(self) -> Attempt {
        Attempt(self.0.saturating_add(1))
    }

    /// Its number.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names one attempt among all that a key ever had: a reply, a seal's answer and an observation count only for the
/// attempt that they name (rule 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct AttemptId {
    /// Which operation under the key: see [`Record::generation`].
    pub generation: u32,
    /// The attempt within that operation.
    pub attempt: Attempt,
}

/// What is known of the latest dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Sent {
    pub(crate) attempt: Attempt,
    pub(crate) owner: Epoch,
    pub(crate) at: Time,
    pub(crate) first: Time,
    pub(crate) doubt: bool,
}

impl Sent {
    /// The attempt's number.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }
    /// The ownership under which it was sent.
    pub fn owner(&self) -> Epoch {
        self.owner
    }
    /// When this attempt was recorded as dispatched (its send follows).
    pub fn at(&self) -> Time {
        self.at
    }
    /// When the operation's first attempt was recorded as dispatched.
    pub fn first(&self) -> Time {
        self.first
    }
    /// Whether an earlier attempt of the operation may still apply (deduplicating and idempotent tools only).
    pub fn doubt(&self) -> bool {
        self.doubt
    }
}

/// Why an outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum Cause<H> {
    /// No answer came in time. The tool may still be at work.
    TimedOut,
    /// The connection, or the tool's process, ended before an answer came.
    ConnectionLost,
    /// An error came that can follow an effect.
    Error(H),
    /// An error came that is definite of itself, but another copy or attempt may still apply (rules 2 and 7).
    Refused(H),
    /// The process that had dispatched it is gone, and its answer with it.
    OwnerLost,
}

/// The definite outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum Outcome<H> {
    /// The effect happened; this is the result.
    Succeeded(H),
    /// No effect happened and none can happen any more; the tool's error, if there was one.
    Failed(Option<H>),
}

/// How an operation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum Verdict<H> {
    /// The effect happened once.
    Succeeded(H),
    /// It did not happen and never will.
    Failed(Option<H>),
    /// Given up, with the error that had left it open, if it was an error: by cancellation before it was sent, by a person, or because its error was delivered to a caller whose
    /// repeats are new wishes. Nothing is claimed about an effect, unless it was never sent.
    Abandoned(Option<H>),
}

impl<H> From<Outcome<H>> for Verdict<H> {
    fn from(outcome: Outcome<H>) -> Self {
        match outcome {
            Outcome::Succeeded(result) => Verdict::Succeeded(result),
            Outcome::Failed(error) => Verdict::Failed(error),
        }
    }
}

/// Where an operation is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum State<H> {
    /// The intent is durable; nothing was sent.
    Created,
    /// An attempt may have been sent.
    Dispatched(Sent),
    /// An attempt was sent, and whether it took effect can't be told now.
    Unknown {
        /// That attempt.
        sent: Sent,
        /// Why its outcome is unknown.
        cause: Cause<H>,
        /// How many observations have told nothing so far.
        checks: u32,
        /// Observable tools: since when no process can put the attempt on the wire any more, once that is known.
        quiet: Option<Time>,
    },
    /// Unknown, and handed to a person.
    Escalated {
        /// The attempt whose outcome is unknown.
        sent: Sent,
        /// Why.
        cause: Cause<H>,
    },
    /// The definite outcome is recorded; the operation is not yet closed.
    Confirmed {
        /// The attempt that it is the outcome of.
        sent: Sent,
        /// The outcome.
        outcome: Outcome<H>,
    },
    /// Final: replays answer from here until retention ends.
    Settled {
        /// How it ended.
        verdict: Verdict<H>,
        /// Its last attempt; none if it was never sent.
        sent: Option<Sent>,
        /// When it was settled.
        at: Time,
        /// From when on the answer counts as having reached a caller; that may lie ahead, while a caller may still have
        /// given up without saying so. `None`: it is not known to have reached anyone.
        delivered: Option<Time>,
    },
}

/// One operation's state in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Record<H> {
    pub(crate) version: Version,
    pub(crate) generation: u32,
    pub(crate) fingerprint: H,
    pub(crate) created: Time,
    pub(crate) state: State<H>,
}

impl<H: Handle> Record<H> {
    /// The version that the next store must name.
    pub fn version(&self) -> Version {
        self.version
    }
    /// Which operation under this key it is: a number that only grows, also over retention. A key that was derived from
    /// arguments serves a new operation after the last one has ended (see [`Repeat`](crate::Repeat)).
    pub fn generation(&self) -> u32 {
        self.generation
    }
    /// The fingerprint of the arguments.
    pub fn fingerprint(&self) -> H {
        self.fingerprint
    }
    /// When the intent was recorded.
    pub fn created(&self) -> Time {
        self.created
    }
    /// Where it is in its life.
    pub fn state(&self) -> &State<H> {
        &self.state
    }
    /// The latest dispatch, if there was one.
    pub fn sent(&self) -> Option<Sent> {
        match self.state {
            State::Created => None,
            State::Dispatched(sent)
            | State::Unknown { sent, .. }
            | State::Escalated { sent, .. }
            | State::Confirmed { sent, .. } => Some(sent),
            State::Settled { sent, .. } => sent,
        }
    }
    /// The name of the latest attempt, if there was one.
    pub fn attempt_id(&self) -> Option<AttemptId> {
        self.sent().map(|sent| AttemptId { generation: self.generation, attempt: sent.attempt })
    }
    /// The process that dispatched the attempt whose fate is still open.
    pub fn open_owner(&self) -> Option<Epoch> {
        match self.state {
            State::Dispatched(sent) => Some(sent.owner),
            _ => None,
        }
    }
    /// The same record with its owner renamed. For models: the core only ever compares owners for equality, so processes
    /// that are alike may be renamed to find states that are alike.
    pub fn with_owner(mut self, name: impl Fn(Epoch) -> Epoch) -> Self {
        match &mut self.state {
            State::Created => {}
            State::Dispatched(sent)
            | State::Unknown { sent, .. }
            | State::Escalated { sent, .. }
            | State::Confirmed { sent, .. } => sent.owner = name(sent.owner),
            State::Settled { sent, .. } => {
                if let Some(sent) = sent {
                    sent.owner = name(sent.owner);
                }
            }
        }
        self
    }
    /// Whether it is settled, with whatever verdict.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, State::Settled { .. })
    }
}

impl<H> State<H> {
    /// The state's name, as in the design and in every listing.
    pub fn name(&self) -> &'static str {
        match self {
            State::Created => "intent created",
            State::Dispatched(_) => "dispatched",
            State::Unknown { .. } => "unknown",
            State::Escalated { .. } => "escalated",
            State::Confirmed { .. } => "confirmed",
            State::Settled { .. } => "settled",
        }
    }
}

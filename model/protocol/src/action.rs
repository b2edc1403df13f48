//! What the shell must do, in order.

use core::fmt;

use crate::event::SealScope;
use crate::record::{AttemptId, Epoch, Handle, Record, Sent, Time, Version};

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action<H> {
    /// Store the record by compare-and-set. A barrier: nothing after it happens until it is durable; if it is refused,
    /// drop the rest, load the record and step the same event again.
    Store(Store<H>),
    /// Remove the record by compare-and-set on this version.
    Forget(Version),
    /// Send an attempt to the tool.
    Dispatch(Dispatch<H>),
    /// Ask the tool whether an attempt was applied.
    Observe {
        /// The attempt.
        of: AttemptId,
        /// Whether "not applied" will count: to be echoed in [`What::Observed`](crate::What::Observed).
        conclusive: bool,
    },
    /// Ask the tool whether the operation was applied, and if not, never to apply what the scope says.
    Seal {
        /// The latest attempt.
        of: AttemptId,
        /// How much to seal.
        scope: SealScope,
    },
    /// Answer everyone who waits for this operation.
    Answer(Answer<H>),
    /// No answer yet.
    Wait(Wait),
    /// Tell a person that this unknown is theirs; then raise [`What::Alerted`](crate::What::Alerted).
    Escalate,
    /// The event asks for what may not be done.
    Refuse(Refusal),
}

/// A compare-and-set to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Store<H> {
    /// The version that the ledger must hold now; `None`: no record at all.
    pub expected: Option<Version>,
    /// What to store.
    pub record: Record<H>,
}

/// Proof that a record is durable in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Durable<H> {
    version: Version,
    generation: u32,
    fingerprint: H,
}

impl<H: Handle> Durable<H> {
    /// For ledgers: attests that exactly this record was stored by compare-and-set and will survive a crash. Call it after
    /// the write was synced, never before: every `Dispatch` rests on it.
    pub fn attest(record: &Record<H>) -> Self {
        Durable { version: record.version, generation: record.generation, fingerprint: record.fingerprint }
    }
}

/// An attempt that may be sent once its record is durable: "intent first" as a matter of types. What to send is handed
/// out only against the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dispatch<H> {
    pub(crate) of: AttemptId,
    pub(crate) sent: Sent,
    pub(crate) rests_on: Durable<H>,
}

/// The proof is of another record than the one that this dispatch rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the dispatch rests on another write than the one that was proved durable: store its own record first")]
pub struct NotDurable;

impl<H: Handle> Dispatch<H> {
    pub(crate) fn new(record: &Record<H>, sent: Sent) -> Self {
        let of = AttemptId { generation: record.generation, attempt: sent.attempt };
        Dispatch { of, sent, rests_on: Durable::attest(record) }
    }

    /// The attempt that it is about.
    pub fn of(&self) -> AttemptId {
        self.of
    }

    /// The same dispatch with its owner renamed: see [`Record::with_owner`].
    pub fn with_owner(mut self, name: impl Fn(Epoch) -> Epoch) -> Self {
        self.sent.owner = name(self.sent.owner);
        self
    }

    /// The attempt to send, and the ownership to send it under.
    ///
    /// # Errors
    /// [`NotDurable`] if the proof is not that of this dispatch's own record.
    pub fn send(&self, proof: &Durable<H>) -> Result<(AttemptId, Sent), NotDurable> {
        if *proof == self.rests_on { Ok((self.of, self.sent)) } else { Err(NotDurable) }
    }
}

/// What a caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer<H> {
    /// It happened.
    Done {
        /// The first and only result.
        result: H,
        /// Whether it is told again, or to another caller than the one who started it.
        replayed: bool,
    },
    /// It did not happen and never will under this key: a licence to retry.
    Failed {
        /// The tool's error, if there was one.
        error: Option<H>,
        /// As above.
        replayed: bool,
    },
    /// Do not repeat this; its outcome is being established, or a person has been asked.
    Unknown {
        /// The error that left it open, if it was an error.
        error: Option<H>,
    },
    /// It is being carried out now.
    InProgress,
    /// The key was used with other arguments.
    Conflict,
    /// The key's record is no longer kept.
    Expired,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// The answer of the attempt under way.
    ForAttempt,
    /// This time: then raise [`What::Resume`](crate::What::Resume).
    Until(Time),
}

/// Why an event was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Only an unknown operation can be decided by a person.
    NotUnknown,
    /// "It did not happen" and "nobody will know" can't be said while something of it may still be on its way (rule 10).
    NotQuiet,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::NotUnknown => "its outcome is not unknown: it has one, or is still under way",
            Refusal::NotQuiet => {
                "an attempt of it may still be on its way, so nobody can say yet that it will not happen"
            }
        })
    }
}

/// Up to four actions, in order, without allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Actions<H> {
    items: [Option<Action<H>>; 4],
}

impl<H: Handle> Actions<H> {
    pub(crate) fn new() -> Self {
        Actions { items: [None; 4] }
    }

    pub(crate) fn of<const N: usize>(actions: [Action<H>; N]) -> Self {
        const { assert!(N <= 4) };
        let mut all = Actions::new();
        for (slot, action) in all.items.iter_mut().zip(actions) {
            *slot = Some(action);
        }
        all
    }

    /// This list with one more action before it. (Lists never hold more than three before that.)
    pub(crate) fn after(self, first: Action<H>) -> Self {
        let [a, b, c, _] = self.items;
        Actions { items: [Some(first), a, b, c] }
    }

    /// The actions in order.
    pub fn iter(&self) -> impl Iterator<Item = Action<H>> + '_ {
        self.items.iter().flatten().copied()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.items[0].is_none()
    }
}

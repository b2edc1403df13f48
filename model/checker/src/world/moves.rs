//! The moves of a world, by name. Which of them are possible is in `next`, what they lead to in `apply`.

use settled_explorer::Fault;

use crate::machine::Situation;

use super::{Message, Todo};

/// One move of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    /// A caller calls (a guard, or the tool itself): for the first time or again.
    Call {
        /// The logical call.
        call: u8,
        /// The guard that gets it; 0 if there is none.
        guard: u8,
        /// With which of its keys.
        key: u8,
        /// Why.
        why: Why,
    },
    /// A caller's process durably remembers that it was answered.
    Save {
        /// The logical call.
        call: u8,
    },
    /// A caller gives its call up, and says so.
    Cancel {
        /// The logical call.
        call: u8,
    },
    /// The callers' process is killed and starts again.
    CrashClient,
    /// A direct caller gets the tool's answer.
    Hear {
        /// The answer.
        reply: Message,
    },
    /// A guard does something by its own state machine: load, step, compare-and-set.
    Guard {
        /// The guard.
        guard: u8,
        /// About what.
        input: Input,
        /// What becomes of what it stores.
        storing: Storing,
    },
    /// A guard process is killed and started again.
    CrashGuard {
        /// The guard.
        guard: u8,
    },
    /// A guard's clock is set wrong.
    SetClock {
        /// The guard.
        guard: u8,
        /// By which way.
        ahead: bool,
        /// In the middle of a run.
        jump: bool,
    },
    /// Power fails: all guards die, and what was not synced is gone.
    PowerFails,
    /// The ledger's replica takes over, with what it has got.
    FailOver,
    /// A write becomes durable, or reaches the replica, after all.
    Sync {
        /// The key.
        key: u8,
    },
    /// A store forgets a key.
    Forget {
        /// The key.
        key: u8,
        /// The tool's memory rather than the ledger.
        tool: bool,
    },
    /// The tool gets a request.
    Apply {
        /// The request.
        request: Message,
        /// What becomes of it.
        how: How,
    },
    /// The tool ends its work on a request (effects that last).
    Finish {
        /// The request.
        working: Message,
        /// What becomes of its answer.
        how: How,
    },
    /// A message is lost on its way.
    Lose {
        /// The message.
        message: Message,
    },
    /// A request is delivered a second time.
    Duplicate {
        /// The request.
        request: Message,
    },
    /// The connection ends under a request that may still arrive.
    Cut {
        /// The request.
        request: Message,
    },
    /// The tool answers an observation or a seal.
    Look {
        /// The question.
        question: Message,
    },
    /// A unit of time passes.
    Tick,
    /// A person decides an unknown operation.
    Decide {
        /// The key.
        key: u8,
    },
}

/// What a guard's state machine is fed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A call.
    Take {
        /// The logical call.
        call: u8,
    },
    /// A record that it finds: after a restart, for a dead owner, or because it is unknown.
    Resume {
        /// The key.
        key: u8,
        /// Whether it takes over from an owner that may be alive.
        take_over: bool,
    },
    /// It has waited long enough for an attempt's answer.
    TimeOut {
        /// The key.
        key: u8,
    },
    /// An answer of the tool.
    Receive {
        /// The answer.
        reply: Message,
    },
    /// What it has yet to do.
    Go {
        /// What.
        todo: Todo,
        /// Whether an answer gets lost on its way to the caller.
        lost: bool,
    },
    /// It gives up what waits for its resource, unsent: its own, or what a dead process had waiting.
    GiveUp {
        /// The key.
        key: u8,
    },
    /// A settled record's time is over.
    Expire {
        /// The key.
        key: u8,
    },
}

/// What becomes of what a guard stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storing {
    /// It is stored.
    Works,
    /// The ledger can't be reached: nothing is stored.
    Unreachable,
    /// It is stored, but the guard doesn't learn of it.
    Unacknowledged,
    /// The disk is full: nothing is stored.
    Full,
    /// It can be read, but is not on disk, and the guard is told of an error.
    Unsynced,
    /// Power fails in its middle.
    Torn,
}

/// Why a caller calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// In this situation, by its own rules.
    It(Situation),
    /// While the same call is still being served.
    AtOnce,
    /// For the first time, with another logical call's key.
    KeyReused,
}

/// What becomes of a request at the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// It is carried out and answered.
    Answered,
    /// The tool dies before the effect.
    CrashBefore,
    /// The tool dies after the effect.
    CrashAfter,
    /// An error comes instead of the effect.
    ErrorBefore,
    /// An error comes after the effect.
    ErrorAfter,
    /// It is refused before the tool runs, and the error proves it.
    Rejected,
}

impl How {
    pub(crate) const FAULTS: [(How, Fault); 5] = [
        (How::CrashBefore, Fault::ToolCrashBefore),
        (How::CrashAfter, Fault::ToolCrashAfter),
        (How::ErrorBefore, Fault::ErrorBefore),
        (How::ErrorAfter, Fault::ErrorAfter),
        (How::Rejected, Fault::Rejection),
    ];
}

impl Storing {
    pub(crate) const FAULTS: [(Storing, Fault); 5] = [
        (Storing::Unreachable, Fault::LedgerPartition),
        (Storing::Unacknowledged, Fault::LedgerPartition),
        (Storing::Full, Fault::DiskFull),
        (Storing::Unsynced, Fault::SyncError),
        (Storing::Torn, Fault::TornWrite),
    ];
}

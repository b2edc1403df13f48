//! The three machines of a world: what a caller, a guard and a tool do. World, faults, properties and traces are the same
//! whatever they are: replace one to check a protocol of your own that a description can't express.

mod caller;
mod guard;
mod interned;
mod tool;

use std::fmt::Debug;
use std::hash::Hash;

use settled_protocol::{Answer, AttemptId, Epoch, ErrorClass, Event, Observation, SealScope, Time, Verdict};

pub use caller::DescribedCaller;
pub use guard::CoreGuard;
pub(crate) use interned::{GuardMachine, Id, Interned};
pub use tool::DescribedTool;

/// What stands between callers and tool: a state machine for each key, whose record the world's ledger keeps.
///
/// All methods must be pure. Attempts may be numbered up to 7, operations under a key up to 15; a world with more than
/// 65,535 different records, or in which anything else runs out of room, is reported as not finished.
pub trait Guard: Send + Sync {
    /// What it keeps in the ledger for one key. What a guard process remembers besides, the world keeps: who waits for an
    /// answer, and what is still to be done.
    type Record: Copy + Eq + Hash + Debug + Send + Sync;

    /// What it does about an event, given the key's record as it is in the ledger now. Load and compare-and-set are one
    /// move of the world, unless the description says `claim = "read-then-write"`.
    fn step(&self, record: Option<&Self::Record>, event: &Event<u8>) -> GuardStep<Self::Record>;

    /// What the world needs to know of a record.
    fn view(&self, record: &Self::Record) -> View;

    /// The same record with every owner in it renamed: guard processes are alike.
    fn with_owner(&self, record: &Self::Record, name: &dyn Fn(Epoch) -> Epoch) -> Self::Record;

    /// The record in words, for traces.
    fn say(&self, record: &Self::Record) -> String {
        format!("{record:?}")
    }
}

/// What a guard does about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardStep<R> {
    /// What it writes first. All that follows rests on this write.
    pub write: Write<R>,
    /// What it does then, in order.
    pub acts: Vec<Act>,
}

/// What a guard writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write<R> {
    /// Nothing.
    Nothing,
    /// This record.
    Put(R),
    /// It forgets the key.
    Forget,
}

/// One thing that a guard does. Sending, and telling after a write, are moves of their own: a crash can come before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// It sends an attempt to the tool.
    Send(AttemptId),
    /// It asks the tool whether an attempt was applied.
    Observe {
        /// The attempt.
        of: AttemptId,
        /// Whether "not applied" will count.
        conclusive: bool,
    },
    /// It asks the tool whether it was applied, and if not, never to apply it.
    Seal {
        /// The latest attempt.
        of: AttemptId,
        /// How much to seal.
        scope: SealScope,
    },
    /// It answers all who wait for the key, or the one who asks now.
    Answer(Answer<u8>),
    /// It tells whoever asks now that the operation is under way.
    Wait,
    /// It hands the operation to a person.
    Escalate,
}

/// What the world needs to know of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// Where it is in its life.
    pub stage: Stage,
    /// The latest attempt, if there was one; also once it has ended: `intent first` looks for it.
    pub attempt: Option<AttemptId>,
    /// Which operation under its key it is, from 1.
    pub generation: u32,
    /// The arguments that it was made for.
    pub arguments: u8,
    /// Whether it is settled so that the next call under its key begins a new operation.
    pub over: bool,
    /// The time that it waits for: before that, and only before that, it makes a difference what the time is.
    pub until: Option<Time>,
}

/// Where an operation is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Recorded, not sent.
    Created,
    /// Sent by this owner, or about to be.
    Dispatched(Epoch),
    /// Sent by this owner; its outcome is unknown. (`Epoch(0)`: nobody's, or a dead one's.)
    Unknown(Epoch),
    /// Handed to a person.
    Escalated,
    /// The outcome is recorded; it is not yet settled.
    Confirmed,
    /// Settled.
    Settled(Verdict<u8>),
}

/// The caller of one logical call. It must be pure.
///
/// There is room for as many keys of its own as `caller.calls` (one, if `caller.key` is `caller` and no new key follows a
/// failure), and for 15 calls, polls left out; where more are asked for, the world is reported as not finished.
pub trait Caller: Send + Sync {
    /// Whether it calls (again) in this situation, and with which of its keys: 0 is its first, 1 its second…
    fn calls(&self, situation: Situation, so_far: SoFar) -> Option<u8>;
}

/// What a caller finds itself in when it may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Situation {
    /// It has not called yet.
    First,
    /// It has waited long enough for an answer. While a guard still serves the call, that is the fault `concurrent-calls`
    /// (or, of the tool itself, `timeouts`).
    Silence,
    /// The connection ended without an answer.
    ConnectionLost,
    /// It was told that it failed.
    Failed,
    /// It was told that it happened; the step that called fails nonetheless and is run again: the fault `reruns`.
    Done,
    /// It was told that it is under way.
    InProgress,
    /// It has cancelled.
    Cancelled,
    /// Its process was killed and started again.
    Restarted,
}

/// What a caller has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SoFar {
    /// How often it has called, polls left out.
    pub calls: u8,
    /// The key that it used last; 255: another call's (`key-reuses`).
    pub key: u8,
    /// Units of time since its first call.
    pub since_first: u8,
}

/// What the tool does with what reaches it. Its answer to a crash, and whether an answer arrives, is the world's.
pub trait Tool: Send + Sync {
    /// What it makes of a request.
    fn request(&self, memory: &mut ToolMemory, asked: &Asked) -> Served;

    /// What it answers to a question. `Some` scope: it was asked to seal.
    fn question(&self, memory: &mut ToolMemory, of: AttemptId, seal: Option<SealScope>) -> Observation<u8>;

    /// Whether a request of this attempt, were it to arrive now, would take effect.
    fn can_apply(&self, memory: &ToolMemory, of: AttemptId) -> bool;

    /// What it remembers of a key besides its effect, in words, if anything: for traces.
    fn say(&self, memory: &ToolMemory) -> Option<String> {
        match (memory.sealed, memory.own) {
            (0, 0) => None,
            (u8::MAX, _) => Some("sealed for good".to_owned()),
            (0, own) => Some(format!("remembers {own}")),
            (sealed, _) => Some(format!("attempts up to {sealed} are sealed")),
        }
    }
}

/// What the tool durably remembers of one key. The world sets `effect` when an effect was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ToolMemory {
    /// The first effect made under the key, from 1; 0: none, or forgotten.
    pub effect: u8,
    /// When that was.
    pub since: u8,
    /// Attempts up to this one are sealed.
    pub sealed: u8,
    /// Whatever a tool of your own needs.
    pub own: u8,
}

/// A request at the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The attempt.
    pub of: AttemptId,
    /// Whether the last effect on the tool's resource was made for the same logical call.
    pub undisturbed: bool,
}

/// What a tool makes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It makes an effect.
    Apply,
    /// It makes none, and answers that all is well so far: with the result 0, which names no effect.
    Accept,
    /// It makes none, and answers with this earlier effect's result.
    Repeat(u8),
    /// It makes none, and answers with an error.
    Refuse(ErrorClass),
}

/// The machines of a world.
pub struct Machines<G> {
    /// What stands between callers and tool.
    pub guard: G,
    /// Each logical call's caller.
    pub caller: Box<dyn Caller>,
    /// The tool.
    pub tool: Box<dyn Tool>,
}

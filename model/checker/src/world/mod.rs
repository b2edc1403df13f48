//! A state of the world: callers, guard processes, ledger, network, tool, and what has been told and has happened.
//!
//! Everything that the properties need is kept in counters and bits; there is no history of events. How often each fault
//! may still happen is not part of it: the explorer keeps that.

mod apply;
mod futile;
mod ledger;
mod line;
mod moves;
mod network;
mod next;
mod packed;
mod properties;
mod rules;
mod say;
mod stored;
mod symmetry;
mod tell;
mod time;
mod tool;

use settled_protocol::{Answer, Attempt, AttemptId, Epoch};
use tinyvec::ArrayVec;

use crate::machine::{Id, ToolMemory};

pub use moves::{How, Input, Move, Storing, Why};
pub use network::{Asking, Message};
pub use packed::Packed;
pub use rules::Rules;
pub use say::call_name;

/// The owner written into records and messages once the process that it named is dead. Guard `g` owns as `g + 1`.
pub const DEAD: Epoch = Epoch(0);

/// How many of each thing a world has room for.
pub(crate) const CALLERS: usize = 3;
pub(crate) const GUARDS: usize = 3;
pub(crate) const KEYS: usize = crate::validate::MOST_KEYS as usize;
const MESSAGES: usize = 12;
const TODOS: usize = 8;
const EFFECTS: usize = 12;
/// How far a clock can be off: as far as all faults of clocks together can set it.
pub(crate) const CLOCK: i8 = 5;

/// The whole world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct World {
    /// One caller for each logical call.
    pub callers: [Caller; CALLERS],
    /// The guard processes.
    pub guards: [Guard; GUARDS],
    /// Everything that belongs to one key.
    pub keys: [KeyState; KEYS],
    /// Messages on their way.
    pub network: ArrayVec<[Packed; MESSAGES]>,
    /// Which logical call each effect was made for, in the order of effects.
    pub effects: ArrayVec<[u8; EFFECTS]>,
    /// Units of time since the beginning.
    pub now: u8,
    /// What was seen that must not be.
    pub wrongs: Wrongs,
}

/// The caller of one logical call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    /// How often it has called, polls left out.
    pub calls: u8,
    /// Which of its keys it uses; [`Caller::REUSED`]: the first caller's.
    pub key: u8,
    /// When it first called.
    pub since: u8,
    /// How often its call was sent to the tool (counted only where there is a budget).
    pub sends: u8,
    /// What it is doing.
    pub phase: Phase,
    /// Whether its process durably remembers that it was answered.
    pub saved: bool,
}

impl Caller {
    /// Its key is the first caller's.
    pub const REUSED: u8 = u8::MAX;
}

/// What a caller is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It has not called yet.
    #[default]
    Idle,
    /// It waits for an answer from this guard (or from the tool itself).
    Waiting {
        /// The guard.
        at: u8,
    },
    /// It was told this.
    Told(Heard),
    /// It has given its call up.
    Cancelled,
    /// Its process has started again, and knows nothing of an answer.
    Restarted,
}

/// What a caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heard {
    /// It happened; the result names an effect.
    Done(u8),
    /// It did not happen and never will.
    Failed,
    /// Not known.
    Unknown,
    /// It is under way.
    InProgress,
    /// Other arguments.
    Conflict,
    /// The connection ended without an answer (direct callers).
    ConnectionLost,
}

/// A guard process's memory: what a crash wipes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Guard {
    /// Logical calls that have arrived here and were not looked at yet, as bits.
    pub arrived: u8,
    /// Logical calls that wait for an answer here, as bits.
    pub waiting: u8,
    /// How far its clock is ahead. (A crash does not mend it.)
    pub clock: i8,
    /// What it has yet to do, sorted by key.
    pub todo: ArrayVec<[Packed; TODOS]>,
}

impl Guard {
    /// What it has yet to do: for each key in order, between keys in any.
    pub fn todos(&self) -> impl Iterator<Item = Todo> {
        self.todo.iter().map(|todo| Todo::from(*todo))
    }
}

/// One thing that a guard has yet to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Todo {
    /// For which key.
    pub key: u8,
    /// What.
    pub what: Do,
}

/// What a guard has yet to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Do {
    /// Send an attempt.
    Send(Of),
    /// Answer those who wait, about this operation under the key.
    Answer(Answer<u8>, u8),
    /// Alert a person.
    #[default]
    Alert,
    /// Dispatch what it has found to be first in its resource's line.
    Begin,
    /// Note that the answer about this operation under the key was delivered.
    NoteDelivery(u8),
    /// Write what follows from a record as it was read some time ago (`claim = "read-then-write"`).
    Write {
        /// The logical call that is served; `u8::MAX`: none, the record was found.
        call: u8,
        /// The record that was read.
        read: Option<Id>,
    },
}

/// An attempt, by number and by operation under its key: both from 1, and small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Of {
    /// Which operation under the key.
    pub generation: u8,
    /// Which attempt of it.
    pub attempt: u8,
}

impl Of {
    /// Its bit: four attempts for each of the first four operations under a key; what lies beyond shares a bit.
    pub fn bit(self) -> u16 {
        1 << ((self.generation.clamp(1, 4) - 1) * 4 + self.attempt.clamp(1, 4) - 1)
    }

    /// The bits of all attempts of one operation under a key.
    pub fn bits_of_operation(generation: u8) -> u16 {
        (1..=4).fold(0, |all, attempt| all | Of { generation, attempt }.bit())
    }

    /// Whether a message has room for it.
    pub(crate) fn has_room(self) -> bool {
        self.generation <= 15 && self.attempt <= 7
    }
}

impl From<AttemptId> for Of {
    fn from(of: AttemptId) -> Of {
        let small = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
        Of { generation: small(of.generation), attempt: small(of.attempt.get()) }
    }
}

impl From<Of> for AttemptId {
    fn from(of: Of) -> AttemptId {
        let attempt = (1..of.attempt).fold(Attempt::FIRST, |attempt, _| attempt.next());
        AttemptId { generation: of.generation.into(), attempt }
    }
}

/// Everything that belongs to one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyState {
    /// The record as the guards see it.
    pub record: Option<Id>,
    /// The record as it would be found after power failed, or on the replica.
    pub durable: Option<Id>,
    /// The first definite answer told for the key (in its current operation).
    pub first_told: Option<Definite>,
    /// The attempts of which a caller was told that they failed, as bits (see [`Of::bit`]).
    pub told_failed: u16,
    /// The attempts that have taken effect, as bits.
    pub applied: u16,
    /// Whether a record under this key was forgotten.
    pub forgotten: bool,
    /// For which logical call its operation is: that whose step began it. (Kept only where the key doesn't tell.)
    pub call: u8,
    /// Its operation's place in its resource's line; 0: none.
    pub place: u8,
    /// Who put it there, from 1; 0: a process that has died, or nobody.
    pub by: u8,
    /// The first effect made under the key, from 1, whatever the tool remembers of it; 0: none.
    pub made: u8,
    /// What the tool remembers under the key.
    pub memory: ToolMemory,
}

/// A definite answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Definite {
    /// It happened; the result names an effect.
    Done(u8),
    /// It did not happen and never will.
    Failed,
}

/// Violations that are seen at the moment of an event rather than in a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wrongs {
    /// Told `done` without an effect.
    pub phantom: bool,
    /// Two different answers under one key, or an answer to other arguments.
    pub unfaithful: bool,
    /// One effect told to two logical calls.
    pub suppressed: bool,
    /// An effect without a durable record from before its send.
    pub unrecorded: bool,
    /// Two effects on one resource at once.
    pub overlapped: bool,
    /// An effect for a call whose record had been forgotten.
    pub slipped_in: bool,
    /// The world had no room for something: what follows is not explored, and verdicts are not final.
    pub overflowed: bool,
}

impl World {
    /// The world before anything has happened.
    pub fn initial() -> World {
        World {
            callers: Default::default(),
            guards: Default::default(),
            keys: Default::default(),
            network: ArrayVec::new(),
            effects: ArrayVec::new(),
            now: 0,
            wrongs: Wrongs::default(),
        }
    }

    /// How many effects one logical call has had.
    pub fn effects_of(&self, call: u8) -> usize {
        self.effects.iter().filter(|of| **of == call).count()
    }

    /// The owner's guard, if it is alive.
    pub fn guard_of(owner: Epoch) -> Option<u8> {
        (owner != DEAD).then(|| (owner.0 - 1) as u8)
    }

    /// A guard's name as an owner.
    pub fn owner(guard: u8) -> Epoch {
        Epoch(u32::from(guard) + 1)
    }

    /// The messages on their way.
    pub fn messages(&self) -> impl Iterator<Item = Message> {
        self.network.iter().map(|message| Message::from(*message))
    }

    /// Gives a guard something to do. It does one thing after the other for each key; between keys there is no order.
    pub(crate) fn push_todo(&mut self, guard: u8, todo: Todo) {
        let queue = &mut self.guards[usize::from(guard)].todo;
        if queue.len() == TODOS {
            self.wrongs.overflowed = true;
            return;
        }
        let at = queue.partition_point(|other| other.key_of_todo() <= todo.key);
        queue.insert(at, todo.into());
    }
}

//! A state of the world: callers, guard processes, ledger, network, tool, and what has been told and has happened.
//!
//! Everything that the properties need is kept in counters and bits; there is no history of events.

use settled_protocol::{Action, Attempt, AttemptId, Durable, Epoch, Record, Reply};

use crate::description::{Description, Faults, KeySource};

/// The owner written into records and messages once the process that it named is dead. Guard `g` owns as `g + 1`.
pub const DEAD: Epoch = Epoch(0);

/// The whole world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// One caller for each logical call.
    pub callers: Vec<Caller>,
    /// The guard processes.
    pub guards: Vec<Guard>,
    /// Everything that belongs to one key.
    pub keys: Vec<KeyState>,
    /// Messages on their way, sorted: any of them may come next, or never.
    pub network: Vec<Message>,
    /// Which logical call each effect was made for, in the order of effects.
    pub effects: Vec<u8>,
    /// Time in units of the tool's settling time.
    pub now: u8,
    /// How often each fault may still happen.
    pub left: Faults,
    /// What was seen that must not be.
    pub wrongs: Wrongs,
}

/// The caller of one logical call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// How often it has called.
    pub calls: u8,
    /// Which of its keys it uses.
    pub mint: u8,
    /// What it is doing.
    pub phase: Phase,
}

/// What a caller is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It has not called yet.
    Idle,
    /// It waits for an answer from this guard (or from the tool itself).
    Waiting {
        /// The guard.
        at: u8,
    },
    /// It was told this.
    Told(Heard),
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
    /// Other arguments.
    Conflict,
    /// The connection ended without an answer (direct callers).
    ConnectionLost,
}

/// A guard process's memory: what a crash wipes out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Guard {
    /// Logical calls that wait for an answer here, as bits.
    pub calls: u8,
    /// What the core has told it to do after a durable write, in order.
    pub todo: Vec<Todo>,
}

/// One thing that a guard has yet to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Todo {
    /// For which key.
    pub key: u8,
    /// What.
    pub action: Action<u8>,
    /// The ledger's word that the write it rests on is durable.
    pub proof: Option<Durable<u8>>,
}

/// Everything that belongs to one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyState {
    /// The record as the guards see it.
    pub record: Option<Record<u8>>,
    /// The record as it would be found after a crash.
    pub durable: Option<Record<u8>>,
    /// The first definite answer told for the key.
    pub first_told: Option<Heard>,
    /// The attempts of which a caller was told that they failed, as bits (see [`bit`]).
    pub told_failed: u8,
    /// The attempts that have taken effect, as bits.
    pub applied: u8,
    /// The effect that the tool remembers under the key.
    pub remembered: Option<u8>,
    /// Attempts up to this one are sealed at the tool.
    pub sealed: u8,
}

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// An attempt on its way to the tool.
    Request {
        /// Its key (for a direct caller: the logical call).
        key: u8,
        /// For which logical call.
        call: u8,
        /// The attempt.
        of: AttemptId,
        /// Who sent it.
        owner: Epoch,
        /// Whether a durable record told of it when it was sent.
        recorded: bool,
    },
    /// The tool's answer.
    Reply {
        /// The key.
        key: u8,
        /// The attempt.
        of: AttemptId,
        /// To whom.
        to: Epoch,
        /// The answer; `None`: the connection ended.
        reply: Option<Reply<u8>>,
    },
    /// An observation or a seal on its way to the tool.
    Question {
        /// The key.
        key: u8,
        /// What is asked.
        action: Action<u8>,
        /// By whom.
        from: Epoch,
    },
    /// Its answer.
    Seen {
        /// The key.
        key: u8,
        /// The attempt that was asked about.
        of: AttemptId,
        /// What was seen.
        observation: settled_protocol::Observation<u8>,
        /// Echoed.
        conclusive: bool,
        /// To whom.
        to: Epoch,
    },
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
}

/// An attempt's bit: three attempts for each of the first operations under a key; what lies beyond shares the last bit.
pub fn bit(of: AttemptId) -> u8 {
    1 << ((of.generation - 1) * 3 + of.attempt.get() - 1).min(7)
}

/// The bits of all attempts of one operation under a key.
pub fn bits_of_generation(generation: u32) -> u8 {
    (1..=3).map(|n| bit(AttemptId { generation, attempt: nth_attempt(n) })).fold(0, |all, one| all | one)
}

/// The attempt with this number.
pub fn nth_attempt(n: u8) -> Attempt {
    (1..n).fold(Attempt::FIRST, |attempt, _| attempt.next())
}

impl World {
    /// The world before anything has happened.
    pub fn initial(description: &Description) -> World {
        let operations = usize::from(description.caller.operations);
        let keys = match description.caller.key {
            _ if description.is_direct() => operations,
            KeySource::Caller | KeySource::PerCall => operations * usize::from(description.caller.calls),
            KeySource::Arguments => operations,
            KeySource::Reused => 1,
        };
        World {
            callers: vec![Caller { calls: 0, mint: 0, phase: Phase::Idle }; operations],
            guards: vec![Guard::default(); usize::from(description.guard.processes)],
            keys: vec![KeyState::default(); keys],
            network: Vec::new(),
            effects: Vec::new(),
            now: 0,
            left: description.faults,
            wrongs: Wrongs::default(),
        }
    }

    /// How many effects one logical call has had.
    pub fn effects_of(&self, call: u8) -> usize {
        self.effects.iter().filter(|of| **of == call).count()
    }

    /// Puts a message on its way. The network is kept sorted, so that equal sets of messages are equal states.
    pub fn send(&mut self, message: Message) {
        let at = self.network.partition_point(|other| order(other) <= order(&message));
        self.network.insert(at, message);
    }

    /// The owner's guard, if it is alive.
    pub fn guard_of(owner: Epoch) -> Option<usize> {
        (owner != DEAD).then(|| owner.0 as usize - 1)
    }

    /// The same world with its guard processes renamed: guard `i` becomes `names[i]`.
    pub fn rename_guards(&self, names: &[u8]) -> World {
        let mut world = self.clone();
        for (old, new) in names.iter().enumerate() {
            world.guards[usize::from(*new)] = self.guards[old].clone();
        }
        world.map_owners(|owner| match World::guard_of(owner) {
            Some(guard) => Epoch(u32::from(names[guard]) + 1),
            None => DEAD,
        });
        world
    }

    /// Rewrites every mention of an owner.
    pub fn map_owners(&mut self, name: impl Fn(Epoch) -> Epoch) {
        for key in &mut self.keys {
            for record in [&mut key.record, &mut key.durable].into_iter().flatten() {
                *record = record.with_owner(&name);
            }
        }
        for guard in &mut self.guards {
            for todo in &mut guard.todo {
                if let Action::Dispatch(dispatch) = &mut todo.action {
                    *dispatch = dispatch.with_owner(&name);
                }
            }
        }
        for caller in &mut self.callers {
            if let Phase::Waiting { at } = &mut caller.phase {
                let owner = name(Epoch(u32::from(*at) + 1));
                // A caller goes on waiting for a process that died: to it, the name still stands.
                if let Some(guard) = World::guard_of(owner) {
                    *at = guard as u8;
                }
            }
        }
        for message in &mut self.network {
            match message {
                Message::Request { owner, .. } => *owner = name(*owner),
                Message::Reply { to, .. } | Message::Seen { to, .. } => *to = name(*to),
                Message::Question { from, .. } => *from = name(*from),
            }
        }
        self.network.sort_by_key(order);
    }
}

/// A total order of messages: any will do, as long as it is one.
fn order(message: &Message) -> (u8, u8, u32, u32, u32, u8) {
    match *message {
        Message::Request { key, call, of, owner, recorded } => {
            (0, key, of.generation, of.attempt.get(), owner.0, call << 1 | u8::from(recorded))
        }
        Message::Reply { key, of, to, reply } => {
            let content = match reply {
                None => 0,
                Some(Reply::Result(result)) => 3 + result,
                Some(Reply::Error(class, _)) => 1 + class as u8,
            };
            (1, key, of.generation, of.attempt.get(), to.0, content)
        }
        Message::Question { key, action, from } => {
            let (of, content) = match action {
                Action::Observe { of, conclusive } => (of, u8::from(conclusive)),
                Action::Seal { of, scope } => (of, 2 + scope as u8),
                // Nothing else is ever asked.
                _ => return (2, key, 0, 0, from.0, 0),
            };
            (2, key, of.generation, of.attempt.get(), from.0, content)
        }
        Message::Seen { key, of, observation, conclusive, to } => {
            use settled_protocol::Observation::{Applied, NotApplied, Sealed, Unclear};
            let content = match observation {
                Unclear => 0,
                NotApplied => 1,
                Sealed(scope) => 2 + scope as u8,
                Applied(result) => 4 + result,
            };
            (3, key, of.generation, of.attempt.get(), to.0, content << 1 | u8::from(conclusive))
        }
    }
}

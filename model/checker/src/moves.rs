//! What can happen next in a world.
//!
//! Each durable write, each send, each effect and each answer is a move of its own, so a crash can fall between any two of
//! them. What a move leads to is in `apply`.

use settled_protocol::{AttemptId, Epoch, Policy, State};

use crate::description::{AfterSilence, Description, Intent, KeySource, Kind};
use crate::world::{Caller, DEAD, Heard, Message, Phase, Todo, World};

/// One move of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    /// A caller calls (a guard, or the tool itself): for the first time or again.
    Call {
        /// The logical call.
        call: u8,
        /// The guard that gets it; 0 if there is none.
        guard: u8,
        /// Why.
        why: Why,
    },
    /// A guard takes up a call: load, step, compare-and-set.
    Take {
        /// The guard.
        guard: u8,
        /// The logical call.
        call: u8,
    },
    /// A guard does the next thing that the core has told it to do for a key.
    Do {
        /// The guard.
        guard: u8,
        /// What.
        todo: Todo,
    },
    /// A guard looks at a record again: after a restart, for a dead owner, or because it is unknown.
    Resume {
        /// The guard.
        guard: u8,
        /// The key.
        key: u8,
        /// Whether it takes over from an owner that is alive.
        take_over: bool,
    },
    /// A guard stops waiting for an attempt's answer.
    TimeOut {
        /// The guard.
        guard: u8,
        /// The key.
        key: u8,
    },
    /// A guard process is killed and started again.
    CrashGuard {
        /// The guard.
        guard: u8,
    },
    /// A volatile write becomes durable after all.
    Sync {
        /// The key.
        key: u8,
    },
    /// The tool gets a request.
    Apply {
        /// The request.
        request: Message,
        /// What becomes of it.
        how: How,
    },
    /// A request is lost on its way.
    LoseRequest {
        /// The request.
        request: Message,
    },
    /// A request is delivered a second time.
    Duplicate {
        /// The request.
        request: Message,
    },
    /// An answer or an observation arrives.
    Receive {
        /// The answer.
        reply: Message,
    },
    /// An answer is lost on its way.
    LoseReply {
        /// The answer.
        reply: Message,
    },
    /// The tool answers an observation or a seal.
    Look {
        /// The question.
        question: Message,
    },
    /// The tool's settling time passes.
    Tick,
    /// A person decides an unknown operation.
    Decide {
        /// The key.
        key: u8,
    },
}

/// Why a caller calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// It wants the operation.
    First,
    /// It has waited long enough.
    Silence,
    /// The connection ended without an answer.
    ConnectionLost,
    /// It was told that it failed.
    Failed,
    /// It lost the answer that it had got, and runs its step again.
    Rerun,
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

/// The rules of one world.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The protocol.
    pub description: Description,
    /// The core's policy for its guard.
    pub(crate) policy: Policy,
}

impl Rules {
    /// The rules of a protocol.
    pub fn new(description: Description) -> Rules {
        let policy = description.policy();
        Rules { description, policy }
    }

    /// Which key a caller's call has now.
    pub fn key_of(&self, call: u8, caller: &Caller) -> u8 {
        let rules = &self.description.caller;
        match rules.key {
            _ if self.description.is_direct() => call,
            KeySource::Caller | KeySource::PerCall => call * rules.calls + caller.mint,
            KeySource::Arguments => self.arguments_of(call),
            KeySource::Reused => 0,
        }
    }

    /// The arguments of a logical call.
    pub fn arguments_of(&self, call: u8) -> u8 {
        if self.description.caller.same_arguments { 0 } else { call }
    }

    /// Everything that may happen next.
    pub fn moves(&self, world: &World, moves: &mut Vec<Move>) {
        // The order decides which of several shortest runs is shown: those in which the tool is quick read best.
        self.network_moves(world, moves);
        for guard in 0..world.guards.len() as u8 {
            self.guard_moves(world, guard, moves);
        }
        self.caller_moves(world, moves);
        for (key, state) in (0u8..).zip(&world.keys) {
            if self.description.guard.intent == Intent::Volatile && state.record != state.durable {
                moves.push(Move::Sync { key });
            }
            if world.left.decisions > 0
                && let Some(record) = state.record
                && matches!(record.state(), State::Unknown { .. } | State::Escalated { .. })
            {
                moves.push(Move::Decide { key });
            }
        }
        if self.may_tick(world) {
            moves.push(Move::Tick);
        }
    }

    fn caller_moves(&self, world: &World, moves: &mut Vec<Move>) {
        let rules = &self.description.caller;
        for (call, caller) in (0u8..).zip(&world.callers) {
            let again = caller.calls < rules.calls;
            let retries = again && rules.after_silence == AfterSilence::Retry;
            let why = match caller.phase {
                Phase::Idle => Why::First,
                Phase::Waiting { .. } if retries && self.may_give_up(world, call) => Why::Silence,
                Phase::Told(Heard::ConnectionLost) if retries => Why::ConnectionLost,
                Phase::Told(Heard::Failed) if again && rules.after_failed == AfterSilence::Retry => Why::Failed,
                Phase::Told(Heard::Done(_)) if again && world.left.reruns > 0 => Why::Rerun,
                _ => continue,
            };
            for guard in 0..world.guards.len().max(1) as u8 {
                moves.push(Move::Call { call, guard, why });
            }
        }
    }

    /// A direct caller's impatience is a fault with a bound, unless nothing can answer it any more.
    fn may_give_up(&self, world: &World, call: u8) -> bool {
        !self.description.is_direct()
            || world.left.timeouts > 0
            || !world.network.iter().any(|message| message.key() == call)
    }

    fn guard_moves(&self, world: &World, guard: u8, moves: &mut Vec<Move>) {
        let me = Epoch(u32::from(guard) + 1);
        let state = &world.guards[usize::from(guard)];
        for call in 0..world.callers.len() as u8 {
            if state.calls & (1 << call) != 0 {
                moves.push(Move::Take { guard, call });
            }
        }
        for (at, todo) in state.todo.iter().enumerate() {
            if !state.todo[..at].iter().any(|earlier| earlier.key == todo.key) {
                moves.push(Move::Do { guard, todo: *todo });
            }
        }
        let mut holds_something = state.calls != 0 || !state.todo.is_empty();
        for (key, entry) in (0u8..).zip(&world.keys) {
            let Some(record) = entry.record else { continue };
            let busy = state.todo.iter().any(|todo| todo.key == key);
            let asking = world.network.iter().any(|message| message.asks_for(key, me));
            match record.state() {
                State::Created | State::Confirmed { .. } if !busy => {
                    moves.push(Move::Resume { guard, key, take_over: false });
                }
                State::Unknown { .. } if !busy && !asking => {
                    moves.push(Move::Resume { guard, key, take_over: false });
                }
                State::Dispatched(sent) if sent.owner() == me => {
                    holds_something = true;
                    let answerable = world.network.iter().any(|message| message.may_answer(key, record.attempt_id()));
                    if !busy && (!answerable || world.left.timeouts > 0) {
                        moves.push(Move::TimeOut { guard, key });
                    }
                }
                State::Dispatched(sent) if sent.owner() == DEAD && !busy => {
                    moves.push(Move::Resume { guard, key, take_over: true });
                }
                State::Dispatched(_) if world.left.takeovers > 0 && !busy => {
                    moves.push(Move::Resume { guard, key, take_over: true });
                }
                _ => {}
            }
            holds_something |= asking || entry.record != entry.durable;
        }
        if world.left.guard_crashes > 0 && holds_something {
            moves.push(Move::CrashGuard { guard });
        }
    }

    fn network_moves(&self, world: &World, moves: &mut Vec<Move>) {
        let left = world.left;
        let mut last = None;
        for message in &world.network {
            if last == Some(*message) {
                continue;
            }
            last = Some(*message);
            match *message {
                Message::Request { .. } => {
                    let request = *message;
                    let mut apply = |how, allowed| {
                        if allowed {
                            moves.push(Move::Apply { request, how });
                        }
                    };
                    apply(How::Answered, true);
                    apply(How::CrashBefore, left.tool_crashes_before > 0);
                    apply(How::CrashAfter, left.tool_crashes_after > 0);
                    apply(How::ErrorBefore, left.errors_before > 0);
                    apply(How::ErrorAfter, left.errors_after > 0);
                    apply(How::Rejected, left.rejections > 0);
                    if left.lost_requests > 0 {
                        moves.push(Move::LoseRequest { request });
                    }
                    if left.duplicates > 0 {
                        moves.push(Move::Duplicate { request });
                    }
                }
                Message::Reply { .. } => {
                    moves.push(Move::Receive { reply: *message });
                    if left.lost_replies > 0 {
                        moves.push(Move::LoseReply { reply: *message });
                    }
                }
                Message::Question { .. } => moves.push(Move::Look { question: *message }),
                Message::Seen { .. } => moves.push(Move::Receive { reply: *message }),
            }
        }
    }

    /// Time matters only to observable tools. It passes only when no request is on its way: that is what "settling
    /// time" means.
    fn may_tick(&self, world: &World) -> bool {
        self.description.tool.kind == Kind::Observable
            && world.now < 2 * self.description.tool.attempts
            && !world.network.iter().any(|message| matches!(message, Message::Request { .. }))
            && world
                .keys
                .iter()
                .filter_map(|key| key.record)
                .any(|record| matches!(record.state(), State::Dispatched(_) | State::Unknown { .. }))
    }
}

impl Message {
    /// The key that it is about.
    pub fn key(&self) -> u8 {
        match *self {
            Message::Request { key, .. }
            | Message::Reply { key, .. }
            | Message::Question { key, .. }
            | Message::Seen { key, .. } => key,
        }
    }

    /// Whether it may still lead to an answer of this attempt.
    pub(crate) fn may_answer(&self, key: u8, attempt: Option<AttemptId>) -> bool {
        match *self {
            Message::Request { key: its, of, .. } | Message::Reply { key: its, of, .. } => {
                its == key && Some(of) == attempt
            }
            Message::Question { .. } | Message::Seen { .. } => false,
        }
    }

    /// Whether this owner has a question about the key under way.
    fn asks_for(&self, key: u8, me: Epoch) -> bool {
        match *self {
            Message::Question { key: its, from: who, .. } | Message::Seen { key: its, to: who, .. } => {
                its == key && who == me
            }
            Message::Request { .. } | Message::Reply { .. } => false,
        }
    }
}

//! What can happen next in a world, and what it leads to.
//!
//! A guard's part of every move is the core's own `step`: this file only carries messages, keeps the ledger, plays the
//! tool, and lets faults happen. Each durable write, each send, each effect and each answer is a move of its own, so a
//! crash can fall between any two of them. Load and compare-and-set are one move, so a compare-and-set never fails here;
//! what would make it fail has changed the record before the load.

use settled_protocol::{
    Action, Answer, AttemptId, Dispatch, Durable, Ends, Epoch, ErrorClass, Event, Loss, Observation, Policy, Reply,
    SealScope, Start, State, Store, Time, Verdict, What,
};

use crate::description::{AfterSilence, Description, Faults, Intent, KeySource, Kind, StartRule};
use crate::world::{Caller, DEAD, Heard, KeyState, Message, Phase, Todo, World, bit, bits_of_generation, nth_attempt};

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
    policy: Policy,
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

    /// The world after a move; `None` if the move changes nothing.
    pub fn apply(&self, before: &World, what: Move) -> Option<World> {
        let mut world = before.clone();
        match what {
            Move::Call { call, guard, why } => self.call(&mut world, call, guard, why),
            Move::Take { guard, call } => {
                let key = self.key_of(call, &world.callers[usize::from(call)]);
                let start = match self.description.guard.start {
                    StartRule::OneWrite => Start::Now,
                    StartRule::TwoWrites => Start::Later,
                };
                let what = What::Call { fingerprint: self.arguments_of(call), start };
                self.guard_step(&mut world, guard, key, what, Some(call));
            }
            Move::Do { guard, todo } => self.carry_on(&mut world, guard, todo),
            Move::Resume { guard, key, take_over } => {
                if take_over && self.owner(&world, key) != Some(DEAD) {
                    world.left.takeovers -= 1;
                }
                let owner = world.keys[usize::from(key)].record.and_then(|record| record.sent()).map(|s| s.owner());
                let sender_done = owner == Some(DEAD) || owner == Some(Epoch(u32::from(guard) + 1));
                let what = What::Resume { take_over, sender_done, undisturbed: false };
                self.guard_step(&mut world, guard, key, what, None);
            }
            Move::TimeOut { guard, key } => {
                let of = world.keys[usize::from(key)].record?.attempt_id()?;
                if world.network.iter().any(|message| message.may_answer(key, Some(of))) {
                    world.left.timeouts -= 1;
                }
                self.guard_step(&mut world, guard, key, What::Lost { of, how: Loss::TimedOut }, None);
            }
            Move::CrashGuard { guard } => crash(&mut world, guard),
            Move::Sync { key } => {
                let key = &mut world.keys[usize::from(key)];
                key.durable = key.record;
            }
            Move::Apply { request, how } => {
                world.take(&request);
                self.at_the_tool(&mut world, request, how);
            }
            Move::LoseRequest { request } => {
                world.left.lost_requests -= 1;
                world.take(&request);
            }
            Move::Duplicate { request } => {
                world.left.duplicates -= 1;
                world.send(request);
            }
            Move::Receive { reply } => {
                world.take(&reply);
                self.receive(&mut world, reply);
            }
            Move::LoseReply { reply } => {
                world.left.lost_replies -= 1;
                world.take(&reply);
            }
            Move::Look { question } => {
                world.take(&question);
                look(&mut world, question);
            }
            Move::Tick => world.now += 1,
            Move::Decide { key } => self.decide(&mut world, key),
        }
        self.forget_what_cannot_matter(&mut world);
        (world != *before).then_some(world)
    }

    /// Drops answers to operations that have ended, if the core itself says that they change nothing: worlds that differ
    /// only in those are one.
    fn forget_what_cannot_matter(&self, world: &mut World) {
        if self.description.is_direct() || self.policy.repeat.ends != Ends::WithWindow {
            return;
        }
        let World { network, keys, now, .. } = world;
        network.retain(|message| {
            let Some(record) = keys[usize::from(message.key())].record.filter(|record| record.is_settled()) else {
                return true;
            };
            let (what, by) = match *message {
                Message::Request { .. } => return true,
                Message::Question { from, .. } => {
                    (What::Resume { take_over: false, sender_done: true, undisturbed: false }, from)
                }
                Message::Reply { of, to, reply: Some(reply), .. } => (What::Reply { of, reply }, to),
                Message::Reply { of, to, reply: None, .. } => (What::Lost { of, how: Loss::ConnectionLost }, to),
                Message::Seen { of, observation, conclusive, to, .. } => {
                    (What::Observed { of, observation, conclusive }, to)
                }
            };
            let event = Event { now: Time((*now).into()), by, draw: 0, what };
            !self.policy.step(Some(&record), &event).actions.is_empty()
        });
    }

    fn owner(&self, world: &World, key: u8) -> Option<Epoch> {
        world.keys[usize::from(key)].record.and_then(|record| record.open_owner())
    }

    fn call(&self, world: &mut World, call: u8, guard: u8, why: Why) {
        let waits = world.network.iter().any(|message| message.key() == call);
        let caller = &mut world.callers[usize::from(call)];
        match why {
            Why::Silence if self.description.is_direct() && waits => world.left.timeouts -= 1,
            Why::Rerun => world.left.reruns -= 1,
            Why::Failed if self.description.caller.key == KeySource::Caller => caller.mint += 1,
            _ => {}
        }
        if self.description.caller.key == KeySource::PerCall {
            caller.mint = caller.calls;
        }
        caller.calls += 1;
        caller.phase = Phase::Waiting { at: guard };
        if self.description.is_direct() {
            let of = AttemptId { generation: 1, attempt: nth_attempt(caller.calls) };
            world.send(Message::Request { key: call, call, of, owner: DEAD, recorded: false });
        } else {
            world.guards[usize::from(guard)].calls |= 1 << call;
        }
    }

    /// The heart: one step of the core, in this guard, on this key's record.
    fn guard_step(&self, world: &mut World, guard: u8, key: u8, what: What<u8>, asker: Option<u8>) {
        let event = Event { now: Time(world.now.into()), by: Epoch(u32::from(guard) + 1), draw: 0, what };
        let step = self.policy.step(world.keys[usize::from(key)].record.as_ref(), &event);
        let mut proof = None;
        for action in step.actions.iter() {
            match action {
                Action::Store(store) => proof = Some(self.store(&mut world.keys[usize::from(key)], &store)),
                Action::Answer(answer) if proof.is_none() => self.answer(world, guard, key, answer, asker),
                Action::Observe { .. } | Action::Seal { .. } => {
                    world.send(Message::Question { key, action, from: event.by });
                }
                // The world itself decides when anyone looks again.
                Action::Wait(_) | Action::Forget(_) | Action::Refuse(_) => {}
                Action::Answer(_) | Action::Dispatch(_) | Action::Escalate => {
                    world.guards[usize::from(guard)].todo.push(Todo { key, action, proof });
                }
            }
        }
    }

    /// The ledger. A protocol that is to be shown failing has one that attests what is not so.
    fn store(&self, entry: &mut KeyState, store: &Store<u8>) -> Durable<u8> {
        entry.record = Some(store.record);
        let intent_only = matches!(store.record.state(), State::Created | State::Dispatched(_));
        if self.description.guard.intent == Intent::BeforeSend || !intent_only {
            entry.durable = entry.record;
        }
        Durable::attest(&store.record)
    }

    fn carry_on(&self, world: &mut World, guard: u8, todo: Todo) {
        let queue = &mut world.guards[usize::from(guard)].todo;
        if let Some(at) = queue.iter().position(|queued| *queued == todo) {
            queue.remove(at);
        }
        match (todo.action, todo.proof) {
            (Action::Dispatch(dispatch), Some(proof)) => self.dispatch(world, todo.key, &dispatch, &proof),
            (Action::Answer(answer), _) => self.answer(world, guard, todo.key, answer, None),
            (Action::Escalate, _) => self.guard_step(world, guard, todo.key, What::Alerted, None),
            _ => {}
        }
    }

    fn dispatch(&self, world: &mut World, key: u8, dispatch: &Dispatch<u8>, proof: &Durable<u8>) {
        let Ok((of, sent)) = dispatch.send(proof) else {
            return;
        };
        let entry = &world.keys[usize::from(key)];
        let recorded = entry.durable.and_then(|record| record.attempt_id()).is_some_and(|known| known >= of);
        // For whom: the record's arguments tell, since a key is one operation's.
        let call = match self.description.caller.key {
            KeySource::Caller | KeySource::PerCall => key / self.description.caller.calls,
            KeySource::Arguments | KeySource::Reused => world
                .guards
                .iter()
                .find_map(|guard| (0..8).find(|call| guard.calls & (1 << call) != 0 && self.owns(world, *call, key)))
                .unwrap_or(key),
        };
        world.send(Message::Request { key, call, of, owner: sent.owner(), recorded });
    }

    fn owns(&self, world: &World, call: u8, key: u8) -> bool {
        world.callers.get(usize::from(call)).is_some_and(|caller| self.key_of(call, caller) == key)
            && world.keys[usize::from(key)].record.is_some_and(|record| record.fingerprint() == self.arguments_of(call))
    }

    /// The tool gets a request.
    fn at_the_tool(&self, world: &mut World, request: Message, how: How) {
        let Message::Request { key, of, owner, .. } = request else {
            return;
        };
        let faults: &mut Faults = &mut world.left;
        let (carries_out, answers) = match how {
            How::Answered => (true, None),
            How::CrashBefore => {
                faults.tool_crashes_before -= 1;
                (false, Some(None))
            }
            How::CrashAfter => {
                faults.tool_crashes_after -= 1;
                (true, Some(None))
            }
            How::ErrorBefore => {
                faults.errors_before -= 1;
                (false, Some(Some(Reply::Error(ErrorClass::Unproven, 0))))
            }
            How::ErrorAfter => {
                faults.errors_after -= 1;
                (true, Some(Some(Reply::Error(ErrorClass::Unproven, 0))))
            }
            How::Rejected => {
                faults.rejections -= 1;
                (false, Some(Some(Reply::Error(ErrorClass::NotRun, 0))))
            }
        };
        let own = if carries_out { Some(self.carry_out(world, request)) } else { None };
        // A reply to a process that has died reaches nobody.
        if self.description.is_direct() || owner != DEAD {
            world.send(Message::Reply { key, of, to: owner, reply: answers.unwrap_or(own) });
        }
    }

    /// The tool does what it is asked for, as far as its kind lets it.
    fn carry_out(&self, world: &mut World, request: Message) -> Reply<u8> {
        let refused = Reply::Error(ErrorClass::Unproven, 0);
        let Message::Request { key, call, of, owner, recorded } = request else {
            return refused;
        };
        let result = world.effects.len() as u8 + 1;
        let entry = &mut world.keys[usize::from(key)];
        match self.description.tool.kind {
            Kind::Opaque | Kind::Observable => {}
            Kind::Deduplicates | Kind::Sealable => {
                if let Some(first) = entry.remembered {
                    return Reply::Result(first);
                }
                if u32::from(entry.sealed) >= of.attempt.get() {
                    return refused;
                }
            }
            Kind::Transactional => {
                let what = What::Committed { of, owner, result };
                let event = Event { now: Time(world.now.into()), by: owner, draw: 0, what };
                let step = self.policy.step(entry.record.as_ref(), &event);
                let Some(Action::Store(store)) = step.actions.iter().next() else {
                    return refused;
                };
                self.store(entry, &store);
            }
        }
        entry.remembered.get_or_insert(result);
        entry.applied |= bit(of);
        world.effects.push(call);
        world.wrongs.unrecorded |= !recorded;
        Reply::Result(result)
    }

    fn receive(&self, world: &mut World, reply: Message) {
        match reply {
            Message::Reply { key, of, reply, .. } if self.description.is_direct() => {
                let caller = world.callers[usize::from(key)];
                if matches!(caller.phase, Phase::Waiting { .. }) && nth_attempt(caller.calls) == of.attempt {
                    let heard = match reply {
                        Some(Reply::Result(result)) => Heard::Done(result),
                        Some(Reply::Error(..)) => Heard::Failed,
                        None => Heard::ConnectionLost,
                    };
                    self.tell(world, key, key, heard);
                }
            }
            Message::Reply { key, of, to, reply } => {
                let Some(guard) = World::guard_of(to) else {
                    return;
                };
                let what = match reply {
                    Some(reply) => What::Reply { of, reply },
                    None => What::Lost { of, how: Loss::ConnectionLost },
                };
                self.guard_step(world, guard as u8, key, what, None);
            }
            Message::Seen { key, of, observation, conclusive, to } => {
                let Some(guard) = World::guard_of(to) else {
                    return;
                };
                self.guard_step(world, guard as u8, key, What::Observed { of, observation, conclusive }, None);
            }
            Message::Request { .. } | Message::Question { .. } => {}
        }
    }

    /// A guard answers: the one who asks now, or all who wait here for this key with the record's arguments.
    fn answer(&self, world: &mut World, guard: u8, key: u8, answer: Answer<u8>, asker: Option<u8>) {
        let heard = match answer {
            Answer::Done { result, .. } => Heard::Done(result),
            Answer::Failed { .. } => Heard::Failed,
            Answer::Unknown { .. } => Heard::Unknown,
            Answer::Conflict => Heard::Conflict,
            Answer::InProgress | Answer::Expired => return,
        };
        for call in 0..world.callers.len() as u8 {
            let calls = world.guards[usize::from(guard)].calls;
            let waits = calls & (1 << call) != 0
                && self.key_of(call, &world.callers[usize::from(call)]) == key
                && asker.map_or_else(|| self.owns(world, call, key), |asker| asker == call);
            if waits {
                world.guards[usize::from(guard)].calls &= !(1 << call);
                // An answer to a call that the caller has given up is not listened to.
                if world.callers[usize::from(call)].phase == (Phase::Waiting { at: guard }) {
                    self.tell(world, key, call, heard);
                }
            }
        }
    }

    fn tell(&self, world: &mut World, key: u8, call: u8, heard: Heard) {
        world.callers[usize::from(call)].phase = Phase::Told(heard);
        if let Heard::Done(result) = heard {
            match result.checked_sub(1).and_then(|at| world.effects.get(usize::from(at))) {
                None => world.wrongs.phantom = true,
                Some(made_for) => {
                    world.wrongs.suppressed |= *made_for != call;
                    world.wrongs.unfaithful |= self.arguments_of(*made_for) != self.arguments_of(call);
                }
            }
        }
        let calls = world.callers[usize::from(call)].calls;
        let entry = &mut world.keys[usize::from(key)];
        let failed = match entry.record {
            Some(record) => bits_of_generation(record.generation()),
            None => bit(AttemptId { generation: 1, attempt: nth_attempt(calls) }),
        };
        match heard {
            Heard::Done(_) | Heard::Failed => {
                let first = *entry.first_told.get_or_insert(heard);
                world.wrongs.unfaithful |= first != heard && self.policy.repeat.ends == Ends::WithWindow;
                if heard == Heard::Failed {
                    entry.told_failed |= failed;
                }
            }
            Heard::Unknown | Heard::Conflict | Heard::ConnectionLost => {}
        }
    }

    /// A person looks at the world, and says what is to be seen there; "it did not happen" only when all is quiet.
    fn decide(&self, world: &mut World, key: u8) {
        let entry = world.keys[usize::from(key)];
        let pending = world.network.iter().any(|m| matches!(m, Message::Request { key: of, .. } if *of == key))
            || world.guards.iter().any(|guard| {
                guard.todo.iter().any(|todo| todo.key == key && matches!(todo.action, Action::Dispatch(_)))
            });
        let verdict = match entry.remembered {
            Some(result) => Verdict::Succeeded(result),
            None => Verdict::Failed(None),
        };
        let event =
            Event { now: Time(world.now.into()), by: DEAD, draw: 0, what: What::Decide { verdict, quiet: !pending } };
        let step = self.policy.step(entry.record.as_ref(), &event);
        if let Some(Action::Store(store)) = step.actions.iter().next() {
            self.store(&mut world.keys[usize::from(key)], &store);
            world.left.decisions -= 1;
        }
    }
}

/// All that the process had in memory is gone, and with it every reply on its way to it.
fn crash(world: &mut World, guard: u8) {
    world.left.guard_crashes -= 1;
    world.guards[usize::from(guard)] = Default::default();
    let dead = Epoch(u32::from(guard) + 1);
    world.network.retain(|message| match message {
        Message::Reply { to, .. } | Message::Seen { to, .. } => *to != dead,
        Message::Question { from, .. } => *from != dead,
        Message::Request { .. } => true,
    });
    for key in &mut world.keys {
        key.record = key.durable;
    }
    world.map_owners(|owner| if owner == dead { DEAD } else { owner });
}

/// The tool answers an observation, or carries out a seal.
fn look(world: &mut World, question: Message) {
    let Message::Question { key, action, from } = question else {
        return;
    };
    let entry = &mut world.keys[usize::from(key)];
    let (of, observation, conclusive) = match (action, entry.remembered) {
        (Action::Observe { of, conclusive }, Some(result)) => (of, Observation::Applied(result), conclusive),
        (Action::Observe { of, conclusive }, None) => (of, Observation::NotApplied, conclusive),
        (Action::Seal { of, .. }, Some(result)) => (of, Observation::Applied(result), true),
        (Action::Seal { of, scope }, None) => {
            entry.sealed = match scope {
                SealScope::Attempts => entry.sealed.max(of.attempt.get() as u8),
                SealScope::Operation => u8::MAX,
            };
            (of, Observation::Sealed(scope), true)
        }
        _ => return,
    };
    world.send(Message::Seen { key, of, observation, conclusive, to: from });
}

impl World {
    fn take(&mut self, message: &Message) {
        if let Some(at) = self.network.iter().position(|other| other == message) {
            self.network.remove(at);
        }
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
    fn may_answer(&self, key: u8, attempt: Option<AttemptId>) -> bool {
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

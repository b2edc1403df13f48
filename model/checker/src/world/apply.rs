//! What a move leads to.
//!
//! A guard's part of every move is its own state machine's step: this file only carries messages and calls.

use std::sync::atomic::Ordering;

use settled_protocol::{Epoch, Event, Loss, Start, What};

use crate::description::{Claim, StartRule};
use crate::machine::{Situation, Stage, Write};

use super::ledger::Turn;
use super::{CLOCK, Caller, DEAD, Do, Heard, Input, Message, Move, Phase, Rules, Storing, Todo, Why, World};

impl Rules {
    /// The world after a move; `None` if the move changes nothing.
    pub fn apply(&self, before: &World, what: Move) -> Option<World> {
        let mut world = *before;
        match what {
            Move::Call { call, guard, key, why } => self.call(&mut world, call, guard, key, why),
            Move::Save { call } => world.callers[usize::from(call)].saved = true,
            Move::Cancel { call } => self.cancel(&mut world, call),
            Move::CrashClient => self.crash_client(&mut world),
            Move::Hear { reply } => {
                world.take(&reply);
                self.hear(&mut world, reply);
            }
            Move::Guard { guard, input, storing } => self.guard(&mut world, guard, input, storing)?,
            Move::CrashGuard { guard } => self.crash(&mut world, guard),
            Move::SetClock { guard, ahead, .. } => {
                let clock = &mut world.guards[usize::from(guard)].clock;
                *clock = (*clock + if ahead { 1 } else { -1 }).clamp(-CLOCK, CLOCK);
            }
            Move::PowerFails => self.power_fails(&mut world),
            Move::FailOver => world.keys.iter_mut().for_each(|key| key.record = key.durable),
            Move::Sync { key } => {
                let key = &mut world.keys[usize::from(key)];
                key.durable = key.record;
            }
            Move::Forget { key, tool } => {
                let key = &mut world.keys[usize::from(key)];
                if tool {
                    key.memory.effect = 0;
                    key.memory.since = 0;
                } else {
                    (key.record, key.durable, key.forgotten) = (None, None, true);
                }
            }
            Move::Apply { request, how } => {
                world.take(&request);
                self.at_the_tool(&mut world, request, how);
            }
            Move::Finish { working, how } => {
                world.take(&working);
                self.finish(&mut world, working, how);
            }
            Move::Lose { message } => world.take(&message),
            Move::Duplicate { request } => world.send(request),
            Move::Cut { request } => self.cut(&mut world, request),
            Move::Look { question } => {
                world.take(&question);
                self.look(&mut world, question);
            }
            Move::Tick => self.tick(&mut world),
            Move::Decide { key } => self.decide(&mut world, key),
        }
        self.move_up(&mut world);
        self.forget_what_cannot_matter(&mut world);
        if world.wrongs.overflowed {
            self.overflowed.store(true, Ordering::Relaxed);
        }
        (world != *before).then_some(world)
    }

    fn call(&self, world: &mut World, call: u8, guard: u8, key: u8, why: Why) {
        let now = world.now;
        let timed = self.description.caller.horizon > 0;
        let caller = &mut world.callers[usize::from(call)];
        if caller.calls == 0 && timed {
            caller.since = now;
        }
        caller.key = key;
        if why != Why::It(Situation::InProgress) {
            caller.calls = caller.calls.saturating_add(1);
        }
        let no_room = caller.calls > 15 || key != Caller::REUSED && key >= self.keys_per_call();
        caller.saved = false;
        caller.phase = Phase::Waiting { at: guard };
        if no_room && !self.description.is_direct() {
            world.wrongs.overflowed = true;
            return;
        }
        let caller = &mut world.callers[usize::from(call)];
        let attempt = caller.calls;
        if self.description.is_direct() {
            let of = super::Of { generation: 1, attempt };
            self.count_send(world, call);
            world.send(Message::Request { key: call, call, of, owner: 0, recorded: false, cut: false });
        } else {
            world.guards[usize::from(guard)].arrived |= 1 << call;
        }
    }

    pub(crate) fn count_send(&self, world: &mut World, call: u8) {
        if self.counts_sends() {
            let sends = &mut world.callers[usize::from(call)].sends;
            *sends = sends.saturating_add(1).min(20);
        }
    }

    fn cancel(&self, world: &mut World, call: u8) {
        let caller = world.callers[usize::from(call)];
        let Phase::Waiting { at } = caller.phase else { return };
        world.callers[usize::from(call)].phase = Phase::Cancelled;
        if self.description.is_direct() {
            return;
        }
        let key = self.key_of(call, &caller);
        let state = &mut world.guards[usize::from(at)];
        // Not looked at yet: it never will be.
        state.arrived &= !(1 << call);
        let waited = state.waiting & 1 << call != 0;
        state.waiting &= !(1 << call);
        if waited {
            let _ = self.step(world, at, key, What::Cancel, None, Storing::Works);
        }
    }

    /// The callers are one process: each of them that has not saved its answer begins again.
    fn crash_client(&self, world: &mut World) {
        for call in 0..self.callers() {
            let caller = &mut world.callers[usize::from(call)];
            let lost = match caller.phase {
                Phase::Waiting { .. } => true,
                Phase::Told(_) => !caller.saved,
                Phase::Idle | Phase::Cancelled | Phase::Restarted => false,
            };
            if lost {
                caller.phase = Phase::Restarted;
            }
        }
        if self.description.is_direct() {
            world.network.retain(|message| !matches!(Message::from(*message), Message::Reply { .. }));
        }
    }

    /// A guard's turn. `None`: nothing changes, or it is a fault of storing where nothing was to be stored.
    fn guard(&self, world: &mut World, guard: u8, input: Input, storing: Storing) -> Option<()> {
        match input {
            Input::Take { call } => {
                let key = self.key_of(call, &world.callers[usize::from(call)]);
                if self.must_wait_for_resource(world, call, key) {
                    return None;
                }
                let state = &mut world.guards[usize::from(guard)];
                // Who comes while an answer is about to be given waits until it was.
                if state.todos().any(|todo| todo.key == key && matches!(todo.what, Do::Answer(..))) {
                    return None;
                }
                if state.waiting & 1 << call != 0 {
                    return self.look_again(world, guard, key, call, storing);
                }
                state.arrived &= !(1 << call);
                state.waiting |= 1 << call;
                self.read_or_step(world, guard, key, Some(call), storing)
            }
            Input::Resume { key, take_over: false } if self.waits_in_line(world, key) => {
                (storing == Storing::Works && self.is_its_turn(world, key)).then(|| {
                    world.push_todo(guard, Todo { key, what: Do::Begin });
                })
            }
            Input::GiveUp { key } => self.step(world, guard, key, What::Cancel, None, storing),
            Input::Resume { key, take_over } => {
                if self.description.guard.claim == Claim::ReadThenWrite && !take_over {
                    self.read_or_step(world, guard, key, None, storing)
                } else {
                    let what = self.resume(world, guard, key, take_over);
                    self.step(world, guard, key, what, None, storing)
                }
            }
            Input::TimeOut { key } => {
                let of = self.guard.view(world.keys[usize::from(key)].record?).attempt?;
                self.step(world, guard, key, What::Lost { of, how: Loss::TimedOut }, None, storing)
            }
            Input::Receive { reply } => {
                world.take(&reply);
                let (key, what) = match reply {
                    Message::Reply { key, of, reply: Some(reply), .. } => (key, What::Reply { of: of.into(), reply }),
                    Message::Reply { key, of, reply: None, .. } => {
                        (key, What::Lost { of: of.into(), how: Loss::ConnectionLost })
                    }
                    Message::Seen { key, of, observation, conclusive, .. } => {
                        (key, What::Observed { of: of.into(), observation, conclusive })
                    }
                    Message::Request { .. } | Message::Working { .. } | Message::Question { .. } => return None,
                };
                if self.passes_through(world, guard, key, what) {
                    return (storing == Storing::Works).then_some(());
                }
                self.step(world, guard, key, what, None, storing)
            }
            Input::Go { todo, lost } => self.go_on(world, guard, todo, lost, storing),
            Input::Expire { key } => self.step(world, guard, key, What::Expire, None, storing),
        }
    }

    /// A call that waits looks at the record again: it may find an answer, but never begins anything.
    fn look_again(&self, world: &mut World, guard: u8, key: u8, call: u8, storing: Storing) -> Option<()> {
        if storing != Storing::Works {
            return None;
        }
        let me = guard + 1;
        let busy = world.guards[usize::from(guard)].todo.iter().any(|todo| todo.key_of_todo() == key)
            || world.messages().any(|message| message.key() == key && message.process() == me);
        match world.keys[usize::from(key)].record {
            // What it has waited for is gone: nobody can tell it any more how that ended.
            None if !busy => {
                self.tell_waiting(world, guard, key, 1, call, Heard::Unknown);
            }
            None => return None,
            Some(record) => {
                let step = self.guard.step(Some(record), &self.event(world, guard, self.call_event(call)));
                if step.write != Write::Nothing {
                    return None;
                }
                self.step(world, guard, key, self.call_event(call), Some(call), storing)?;
            }
        }
        Some(())
    }

    fn resume(&self, world: &World, guard: u8, key: u8, take_over: bool) -> What<u8> {
        let stage = world.keys[usize::from(key)].record.map(|record| self.guard.view(record).stage);
        let owner = match stage {
            Some(Stage::Dispatched(owner) | Stage::Unknown(owner)) => Some(owner),
            _ => None,
        };
        let sender_done = owner == Some(DEAD) || owner == Some(World::owner(guard));
        let call = self.call_of_record(world, key);
        let of_resource = |made_for: &&u8| self.share_resource(call, **made_for);
        // Who holds a line knows that nobody else has begun.
        let undisturbed = self.description.guard.resources.is_line()
            || world.effects.iter().rev().find(of_resource).is_none_or(|last| *last == call)
                && !(0..self.callers()).any(|other| {
                    other != call && self.share_resource(call, other) && world.callers[usize::from(other)].calls > 0
                });
        What::Resume { take_over, sender_done, undisturbed }
    }

    /// Compare-and-set in one move, or (a protocol that is to be shown failing) a read now and a write later.
    fn read_or_step(&self, world: &mut World, guard: u8, key: u8, call: Option<u8>, storing: Storing) -> Option<()> {
        let read = world.keys[usize::from(key)].record;
        if self.description.guard.claim == Claim::ReadThenWrite {
            let what = Do::Write { call: call.unwrap_or(u8::MAX), read };
            let todo = Todo { key, what };
            if !world.guards[usize::from(guard)].todo.contains(&todo.into()) {
                world.push_todo(guard, todo);
            }
            return (storing == Storing::Works).then_some(());
        }
        let what = match call {
            Some(call) => self.call_event(call),
            None => self.resume(world, guard, key, false),
        };
        self.step(world, guard, key, what, call, storing)
    }

    pub(crate) fn call_event(&self, call: u8) -> What<u8> {
        let start = match self.description.guard.start {
            StartRule::OneWrite if !self.description.guard.resources.is_line() => Start::Now,
            StartRule::OneWrite | StartRule::TwoWrites => Start::Later,
        };
        What::Call { fingerprint: self.arguments_of(call), start }
    }

    fn go_on(&self, world: &mut World, guard: u8, todo: Todo, lost: bool, storing: Storing) -> Option<()> {
        let queue = &mut world.guards[usize::from(guard)].todo;
        if let Some(at) = queue.iter().position(|queued| *queued == todo.into()) {
            queue.remove(at);
        }
        let key = todo.key;
        match todo.what {
            Do::Send(_) | Do::Answer(..) if storing != Storing::Works => None,
            Do::Send(of) => {
                self.send_attempt(world, guard, key, of);
                Some(())
            }
            Do::Answer(answer, generation) => {
                self.answer(world, guard, key, answer, generation, None, lost);
                Some(())
            }
            Do::Alert => self.step(world, guard, key, What::Alerted, None, storing),
            Do::Begin if self.waits_in_line(world, key) => {
                let what = self.resume(world, guard, key, false);
                self.step(world, guard, key, what, None, storing)
            }
            // Somebody else was there first.
            Do::Begin => (storing == Storing::Works).then_some(()),
            Do::NoteDelivery(generation) => {
                let from = self.clock(world, guard);
                let what = What::Delivered { generation: generation.into(), from };
                self.step(world, guard, key, what, None, storing)
            }
            Do::Write { call, read } => {
                let asker = (call != u8::MAX).then_some(call);
                let what = match asker {
                    Some(call) => self.call_event(call),
                    None => self.resume(world, guard, key, false),
                };
                self.turn(world, &Turn { guard, key, read, what, asker, storing })
            }
        }
    }

    /// Puts an attempt on the wire.
    fn send_attempt(&self, world: &mut World, guard: u8, key: u8, of: super::Of) {
        let known = |record| self.guard.view(record).attempt.is_some_and(|known| super::Of::from(known) >= of);
        let recorded = self.on_disk(&world.keys[usize::from(key)]).is_some_and(known);
        let call = self.call_of_record(world, key);
        self.count_send(world, call);
        world.send(Message::Request { key, call, of, owner: guard + 1, recorded, cut: false });
        self.tell_at_dispatch(world, guard, key);
    }

    /// For which logical call a key's operation is.
    pub fn call_of_record(&self, world: &World, key: u8) -> u8 {
        let by_key = self.call_of_key(key).filter(|_| !self.keys_are_shared());
        by_key.unwrap_or(world.keys[usize::from(key)].call)
    }

    /// Whether a call is for this key, with the arguments of its record.
    pub(crate) fn owns(&self, world: &World, call: u8, key: u8) -> bool {
        let same = |record| {
            !self.description.guard.rules.check_arguments
                || self.guard.view(record).arguments == self.arguments_of(call)
        };
        self.key_of(call, &world.callers[usize::from(call)]) == key
            && world.keys[usize::from(key)].record.is_some_and(same)
    }

    fn hear(&self, world: &mut World, reply: Message) {
        let Message::Reply { key, of, reply, .. } = reply else { return };
        let caller: Caller = world.callers[usize::from(key)];
        if matches!(caller.phase, Phase::Waiting { .. }) && caller.calls == of.attempt {
            let heard = match reply {
                Some(settled_protocol::Reply::Result(result)) => Heard::Done(result),
                Some(settled_protocol::Reply::Error(..)) => Heard::Failed,
                None => Heard::ConnectionLost,
            };
            self.tell(world, key, 1, key, heard);
        }
    }

    /// The connection ends under a request: its sender learns of it at once, the request may still arrive.
    fn cut(&self, world: &mut World, request: Message) {
        let Message::Request { key, call, of, owner, recorded, .. } = request else { return };
        world.take(&request);
        world.send(Message::Request { key, call, of, owner, recorded, cut: true });
        if let Some(guard) = World::guard_of(Epoch(owner.into())) {
            let what = What::Lost { of: of.into(), how: Loss::ConnectionLost };
            let _ = self.step(world, guard, key, what, None, Storing::Works);
        }
    }

    /// All that the process had in memory is gone, and with it every reply on its way to it.
    pub(crate) fn crash(&self, world: &mut World, guard: u8) {
        let dead = World::owner(guard);
        let clock = world.guards[usize::from(guard)].clock;
        world.guards[usize::from(guard)] = super::Guard { clock, ..Default::default() };
        world.network.retain(|message| match Message::from(*message) {
            Message::Reply { to, .. } | Message::Seen { to, .. } => Epoch(to.into()) != dead,
            Message::Question { from, .. } => Epoch(from.into()) != dead,
            Message::Request { .. } | Message::Working { .. } => true,
        });
        if self.description.guard.intent == crate::description::Intent::AfterEffect {
            world.keys.iter_mut().for_each(|key| key.record = key.durable);
        }
        self.map_owners(world, &|owner| if owner == dead { DEAD } else { owner });
    }

    pub(crate) fn event(&self, world: &World, guard: u8, what: What<u8>) -> Event<u8> {
        Event { now: self.clock(world, guard), by: World::owner(guard), draw: 0, what }
    }
}

//! What a move leads to.
//!
//! A guard's part of every move is the core's own `step`: this file only carries messages, keeps the ledger and tells
//! callers. Load and compare-and-set are one move, so a compare-and-set never fails here; what would make it fail has
//! changed the record before the load.

use settled_protocol::{
    Action, Answer, AttemptId, Dispatch, Durable, Ends, Epoch, Event, Loss, Reply, Start, State, Store, Time, Verdict,
    What,
};

use crate::description::{Intent, KeySource, StartRule};
use crate::moves::{Move, Rules, Why};
use crate::world::{DEAD, Heard, KeyState, Message, Phase, Todo, World, bit, bits_of_generation, nth_attempt};

impl Rules {
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
                crate::tool::look(&mut world, question);
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
    pub(crate) fn store(&self, entry: &mut KeyState, store: &Store<u8>) -> Durable<u8> {
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

impl World {
    fn take(&mut self, message: &Message) {
        if let Some(at) = self.network.iter().position(|other| other == message) {
            self.network.remove(at);
        }
    }
}

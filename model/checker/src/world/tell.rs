//! Telling callers, and what is wrong with what they are told.

use settled_protocol::{Answer, Reply, What};

use crate::description::{Answers, KeySource, RepeatRule, WithoutLedger};
use crate::machine::{Stage, Write};

use super::{DEAD, Definite, Do, Heard, Message, Of, Phase, Rules, Todo, World};

impl Rules {
    /// A guard answers: the one who asks now, or all who wait here for this key with the record's arguments. If the answer is
    /// `lost`, the guard takes it for delivered all the same.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn answer(
        &self,
        world: &mut World,
        guard: u8,
        key: u8,
        answer: Answer<u8>,
        generation: u8,
        asker: Option<u8>,
        lost: bool,
    ) {
        let heard = match answer {
            Answer::Done { result, .. } => Heard::Done(result),
            Answer::Failed { .. } => Heard::Failed,
            Answer::Unknown { .. } => Heard::Unknown,
            Answer::Conflict => Heard::Conflict,
            Answer::InProgress => Heard::InProgress,
            Answer::Expired => return,
        };
        let mut delivered = false;
        for call in 0..self.callers() {
            let waits = world.guards[usize::from(guard)].waiting & 1 << call != 0
                && self.key_of(call, &world.callers[usize::from(call)]) == key
                && asker.map_or_else(|| self.owns(world, call, key), |asker| asker == call);
            if waits && lost {
                world.guards[usize::from(guard)].waiting &= !(1 << call);
                delivered = true;
            } else if waits {
                delivered |= self.tell_waiting(world, guard, key, generation, call, heard);
            }
        }
        let definite = matches!(heard, Heard::Done(_) | Heard::Failed);
        if delivered && definite && self.description.guard.repeat == RepeatRule::NewAfterDelivery {
            world.push_todo(guard, Todo { key, what: Do::NoteDelivery(generation) });
        }
    }

    /// Tells a caller who waits at this guard; an answer to a call that it has given up is not listened to.
    pub(crate) fn tell_waiting(
        &self,
        world: &mut World,
        guard: u8,
        key: u8,
        generation: u8,
        call: u8,
        heard: Heard,
    ) -> bool {
        world.guards[usize::from(guard)].waiting &= !(1 << call);
        let listens = world.callers[usize::from(call)].phase == (Phase::Waiting { at: guard });
        if listens {
            self.tell(world, key, generation, call, heard);
        }
        listens
    }

    /// A guard that sends without its ledger hands on the answer as well: of a call of which there is no record.
    pub(crate) fn passes_through(&self, world: &mut World, guard: u8, key: u8, what: What<u8>) -> bool {
        let unrecorded = world.keys[usize::from(key)].record.is_none();
        if self.description.guard.without_ledger == WithoutLedger::Refuses || !unrecorded {
            return false;
        }
        let heard = match what {
            What::Reply { reply: Reply::Result(result), .. } => Heard::Done(result),
            What::Reply { reply: Reply::Error(..), .. } => Heard::Failed,
            _ => Heard::ConnectionLost,
        };
        for call in 0..self.callers() {
            let waits = world.guards[usize::from(guard)].waiting & 1 << call != 0;
            if waits && self.key_of(call, &world.callers[usize::from(call)]) == key {
                self.tell_waiting(world, guard, key, 1, call, heard);
            }
        }
        true
    }

    /// A guard that tells `done` as soon as it has sent.
    pub(crate) fn tell_at_dispatch(&self, world: &mut World, guard: u8, key: u8) {
        if self.description.guard.answers == Answers::AtDispatch {
            let generation = self.generation(world, key);
            self.answer(world, guard, key, Answer::Done { result: 0, replayed: false }, generation, None, false);
        }
    }

    pub(crate) fn tell(&self, world: &mut World, key: u8, generation: u8, call: u8, heard: Heard) {
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
        let definite = match heard {
            Heard::Done(result) => Definite::Done(result),
            Heard::Failed => Definite::Failed,
            Heard::Unknown | Heard::InProgress | Heard::Conflict | Heard::ConnectionLost => return,
        };
        if definite == Definite::Failed {
            entry.told_failed |= match entry.record {
                Some(_) => Of::bits_of_operation(generation),
                None => Of { generation, attempt: calls }.bit(),
            };
        }
        // A key made of the arguments is not one wish's: a new operation under it may end otherwise.
        if self.description.caller.key != KeySource::Arguments || self.description.is_direct() {
            let first = *entry.first_told.get_or_insert(definite);
            world.wrongs.unfaithful |= first != definite;
        }
    }

    /// A person looks at the world, and says what is to be seen there; "it did not happen" only when all is quiet.
    pub(crate) fn decide(&self, world: &mut World, key: u8) {
        let entry = world.keys[usize::from(key)];
        let pending = world.messages().any(|message| {
            matches!(message, Message::Request { key: of, .. } | Message::Working { key: of, .. } if of == key)
        }) || world.guards.iter().any(|guard| {
            guard.todos().any(|todo| todo.key == key && matches!(todo.what, Do::Send(_)))
        });
        let verdict = match entry.made {
            0 => settled_protocol::Verdict::Failed(None),
            effect => settled_protocol::Verdict::Succeeded(effect),
        };
        // By a clock of the person's own, which is right.
        let now = self.true_clock(world);
        let what = What::Decide { verdict, quiet: !pending };
        let event = settled_protocol::Event { now, by: DEAD, draw: 0, what };
        // The person's answer is for whoever asks next: nobody who waits now is told by it.
        if let Write::Put(record) = self.guard.step(entry.record, &event).write
            && matches!(self.guard.view(record).stage, Stage::Settled(_))
        {
            self.put(&mut world.keys[usize::from(key)], Some(record));
        }
    }
}

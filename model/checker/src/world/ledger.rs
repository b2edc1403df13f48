//! A guard's step, and what the ledger makes of it: what is stored, what is durable, what is lost.

use settled_protocol::{ErrorClass, Reply, What};

use crate::description::{Acknowledged, AfterSyncError, InDoubt, Intent, Resources, Torn, WithoutLedger};
use crate::machine::{Act, Id, Stage, Write};

use super::{Asking, Do, Heard, KeyState, Message, Rules, Storing, Todo, World};

/// What became of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stored {
    /// What rests on it may go on.
    GoOn,
    /// Nothing of what rests on it happens.
    Stop,
}

/// A step of a guard.
pub(crate) struct Turn {
    pub guard: u8,
    pub key: u8,
    /// The record as it was read.
    pub read: Option<Id>,
    pub what: What<u8>,
    /// The logical call that asks, if one does.
    pub asker: Option<u8>,
    pub storing: Storing,
}

impl Rules {
    /// The heart: one step of the guard's state machine, in this process, on this key's record as it is now. `None`: a fault
    /// of storing, where nothing was to be stored.
    pub(crate) fn step(
        &self,
        world: &mut World,
        guard: u8,
        key: u8,
        what: What<u8>,
        asker: Option<u8>,
        storing: Storing,
    ) -> Option<()> {
        let read = world.keys[usize::from(key)].record;
        self.turn(world, &Turn { guard, key, read, what, asker, storing })
    }

    /// The same on the record as it was read, which may no longer be the one in the ledger.
    pub(crate) fn turn(&self, world: &mut World, turn: &Turn) -> Option<()> {
        let step = self.guard.step(turn.read, &self.event(world, turn.guard, self.taken_for(turn.what)));
        let write = match step.write {
            Write::Nothing if turn.storing != Storing::Works => return None,
            Write::Nothing => None,
            Write::Put(record) => Some(Some(record)),
            Write::Forget => Some(None),
        };
        if let (Some(Some(record)), Some(call)) = (write, turn.asker) {
            self.note_who_began(world, turn, record, call);
        }
        let stored = write.map(|record| self.store(world, turn, record));
        if let Some(Some(record)) = write {
            self.join_line(world, turn.guard, turn.key, record);
        }
        if stored == Some(Stored::Stop) {
            if let Some(call) = turn.asker {
                world.guards[usize::from(turn.guard)].waiting &= !(1 << call);
            }
            return Some(());
        }
        for act in step.acts {
            self.act(world, turn, act, write.is_some());
        }
        Some(())
    }

    /// What the guard takes news of an attempt for.
    fn taken_for(&self, what: What<u8>) -> What<u8> {
        let busy = Reply::Error(ErrorClass::Busy, 0);
        match what {
            What::Reply { of, reply: Reply::Error(ErrorClass::Unproven, _) } | What::Lost { of, .. }
                if self.description.guard.in_doubt == InDoubt::Busy =>
            {
                What::Reply { of, reply: busy }
            }
            _ => what,
        }
    }

    /// A call's step writes a record only if it begins an operation, or notes that an answer has not arrived.
    fn note_who_began(&self, world: &mut World, turn: &Turn, record: Id, call: u8) {
        let generation = |id| self.guard.view(id).generation;
        let begins = turn.read.is_none_or(|before| generation(before) != generation(record));
        if begins && self.keys_are_shared() {
            world.keys[usize::from(turn.key)].call = call;
        }
    }

    fn store(&self, world: &mut World, turn: &Turn, record: Option<Id>) -> Stored {
        let ledger = &self.description.ledger;
        let entry = &mut world.keys[usize::from(turn.key)];
        match turn.storing {
            Storing::Works => {
                self.put(entry, record);
                Stored::GoOn
            }
            Storing::Unreachable | Storing::Full => match self.description.guard.without_ledger {
                WithoutLedger::Refuses => Stored::Stop,
                WithoutLedger::SendsAnyway => Stored::GoOn,
            },
            Storing::Unacknowledged => {
                self.put(entry, record);
                Stored::Stop
            }
            Storing::Unsynced => match ledger.after_sync_error {
                AfterSyncError::Stops => {
                    self.crash(world, turn.guard);
                    Stored::Stop
                }
                AfterSyncError::CarriesOn => {
                    entry.record = record;
                    Stored::GoOn
                }
            },
            Storing::Torn => {
                if ledger.torn == Torn::Erases {
                    (entry.record, entry.durable) = (None, None);
                }
                self.power_fails(world);
                Stored::Stop
            }
        }
    }

    /// A write that the ledger acknowledges.
    pub(crate) fn put(&self, entry: &mut KeyState, record: Option<Id>) {
        entry.record = record;
        entry.forgotten |= record.is_none();
        let intent_only =
            record.is_some_and(|id| matches!(self.guard.view(id).stage, Stage::Created | Stage::Dispatched(_)));
        let written = self.description.guard.intent == Intent::BeforeSend || !intent_only;
        if written && self.description.ledger.acknowledged == Acknowledged::Durable {
            entry.durable = record;
        }
    }

    /// The record that counts as durable: on disk. (Where only the replica lags, the disk has it.)
    pub(crate) fn on_disk(&self, entry: &KeyState) -> Option<Id> {
        match self.description.ledger.acknowledged {
            Acknowledged::Unreplicated => entry.record,
            Acknowledged::Durable | Acknowledged::Unsynced => entry.durable,
        }
    }

    fn act(&self, world: &mut World, turn: &Turn, act: Act, written: bool) {
        let Turn { guard, key, asker, .. } = *turn;
        match act {
            Act::Send(of) => {
                world.wrongs.overflowed |= !super::Of::from(of).has_room();
                world.push_todo(guard, Todo { key, what: Do::Send(of.into()) });
            }
            Act::Observe { of, conclusive } => {
                let asking = Asking::Observe { conclusive };
                world.send(Message::Question { key, of: of.into(), asking, from: guard + 1 });
            }
            Act::Seal { of, scope } => {
                world.send(Message::Question { key, of: of.into(), asking: Asking::Seal(scope), from: guard + 1 });
            }
            Act::Answer(answer) => {
                let generation = self.generation(world, key);
                if written {
                    world.push_todo(guard, Todo { key, what: Do::Answer(answer, generation) });
                } else {
                    self.answer(world, guard, key, answer, generation, asker, false);
                }
            }
            Act::Wait => {
                if let Some(call) = asker
                    && !written
                    && self.tells_in_progress()
                {
                    let generation = self.generation(world, key);
                    self.tell_waiting(world, guard, key, generation, call, Heard::InProgress);
                }
            }
            Act::Escalate => world.push_todo(guard, Todo { key, what: Do::Alert }),
        }
    }

    /// Which operation under its key a record is of.
    pub(crate) fn generation(&self, world: &World, key: u8) -> u8 {
        let record = world.keys[usize::from(key)].record;
        record.map_or(1, |record| u8::try_from(self.guard.view(record).generation).unwrap_or(u8::MAX))
    }

    /// Power fails: all guards die, and what is not on disk is gone.
    pub(crate) fn power_fails(&self, world: &mut World) {
        for guard in 0..self.guards() {
            self.crash(world, guard);
        }
        for key in &mut world.keys {
            if self.description.ledger.acknowledged != Acknowledged::Unreplicated {
                key.record = key.durable;
            }
        }
    }

    /// Whether a call must wait for another one of its resource: one that is under way, or may be.
    pub(crate) fn must_wait_for_resource(&self, world: &World, call: u8, key: u8) -> bool {
        if self.description.guard.resources != Resources::OneAtATime || world.keys[usize::from(key)].record.is_some() {
            return false;
        }
        (0u8..).zip(&world.keys).any(|(other, entry)| {
            let its = self.call_of_record(world, other);
            other != key
                && self.share_resource(call, its)
                && entry.record.is_some_and(|record| !matches!(self.guard.view(record).stage, Stage::Settled(_)))
        })
    }
}

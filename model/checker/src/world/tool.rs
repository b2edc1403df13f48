//! What reaches the tool: it is fed with requests and questions, and dies and errs as the faults have it.

use settled_protocol::{Epoch, ErrorClass, Event, Reply, What};

use crate::description::{Kind, Rejects};
use crate::machine::{Asked, Served, Write};

use super::{Asking, DEAD, How, Message, Rules, World};

impl Rules {
    /// The tool gets a request.
    pub(crate) fn at_the_tool(&self, world: &mut World, request: Message, how: How) {
        let Message::Request { key, call, of, owner, cut, .. } = request else { return };
        // Where a connection has ended, the answer reaches nobody.
        let to = if cut { 0 } else { owner };
        let (carries_out, answer) = match how {
            How::Answered => (true, None),
            How::CrashBefore => (false, Some(None)),
            How::CrashAfter => (true, Some(None)),
            How::ErrorBefore => (false, Some(Some(Reply::Error(ErrorClass::Unproven, 0)))),
            How::ErrorAfter => (true, Some(Some(Reply::Error(ErrorClass::Unproven, 0)))),
            How::Rejected => (false, Some(Some(Reply::Error(self.class_of_rejections(), 0)))),
        };
        if how == How::CrashBefore || how == How::CrashAfter {
            self.tool_dies(world);
        }
        if self.description.tool.lasting && carries_out {
            let before = world.effects.len();
            if let Reply::Result(result) = self.carry_out(world, request) {
                if world.effects.len() > before {
                    return self.begin_work(world, Message::Working { key, call, of, owner: to, result });
                }
                return self.reply(world, key, of, to, Some(Reply::Result(result)));
            }
            return self.reply(world, key, of, to, Some(Reply::Error(ErrorClass::Unproven, 0)));
        }
        let own = if carries_out { Some(self.carry_out(world, request)) } else { None };
        self.reply(world, key, of, to, answer.unwrap_or(own));
    }

    fn class_of_rejections(&self) -> ErrorClass {
        match self.description.tool.rejects {
            Rejects::ForGood => ErrorClass::NotRun,
            Rejects::Busy => ErrorClass::Busy,
        }
    }

    fn reply(&self, world: &mut World, key: u8, of: super::Of, to: u8, reply: Option<Reply<u8>>) {
        // A reply to a process that has died reaches nobody.
        if self.description.is_direct() || Epoch(to.into()) != DEAD {
            world.send(Message::Reply { key, of, to, reply });
        }
    }

    fn begin_work(&self, world: &mut World, working: Message) {
        let Message::Working { call, .. } = working else { return };
        let overlaps =
            |other| matches!(other, Message::Working { call: other, .. } if self.share_resource(call, other));
        let overlapped = world.messages().any(overlaps);
        world.wrongs.overlapped |= overlapped;
        world.send(working);
    }

    /// The tool ends its work on a request.
    pub(crate) fn finish(&self, world: &mut World, working: Message, how: How) {
        let Message::Working { key, of, owner, result, .. } = working else { return };
        let answer = match how {
            How::CrashAfter => {
                self.tool_dies(world);
                None
            }
            How::ErrorAfter => Some(Reply::Error(ErrorClass::Unproven, 0)),
            _ => Some(Reply::Result(result)),
        };
        self.reply(world, key, of, owner, answer);
    }

    /// All work under way ends with the tool's process; who waits for it sees the connection end.
    fn tool_dies(&self, world: &mut World) {
        let under_way = world.network;
        world.network.retain(|message| !matches!(Message::from(*message), Message::Working { .. }));
        for message in under_way {
            let message = Message::from(message);
            if let Message::Working { key, of, owner, .. } = message {
                self.reply(world, key, of, owner, None);
            }
        }
    }

    /// The tool does what it is asked for, as far as its kind lets it.
    fn carry_out(&self, world: &mut World, request: Message) -> Reply<u8> {
        let refused = Reply::Error(ErrorClass::Unproven, 0);
        let Message::Request { key, call, of, owner, recorded, .. } = request else { return refused };
        let result = world.effects.len() as u8 + 1;
        let last = world.effects.iter().rev().find(|other| self.share_resource(call, **other));
        let asked = Asked { of: of.into(), undisturbed: last.is_none_or(|last| *last == call) };
        let earlier = world.effects_of(call);
        if self.is_transactional() {
            let what = What::Committed { of: of.into(), owner: Epoch(owner.into()), result };
            let event = Event { now: self.clock(world, owner.wrapping_sub(1)), by: Epoch(owner.into()), draw: 0, what };
            let entry = &mut world.keys[usize::from(key)];
            let Write::Put(record) = self.guard.step(entry.record, &event).write else {
                return refused;
            };
            self.put(entry, Some(record));
        } else {
            match self.tool.request(&mut world.keys[usize::from(key)].memory, &asked) {
                Served::Apply => {}
                Served::Accept => return Reply::Result(0),
                Served::Repeat(result) => return Reply::Result(result),
                Served::Refuse(class) => return Reply::Error(class, 0),
            }
        }
        let entry = &mut world.keys[usize::from(key)];
        let memory = &mut entry.memory;
        if memory.effect == 0 || self.description.tool.kind == Kind::Idempotent {
            memory.effect = result;
            memory.since = if self.description.tool.remembers > 0 { world.now } else { 0 };
        }
        if entry.made == 0 {
            entry.made = result;
        }
        entry.applied |= of.bit();
        world.wrongs.slipped_in |= entry.forgotten && earlier > 0;
        world.wrongs.unrecorded |= !recorded;
        if world.effects.try_push(call).is_some() {
            world.wrongs.overflowed = true;
        }
        Reply::Result(result)
    }

    /// The tool answers an observation, or carries out a seal.
    pub(crate) fn look(&self, world: &mut World, question: Message) {
        let Message::Question { key, of, asking, from } = question else { return };
        let memory = &mut world.keys[usize::from(key)].memory;
        let (seal, conclusive) = match asking {
            Asking::Observe { conclusive } => (None, conclusive),
            Asking::Seal(scope) => (Some(scope), true),
        };
        let observation = self.tool.question(memory, of.into(), seal);
        if Epoch(from.into()) != DEAD {
            world.send(Message::Seen { key, of, observation, conclusive, to: from });
        }
    }
}

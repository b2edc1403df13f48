//! The tool: what it does with requests, seals and questions, as far as its kind lets it, and how it fails.

use settled_protocol::{Action, ErrorClass, Event, Observation, Reply, SealScope, Time, What};

use crate::description::{Faults, Kind};
use crate::moves::{How, Rules};
use crate::world::{DEAD, Message, World, bit};

impl Rules {
    /// The tool gets a request.
    pub(crate) fn at_the_tool(&self, world: &mut World, request: Message, how: How) {
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
}

/// The tool answers an observation, or carries out a seal.
pub(crate) fn look(world: &mut World, question: Message) {
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

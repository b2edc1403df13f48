//! Messages that can't matter any more are dropped: worlds that differ only in those are one.
//!
//! That rests on two things that never go back: an ended operation stays ended, and attempts only grow. Where a ledger can
//! lose what it has acknowledged, or a key begins anew, they do go back, and nothing is dropped.

use settled_protocol::{Epoch, ErrorClass, Event, Loss, Reply, SealScope, Time, What};

use crate::description::{Description, Frees, Keeps, KeySource, Kind, RepeatRule};
use crate::machine::{Id, Stage, View, Write};

use super::{Asking, DEAD, KeyState, Message, Of, Phase, Rules, World};

impl Rules {
    /// Whether nothing that ended can be open again, and no attempt can come back.
    pub(crate) fn never_goes_back(description: &Description) -> bool {
        description.ledger == Default::default()
            && description.tool.keeps == Keeps::Forever
            && description.tool.remembers == 0
            && description.guard.window == 0
            && description.guard.repeat == RepeatRule::Replay
            && description.guard.claim == crate::description::Claim::CompareAndSet
            && description.guard.intent == crate::description::Intent::BeforeSend
            && description.caller.key != KeySource::Arguments
    }

    /// Drops what can't matter any more.
    pub(crate) fn forget_what_cannot_matter(&self, world: &mut World) {
        let World { network, keys, callers, now, .. } = world;
        if self.description.is_direct() {
            network.retain(|message| match Message::from(*message) {
                Message::Reply { key, of, .. } => {
                    let caller = &callers[usize::from(key)];
                    matches!(caller.phase, Phase::Waiting { .. }) && caller.calls == of.attempt
                }
                _ => true,
            });
        } else if self.prunes {
            // While nothing waits for a time, it makes no difference which it is.
            if self.only_waits
                && !keys.iter().filter_map(|key| key.record).any(|record| self.guard.view(record).until.is_some())
            {
                *now = 0;
            }
            network.retain(|message| {
                let entry = &keys[usize::from(message.key_of_message())];
                !self.is_futile(&Message::from(*message), entry)
            });
        }
    }

    fn is_futile(&self, message: &Message, entry: &KeyState) -> bool {
        let Some(record) = entry.record else { return false };
        let view = self.guard.view(record);
        let ignored = |what| self.is_ignored(record, what);
        let reply_ignored = |of: Of, reply| match reply {
            Some(reply) => ignored(What::Reply { of: of.into(), reply }),
            None => ignored(What::Lost { of: of.into(), how: Loss::ConnectionLost }),
        };
        match *message {
            // A line may wait for it.
            Message::Request { .. } if self.description.guard.frees != Frees::WhenSettled => false,
            Message::Request { of, owner, cut, .. } => {
                self.cannot_apply(entry, &view, of, owner)
                    && (owner == 0
                        || cut
                        || self.is_past(&view, of)
                            && reply_ignored(of, None)
                            && reply_ignored(of, Some(Reply::Error(ErrorClass::Unproven, 0)))
                            && reply_ignored(of, Some(Reply::Error(ErrorClass::NotRun, 0)))
                            && reply_ignored(of, Some(Reply::Error(ErrorClass::Busy, 0)))
                            && reply_ignored(of, Some(Reply::Result(entry.memory.effect))))
            }
            Message::Working { .. } => false,
            Message::Reply { of, reply, .. } => self.is_past(&view, of) && reply_ignored(of, reply),
            Message::Question { of, asking, .. } => {
                let seals = match asking {
                    Asking::Observe { .. } => false,
                    Asking::Seal(SealScope::Attempts) => entry.memory.effect == 0 && entry.memory.sealed < of.attempt,
                    Asking::Seal(SealScope::Operation) => entry.memory.effect == 0 && entry.memory.sealed < u8::MAX,
                };
                !seals && self.is_past(&view, of)
            }
            Message::Seen { of, observation, conclusive, .. } => {
                self.is_past(&view, of) && ignored(What::Observed { of: of.into(), observation, conclusive })
            }
        }
    }

    /// Whether news of this attempt comes too late for good: its operation has ended, or has gone on to another attempt of
    /// a tool of which only the latest attempt's news counts.
    fn is_past(&self, view: &View, of: Of) -> bool {
        let later = view.attempt.is_some_and(|latest| Of::from(latest) > of);
        matches!(view.stage, Stage::Settled(_)) || later && self.description.declared() != Kind::Deduplicates
    }

    /// Whether the core does nothing about it.
    fn is_ignored(&self, record: Id, what: What<u8>) -> bool {
        let step = self.guard.step(Some(record), &Event { now: Time(0), by: DEAD, draw: 0, what });
        step.write == Write::Nothing && step.acts.is_empty()
    }

    /// Whether a request can't take effect any more, now or later.
    fn cannot_apply(&self, entry: &KeyState, view: &View, of: Of, owner: u8) -> bool {
        match self.description.tool.kind {
            Kind::Opaque | Kind::Observable | Kind::Idempotent => false,
            Kind::Deduplicates => entry.memory.effect > 0,
            Kind::Sealable => !self.tool.can_apply(&entry.memory, of.into()),
            // Its transaction checks the record under its lock.
            Kind::Transactional => {
                let its_own =
                    view.stage == Stage::Dispatched(Epoch(owner.into())) && view.attempt.map(Of::from) == Some(of);
                !its_own && view.attempt.is_some_and(|latest| Of::from(latest) >= of)
            }
        }
    }
}

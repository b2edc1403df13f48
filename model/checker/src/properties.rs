//! The properties of the design that are checked in every state of a world.

use serde::{Deserialize, Serialize};
use settled_protocol::{Action, AttemptId, State};

use crate::description::Kind;
use crate::moves::Rules;
use crate::world::{Message, World, bit};

/// A named property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PropertyName {
    /// No operation has two effects.
    AtMostOnce,
    /// Told `done` implies the effect happened.
    NoPhantomSuccess,
    /// Told `failed` implies no effect has happened and none will.
    NoFalseFailure,
    /// Every answer to one key is the first outcome; other arguments get a conflict.
    FaithfulReplay,
    /// Two wishes never share one effect.
    NoSuppression,
    /// No effect without a durable record of it from before the send.
    IntentFirst,
    /// No send leaves `unknown` except as the design's table allows: of one operation, at most one attempt has been
    /// applied or still can be (not for deduplicating tools).
    UnknownBlocks,
    /// Once faults stop, every operation ends settled or escalated.
    Settles,
}

impl PropertyName {
    /// All of them, in the design's order.
    pub const ALL: [PropertyName; 8] = [
        PropertyName::AtMostOnce,
        PropertyName::NoPhantomSuccess,
        PropertyName::NoFalseFailure,
        PropertyName::FaithfulReplay,
        PropertyName::NoSuppression,
        PropertyName::IntentFirst,
        PropertyName::UnknownBlocks,
        PropertyName::Settles,
    ];

    /// Its name, as in the design.
    pub fn name(self) -> &'static str {
        match self {
            PropertyName::AtMostOnce => "at-most-once",
            PropertyName::NoPhantomSuccess => "no phantom success",
            PropertyName::NoFalseFailure => "no false failure",
            PropertyName::FaithfulReplay => "faithful replay",
            PropertyName::NoSuppression => "no suppression",
            PropertyName::IntentFirst => "intent first",
            PropertyName::UnknownBlocks => "unknown blocks",
            PropertyName::Settles => "settles",
        }
    }

    /// What it says.
    pub fn says(self) -> &'static str {
        match self {
            PropertyName::AtMostOnce => "no operation has two effects",
            PropertyName::NoPhantomSuccess => "told `done` implies the effect happened",
            PropertyName::NoFalseFailure => "told `failed` implies no effect has happened and none will",
            PropertyName::FaithfulReplay => {
                "every answer to one key is the first outcome; other arguments get a conflict"
            }
            PropertyName::NoSuppression => "two wishes never share one effect",
            PropertyName::IntentFirst => "no effect without a durable record of it from before the send",
            PropertyName::UnknownBlocks => {
                "of one operation, at most one attempt has been applied or still can be (not for deduplicating tools)"
            }
            PropertyName::Settles => "once faults stop, every operation ends settled or escalated",
        }
    }

    /// Whether it says anything about a protocol.
    pub fn applies(self, rules: &Rules) -> bool {
        match self {
            PropertyName::UnknownBlocks => rules.description.tool.kind != Kind::Deduplicates,
            PropertyName::Settles => !rules.description.is_direct(),
            _ => true,
        }
    }

    /// Whether it holds in this state.
    pub fn holds(self, rules: &Rules, world: &World) -> bool {
        match self {
            _ if !self.applies(rules) => true,
            PropertyName::AtMostOnce => (0..world.callers.len()).all(|call| world.effects_of(call as u8) <= 1),
            PropertyName::NoPhantomSuccess => !world.wrongs.phantom,
            PropertyName::NoFalseFailure => world.keys.iter().all(|key| key.told_failed & key.applied == 0),
            PropertyName::FaithfulReplay => !world.wrongs.unfaithful,
            PropertyName::NoSuppression => !world.wrongs.suppressed,
            PropertyName::IntentFirst => !world.wrongs.unrecorded,
            PropertyName::UnknownBlocks => {
                (0u8..).zip(&world.keys).all(|(key, _)| live_attempts(rules, world, key).count_ones() <= 1)
            }
            PropertyName::Settles => all_ended(world) || !is_terminal(rules, world),
        }
    }
}

/// The attempts of a key's current operation that have taken effect or still can, as bits.
fn live_attempts(rules: &Rules, world: &World, key: u8) -> u8 {
    let entry = &world.keys[usize::from(key)];
    let can_apply = |of: AttemptId| match rules.description.tool.kind {
        Kind::Sealable => entry.remembered.is_none() && of.attempt.get() > u32::from(entry.sealed),
        Kind::Transactional => entry
            .record
            .is_some_and(|record| matches!(record.state(), State::Dispatched(_)) && record.attempt_id() == Some(of)),
        Kind::Opaque | Kind::Observable | Kind::Deduplicates => true,
    };
    let requested = world.network.iter().filter_map(|message| match *message {
        Message::Request { key: its, of, .. } if its == key => Some(of),
        _ => None,
    });
    let queued = world.guards.iter().flat_map(|guard| &guard.todo).filter_map(|todo| match todo.action {
        Action::Dispatch(dispatch) if todo.key == key => Some(dispatch.of()),
        _ => None,
    });
    requested.chain(queued).filter(|of| can_apply(*of)).fold(entry.applied, |all, of| all | bit(of))
}

fn all_ended(world: &World) -> bool {
    world
        .keys
        .iter()
        .filter_map(|key| key.record)
        .all(|record| record.is_settled() || matches!(record.state(), State::Escalated { .. }))
}

/// Whether nothing can happen any more. Every move consumes a bound or makes progress, so every run ends in such a state,
/// and "settles" is decided there.
fn is_terminal(rules: &Rules, world: &World) -> bool {
    let mut moves = Vec::new();
    rules.moves(world, &mut moves);
    moves.into_iter().all(|what| rules.apply(world, what).is_none())
}

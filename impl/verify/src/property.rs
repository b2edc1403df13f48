//! What is checked of a run.

use std::fmt;

use serde::{Serialize, Serializer};

/// A property of a run. Those of the design have its names; the last four tie the evidence to the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Property {
    /// No operation has two effects.
    AtMostOnce,
    /// Told `done` implies that the effect happened.
    NoPhantomSuccess,
    /// Told `failed` implies that no effect has happened and none will.
    NoFalseFailure,
    /// Every answer to one key is the first outcome; other arguments get a conflict.
    FaithfulReplay,
    /// Two wishes never share one effect.
    NoSuppression,
    /// No effect without a durable record of it from before the send.
    IntentFirst,
    /// No send leaves `unknown` except as the tool's kind allows.
    UnknownBlocks,
    /// Two effects on one resource never overlap.
    NoOverlap,
    /// Of many devices that merge: nothing of it is in a history.
    Convergence,
    /// Of many devices that merge: nothing of it is in a history.
    CausalRespect,
    /// Every operation ends settled or escalated.
    Settles,
    /// No operation exceeds its retry budget.
    BoundedRetries,
    /// After retention no record remains, and no late duplicate slips in.
    BoundedMemory,
    /// An owner that has been fenced sends nothing.
    FencedSilence,
    /// Every step is one that the core takes: its record and its actions are those that the core gives.
    CoreSteps,
    /// What was acknowledged as durable is kept, and each version was stored once.
    Kept,
    /// Every line of the history can be read, fits where it stands, and was needed.
    WholeHistory,
}

impl Property {
    /// All of them.
    pub const ALL: [Property; 17] = [
        Property::AtMostOnce,
        Property::NoPhantomSuccess,
        Property::NoFalseFailure,
        Property::FaithfulReplay,
        Property::NoSuppression,
        Property::IntentFirst,
        Property::UnknownBlocks,
        Property::NoOverlap,
        Property::Convergence,
        Property::CausalRespect,
        Property::Settles,
        Property::BoundedRetries,
        Property::BoundedMemory,
        Property::FencedSilence,
        Property::CoreSteps,
        Property::Kept,
        Property::WholeHistory,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Property::AtMostOnce => "at-most-once",
            Property::NoPhantomSuccess => "no phantom success",
            Property::NoFalseFailure => "no false failure",
            Property::FaithfulReplay => "faithful replay",
            Property::NoSuppression => "no suppression",
            Property::IntentFirst => "intent first",
            Property::UnknownBlocks => "unknown blocks",
            Property::NoOverlap => "no overlap",
            Property::Convergence => "convergence",
            Property::CausalRespect => "causal respect",
            Property::Settles => "settles",
            Property::BoundedRetries => "bounded retries",
            Property::BoundedMemory => "bounded memory",
            Property::FencedSilence => "fenced silence",
            Property::CoreSteps => "core steps",
            Property::Kept => "kept",
            Property::WholeHistory => "whole history",
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Property {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

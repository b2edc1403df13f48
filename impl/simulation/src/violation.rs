//! What must be so, and what is said when it isn't.

use serde::Serialize;
use settled_protocol::Millis;

/// A property of every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Property {
    /// No operation has two effects.
    AtMostOnce,
    /// Told `done` implies that the effect happened.
    NoPhantomSuccess,
    /// Told `failed` implies that no effect has happened and none will.
    NoFalseFailure,
    /// Every answer to one key is the first outcome; other arguments get a conflict.
    FaithfulReplay,
    /// No effect without a durable record of it from before the send.
    IntentFirst,
    /// No attempt is sent while another may still take effect.
    UnknownBlocks,
    /// Two effects on one resource never overlap.
    NoOverlap,
    /// Once faults stop, every operation ends settled or escalated, and every caller is answered.
    Settles,
    /// No operation exceeds its number of attempts.
    BoundedRetries,
    /// After retention no record remains.
    BoundedMemory,
    /// The ledger holds what it has acknowledged.
    KeepsAcknowledged,
    /// The ledger can be opened whatever happened to its disk.
    Opens,
    /// Nothing panics.
    NoPanic,
    /// The recorded history obeys the protocol.
    HistoryHolds,
}

impl Property {
    /// Its name, as in the model.
    pub fn name(self) -> &'static str {
        match self {
            Property::AtMostOnce => "at-most-once",
            Property::NoPhantomSuccess => "no phantom success",
            Property::NoFalseFailure => "no false failure",
            Property::FaithfulReplay => "faithful replay",
            Property::IntentFirst => "intent first",
            Property::UnknownBlocks => "unknown blocks",
            Property::NoOverlap => "no overlap",
            Property::Settles => "settles",
            Property::BoundedRetries => "bounded retries",
            Property::BoundedMemory => "bounded memory",
            Property::KeepsAcknowledged => "keeps what it acknowledged",
            Property::Opens => "opens after a crash",
            Property::NoPanic => "no panic",
            Property::HistoryHolds => "history",
        }
    }
}

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which.
    pub property: Property,
    /// When that was seen, in milliseconds of simulated time.
    pub at: Millis,
    /// What was seen.
    pub what: String,
}

//! What goes over the network between callers, guards and tool, or between devices and their server.

use serde::{Deserialize, Serialize};

use crate::devices::Operation;

/// Which attempt of which operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Which {
    /// The key's number.
    pub key: u8,
    /// The operation under the key.
    pub generation: u32,
    /// The attempt.
    pub attempt: u32,
}

/// A first line on a connection through the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Frame {
    /// A caller's call of a guard.
    Call(Call),
    /// An attempt, to the tool.
    Request {
        /// Which.
        which: Which,
        /// For which logical call.
        call: u8,
        /// Who sends it: a guard from 1, or 0 for a caller.
        from: u8,
    },
    /// A device's operation, to its server.
    Operation(Operation),
    /// A device asks its server for an operation.
    Pull {
        /// Which.
        operation: u8,
        /// What it has.
        held: Vec<u32>,
    },
    /// A question to the tool.
    Question {
        /// About which attempt.
        which: Which,
        /// What is to be sealed, if anything.
        seal: Option<Seal>,
        /// Who asks.
        from: u8,
    },
}

/// A caller's call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The logical call.
    pub call: u8,
    /// The how-manyeth of the caller's, from 1; polls count.
    pub number: u32,
    /// The number of its key.
    pub key: u8,
    /// What stands for its arguments.
    pub arguments: u8,
}

/// How much to seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seal {
    /// Attempts up to the one named.
    Attempts,
    /// The whole operation.
    Operation,
}

/// The answer on a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// It took effect: the number of the effect.
    Done(u32),
    /// An error that proves nothing.
    Error,
    /// It was refused before the tool ran.
    Rejected,
    /// It was refused because the tool is busy.
    Busy,
    /// Seen: the effect with this number.
    Applied(u32),
    /// Seen: nothing.
    NotApplied,
    /// Seen: nothing, and sealed.
    Sealed,
    /// A caller is told so.
    Told(Told),
    /// The server knows the operation.
    Acknowledged {
        /// Its name.
        name: u32,
        /// The device's operations that the server has, and the event times that it gave them, if it corrects event times.
        times: Vec<(u8, u64)>,
    },
    /// What a device asked its server for.
    Pulled(Option<Box<Operation>>),
}

/// What a caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    /// It happened; the number of the effect (0: none is named).
    Done(u32),
    /// It did not happen, and never will.
    Failed,
    /// Not known.
    Unknown,
    /// Under way.
    InProgress,
    /// Other arguments.
    Conflict,
    /// The connection ended.
    ConnectionLost,
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Told::Done(0) => f.write_str("done"),
            Told::Done(effect) => write!(f, "done (effect {effect})"),
            Told::Failed => f.write_str("failed"),
            Told::Unknown => f.write_str("unknown"),
            Told::InProgress => f.write_str("in progress"),
            Told::Conflict => f.write_str("conflict"),
            Told::ConnectionLost => f.write_str("the connection ended"),
        }
    }
}

/// What the tool does with a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// Carries it out and answers.
    Answered,
    /// Stops before the effect, to be killed there.
    StopBefore,
    /// Stops after the effect, to be killed there.
    StopAfter,
    /// Answers with an error and does nothing.
    ErrorBefore,
    /// Answers with an error after the effect.
    ErrorAfter,
    /// Refuses.
    Rejected,
}

/// A delivery to the tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Delivery {
    /// Its number.
    pub number: u64,
    /// What is delivered.
    pub frame: Frame,
    /// What the tool is to do.
    pub how: How,
    /// The time, in the model's units.
    pub now: u64,
    /// The time by the clock of the device that sent it.
    pub theirs: u64,
}

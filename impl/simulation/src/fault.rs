//! What can go wrong at a time of its own.

use serde::{Deserialize, Serialize};
use settled_protocol::Millis;

/// Something that goes wrong at a time of its own. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// A guard's process is killed, and started again after a while.
    Kill {
        /// Which.
        guard: usize,
        /// For how long it is down.
        down: Millis,
    },
    /// A guard's process is stopped, and goes on after a while.
    Stop {
        /// Which.
        guard: usize,
        /// For how long.
        pause: Millis,
    },
    /// A guard and the ledger can't reach each other.
    CutLedger {
        /// Which.
        guard: usize,
        /// For how long.
        pause: Millis,
    },
    /// A guard and the tools can't reach each other.
    CutTools {
        /// Which.
        guard: usize,
        /// For how long.
        pause: Millis,
    },
    /// The ledger's server restarts, or fails over. What is on its way to it is lost, or its answer.
    LedgerDown {
        /// For how long.
        pause: Millis,
    },
    /// The guards' host loses its power, and what isn't synced is lost or torn.
    PowerFails {
        /// For how long they are down.
        down: Millis,
    },
    /// The n-th sync of the ledger's disk from now on fails.
    SyncFails {
        /// Which.
        nth: u64,
    },
    /// The n-th write to the ledger's disk from now on fails.
    WriteFails {
        /// Which.
        nth: u64,
    },
    /// Writes to the ledger's disk are short.
    ShortWrites,
    /// The ledger's disk is full, but for so many bytes.
    DiskFull {
        /// What is left.
        left: u64,
        /// For how long.
        pause: Millis,
    },
    /// After so many operations on its disk the ledger's holder is killed.
    KillHolder {
        /// After how many.
        after: u64,
        /// Whether the host loses its power with it.
        power: bool,
    },
    /// A proxy's client goes away without a word, and its successor comes after a while.
    HangUp {
        /// Whose.
        guard: usize,
        /// After how long.
        down: Millis,
    },
    /// A proxy is told to end.
    EndProxy {
        /// Which.
        guard: usize,
    },
    /// The server behind a proxy is killed.
    KillServer {
        /// Whose.
        guard: usize,
    },
    /// A guard's own clock is set.
    ClockSet {
        /// Whose.
        guard: usize,
        /// By how much, in milliseconds.
        by: i64,
    },
}

impl Fault {
    /// Makes it one of fewer guards.
    pub(crate) fn at_most(&mut self, guards: usize) {
        if let Fault::Kill { guard, .. }
        | Fault::Stop { guard, .. }
        | Fault::CutLedger { guard, .. }
        | Fault::CutTools { guard, .. }
        | Fault::HangUp { guard, .. }
        | Fault::EndProxy { guard }
        | Fault::KillServer { guard }
        | Fault::ClockSet { guard, .. } = self
        {
            *guard %= guards.max(1);
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Fault::Kill { .. } => "guard killed",
            Fault::Stop { .. } => "guard stopped",
            Fault::CutLedger { .. } => "guard cut off from the ledger",
            Fault::CutTools { .. } => "guard cut off from the tools",
            Fault::LedgerDown { .. } => "ledger down or failing over",
            Fault::PowerFails { .. } => "power failed",
            Fault::SyncFails { .. } => "sync failed",
            Fault::WriteFails { .. } => "write failed",
            Fault::ShortWrites => "short writes",
            Fault::DiskFull { .. } => "disk full",
            Fault::KillHolder { .. } => "holder killed at a disk operation",
            Fault::HangUp { .. } => "client hung up",
            Fault::EndProxy { .. } => "proxy told to end",
            Fault::KillServer { .. } => "MCP server killed",
            Fault::ClockSet { .. } => "clock set",
        }
    }
}

/// A fault and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultAt {
    /// When, in milliseconds.
    pub at: Millis,
    /// What.
    pub fault: Fault,
}

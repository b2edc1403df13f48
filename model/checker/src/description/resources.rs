//! What happens to calls of one resource.

use serde::{Deserialize, Serialize};

/// What happens to calls of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resources {
    /// They run at the same time.
    Ignored,
    /// One begins when no other is under way or unknown. To look and to begin is one step, as under a lock of the resource.
    OneAtATime,
    /// Each is recorded with a place in the resource's line, which the ledger gives it in that write. Whoever is first among
    /// those that are not settled may begin; to look and to begin are two steps. What a dead process had waiting is given up
    /// by another.
    Line,
    /// The same, but the place is the time of the call by the clock of the process that got it.
    LineByClock,
    /// As `line`, but a call under way no longer counts once its owner's lease has run out.
    LineFreedByLease,
}

impl Resources {
    /// Whether calls stand in a line.
    pub fn is_line(self) -> bool {
        matches!(self, Resources::Line | Resources::LineByClock | Resources::LineFreedByLease)
    }
}

/// When a resource is free for the next one in its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Frees {
    /// As soon as the operation that had it is settled.
    WhenSettled,
    /// Once, besides, no request of it can arrive any more, and no work on it is under way.
    WhenArrived,
    /// Once, besides, no process can send one any more.
    WhenQuiet,
}

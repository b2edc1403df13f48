//! When a fault strikes that is not aimed at a call of the tool: known from a run without a fault.

use std::time::Duration;

/// Moments of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moments {
    /// The write to its state at which it is struck, counted from 1.
    pub write: Option<u32>,
    /// How many steps have been called for when that write comes, if another moment would not do.
    pub called: Option<usize>,
    /// How long after its first call of the tool it is struck.
    pub after: Option<Duration>,
    /// Whether its writes are counted, without a fault.
    pub watched: bool,
}

/// What was seen of a run without a fault.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// From its first call of the tool to its end.
    pub span: Duration,
    /// How many writes to its state there were.
    pub writes: u32,
    /// The last of them that wrote data before `c` was called.
    pub before_c: Option<u32>,
    /// How many steps had been called for when that write came.
    pub called: Option<usize>,
}

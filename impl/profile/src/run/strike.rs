//! Faults that are aimed at a call of the tool.

use std::time::Duration;

use super::control::Waiting;
use crate::tool::Point;

/// What is to be done, and at which call.
#[derive(Debug, Default)]
pub enum Aim {
    /// Nothing; or it is done.
    #[default]
    Nothing,
    /// The framework is killed when the tool is at a point of a step.
    Kill(&'static str, Point),
    /// It is killed so long after its first call.
    KillAfter(Duration),
    /// The step's connection ends after its effect, so many times.
    CutAnswer(&'static str, u32),
    /// The step's effect happens after its caller has given up.
    Late(&'static str),
    /// SIGINT while the step is under way.
    Cancel(&'static str),
    /// The tool is killed after the step's effect, and started again.
    RestartTool(&'static str),
    /// The step's request is delivered twice.
    Twice(&'static str),
    /// The next write after the step's effect is struck.
    Arm(&'static str),
    /// The framework is stopped after the step's effect.
    Stop(&'static str),
}

/// Calls that are held back until so many processes have called, or are over: on a slow machine they would not meet.
#[derive(Debug)]
pub struct Gathering {
    pub waiting: Vec<Waiting>,
    /// The first of the processes.
    pub from: usize,
    /// How long the first call waits for the others.
    pub patience: Duration,
}

/// A call that is held back, with what it is waited for.
#[derive(Debug)]
pub struct Held {
    pub waiting: Waiting,
    pub why: HeldFor,
    /// Whether its caller has gone, or has given up on it.
    pub given_up: bool,
}

/// Why a call is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldFor {
    /// The effect is to be later than the caller waits.
    Late,
    /// The caller is cancelled meanwhile.
    Cancel,
}

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// The framework's process of this number is killed.
    Kill(usize),
    /// What is held back goes on.
    Release,
    /// Those that have been gathered go on.
    Gathered,
}

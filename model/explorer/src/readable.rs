//! Worlds whose moves and states can be said in words.

use serde::{Deserialize, Serialize};

use crate::system::System;

/// A world whose runs can be read.
pub trait Readable: System {
    /// The protocol's name.
    fn name(&self) -> String;

    /// Its description, as far as it has one that can be written down.
    fn description(&self) -> serde_json::Value;

    /// What a move is, in words. `after` is the state that it leads to.
    fn say(&self, before: &Self::State, what: Self::Move, after: &Self::State) -> Said;

    /// The whole state, in words.
    fn snapshot(&self, state: &Self::State) -> Snapshot;

    /// How many effects there have been on behalf of each logical call.
    fn effects(&self, state: &Self::State) -> Vec<usize>;
}

/// A move in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Who acts: `caller A`, `guard 1`, `ledger`, `network`, `tool`, `person`, `device 1`, `server`.
    pub from: String,
    /// On whom, if on another.
    pub to: Option<String>,
    /// What kind of step it is: a stable name for programs.
    pub kind: &'static str,
    /// What happens.
    pub text: String,
}

/// A state in words, one line for each thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The callers and what they have been told; or the devices.
    pub callers: Vec<String>,
    /// The guards and what they have yet to do.
    pub guards: Vec<String>,
    /// The records in the ledger.
    pub ledger: Vec<String>,
    /// The messages on their way.
    pub network: Vec<String>,
    /// The effects, in order.
    pub effects: Vec<String>,
}

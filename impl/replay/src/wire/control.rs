//! What processes and their conductor tell each other.

use serde::{Deserialize, Serialize};
use settled::protocol::{Epoch, Key, Time, Version};
use settled::{Change, Draw, Entry, Filter, Liveness, Remains, Renewal, Resource};

use super::{Call, How, Role, Seal, Told, Which};
use crate::devices::Replica;

/// What a guard asks of the ledger.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Op {
    Register {
        lease_ms: u64,
    },
    Renew {
        epoch: Epoch,
        lease_ms: u64,
    },
    Retire {
        epoch: Epoch,
    },
    Liveness {
        epoch: Epoch,
    },
    Store {
        change: Box<Change>,
        how: StoreHow,
    },
    Get {
        key: Key,
    },
    Scan {
        filter: Filter,
    },
    Line {
        resource: Resource,
    },
    Due {
        now: Time,
        limit: usize,
    },
    History {
        key: Key,
    },
    Forget {
        key: Key,
        expected: Version,
        remains: Remains,
    },
    Changed {
        key: Key,
        seen: Option<Version>,
    },
    Draw {
        draw: Draw,
    },
    /// The conductor's own: what would be found after a power failure.
    OnDisk {
        key: Key,
    },
    /// The conductor's own: all that is acknowledged becomes durable.
    Sync {
        key: Key,
    },
    /// The conductor's own: the key's record is gone.
    Erase {
        key: Key,
    },
    /// The conductor's own: what is not durable is lost.
    LoseUnsynced,
}

/// How the ledger stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreHow {
    /// Whatever version is there.
    pub anyway: bool,
    /// Only in memory.
    pub volatile: bool,
}

/// The ledger's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum OpAnswer {
    Epoch(Epoch),
    Renewed(Renewal),
    Liveness(Liveness),
    Stored(bool),
    Entry(Option<Box<Entry>>),
    Entries(Vec<Entry>),
    Changes(Vec<Change>),
    Yes(bool),
    Unavailable(String),
}

/// A place at which a guard waits for leave to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gate {
    /// Before it sends an attempt.
    Send(Which),
    /// Before it asks the tool.
    Ask(Which, Option<Seal>),
}

/// What a process says to the conductor.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum FromPart {
    /// It has started; where it can be reached.
    Hello { role: Role, port: u16, incarnation: u32 },
    /// A guard's proxy has started.
    Child { pid: u32 },
    /// A guard asks the ledger.
    Op { id: u64, op: Op },
    /// A guard is at a gate.
    Gate { id: u64, gate: Gate },
    /// A guard has taken in a call: it has been entered, or has joined another.
    Entered { key: u8, joined: bool },
    /// The ledger answers.
    Answer { id: u64, answer: OpAnswer },
    /// The tool has come to the place where it was to stop.
    Stopped { delivery: u64 },
    /// What a replica holds, and a device has yet to hear of.
    Shown { id: u64, replica: Replica, queued: Vec<u8> },
    /// A device has dealt with what came over the network.
    Heard,
    /// The tool has begun work that lasts.
    Working { delivery: u64 },
    /// The callers were told.
    Told { call: u8, number: u32, told: Told },
    /// The callers gave a call up, or saved that it was answered; or a command was carried out.
    Ack { id: u64 },
}

/// What the conductor says to a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ToPart {
    /// The ledger's answer to a guard.
    Answer { id: u64, answer: OpAnswer },
    /// Leave to go on from a gate; or nothing comes of it.
    Go { id: u64, lost: bool },
    /// The ledger is asked.
    Op { id: u64, op: Op },
    /// A guard's clock.
    Clock { ms: u64 },
    /// A guard's waits for this attempt run out: time goes on by this much, for its timers.
    RunOut { id: u64, which: Option<Which>, ms: u64 },
    /// A guard takes further what was left.
    Recover { id: u64 },
    /// A guard forgets what is over.
    Expire { id: u64 },
    /// A guard looks again for a caller that waits.
    LookAgain { id: u64, call: u8 },
    /// A guard is told that a call is cancelled.
    Cancel { id: u64, key: u8 },
    /// A person's decision is recorded.
    Decide { id: u64, key: u8, effect: u32 },
    /// Say that you have come so far.
    Ping { id: u64 },
    /// The callers call.
    Call { call: Call, to_guard: bool },
    /// The callers give a call up.
    Hang { id: u64, call: u8 },
    /// The callers save that a call was answered.
    Save { id: u64, call: u8 },
    /// The tool forgets a key.
    Forget { id: u64, key: u8 },
    /// A device makes an operation, at this time of its clock.
    Make { id: u64, operation: u8, wall: u64 },
    /// A device sends an operation.
    SendOperation { id: u64, operation: u8 },
    /// A device asks its server for an operation.
    Pull { operation: u8 },
    /// A replica says what it holds.
    Show { id: u64 },
    /// The tool ends work that lasts.
    Finish { delivery: u64, how: How },
}

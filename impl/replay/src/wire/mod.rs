//! What the conductor and the processes of a replay say to each other: lines of JSON.

mod control;
mod network;

use serde::{Deserialize, Serialize};
use settled::protocol::Key;

pub use control::{FromPart, Gate, Op, OpAnswer, StoreHow, ToPart};
pub use network::{Call, Delivery, Frame, How, Reply, Seal, Told, Which};

/// A process of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// The callers of all logical calls.
    Callers,
    /// A guard, from 0.
    Guard(u8),
    /// What keeps the records.
    Ledger,
    /// The tool.
    Tool,
    /// A device that acts offline, from 0.
    Device(u8),
    /// The devices' server.
    Server,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Role::Callers => f.write_str("callers"),
            Role::Guard(guard) => write!(f, "guard {}", guard + 1),
            Role::Ledger => f.write_str("ledger"),
            Role::Tool => f.write_str("tool"),
            Role::Device(device) => write!(f, "device {}", device + 1),
            Role::Server => f.write_str("server"),
        }
    }
}

/// What a process is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The protocol's description.
    pub description: serde_json::Value,
    /// The ledger's URL.
    pub ledger: String,
    /// Its keys.
    pub keys: Keys,
    /// The port of the network between them.
    pub network: u16,
    /// The conductor's socket.
    pub socket: std::path::PathBuf,
    /// Where files belong.
    pub directory: std::path::PathBuf,
    /// The keys of which attempts run out of time.
    pub hasty: Vec<u8>,
    /// Whether the guards make the mistakes that the description declares.
    pub mistakes: bool,
    /// The program whose `mcp` is the guard, if the guards are proxies.
    pub proxy: Option<std::path::PathBuf>,
    /// How a process of a replay is started.
    pub program: Option<(std::path::PathBuf, Vec<String>)>,
    /// Which process it is of those that have played this part.
    #[serde(default)]
    pub incarnation: u32,
}

/// How many milliseconds stand for one of the model's units of time.
pub const UNIT_MS: u64 = 360_000_000;

/// How long a guard waits for an attempt that is to run out of time, in milliseconds of its timers.
pub const RUN_OUT_MS: u64 = 3_600_000;

/// What stands for the beginning of time, in milliseconds since the Unix epoch.
pub const BEGINNING_MS: u64 = 1_600_000_000_000;

/// The keys of one replay: several may share a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// What tells them apart from all others.
    pub scope: String,
    /// The tool's name in them.
    pub tool: String,
    /// What stands before the number.
    pub prefix: String,
}

impl Keys {
    /// The key with this number.
    pub fn key(&self, number: u8) -> Option<Key> {
        Key::new(self.scope.clone(), self.tool.clone(), format!("{}k{number}", self.prefix)).ok()
    }

    /// Whether a key is one of them.
    pub fn has(&self, key: &Key) -> bool {
        key.scope() == self.scope
    }
}

/// The number of a key.
pub fn number_of(key: &Key) -> u8 {
    let id = key.id();
    id.strip_prefix("key:").unwrap_or(id).strip_prefix('k').and_then(|number| number.parse().ok()).unwrap_or(u8::MAX)
}

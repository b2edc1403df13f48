//! What can be set for a ledger.

use std::path::PathBuf;
use std::time::Duration;

/// How a [`RedisLedger`](crate::RedisLedger) behaves. What its URL says comes first.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RedisOptions {
    /// What the names of all its keys begin with, in braces, so that all of them are in one slot of a cluster. Ledgers with
    /// different prefixes have nothing to do with each other.
    pub prefix: String,
    /// How long a call may last: it waits as long for a server that doesn't answer or can't be reached, then it is
    /// [`Unavailable`](settled::LedgerError::Unavailable).
    pub patience: Duration,
    /// How long one attempt to connect may last.
    pub connect_timeout: Duration,
    /// Replicas that must have acknowledged each store. That makes it less likely that a failover loses it, but does not
    /// rule it out: the replica that takes over may be another one.
    pub wait: Option<Wait>,
    /// The operator states that what the server acknowledges is never lost: there is no check, and no warning.
    pub trust_durable: bool,
    /// The certificates (PEM) of the authorities that the server's certificate must come from; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate and the key (PEM) that the server asks this client for, if it does.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Which acknowledgements of replicas to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// How many replicas.
    pub replicas: u32,
    /// How long. If fewer have acknowledged a store by then, it is [`Unavailable`](settled::LedgerError::Unavailable).
    pub timeout: Duration,
}

impl Default for RedisOptions {
    /// Keys that begin with `{settled}:`, 5 s for a call, 2 s of them at most for one attempt to connect, no replicas to wait for.
    fn default() -> Self {
        RedisOptions {
            prefix: "settled".to_owned(),
            patience: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(2),
            wait: None,
            trust_durable: false,
            ca: None,
            identity: None,
        }
    }
}

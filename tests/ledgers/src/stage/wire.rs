//! What a test and its guards say to each other: a line of JSON each.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use settled::protocol::{Backoff, Key, Policy, Repeat, Retry, ToolKind};
use settled::{Limits, Resource};

/// The scope of all keys.
pub const SCOPE: &str = "tests";

/// How a guard works. Times in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The ledger's URL.
    pub ledger: String,
    /// The tool's socket.
    pub tool: PathBuf,
    /// How long an owner's lease is.
    pub lease: u64,
    /// How long to wait for an attempt's answer.
    pub attempt: u64,
    /// How long a caller waits for an unknown outcome.
    pub settle: u64,
    /// How long a call waits for its resource.
    pub queue: u64,
    /// How often it looks for what others have left.
    pub maintain: u64,
    /// How long after its send an observable tool's effect can appear.
    pub settling: u64,
    /// How long the deduplicating tool remembers a key.
    pub limit: u64,
    /// The longest that a request to it can be under way.
    pub margin: u64,
    /// How many attempts an operation may have.
    pub attempts: u32,
    /// How many observations that tell nothing there may be.
    pub checks: u32,
    /// The operation at which the process stops itself, once it is durably dispatched and before it is sent.
    pub stop_at: Option<String>,
    /// The longest wait before the second attempt.
    pub backoff: u64,
    /// How long an operation whose id begins with `brief` is kept.
    pub brief: u64,
    /// Where to write the history.
    pub history: Option<PathBuf>,
}

impl Settings {
    /// Short times, for a test.
    pub fn new(ledger: String, tool: PathBuf) -> Settings {
        Settings {
            ledger,
            tool,
            lease: 1_500,
            attempt: 1_000,
            settle: 4_000,
            queue: 20_000,
            maintain: 200,
            settling: 500,
            limit: 4_000,
            margin: 1_000,
            attempts: 5,
            checks: 40,
            stop_at: None,
            backoff: 100,
            brief: 100,
            history: None,
        }
    }

    /// What the tool of this name declares of the operation with this id.
    ///
    /// # Panics
    /// If there is none.
    pub fn policy(&self, tool: &str, id: &str) -> Policy {
        let kind = match tool {
            "opaque" => ToolKind::Opaque,
            "read-only" => ToolKind::ReadOnly,
            "idempotent" => ToolKind::Idempotent,
            "sealable" => ToolKind::Sealable,
            "transactional" => ToolKind::Transactional,
            "observable" => ToolKind::Observable { settling: self.settling },
            "deduplicates" => {
                ToolKind::Deduplicates { limit: self.limit, margin: self.margin, remembers_rejections: false }
            }
            other => panic!("there is no tool {other}"),
        };
        let backoff = Backoff { base: self.backoff, cap: self.backoff * 5 };
        let retry = Retry { attempts: self.attempts, total: 60_000, checks: self.checks, backoff };
        let window = id.starts_with("brief").then_some(self.brief);
        let repeat = Repeat { window, ..Repeat::ALWAYS_REPLAY };
        Policy { retry, repeat, ..Policy::new(kind) }
    }

    /// How long things may take.
    pub fn limits(&self) -> Limits {
        Limits {
            attempt: Duration::from_millis(self.attempt),
            settle: Duration::from_millis(self.settle),
            queue: Duration::from_millis(self.queue),
            transit: Duration::from_millis(100),
            tombstone: None,
        }
    }
}

/// One call, as its caller asks for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// The tool's name, which is its kind.
    pub tool: String,
    /// Names the operation.
    pub id: String,
    /// What it must have to itself.
    pub resource: Option<String>,
}

impl Request {
    /// A call of an opaque tool, without a resource.
    pub fn opaque(id: impl Into<String>) -> Request {
        Request::to("opaque", id)
    }

    /// A call of the tool of this name, without a resource.
    pub fn to(tool: &str, id: impl Into<String>) -> Request {
        Request { tool: tool.to_owned(), id: id.into(), resource: None }
    }

    /// Of an observable one.
    pub fn observable(id: impl Into<String>) -> Request {
        Request { tool: "observable".to_owned(), ..Request::opaque(id) }
    }

    /// Of one that deduplicates.
    pub fn deduplicates(id: impl Into<String>) -> Request {
        Request { tool: "deduplicates".to_owned(), ..Request::opaque(id) }
    }

    /// Which must have this to itself.
    #[must_use]
    pub fn of(self, resource: impl Into<String>) -> Request {
        Request { resource: Some(resource.into()), ..self }
    }

    /// Its idempotency key.
    ///
    /// # Panics
    /// If its parts make none.
    pub fn key(&self) -> Key {
        Key::new(SCOPE, &*self.tool, &*self.id).unwrap()
    }

    /// What it must have to itself.
    pub fn wanted(&self) -> Option<Resource> {
        self.resource.clone().map(|name| Resource { scope: SCOPE.to_owned(), name })
    }
}

/// A line to a guard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Line {
    /// A caller calls.
    Call {
        /// Names the call, for its answer.
        number: u64,
        /// What is asked for.
        request: Request,
    },
    /// A caller wants its call not to happen.
    Cancel {
        /// Names the wish, for its answer.
        number: u64,
        /// What was asked for.
        request: Request,
    },
}

/// What a caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It happened.
    Done,
    /// It did not and never will.
    Failed,
    /// It may have.
    Unknown,
    /// It is under way.
    InProgress,
    /// Other arguments were used with its key.
    Conflict,
    /// It is no longer kept.
    Expired,
    /// Nothing was sent for this call; it may be repeated.
    NotSent,
    /// It was given up, unsent.
    Cancelled,
    /// There was nothing to give up.
    NotCancelled,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// What it is.
    pub answer: Answer,
    /// The result's or the error's body.
    pub body: String,
    /// Whether it is told again.
    pub replayed: bool,
}

/// A line from a guard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Said {
    /// It works now, under this epoch.
    Ready {
        /// The epoch.
        epoch: u32,
    },
    /// The answer to a line.
    Told {
        /// That line's number.
        number: u64,
        /// What is told.
        told: Told,
    },
}

/// What a guard asks of the tool: one line on a connection of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ask {
    /// The tool's name.
    pub tool: String,
    /// The operation's id, under which the tool deduplicates.
    pub id: String,
    /// The attempt.
    pub attempt: u32,
    /// What it is done to.
    pub resource: Option<String>,
    /// Only whether it was applied.
    pub observe: bool,
    /// Whether it was applied, and if not, never to apply this.
    pub seal: Option<Seal>,
}

/// What a tool is to forbid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seal {
    /// The attempts up to the one asked about.
    Attempts,
    /// The whole operation.
    Operation,
}

/// What the tool answers, in one line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// It happened.
    Done(String),
    /// Observing: it is not to be seen.
    NotApplied,
    /// Observing: it can't be told.
    Unclear,
    /// Sealing: it was not applied, and what was to be forbidden is.
    Sealed,
    /// It was sealed before, and was not applied.
    Refused,
}

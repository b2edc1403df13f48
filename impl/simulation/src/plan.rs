//! What happens in one simulated run, apart from what follows from it: drawn from a seed, or read from a file.
//!
//! A plan and the code determine a run wholly. What goes wrong in a run is minimised by making its plan smaller.

use serde::{Deserialize, Serialize};
use settled_protocol::{Backoff, Ends, Millis, Policy, Repeat, Retry, ToolKind};

use crate::fault::FaultAt;

/// How much goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// A few faults.
    Calm,
    /// Many, often several at once.
    Stormy,
}

/// The ledger of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LedgerKind {
    /// In memory, for processes on one host.
    Memory,
    /// Like PostgreSQL with a synchronous standby: on another host; it restarts and fails over without loss.
    Postgres,
    /// The file ledger's own code on a simulated disk; one process holds it and serves the others.
    File,
}

/// A defect that is put in on purpose, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plant {
    /// An opaque tool's unknown is sent again.
    ResendUnknown,
    /// Every error counts as "it did not happen".
    BelieveErrors,
    /// "Not applied" counts although something may still be on its way.
    ObserveEarly,
    /// Other arguments under the same key are answered as if they were the first ones.
    IgnoreArguments,
    /// The ledger acknowledges a change before it is durable.
    AcknowledgeEarly,
    /// An outcome is told before it is stored.
    AnswerBeforeStore,
}

impl Plant {
    /// All of them.
    pub const ALL: [Plant; 6] = [
        Plant::ResendUnknown,
        Plant::BelieveErrors,
        Plant::ObserveEarly,
        Plant::IgnoreArguments,
        Plant::AcknowledgeEarly,
        Plant::AnswerBeforeStore,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Plant::ResendUnknown => "resend-unknown",
            Plant::BelieveErrors => "believe-errors",
            Plant::ObserveEarly => "observe-early",
            Plant::IgnoreArguments => "ignore-arguments",
            Plant::AcknowledgeEarly => "acknowledge-early",
            Plant::AnswerBeforeStore => "answer-before-store",
        }
    }
}

/// What a tool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Nothing can be found out about a lost call.
    Opaque,
    /// Changes nothing.
    ReadOnly,
    /// A second application changes nothing.
    Idempotent,
    /// Can be asked.
    Observable,
    /// Can be told never to.
    Sealable,
    /// Applies a key once.
    Deduplicates,
    /// Commits effect and record together.
    Transactional,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] = [
        Kind::Opaque,
        Kind::ReadOnly,
        Kind::Idempotent,
        Kind::Observable,
        Kind::Sealable,
        Kind::Deduplicates,
        Kind::Transactional,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Opaque => "opaque",
            Kind::ReadOnly => "read-only",
            Kind::Idempotent => "idempotent",
            Kind::Observable => "observable",
            Kind::Sealable => "sealable",
            Kind::Deduplicates => "deduplicates",
            Kind::Transactional => "transactional",
        }
    }
}

/// A tool of a run. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolPlan {
    /// What it is.
    pub kind: Kind,
    /// Its errors mean that nothing happened.
    pub errors_final: bool,
    /// It remembers what it has rejected (deduplicating tools).
    pub remembers: bool,
    /// When an ended operation lets its key begin a new one.
    pub ends: Ends,
    /// How long ended operations are kept; none: for ever.
    pub window: Option<Millis>,
    /// How long a tombstone is kept after that.
    pub tombstone: Option<Millis>,
    /// Whether its calls want a resource to themselves.
    pub resource: bool,
    /// The longest way of a request or an answer.
    pub transit: Millis,
    /// The longest that it takes.
    pub takes: Millis,
    /// How long an answer is waited for.
    pub timeout: Millis,
    /// How long a caller is kept waiting for an unknown.
    pub settle: Millis,
    /// The largest number of attempts.
    pub attempts: u32,
    /// The largest number of observations that tell nothing.
    pub checks: u32,
    /// How long it remembers a key (deduplicating tools).
    pub limit: Millis,
}

/// The longest that a process is stopped.
pub const LONGEST_STOP: Millis = 9_000;
/// The longest that a store can be on its way to the ledger, or be tried again.
pub const LONGEST_STORE: Millis = 6_000;
/// The longest that a request is queued in its process.
pub const LONGEST_QUEUE: Millis = 3_000;
/// The longest that callers go on repeating a call.
pub const HORIZON: Millis = 8_000;

impl ToolPlan {
    /// What the guard is told of it.
    pub fn policy(&self, plant: Option<Plant>) -> Policy {
        let slack = 200;
        let tool = match self.kind {
            Kind::Opaque => ToolKind::Opaque,
            Kind::ReadOnly => ToolKind::ReadOnly,
            Kind::Idempotent => ToolKind::Idempotent,
            Kind::Observable => ToolKind::Observable { settling: self.transit + self.takes + slack },
            Kind::Sealable => ToolKind::Sealable,
            Kind::Deduplicates => ToolKind::Deduplicates {
                limit: self.limit,
                margin: LONGEST_STOP + LONGEST_STORE + LONGEST_QUEUE + self.transit + self.takes + slack,
                remembers_rejections: self.remembers,
            },
            Kind::Transactional => ToolKind::Transactional,
        };
        let mut policy = Policy {
            errors_final: self.errors_final,
            single_delivery: !self.duplicates(),
            repeat: Repeat { ends: self.ends, window: self.window },
            retry: Retry {
                attempts: self.attempts,
                total: 60_000,
                checks: self.checks,
                backoff: Backoff { base: 50, cap: 2_000 },
            },
            ..Policy::new(tool)
        };
        match plant {
            Some(Plant::ResendUnknown) => policy.rules.hold_unknown = false,
            Some(Plant::BelieveErrors) => policy.rules.doubt_errors = false,
            Some(Plant::ObserveEarly) => policy.rules.wait_for_quiet = false,
            Some(Plant::IgnoreArguments) => policy.rules.check_arguments = false,
            Some(Plant::AcknowledgeEarly | Plant::AnswerBeforeStore) | None => {}
        }
        policy
    }

    /// Whether the way to it may duplicate requests (rule 1: only where that does no harm).
    pub fn duplicates(&self) -> bool {
        matches!(self.kind, Kind::Deduplicates | Kind::Transactional)
    }
}

/// How often something goes wrong, per thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Rates {
    /// A request to the ledger is lost before it arrives.
    pub ledger_request_lost: u32,
    /// A ledger's answer is lost: whether the change was made is not known.
    pub ledger_answer_lost: u32,
    /// A change is on its way to the ledger for seconds, and its sender has given up meanwhile.
    pub ledger_late: u32,
    /// A process hangs between its last look at its lease and the first byte of a request.
    pub gap: u32,
    /// The tool can't be reached: certainly nothing was sent.
    pub refused: u32,
    /// The tool is busy.
    pub busy: u32,
    /// The tool dies before the effect.
    pub tool_dies_before: u32,
    /// The tool dies after the effect.
    pub tool_dies_after: u32,
    /// The tool answers with an error, without an effect.
    pub error_before: u32,
    /// The tool answers with an error that follows an effect.
    pub error_after: u32,
    /// The tool's answer never comes.
    pub reply_lost: u32,
    /// The tool takes as long as it can.
    pub slow: u32,
    /// A request to the tool is duplicated, where that is allowed.
    pub duplicated: u32,
    /// A question to the tool fails.
    pub question_fails: u32,
    /// A call never reaches the guard, or its answer never reaches the caller.
    pub call_lost: u32,
}

impl Rates {
    /// Each rate with its name.
    pub fn each(&mut self) -> [(&'static str, &mut u32); 15] {
        [
            ("ledger request lost", &mut self.ledger_request_lost),
            ("ledger answer lost", &mut self.ledger_answer_lost),
            ("ledger change late", &mut self.ledger_late),
            ("hangs before the first byte", &mut self.gap),
            ("tool refuses the connection", &mut self.refused),
            ("tool is busy", &mut self.busy),
            ("tool dies before the effect", &mut self.tool_dies_before),
            ("tool dies after the effect", &mut self.tool_dies_after),
            ("error without effect", &mut self.error_before),
            ("error after the effect", &mut self.error_after),
            ("reply lost", &mut self.reply_lost),
            ("tool is slow", &mut self.slow),
            ("request duplicated", &mut self.duplicated),
            ("question fails", &mut self.question_fails),
            ("call or answer lost", &mut self.call_lost),
        ]
    }
}

/// What one caller does about one wish. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallPlan {
    /// When it first asks.
    pub at: Millis,
    /// Which wish: all calls for one wish have the same key.
    pub wish: u32,
    /// Which tool.
    pub tool: usize,
    /// Which guard it asks first.
    pub guard: usize,
    /// How long it waits before it asks again, elsewhere.
    pub patience: Millis,
    /// How often it asks at most.
    pub asks: u32,
    /// When it cancels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancels: Option<Millis>,
    /// It asks with other arguments than the others, under the same key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other: bool,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Where everything random in the run comes from.
    pub seed: u64,
    /// A defect put in on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plant: Option<Plant>,
    /// The ledger.
    pub ledger: LedgerKind,
    /// The guards are MCP proxies, each between a client and a server of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proxied: bool,
    /// How many guards.
    pub guards: usize,
    /// Their leases, in milliseconds.
    pub lease: Millis,
    /// The bytes of a segment of the file ledger's log.
    pub segment: u64,
    /// How long the load and the faults last, in milliseconds.
    pub load: Millis,
    /// The tools.
    pub tools: Vec<ToolPlan>,
    /// How often something goes wrong.
    pub rates: Rates,
    /// What callers do.
    pub calls: Vec<CallPlan>,
    /// What goes wrong at a time of its own.
    pub faults: Vec<FaultAt>,
}

/// What can't be run.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unrunnable(String);

impl Plan {
    /// Whether its parts fit together.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), Unrunnable> {
        let wrong = |what: &str| Err(Unrunnable(what.to_owned()));
        if !(1..=64).contains(&self.guards) {
            return wrong("`guards` is not from 1 to 64");
        }
        if !(256..=1 << 30).contains(&self.segment) {
            return wrong("`segment` is not from 256 to 1073741824");
        }
        if self.calls.iter().any(|call| call.tool >= self.tools.len() || call.guard >= self.guards) {
            return wrong("a call is of a tool or to a guard that there isn't");
        }
        if self.tools.iter().any(|tool| tool.transit == 0 || tool.takes == 0 || tool.attempts == 0) {
            return wrong("a tool's `transit`, `takes` or `attempts` is 0");
        }
        let on_disk = self.ledger == LedgerKind::File;
        if on_disk && self.tools.iter().any(|tool| tool.kind == Kind::Transactional) {
            return wrong("a transactional tool needs a ledger that is a server");
        }
        let can_be_proxied = |tool: &ToolPlan| {
            matches!(tool.kind, Kind::Opaque | Kind::Deduplicates) && !tool.resource && tool.window.is_none()
        };
        if self.proxied && !self.tools.iter().all(can_be_proxied) {
            return wrong("behind proxies, a tool is opaque or deduplicates, has no `resource`, and no `window`");
        }
        Ok(())
    }
}

//! What the engine takes from its surroundings: a clock, a history, and someone to alert.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use settled_protocol::{Cause, Digest, Time};

use crate::history::{History, NoHistory};
use crate::ledger::Entry;

/// Where the time comes from.
pub trait Clock: Send + Sync + 'static {
    /// Now, in milliseconds since the Unix epoch.
    fn now(&self) -> Time;

    /// How long it has been running, since whatever point: it never jumps, and goes on while the process is stopped.
    /// Leases are measured by it.
    fn running(&self) -> Duration {
        crate::time::since_boot()
    }
}

/// The host's clock, as it was when this process first read it, and the time that has gone by since: setting the host's clock
/// does not change it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        crate::time::steady_wall_clock()
    }
}

/// Tells a person that an unknown operation is theirs.
pub trait Alerts: Send + Sync + 'static {
    /// Called for every escalation, and again after a crash that came before the escalation was recorded. Must not block.
    fn raise(&self, entry: &Entry, cause: &Cause<Digest>);

    /// A tool has failed persistently: this many of its attempts in a row ended without a result. A caller that has
    /// another way may take it. Called once, until [`recovered`](Alerts::recovered). Must not block.
    fn failing(&self, scope: &str, tool: &str, attempts: u32) {
        tracing::error!(scope, tool, attempts, "a tool fails persistently");
    }

    /// A tool that had failed persistently has given a result again.
    fn recovered(&self, scope: &str, tool: &str) {
        tracing::warn!(scope, tool, "a tool that failed persistently has recovered");
    }
}

/// Alerts by an error in the log (`tracing`).
#[derive(Clone, Copy, Debug, Default)]
pub struct LogAlerts;

impl Alerts for LogAlerts {
    fn raise(&self, entry: &Entry, cause: &Cause<Digest>) {
        let why = match cause {
            Cause::TimedOut => "no answer came in time",
            Cause::ConnectionLost => "the connection was lost before an answer came",
            Cause::Error(_) => "the tool answered with an error that can follow an effect",
            Cause::Refused(_) => "the last attempt did not run, but an earlier one may have taken effect",
            Cause::OwnerLost => "the process that had sent it is gone, or its lease has run out",
        };
        tracing::error!(
            key = %entry.key,
            attempt = entry.record.sent().map(|sent| sent.attempt().get()),
            "it is not known whether this operation happened ({why}): it will not be sent again; find out, then record what happened",
        );
    }
}

/// How an [`Engine`](crate::Engine) works.
#[derive(Clone)]
pub struct EngineOptions {
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where everything that happens is written down.
    pub history: Arc<dyn History>,
    /// Who is told of an unknown operation that needs a person.
    pub alerts: Arc<dyn Alerts>,
    /// How long a caller waits for an attempt that another caller or process has under way, before it is told
    /// [`InProgress`](crate::Answer::InProgress); `None`: until there is an answer.
    pub patience: Option<Duration>,
    /// How long a caller waits for a ledger that is unavailable.
    pub ledger_patience: Duration,
    /// How long this process counts as the owner of what it has sent without having renewed that at the ledger. Shorter: others
    /// take over sooner from a process that is frozen or cut off; longer: fewer renewals, three of which fit into it.
    pub lease: Duration,
    /// The retry budget of all processes on the ledger.
    pub retry_budget: RetryBudget,
    /// After this many attempts in a row without a result a tool counts as failing persistently.
    pub failing_after: u32,
    /// How long, after the caller was told "unknown", the engine goes on trying to store a tool's reply while the ledger is
    /// unavailable.
    pub reply_patience: Duration,
}

/// How many retries all processes on a ledger may make together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBudget {
    /// Retries per thousand requests, in the long run.
    pub per_mille: u32,
    /// Retries that may come at once.
    pub burst: u32,
}

impl Default for RetryBudget {
    /// A tenth of the requests, a hundred at once.
    fn default() -> Self {
        RetryBudget { per_mille: 100, burst: 100 }
    }
}

impl Default for EngineOptions {
    /// The system clock, no history, alerts in the log, callers who wait until there is an answer, 5 s for the ledger, leases
    /// of 15 s, 10 minutes for replies to be stored.
    fn default() -> Self {
        EngineOptions {
            clock: Arc::new(SystemClock),
            history: Arc::new(NoHistory),
            alerts: Arc::new(LogAlerts),
            patience: None,
            ledger_patience: Duration::from_secs(5),
            lease: Duration::from_secs(15),
            retry_budget: RetryBudget::default(),
            failing_after: 5,
            reply_patience: Duration::from_secs(600),
        }
    }
}

impl fmt::Debug for EngineOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineOptions")
            .field("patience", &self.patience)
            .field("ledger_patience", &self.ledger_patience)
            .field("reply_patience", &self.reply_patience)
            .finish_non_exhaustive()
    }
}

//! What the engine takes from its surroundings: a clock, a history, and someone to alert.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use settled_protocol::{Cause, Digest, Time};

use crate::history::{History, NoHistory};
use crate::ledger::Entry;

/// Where the time comes from.
pub trait Clock: Send + Sync + 'static {
    /// Now, in milliseconds since the Unix epoch.
    fn now(&self) -> Time;
}

/// The host's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Tells a person that an unknown operation is theirs.
pub trait Alerts: Send + Sync + 'static {
    /// Called for every escalation, and again after a crash that came before the escalation was recorded. Must not block.
    fn raise(&self, entry: &Entry, cause: &Cause<Digest>);
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
            Cause::OwnerLost => "the process that had sent it is gone",
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
    /// How long, after the caller was told "unknown", the engine goes on trying to store a tool's reply while the ledger is
    /// unavailable.
    pub reply_patience: Duration,
}

impl Default for EngineOptions {
    /// The system clock, no history, alerts in the log, callers who wait until there is an answer, 5 s for the ledger, 10
    /// minutes for replies to be stored.
    fn default() -> Self {
        EngineOptions {
            clock: Arc::new(SystemClock),
            history: Arc::new(NoHistory),
            alerts: Arc::new(LogAlerts),
            patience: None,
            ledger_patience: Duration::from_secs(5),
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

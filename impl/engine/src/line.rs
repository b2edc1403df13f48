//! Waiting for a resource.
//!
//! An operation that wants a resource is recorded as created, with its place in the resource's line, before anything is sent.
//! Whoever is first among the unsettled ones may be sent. Places only grow, so whoever finds itself first stays first until it
//! is settled: looking and beginning need no lock. The place is the record's, not the process's: an operation whose
//! owner died while it was under way keeps the resource until its outcome is known, because its effect may still be going on.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use settled_protocol::{Digest, Key, Record, State, What};
use tokio::time::Instant;

use crate::drive::{Drive, Subject};
use crate::engine::{Engine, Inner};
use crate::error::EngineError;
use crate::history::Happened;
use crate::keep::Tries;
use crate::ledger::{Entry, LedgerError, Liveness};
use crate::operation::Limits;
use crate::recover::{NoTool, unknown_policy};

/// What a look at the line says about an operation in it.
pub(crate) enum Turn {
    /// It is the first: it may be sent.
    Ours,
    /// Something has changed, or may have: look at the record again.
    LookAgain,
    /// Whoever has waited for another caller's operation has waited for long enough.
    StillInProgress,
    /// It is to be given up, unsent; why.
    GiveUp(String),
}

impl Drive {
    /// Waits a while for the operation's turn.
    pub(super) async fn turn(&self, entry: &Entry) -> Result<Turn, LedgerError> {
        let Some(resource) = &entry.resource else {
            return Ok(Turn::Ours);
        };
        let inner = &self.inner;
        let mut tries = Tries::new(inner.options.ledger_patience);
        let line = loop {
            match inner.ledger.line(resource).await {
                Ok(line) => break line,
                Err(error) => tries.again_after(error).await?,
            }
        };
        if !line.iter().any(|waiting| waiting.key == entry.key && waiting.place == entry.place) {
            return Ok(Turn::LookAgain);
        }
        let Some(first) = line.into_iter().next().filter(|first| first.key != entry.key) else {
            return Ok(Turn::Ours);
        };
        match first.record.state() {
            State::Created if inner.has_been_left(&first).await => {
                inner.cancel_left(&first).await?;
                return Ok(Turn::LookAgain);
            }
            State::Escalated { .. } => {
                return Ok(Turn::GiveUp(format!(
                    "nothing was sent: {resource} is held by {}, whose outcome is not known; a person has been asked, and until \
                     it is decided nothing else may be done with this resource",
                    first.key
                )));
            }
            _ => {}
        }
        let patience = async {
            match self.patience.filter(|_| !self.part.began) {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let own = inner.changed(&entry.key, Some(entry.record.version()));
        let others = inner.changed(&first.key, Some(first.record.version()));
        tokio::select! {
            biased;
            () = own => Ok(Turn::LookAgain),
            () = others => Ok(Turn::LookAgain),
            () = patience => Ok(Turn::StillInProgress),
            () = tokio::time::sleep_until(self.line_until) => Ok(Turn::GiveUp(format!(
                "nothing was sent: {resource} was not free in time; it is held by {}", first.key
            ))),
        }
    }

    /// Gives up an operation that waits, unsent.
    pub(super) fn give_up_waiting(&mut self, reason: String) -> What<Digest> {
        self.inner.tell(&self.subject.key, || Happened::GivenUp { reason: reason.clone() });
        self.reason = Some(Bytes::from(reason));
        What::Cancel
    }
}

impl Inner {
    /// Whether nobody is left to send an operation that waits.
    async fn has_been_left(&self, waiting: &Entry) -> bool {
        if self.in_flight.is_led(&waiting.key) {
            return false;
        }
        if self.ownership.is_mine(waiting.by) {
            return true;
        }
        self.liveness(waiting.by).await != Liveness::Alive
    }

    /// Cancels an operation that waits and that nobody is left to send. If somebody is after all, the compare-and-set decides.
    async fn cancel_left(self: &Arc<Self>, waiting: &Entry) -> Result<(), LedgerError> {
        tracing::warn!(key = %waiting.key, "gives up an operation that was waiting for its resource: its process is gone");
        self.cancelled(waiting.clone()).await.map(|_| ())
    }

    /// Cancels an operation that was created and not sent (rule 11); `false` if it was sent meanwhile.
    pub(crate) async fn cancelled(self: &Arc<Self>, entry: Entry) -> Result<bool, LedgerError> {
        let subject = Subject {
            key: entry.key.clone(),
            fingerprint: entry.record.fingerprint(),
            policy: unknown_policy(),
            tool: Arc::new(NoTool),
            resource: None,
            limits: Limits { attempt: Duration::ZERO, ..Limits::default() },
        };
        let mut drive = Drive::new(self.clone(), Arc::new(subject), None);
        let generation = entry.record.generation();
        drive.about = Some(generation);
        drive.view = Some(Some(entry));
        drive.perform(What::Cancel).await?;
        let after = drive.view.take().flatten().map(|entry| entry.record);
        let unsent = |record: &Record<Digest>| record.is_settled() && record.sent().is_none();
        Ok(after.is_some_and(|record| record.generation() == generation && unsent(&record)))
    }
}

impl Engine {
    /// Gives up a call that still waits for its resource. `true`: nothing of it was sent, and nothing will be; whoever waits
    /// for it is told that it failed. `false`: there is nothing to cancel; what was sent goes on to its outcome.
    ///
    /// # Errors
    /// If the ledger fails. Whether the call is given up is then not known.
    pub async fn cancel(&self, key: &Key) -> Result<bool, EngineError> {
        let Some(entry) = self.inner.look(key).await? else {
            return Ok(false);
        };
        if !matches!(entry.record.state(), State::Created) {
            return Ok(false);
        }
        Ok(self.inner.cancelled(entry).await?)
    }
}

/// When waiting that begins now is over; in the far future if that can't be reckoned.
pub(crate) fn after(wait: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(wait).unwrap_or_else(|| now + Duration::from_secs(30 * 365 * 86_400))
}

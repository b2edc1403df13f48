//! What a driver waits for, and what it does when that comes.

use std::time::Duration;

use bytes::Bytes;
use settled_protocol::{AttemptId, Digest, ErrorClass, Loss, Reply, State, ToolKind, What};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::attempt::Arrived;
use crate::drive::{Drive, Waiting};
use crate::engine::within;
use crate::history::Happened;
use crate::ledger::{Entry, LedgerError};
use crate::operation::Answer;

/// What may be done about an operation that another driver, or another process, has under way.
enum Found {
    Raise(What<Digest>),
    /// It stands as recorded, and was never sent: the body says so.
    Unsent(AttemptId),
    LookAgain,
    StillInProgress,
    LeaveAlone,
}

/// The body of the error of an operation whose attempt was recorded, but never sent.
const NEVER_SENT: &[u8] =
    b"the ledger became unavailable before the call was sent: nothing was sent, and nothing will be";

impl Drive {
    /// Waits for what is to be waited for, or for any reply that comes before it.
    pub(super) async fn wait_for(
        &mut self,
        replies: &mut mpsc::UnboundedReceiver<Arrived>,
    ) -> Result<Option<What<Digest>>, LedgerError> {
        let other = async {
            match self.waiting {
                Waiting::Nothing => Ok(Found::LeaveAlone),
                Waiting::Reply { of, until } => {
                    tokio::time::sleep_until(until).await;
                    Ok(Found::Raise(What::Lost { of, how: Loss::TimedOut }))
                }
                Waiting::Until(time) => {
                    tokio::time::sleep(Duration::from_millis(time.since(self.inner.now()))).await;
                    let entry = self.inner.look(&self.subject.key).await?;
                    let sender_done = match &entry {
                        Some(entry) => self.inner.sender_done(&self.subject.key, entry).await,
                        None => false,
                    };
                    Ok(Found::Raise(resume(false, sender_done)))
                }
                Waiting::Elsewhere => self.look_elsewhere().await,
            }
        };
        let found = tokio::select! {
            biased;
            Some(arrived) = replies.recv() => return Ok(Some(self.take(arrived))),
            found = other => found?,
        };
        self.waiting = Waiting::Nothing;
        match found {
            Found::Raise(what) => {
                if let What::Lost { of, .. } = what {
                    let (generation, attempt) = (of.generation, of.attempt.get());
                    let how = "timed out".to_owned();
                    self.inner.tell(&self.subject.key, || Happened::Lost { generation, attempt, how });
                } else {
                    self.view = None;
                }
                Ok(Some(what))
            }
            Found::Unsent(of) => {
                self.view = None;
                let error = self.bodies.keep(Bytes::from_static(NEVER_SENT));
                let reply = Reply::Error(ErrorClass::NotRun, error);
                Ok(Some(What::Reply { of, reply }))
            }
            Found::LookAgain => {
                self.view = None;
                Ok(self.ask.is_some().then(|| self.call_event()))
            }
            Found::StillInProgress => {
                self.tell_all(Answer::InProgress);
                Ok(None)
            }
            Found::LeaveAlone => Ok(None),
        }
    }

    /// Waits for an attempt that this driver has not sent, as long as whoever sent it may be at work on it.
    async fn look_elsewhere(&self) -> Result<Found, LedgerError> {
        let (inner, key) = (&self.inner, &self.subject.key);
        let Some(entry) = inner.look(key).await? else {
            return Ok(Found::LookAgain);
        };
        let record = &entry.record;
        Ok(match (record.state(), record.attempt_id()) {
            (State::Dispatched(sent), Some(of)) if sent.owner() == inner.epoch => {
                if let Some(over) = inner.attempts.over(key, of) {
                    self.wait_in_line(&entry, over).await
                } else if inner.attempts.is_unsent(key, record) {
                    Found::Unsent(of)
                } else {
                    // It has returned and could not be recorded, or its driver ended between the write and the send.
                    self.take_further(&entry).await
                }
            }
            (State::Dispatched(sent) | State::Unknown { sent, .. }, _) => {
                let driven_here = sent.owner() == inner.epoch;
                if driven_here || !inner.is_alive(sent.owner()).await {
                    self.take_further(&entry).await
                } else if self.ask.is_some() {
                    let change = inner.changed(key, Some(record.version()));
                    self.wait_in_line(&entry, change).await
                } else {
                    Found::LeaveAlone
                }
            }
            (State::Created, _) => {
                inner.changed(key, Some(record.version())).await;
                match inner.look(key).await? {
                    // Nobody has sent it meanwhile; if somebody does now, the compare-and-set decides (rule 5).
                    Some(now) if now.record == entry.record => self.take_further(&entry).await,
                    _ => Found::LookAgain,
                }
            }
            (State::Escalated { .. } | State::Confirmed { .. } | State::Settled { .. }, _) => Found::LookAgain,
        })
    }

    async fn take_further(&self, entry: &Entry) -> Found {
        let sender_done = self.inner.sender_done(&self.subject.key, entry).await;
        Found::Raise(resume(true, sender_done))
    }

    /// Waits for news of someone else's work. Without progress for longer than any of its steps can take, its driver has
    /// given up (it could not reach the ledger, say), although its process lives: then its lease has run out.
    async fn wait_in_line(&self, entry: &Entry, news: impl Future<Output = ()>) -> Found {
        let lease = self
            .watched
            .filter(|(version, _)| *version == entry.record.version())
            .and_then(|(_, since)| since.checked_add(self.lease()));
        let until = match (self.patience, lease) {
            (Some(patience), Some(lease)) => Some(patience.min(lease)),
            (patience, lease) => patience.or(lease),
        };
        // The lease is tested first: a wait that returns at once must not put it off for ever.
        let over = |time: Option<Instant>| time.is_some_and(|time| time <= Instant::now());
        if !over(until) && within(until, news).await.is_some() {
            Found::LookAgain
        } else if over(self.patience) {
            Found::StillInProgress
        } else {
            self.take_further(entry).await
        }
    }

    /// The longest that a driver at work leaves a record as it is.
    fn lease(&self) -> Duration {
        let policy = &self.subject.policy;
        let settling = match policy.tool {
            ToolKind::Observable { settling } => settling,
            _ => 0,
        };
        let pause = Duration::from_millis(policy.retry.backoff.cap.saturating_add(settling));
        let ledger = self.inner.options.ledger_patience.saturating_mul(2);
        self.subject.timeout.saturating_add(pause).saturating_add(ledger)
    }
}

/// Take the operation further. Whether other operations of its resource came in between is not known here, so it is
/// assumed.
pub(crate) fn resume(take_over: bool, sender_done: bool) -> What<Digest> {
    What::Resume { take_over, sender_done, undisturbed: false }
}

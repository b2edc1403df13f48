//! What a driver waits for, and what it does when that comes.

use std::time::Duration;

use bytes::Bytes;
use settled_protocol::{AttemptId, Digest, ErrorClass, Loss, Reply, State, ToolKind, What};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::answers;
use crate::attempt::Arrived;
use crate::drive::{Drive, Waiting};
use crate::engine::within;
use crate::history::Happened;
use crate::ledger::{Entry, LedgerError, Liveness};
use crate::line::Turn;
use crate::operation::Answer;

/// What may be done about an operation that another driver, or another process, has under way.
enum Found {
    Raise(What<Digest>),
    /// As `Raise`, about the record as it stands in this entry.
    Take(Box<Entry>, What<Digest>),
    /// It waits for its resource, and is to be given up.
    GiveUp(Box<Entry>, String),
    /// It stands as recorded, and was never sent: the body says so.
    Unsent(AttemptId),
    LookAgain,
    StillInProgress,
    /// The caller has waited long enough for an unknown outcome to be established.
    StillUnknown,
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
        let found = loop {
            let found = tokio::select! {
                biased;
                Some(arrived) = replies.recv() => return Ok(Some(self.take(arrived))),
                found = self.find() => found?,
                () = sleep_until(self.tell_at()) => Found::StillUnknown,
            };
            match found {
                Found::StillUnknown => {
                    let answer = Answer::Unknown { error: None, replayed: !self.part.sent };
                    let answered = answers::about(&self.subject.key, self.entry(), answer);
                    self.tell_and_go_on(&Ok(answered));
                }
                // Nobody asks, but nobody else will send it either.
                Found::LookAgain if self.ask.is_none() && self.is_waiting_in_line().await? => {}
                found => break found,
            }
        };
        self.waiting = Waiting::Nothing;
        match found {
            Found::Take(entry, what) => {
                self.view = Some(Some(*entry));
                Ok(Some(what))
            }
            Found::GiveUp(entry, reason) => {
                self.view = Some(Some(*entry));
                Ok(Some(self.give_up_waiting(reason)))
            }
            Found::Raise(what) => {
                if let What::Lost { of, .. } = what {
                    self.inner.attempts.withdraw(&self.subject.key, of);
                    let (generation, attempt) = (of.generation, of.attempt.get());
                    let how = "timed out".to_owned();
                    self.inner.tell(&self.subject.key, || Happened::Lost { generation, attempt, how });
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
                // What it has seen must not be forgotten if it can't look again.
                self.note_whether_open();
                self.view = None;
                Ok(self.ask.is_some().then(|| self.call_event()))
            }
            Found::StillInProgress => {
                self.tell_all(Answer::InProgress);
                Ok(None)
            }
            Found::LeaveAlone | Found::StillUnknown => Ok(None),
        }
    }

    /// Waits for what is to be waited for.
    async fn find(&self) -> Result<Found, LedgerError> {
        match self.waiting {
            Waiting::Nothing => Ok(Found::LeaveAlone),
            Waiting::Reply { of, until } => {
                tokio::time::sleep_until(until).await;
                Ok(Found::Raise(What::Lost { of, how: Loss::TimedOut }))
            }
            Waiting::Until(time) => {
                let until = tokio::time::sleep(Duration::from_millis(time.since(self.inner.now())));
                tokio::pin!(until);
                let seen = self.entry().map(|entry| entry.record.version());
                let entry = loop {
                    let over = tokio::select! {
                        biased;
                        () = &mut until => true,
                        () = self.inner.changed(&self.subject.key, seen) => false,
                    };
                    match self.inner.look(&self.subject.key).await? {
                        Some(entry) if over && !(self.ask.is_some() && self.is_gone(Some(&entry.record))) => {
                            break entry;
                        }
                        Some(entry) if Some(entry.record.version()) == seen => {}
                        // Another process has taken it further.
                        _ => return Ok(Found::LookAgain),
                    }
                };
                let what = resume(&entry, false, self.inner.sender_done(&entry).await);
                Ok(Found::Take(Box::new(entry), what))
            }
            Waiting::Elsewhere => self.look_elsewhere().await,
        }
    }

    /// Whether the operation still waits for its resource.
    async fn is_waiting_in_line(&self) -> Result<bool, LedgerError> {
        if self.in_line.is_none() {
            return Ok(false);
        }
        let entry = self.inner.look(&self.subject.key).await?;
        Ok(entry.is_some_and(|entry| matches!(entry.record.state(), State::Created)))
    }

    /// Waits for an attempt that this driver has not sent, as long as whoever sent it may be at work on it.
    async fn look_elsewhere(&self) -> Result<Found, LedgerError> {
        let (inner, key) = (&self.inner, &self.subject.key);
        let Some(entry) = inner.look(key).await? else {
            return Ok(Found::LookAgain);
        };
        let record = &entry.record;
        if self.ask.is_some() && self.is_gone(Some(record)) {
            // Another operation has begun under the key, perhaps with other arguments: it is not this caller's.
            return Ok(Found::LookAgain);
        }
        Ok(match (record.state(), record.attempt_id()) {
            (State::Dispatched(sent), Some(of)) if inner.ownership.is_mine(sent.owner()) => {
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
                let driven_here = inner.ownership.is_mine(sent.owner());
                let left = driven_here || inner.liveness(sent.owner()).await != Liveness::Alive;
                if left && !inner.is_looked_after_elsewhere(&entry).await {
                    self.take_further(&entry).await
                } else if self.ask.is_some() {
                    let change = inner.changed(key, Some(record.version()));
                    self.wait_in_line(&entry, change).await
                } else {
                    Found::LeaveAlone
                }
            }
            (State::Created, _) if entry.resource.is_some() => match self.turn(&entry).await? {
                Turn::Ours => {
                    let what = resume(&entry, false, true);
                    Found::Take(Box::new(entry), what)
                }
                Turn::LookAgain => Found::LookAgain,
                Turn::StillInProgress => Found::StillInProgress,
                Turn::GiveUp(reason) => Found::GiveUp(Box::new(entry), reason),
            },
            (State::Created, _) => {
                inner.changed(key, Some(record.version())).await;
                match inner.look(key).await? {
                    // Nobody has sent it meanwhile; if somebody does now, the compare-and-set decides (rule 5).
                    Some(now) if now.record == entry.record => {
                        let what = resume(&entry, false, true);
                        Found::Take(Box::new(entry), what)
                    }
                    _ => Found::LookAgain,
                }
            }
            (State::Escalated { .. } | State::Confirmed { .. } | State::Settled { .. }, _) => Found::LookAgain,
        })
    }

    async fn take_further(&self, entry: &Entry) -> Found {
        let what = resume(entry, true, self.inner.sender_done(entry).await);
        Found::Take(Box::new(entry.clone()), what)
    }

    /// When a caller is told that the outcome is unknown although it is still being established.
    fn tell_at(&self) -> Option<Instant> {
        let waits = self.ask.is_some() && !self.answered && !matches!(self.waiting, Waiting::Reply { .. });
        self.unknown_since.filter(|_| waits)?.checked_add(self.subject.limits.settle)
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
        let limits = &self.subject.limits;
        let copies = if policy.tool == ToolKind::Idempotent { limits.transit } else { Duration::ZERO };
        let rest = self.subject.longest_rest().saturating_add(copies);
        limits.attempt.saturating_add(rest).saturating_add(pause).saturating_add(ledger)
    }
}

/// Take the operation further. If it has a resource to itself, no other one of that resource can have come in between, and none
/// can come before a copy of it that is still queued somewhere, if there is none; otherwise that is assumed.
pub(crate) fn resume(entry: &Entry, take_over: bool, sender_done: bool) -> What<Digest> {
    What::Resume { take_over, sender_done, undisturbed: entry.resource.is_some() && sender_done }
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

//! The driver: takes one operation from event to event, with the waits in between.
//!
//! What a step leads to is carried out in `perform.rs`; which step to take is decided by the core alone.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use settled_protocol::{
    AttemptId, Digest, ErrorClass, Key, Loss, Millis, Policy, Record, Refusal, Reply, Start, State, Time, ToolKind,
    Version, What,
};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::answers::{self, Bodies, Part};
use crate::attempt::{Arrived, StillOut};
use crate::busy::AtWork;
use crate::engine::{Inner, Waiter};
use crate::error::EngineError;
use crate::figures;
use crate::inflight::Lead;
use crate::keep::Tries;
use crate::ledger::{Entry, LedgerError, Resource};
use crate::line;
use crate::operation::{Answer, Answered, Limits};
use crate::task;
use crate::tool::{Tool, ToolReply};

/// What a driver drives.
pub(crate) struct Subject {
    pub(crate) key: Key,
    pub(crate) fingerprint: Digest,
    pub(crate) policy: Policy,
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) resource: Option<Resource>,
    pub(crate) limits: Limits,
}

impl Subject {
    /// Whether a call is answered "expired": its replay window is over, and the key is not free yet.
    pub(crate) fn is_expired(&self, entry: &Entry, now: Time) -> bool {
        let State::Settled { at, .. } = entry.record.state() else {
            return false;
        };
        let over = self.policy.is_over(&entry.record, now);
        if entry.tombstone && !over {
            // Its window was longer when it was buried, or is now: its answer is gone in any case.
            return true;
        }
        let windowed = self.policy.repeat.window.filter(|window| now.since(*at) > *window);
        match (self.limits.tombstone, windowed) {
            (Some(tombstone), Some(window)) => now.since(*at) <= window.saturating_add(millis(tombstone)),
            _ => false,
        }
    }

    /// How long a tool that is busy may be left alone within a call.
    pub(crate) fn longest_rest(&self) -> Duration {
        self.limits.attempt.max(Duration::from_secs(60))
    }

    /// From when on a settled record may be forgotten.
    pub(crate) fn keep_until(&self, record: &Record<Digest>) -> Option<Time> {
        match record.state() {
            State::Settled { at, .. } => self.policy.repeat.window.map(|window| at.after(window).after(1)),
            _ => None,
        }
    }
}

pub(crate) fn millis(span: Duration) -> Millis {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// What a caller asks for.
pub(crate) struct Ask {
    pub(crate) asked: Bytes,
    pub(crate) send_instead: Option<Bytes>,
}

/// What a driver waits for.
#[derive(Clone, Copy)]
pub(super) enum Waiting {
    Nothing,
    /// The reply of an attempt that it has sent.
    Reply {
        of: AttemptId,
        until: Instant,
    },
    /// A point in time.
    Until(Time),
    /// An attempt that it has not sent.
    Elsewhere,
}

/// A driver. It may send only while it leads its key in this process.
pub(crate) struct Drive {
    pub(super) inner: Arc<Inner>,
    pub(super) subject: Arc<Subject>,
    pub(super) lead: Option<Lead<Key, Digest, Waiter>>,
    pub(super) ask: Option<Ask>,
    own: Option<Waiter>,
    pub(super) patience: Option<Instant>,
    /// What the ledger held when it was last looked at; the outer `None`: look before the next step.
    pub(super) view: Option<Option<Entry>>,
    pub(super) bodies: Bodies,
    /// The operation under the key that the caller's call is about, once that is known.
    pub(super) about: Option<u32>,
    pub(super) part: Part,
    pub(super) answered: bool,
    pub(super) waiting: Waiting,
    /// The version that someone else's work was first seen at without progress since, and when.
    pub(super) watched: Option<(Version, Instant)>,
    pub(super) sender: mpsc::UnboundedSender<Arrived>,
    replies: Option<mpsc::UnboundedReceiver<Arrived>>,
    in_hand: Option<StillOut>,
    /// What a person wrote who decides.
    pub(super) note: Option<String>,
    /// Why an operation that waited was given up.
    pub(super) reason: Option<Bytes>,
    /// Until when it waits for its resource.
    pub(super) line_until: Instant,
    /// Counted while it waits there.
    pub(super) in_line: Option<figures::InLine>,
    /// Since when the outcome is unknown, as far as this driver knows.
    pub(super) unknown_since: Option<Instant>,
    /// Since when nothing can be on its way any more, as far as this driver has seen for itself.
    pub(super) quiet_since: Option<Instant>,
    /// How often it has asked an observer before that counted.
    pub(super) early_looks: u32,
    /// Whether the fleet's budget has granted the next retry.
    pub(super) granted: bool,
    /// How long a tool that is busy wants to be left alone.
    retry_after: Option<Duration>,
    /// Whether an escalation is to be announced; not when a person is deciding already.
    pub(super) announces: bool,
    pub(super) refused: Option<Refusal>,
    pub(super) forgotten: bool,
    _at_work: AtWork,
}

impl Drive {
    /// A driver without a caller.
    pub(crate) fn new(inner: Arc<Inner>, subject: Arc<Subject>, lead: Option<Lead<Key, Digest, Waiter>>) -> Drive {
        let (sender, replies) = mpsc::unbounded_channel();
        Drive {
            line_until: line::after(subject.limits.queue),
            subject,
            lead,
            ask: None,
            own: None,
            patience: None,
            view: None,
            bodies: Bodies::default(),
            about: None,
            part: Part::NONE,
            answered: false,
            waiting: Waiting::Nothing,
            watched: None,
            sender,
            replies: Some(replies),
            in_hand: None,
            note: None,
            reason: None,
            in_line: None,
            unknown_since: None,
            quiet_since: None,
            early_looks: 0,
            granted: false,
            retry_after: None,
            announces: true,
            refused: None,
            forgotten: false,
            _at_work: inner.busy.enter(),
            inner,
        }
    }

    /// A driver for a caller who leads.
    pub(crate) fn call(
        inner: Arc<Inner>,
        subject: Arc<Subject>,
        lead: Lead<Key, Digest, Waiter>,
        ask: Ask,
        own: Waiter,
        entry: Option<Entry>,
        patience: Option<Instant>,
    ) -> Drive {
        let drive = Drive::new(inner, subject, Some(lead));
        Drive { ask: Some(ask), own: Some(own), view: Some(entry), patience, ..drive }
    }

    /// Drives a call until it is answered.
    pub(crate) async fn run_call(self) {
        let first = self.call_event();
        self.run(Some(first)).await;
    }

    /// Deals with a reply whose driver has ended before it came (rule 4).
    pub(crate) fn late(
        inner: Arc<Inner>,
        subject: Arc<Subject>,
        arrived: Arrived,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let mut drive = Drive::new(inner, subject, None);
            let reply = sends_nothing(drive.take(arrived));
            drive.run(Some(reply)).await;
        })
    }

    /// Drives from this event on until there is nothing more to do; returns what the ledger held last, as far as known.
    pub(crate) async fn run(mut self, first: Option<What<Digest>>) -> Option<Entry> {
        let mut next = first;
        loop {
            if let Some(what) = next.take() {
                let what = self.rest_before(what).await;
                match self.perform(what).await {
                    Ok(raised) => next = raised,
                    Err(error) => {
                        self.give_up(Some(what), error).await;
                        break;
                    }
                }
                if next.is_some() {
                    continue;
                }
                self.in_hand = None;
            }
            match self.wait().await {
                Ok(Some(what)) => next = Some(what),
                Ok(None) => break,
                Err(error) => {
                    self.give_up(None, error).await;
                    break;
                }
            }
        }
        self.end();
        self.view.take().flatten()
    }

    pub(super) fn call_event(&self) -> What<Digest> {
        // What has to wait for a resource is recorded first, and so has its place in the line.
        let start = if self.subject.resource.is_some() { Start::Later } else { Start::Now };
        What::Call { fingerprint: self.subject.fingerprint, start }
    }

    /// Waits before an event is dealt with, where that is due.
    async fn rest_before(&mut self, what: What<Digest>) -> What<Digest> {
        let What::Reply { of, reply } = what else { return what };
        let retry = &self.subject.policy.retry;
        let pause = match reply {
            // Nobody waits for an attempt that there won't be.
            Reply::Error(ErrorClass::Busy, _) if of.attempt.get() >= retry.attempts => Duration::ZERO,
            Reply::Error(ErrorClass::Busy, body) => {
                let backoff = Duration::from_millis(retry.backoff.delay(of.attempt.get(), fastrand::u32(..)));
                let pause = self.retry_after.take().unwrap_or_default().max(backoff);
                if pause > Duration::from_millis(retry.total).min(self.subject.longest_rest()) {
                    // It wants to be left alone for longer than its callers wait.
                    return What::Reply { of, reply: Reply::Error(ErrorClass::NotRun, body) };
                }
                pause
            }
            // Copies of earlier attempts must have arrived before another operation gets the resource.
            Reply::Result(_) | Reply::Error(..)
                if self.subject.policy.tool == ToolKind::Idempotent
                    && self.subject.resource.is_some()
                    && of.attempt.get() > 1 =>
            {
                self.subject.limits.transit
            }
            _ => Duration::ZERO,
        };
        if pause > Duration::ZERO {
            tokio::time::sleep(pause).await;
        }
        what
    }

    /// The next event, or none if there is nothing more to do.
    async fn wait(&mut self) -> Result<Option<What<Digest>>, LedgerError> {
        let must_answer = self.ask.is_some() && !self.answered;
        if matches!(self.waiting, Waiting::Nothing) {
            if must_answer {
                self.note_whether_open();
                self.view = None;
                return Ok(Some(self.call_event()));
            }
            return Ok(None);
        }
        if self.lead.is_none() {
            self.lead = self.inner.in_flight.lead(&self.subject.key, self.subject.fingerprint);
            if self.lead.is_none() {
                // Whoever leads will find the record as it stands now.
                return Ok(None);
            }
        }
        let Some(mut replies) = self.replies.take() else {
            return Ok(None);
        };
        let what = self.wait_for(&mut replies).await;
        self.replies = Some(replies);
        what
    }

    /// Takes a reply in hand; it counts as out until the event is dealt with.
    pub(super) fn take(&mut self, arrived: Arrived) -> What<Digest> {
        let Arrived { of, reply, still_out } = arrived;
        self.in_hand = Some(still_out);
        if matches!(self.waiting, Waiting::Reply { of: awaited, .. } if awaited == of) {
            self.waiting = Waiting::Nothing;
        }
        match reply {
            ToolReply::Result(body) => What::Reply { of, reply: Reply::Result(self.bodies.keep(body)) },
            ToolReply::Error(class, body) => What::Reply { of, reply: Reply::Error(class, self.bodies.keep(body)) },
            ToolReply::Busy { retry_after, body } => {
                self.retry_after = retry_after;
                What::Reply { of, reply: Reply::Error(ErrorClass::Busy, self.bodies.keep(body)) }
            }
            ToolReply::ConnectionLost => What::Lost { of, how: Loss::ConnectionLost },
        }
    }

    /// Answers everyone who waits for this operation in this process.
    pub(super) fn tell_all(&mut self, answer: Answer) {
        let answered = answers::about(&self.subject.key, self.view.as_ref().and_then(Option::as_ref), answer);
        self.tell_everyone(&Ok(answered));
    }

    pub(super) fn tell_everyone(&mut self, told: &Result<Answered, EngineError>) {
        self.waiting = Waiting::Nothing;
        self.tell_and_go_on(told);
    }

    /// Answers everyone who waits now; the work goes on.
    pub(super) fn tell_and_go_on(&mut self, told: &Result<Answered, EngineError>) {
        self.answered = true;
        let joined = self.lead.as_mut().map(Lead::take_joined).unwrap_or_default();
        for waiter in self.own.take().into_iter().chain(joined) {
            // Who has gone away needs no answer.
            let _ = waiter.send(told.clone());
        }
    }

    /// The ledger does not do its part. Whoever waits is told what is certain: that nothing was sent, or that the outcome is
    /// unknown. A definite reply in hand is stored later, if that becomes possible.
    async fn give_up(&mut self, what: Option<What<Digest>>, error: LedgerError) {
        self.note_whether_open();
        if self.part.sent || self.inner.attempts.may_have_been_sent(&self.subject.key) {
            tracing::error!(key = %self.subject.key, %error, "the ledger fails while a call may be under way");
            self.tell_all(Answer::Unknown { error: None, replayed: !self.part.sent });
        } else {
            self.tell_everyone(&Err(EngineError::NotSent(error.clone())));
        }
        // From here on this driver can send nothing; others may take the key further meanwhile.
        self.lead = None;
        self.in_hand = None;
        if let Some(what @ What::Reply { .. }) = what {
            self.keep_reply(sends_nothing(what), error).await;
        }
    }

    /// Goes on trying to store a reply, and logs loudly if that fails for good.
    async fn keep_reply(&mut self, reply: What<Digest>, mut error: LedgerError) {
        let mut tries = Tries::unattended(self.inner.options.reply_patience);
        while tries.again_after(error.clone()).await.is_ok() {
            self.view = None;
            match self.perform(reply).await {
                Ok(raised) => {
                    if let Some(raised) = raised
                        && let Err(error) = self.perform(raised).await
                    {
                        tracing::error!(key = %self.subject.key, %error, "an escalation could not be recorded");
                    }
                    return;
                }
                Err(next) => error = next,
            }
        }
        tracing::error!(
            key = %self.subject.key, %error,
            "a tool's reply could not be recorded: the ledger will show the operation as unknown, although it was answered",
        );
    }

    /// Notes whether the operation was sent and is not settled, as far as this driver knows.
    pub(super) fn note_whether_open(&self) {
        let open = match &self.view {
            Some(entry) => {
                entry.as_ref().is_some_and(|entry| !entry.record.is_settled() && entry.record.sent().is_some())
            }
            None if self.part.sent => true,
            None => return,
        };
        self.inner.attempts.note_open(&self.subject.key, open);
    }

    /// Deals with replies that came while this driver was ending; later ones get drivers of their own.
    fn end(&mut self) {
        self.note_whether_open();
        self.lead = None;
        self.in_hand = None;
        let Some(mut replies) = self.replies.take() else {
            return;
        };
        replies.close();
        while let Ok(arrived) = replies.try_recv() {
            task::spawn(Drive::late(self.inner.clone(), self.subject.clone(), arrived));
        }
    }
}

/// A reply as it counts for a driver that doesn't lead its key: one that is busy isn't asked again.
fn sends_nothing(what: What<Digest>) -> What<Digest> {
    match what {
        What::Reply { of, reply: Reply::Error(ErrorClass::Busy, body) } => {
            What::Reply { of, reply: Reply::Error(ErrorClass::NotRun, body) }
        }
        other => other,
    }
}

//! Carrying out what a step leads to: the one place where the core's actions become writes, sends and answers.

use std::time::Duration;

use settled_protocol::{
    Action, Actions, Answer, AttemptId, Digest, Dispatch, Durable, Ends, Event, Observation, Policy, Record, Repeat,
    SealScope, State, Step, Store, Time, ToolKind, Wait, What,
};
use tokio::time::Instant;
use tracing::Instrument;

use crate::answers::{self, Part};
use crate::attempt::caught;
use crate::drive::{Drive, Waiting, millis};
use crate::fault;
use crate::figures;
use crate::history::{Happened, Taken};
use crate::keep::Kept;
use crate::ledger::{Change, Entry, LedgerError, Remains};
use crate::line;
use crate::operation;
use crate::time::CLOCK_ERROR;
use crate::tool::{Question, Seen};
use crate::words::{retried_because, settled_by, word};

/// How often one event is stepped anew because its compare-and-set was refused. Each refusal means that someone else got
/// further, so this is never reached by a ledger that keeps its promises.
const REFUSALS: u32 = 1_000;

impl Drive {
    /// Steps an event and carries out the actions in their order. Returns the event that follows at once, if any.
    ///
    /// # Errors
    /// If the ledger failed at a store. Nothing that comes after that store was done; in particular, nothing was sent.
    pub(super) async fn perform(&mut self, what: What<Digest>) -> Result<Option<What<Digest>>, LedgerError> {
        for _ in 0..REFUSALS {
            let view = match self.view.take() {
                Some(view) => view,
                None => self.inner.look(&self.subject.key).await?,
            };
            let record = view.as_ref().map(|entry| entry.record);
            self.view = Some(view);
            if matches!(what, What::Decide { .. } | What::Cancel | What::Alerted)
                && record.is_some()
                && self.is_gone(record.as_ref())
            {
                // What is said of one operation does not hold for the next one under its key.
                return Ok(None);
            }
            let event = self.inner.event(what);
            if matches!(what, What::Call { .. })
                && (self.is_gone(record.as_ref())
                    || self.about.is_none()
                        && self.entry().is_some_and(|entry| self.subject.is_expired(entry, event.now)))
            {
                self.answer(Answer::Expired);
                return Ok(None);
            }
            if matches!((what, record.map(|record| *record.state())), (What::Resume { .. }, Some(State::Created)))
                && !self.has_its_turn().await?
            {
                self.in_line.get_or_insert_with(figures::InLine::new);
                self.waiting = Waiting::Elsewhere;
                return Ok(None);
            }
            self.note_state();
            if matches!(what, What::Resume { .. })
                && let Some(look) = self.early_look(record.as_ref(), event.now)
            {
                return Ok(self.look_early(look, event.now).await);
            }
            let policy = self.policy_for(&what, record.as_ref());
            let step = policy.step(record.as_ref(), &event);
            if is_retry(&step) && !self.granted {
                self.granted = self.inner.may_retry().await;
                if !self.granted {
                    return Ok(self.put_off(what, event.now).await);
                }
            }
            if let Some(raised) = self.carry_out(&Stepped { policy, event, actions: step.actions }).await? {
                return Ok(raised);
            }
            if matches!(what, What::Resume { .. }) {
                // It was decided on what the record was before.
                self.waiting = Waiting::Elsewhere;
                return Ok(None);
            }
        }
        Err(LedgerError::Unavailable(format!("it refused {REFUSALS} compare-and-sets in a row")))
    }

    /// The actions of one step, in order; `None` if its store was refused and the event must be stepped again.
    async fn carry_out(&mut self, stepped: &Stepped) -> Result<Option<Option<What<Digest>>>, LedgerError> {
        let Event { now, what, .. } = &stepped.event;
        let now = *now;
        let mut proof = None;
        let mut raised = None;
        let before = self.entry().map(|entry| *entry.record.state());
        for action in stepped.actions.iter() {
            match action {
                Action::Store(store) => match self.store(store, stepped).await? {
                    Some(durable) => proof = Some(durable),
                    None => return Ok(None),
                },
                Action::Forget(version) => {
                    let remains = self.remains(now);
                    fault::point("before-forget");
                    self.forgotten = self.inner.ledger.forget(&self.subject.key, version, remains).await?;
                    fault::point("after-forget");
                    if self.forgotten {
                        self.view = Some(None);
                        figures::expired(remains);
                        self.inner
                            .tell(&self.subject.key, || Happened::Expired { version, step: Box::new(stepped.taken()) });
                    }
                }
                Action::Dispatch(dispatch) => self.dispatch(&dispatch, proof.as_ref(), what, before)?,
                Action::Observe { of, conclusive } => raised = Some(self.observe(of, conclusive).await),
                Action::Seal { of, scope } => raised = Some(self.seal(of, scope).await),
                Action::Answer(answer) => self.answer(answer),
                Action::Wait(Wait::ForAttempt) => {
                    let seen = self.entry().map(|entry| (entry.record.generation(), entry.record.version()));
                    if let Some((generation, version)) = seen {
                        self.about = Some(generation);
                        self.note_state();
                        if self.watched.is_none_or(|(watched, _)| watched != version) {
                            self.watched = Some((version, Instant::now()));
                        }
                    }
                    self.waiting = Waiting::Elsewhere;
                }
                Action::Wait(Wait::Until(time)) => {
                    // While the settling time runs it may be seen already that it happened.
                    let settling = self.early_look(self.entry().map(|entry| &entry.record), now).is_some();
                    self.waiting = Waiting::Until(if settling { now } else { time });
                }
                Action::Escalate => {
                    self.escalate();
                    self.about = self.entry().map(|entry| entry.record.generation());
                    raised = Some(What::Alerted);
                }
                Action::Refuse(refusal) => self.refused = Some(refusal),
            }
        }
        Ok(Some(raised))
    }

    pub(super) fn entry(&self) -> Option<&Entry> {
        self.view.as_ref().and_then(Option::as_ref)
    }

    /// Whether a created operation may be sent now.
    async fn has_its_turn(&self) -> Result<bool, LedgerError> {
        let Some((entry, resource)) = self.entry().and_then(|entry| Some((entry, entry.resource.as_ref()?))) else {
            return Ok(true);
        };
        let line = self.inner.ledger.line(resource).await?;
        Ok(line.first().is_some_and(|first| first.key == entry.key))
    }

    /// Until when it is of no use to ask an observer in earnest: the settling time runs. And which attempt it is about.
    fn early_look(&self, record: Option<&Record<Digest>>, now: Time) -> Option<(AttemptId, Time)> {
        let record = record?;
        let (ToolKind::Observable { settling }, State::Unknown { quiet: Some(since), .. }) =
            (self.policy_for(&What::Alerted, Some(record)).tool, record.state())
        else {
            return None;
        };
        // By the clock that all share, and by this process's own, which nobody can set: a step of the former concludes nothing.
        let left = Duration::from_millis(settling).saturating_sub(self.quiet_since?.elapsed());
        let until = since.after(settling).max(now.after(millis(left)));
        (now < until).then_some((record.attempt_id()?, until))
    }

    /// Asks all the same: what happened can be seen already. That nothing is seen doesn't count, nor does the question.
    async fn look_early(&mut self, (of, until): (AttemptId, Time), now: Time) -> Option<What<Digest>> {
        let seen = self.observe(of, false).await;
        if matches!(seen, What::Observed { observation: Observation::Applied(_), .. }) {
            return Some(seen);
        }
        self.early_looks = self.early_looks.saturating_add(1);
        let pause = self.subject.policy.retry.backoff.delay(self.early_looks, fastrand::u32(..)).max(1);
        self.waiting = Waiting::Until(until.min(now.after(pause)));
        None
    }

    /// The fleet's retry budget is used up: the retry has to wait.
    async fn put_off(&mut self, what: What<Digest>, now: Time) -> Option<What<Digest>> {
        let retry = &self.subject.policy.retry;
        let attempt = self.entry().and_then(|entry| entry.record.sent()).map_or(1, |sent| sent.attempt().get());
        let pause = retry.backoff.delay(attempt, fastrand::u32(..)).max(retry.backoff.base);
        match what {
            // Nobody would tell of it again.
            What::Reply { .. } => {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                Some(what)
            }
            _ => {
                self.waiting = Waiting::Until(now.after(pause));
                None
            }
        }
    }

    /// What is to be left of a record whose time is over.
    fn remains(&self, now: Time) -> Remains {
        match self.subject.limits.tombstone {
            Some(tombstone) if self.entry().is_some_and(|entry| !entry.tombstone) => {
                Remains::Tombstone { keep_until: now.after(millis(tombstone)) }
            }
            _ => Remains::Nothing,
        }
    }

    /// Takes note of when the outcome became unknown.
    fn note_state(&mut self) {
        let in_line = |entry: &Entry| entry.resource.is_some() && matches!(entry.record.state(), State::Created);
        if self.entry().is_some_and(in_line) {
            self.in_line.get_or_insert_with(figures::InLine::new);
        } else {
            self.in_line = None;
        }
        let unknown = self.entry().is_some_and(|entry| matches!(entry.record.state(), State::Unknown { .. }));
        self.unknown_since = unknown.then(|| self.unknown_since.unwrap_or_else(Instant::now));
        let is_quiet = |entry: &Entry| matches!(entry.record.state(), State::Unknown { quiet: Some(_), .. });
        let quiet = self.entry().is_some_and(is_quiet);
        self.quiet_since = quiet.then(|| self.quiet_since.unwrap_or_else(Instant::now));
    }

    /// A call that has waited for one operation under the key is about that one: it may begin no other.
    pub(super) fn is_gone(&self, record: Option<&Record<Digest>>) -> bool {
        self.about.is_some_and(|about| record.is_none_or(|record| record.generation() != about))
    }

    fn policy_for(&self, what: &What<Digest>, record: Option<&Record<Digest>>) -> Policy {
        let mut policy = self.subject.policy;
        let holds = self.entry().is_some_and(|entry| entry.resource.is_some() && !entry.record.is_settled());
        if holds && policy.repeat.ends == Ends::OnDelivery {
            // That its caller has been told of an error does not free the resource: the effect may be going on.
            policy.repeat.ends = Ends::OnFailure;
        }
        if self.inner.clocks_differ {
            // What safety rests on must not depend on whose clock is read.
            match &mut policy.tool {
                ToolKind::Observable { settling } => *settling = settling.saturating_add(CLOCK_ERROR),
                ToolKind::Deduplicates { margin, .. } => *margin = margin.saturating_add(CLOCK_ERROR),
                _ => {}
            }
        }
        match what {
            What::Call { .. } if self.about.is_some() && record.is_some() => {
                Policy { repeat: Repeat::ALWAYS_REPLAY, ..policy }
            }
            _ => policy,
        }
    }

    /// Stores by compare-and-set; `None` if it was refused, and the view then shows what is there instead.
    async fn store(&mut self, store: Store<Digest>, stepped: &Stepped) -> Result<Option<Durable<Digest>>, LedgerError> {
        let Store { expected, record } = store;
        let Event { now, what, .. } = &stepped.event;
        let before = self.entry();
        let begins = before.is_none_or(|entry| entry.record.generation() != record.generation());
        let begun_with = self.ask.as_ref().filter(|_| begins);
        let because = word(what, before.map(|entry| entry.record.state()), &record);
        let was_settled = before.is_some_and(|entry| !begins && entry.record.is_settled());
        let was_doubtful =
            before.is_some_and(|entry| matches!(entry.record.state(), State::Unknown { .. } | State::Escalated { .. }));
        let change = Change {
            key: self.subject.key.clone(),
            expected,
            record,
            at: *now,
            by: self.inner.ownership.epoch(),
            event: because.to_owned(),
            asked: begun_with.map(|ask| ask.asked.clone()),
            sent: begun_with.and_then(|ask| ask.send_instead.clone()),
            outcome: self.bodies.to_store(&record, before),
            note: self.note.clone(),
            resource: self.subject.resource.clone().filter(|_| begins),
            keep_until: self.subject.keep_until(&record),
        };
        match self.inner.keep(&change).await {
            Ok(Kept::Durable(durable)) => {
                self.inner.tell(&self.subject.key, || Happened::Stored {
                    state: record.state().name().into(),
                    because: because.into(),
                    expected,
                    record: Box::new(record),
                    resource: change.resource.clone(),
                    step: Box::new(stepped.taken()),
                });
                // The place is only known to the ledger; it is read where it matters.
                let after = change.apply(self.entry(), |_| 0);
                self.view = Some(Some(after));
                // Noted before it is sent: this driver may be cut off, and the ledger unreadable for whoever asks next.
                self.note_whether_open();
                self.note_state();
                match record.state() {
                    State::Unknown { cause, checks: 0, quiet: None, .. } => figures::unknown(&self.subject.key, cause),
                    State::Settled { verdict, .. } if !was_settled => {
                        figures::settled(&self.subject.key, verdict, settled_by(what, was_doubtful));
                    }
                    _ => {}
                }
                if begins {
                    self.about = Some(record.generation());
                    self.part = Part { began: true, ..self.part };
                }
                Ok(Some(durable))
            }
            Ok(Kept::Refused(found)) => {
                self.inner.tell(&self.subject.key, || Happened::Refused {
                    version: record.version(),
                    because: because.to_owned(),
                });
                self.view = Some(found.map(|entry| *entry));
                self.note_whether_open();
                Ok(None)
            }
            Err(error) => {
                if record.open_owner().is_some_and(|owner| self.inner.ownership.is_mine(owner)) {
                    self.inner.attempts.gave_up_unsent(&self.subject.key, record);
                }
                Err(error)
            }
        }
    }

    /// Sends an attempt, against the proof that its record is durable.
    fn dispatch(
        &mut self,
        dispatch: &Dispatch<Digest>,
        proof: Option<&Durable<Digest>>,
        what: &What<Digest>,
        before: Option<State<Digest>>,
    ) -> Result<(), LedgerError> {
        let record = self.entry().map(|entry| entry.record);
        let Some(Ok((of, sent))) = proof.map(|proof| dispatch.send(proof)) else {
            if let Some(record) = record {
                self.inner.attempts.gave_up_unsent(&self.subject.key, record);
            }
            return Err(LedgerError::Corrupt("it proved another write durable than the one it was given".into()));
        };
        let arguments =
            self.entry().map(|entry| entry.sent.as_ref().unwrap_or(&entry.asked).clone()).unwrap_or_default();
        self.part.sent = true;
        self.granted = false;
        self.in_line = None;
        self.waiting = Waiting::Reply { of, until: line::after(self.subject.limits.attempt) };
        let because = (of.attempt.get() > 1).then(|| retried_because(what, before.as_ref()));
        self.inner.launch(&self.subject, of, sent.owner(), arguments, because, self.sender.clone());
        Ok(())
    }

    pub(super) async fn observe(&mut self, of: AttemptId, conclusive: bool) -> What<Digest> {
        let (tool, question) = (self.subject.tool.clone(), self.question(of));
        fault::point("before-observe");
        let asked = caught(|| tool.observe(&question)).instrument(self.observing(of));
        let asked = tokio::time::timeout(self.subject.limits.attempt, asked).await;
        let observation = match asked {
            Ok(Ok(Seen::Applied(body))) => Observation::Applied(self.bodies.keep(body)),
            Ok(Ok(Seen::NotApplied)) => Observation::NotApplied,
            // Nobody asked for a seal.
            Ok(Ok(Seen::Sealed | Seen::Unclear) | Err(_)) | Err(_) => Observation::Unclear,
        };
        self.observed(of, observation, conclusive)
    }

    async fn seal(&mut self, of: AttemptId, scope: SealScope) -> What<Digest> {
        let (tool, question) = (self.subject.tool.clone(), self.question(of));
        fault::point("before-seal");
        let asked = caught(|| tool.seal(&question, scope)).instrument(self.observing(of));
        let asked = tokio::time::timeout(self.subject.limits.attempt, asked).await;
        let observation = match asked {
            Ok(Ok(Seen::Applied(body))) => Observation::Applied(self.bodies.keep(body)),
            Ok(Ok(Seen::Sealed)) => Observation::Sealed(scope),
            // "Not applied" without a seal says nothing about what is still on its way.
            Ok(Ok(Seen::NotApplied | Seen::Unclear) | Err(_)) | Err(_) => Observation::Unclear,
        };
        self.observed(of, observation, false)
    }

    fn question(&self, attempt: AttemptId) -> Question {
        let arguments = self.entry().map(|entry| entry.sent.as_ref().unwrap_or(&entry.asked).clone());
        Question { key: self.subject.key.clone(), attempt, arguments: arguments.unwrap_or_default() }
    }

    fn observing(&self, of: AttemptId) -> tracing::Span {
        tracing::info_span!("settled.observe", key = %self.subject.key, attempt = of.attempt.get())
    }

    fn observed(&self, of: AttemptId, observation: Observation<Digest>, conclusive: bool) -> What<Digest> {
        let seen = match observation {
            Observation::Applied(_) => "applied",
            Observation::NotApplied => "not applied",
            Observation::Sealed(_) => "sealed",
            Observation::Unclear => "unclear",
        };
        fault::point("after-observe");
        figures::observation(&self.subject.key, seen);
        self.inner.tell(&self.subject.key, || Happened::Observed {
            generation: of.generation,
            attempt: of.attempt.get(),
            seen: seen.to_owned(),
            conclusive,
        });
        What::Observed { of, observation, conclusive }
    }

    fn answer(&mut self, answer: Answer<Digest>) {
        let key = &self.subject.key;
        let mut answered = answers::spell_out(key, self.entry(), &self.bodies, answer, self.part);
        if let operation::Answer::Failed { error: error @ None, .. } = &mut answered.answer {
            error.clone_from(&self.reason);
        }
        self.tell_everyone(&Ok(answered));
    }

    fn escalate(&self) {
        let Some(entry) = self.entry() else { return };
        let (State::Unknown { cause, .. } | State::Escalated { cause, .. }) = entry.record.state() else {
            return;
        };
        let generation = entry.record.generation();
        figures::escalation(&self.subject.key);
        self.inner.tell(&self.subject.key, || Happened::Escalated { generation });
        if self.announces {
            self.inner.options.alerts.raise(entry, cause);
        }
    }
}

/// A step as it was taken, and what it asks for.
struct Stepped {
    policy: Policy,
    event: Event<Digest>,
    actions: Actions<Digest>,
}

impl Stepped {
    fn taken(&self) -> Taken {
        Taken::new(self.policy, &self.event, &self.actions)
    }
}

/// Whether a step sends another attempt than an operation's first.
fn is_retry(step: &Step<Digest>) -> bool {
    step.actions.iter().any(|action| matches!(action, Action::Dispatch(dispatch) if dispatch.of().attempt.get() > 1))
}

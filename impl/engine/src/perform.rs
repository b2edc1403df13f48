//! Carrying out what a step leads to: the one place where the core's actions become writes, sends and answers.

use std::time::Duration;

use settled_protocol::{
    Action, Answer, AttemptId, Digest, Dispatch, Durable, Loss, Observation, Policy, Record, Repeat, Reply, SealScope,
    State, Step, Store, Time, Wait, What,
};
use tokio::time::Instant;

use crate::answers::{self, Part};
use crate::attempt::caught;
use crate::drive::{Drive, Waiting};
use crate::history::Happened;
use crate::keep::Kept;
use crate::ledger::{Change, Entry, LedgerError};
use crate::tool::Seen;

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
            if matches!(what, What::Call { .. }) && self.is_gone(record.as_ref()) {
                self.answer(Answer::Expired);
                return Ok(None);
            }
            let event = self.inner.event(what);
            let step = self.policy_for(&what, record.as_ref()).step(record.as_ref(), &event);
            if let Some(raised) = self.carry_out(&what, event.now, step).await? {
                return Ok(raised);
            }
        }
        Err(LedgerError::Unavailable(format!("it refused {REFUSALS} compare-and-sets in a row")))
    }

    /// The actions of one step, in order; `None` if its store was refused and the event must be stepped again.
    async fn carry_out(
        &mut self,
        what: &What<Digest>,
        now: Time,
        step: Step<Digest>,
    ) -> Result<Option<Option<What<Digest>>>, LedgerError> {
        let mut proof = None;
        let mut raised = None;
        for action in step.actions.iter() {
            match action {
                Action::Store(store) => match self.store(store, what, now).await? {
                    Some(durable) => proof = Some(durable),
                    None => return Ok(None),
                },
                Action::Forget(version) => {
                    self.forgotten = self.inner.ledger.forget(&self.subject.key, version).await?;
                    if self.forgotten {
                        self.view = Some(None);
                        self.inner.tell(&self.subject.key, || Happened::Expired { version });
                    }
                }
                Action::Dispatch(dispatch) => self.dispatch(&dispatch, proof.as_ref())?,
                Action::Observe { of, conclusive } => raised = Some(self.observe(of, conclusive).await),
                Action::Seal { of, scope } => raised = Some(self.seal(of, scope).await),
                Action::Answer(answer) => self.answer(answer),
                Action::Wait(Wait::ForAttempt) => {
                    let seen = self.entry().map(|entry| (entry.record.generation(), entry.record.version()));
                    if let Some((generation, version)) = seen {
                        self.about = Some(generation);
                        if self.watched.is_none_or(|(watched, _)| watched != version) {
                            self.watched = Some((version, Instant::now()));
                        }
                    }
                    self.waiting = Waiting::Elsewhere;
                }
                Action::Wait(Wait::Until(time)) => self.waiting = Waiting::Until(time),
                Action::Escalate => {
                    self.escalate();
                    raised = Some(What::Alerted);
                }
                Action::Refuse(refusal) => self.refused = Some(refusal),
            }
        }
        Ok(Some(raised))
    }

    fn entry(&self) -> Option<&Entry> {
        self.view.as_ref().and_then(Option::as_ref)
    }

    /// A call that has waited for one operation under the key is about that one: it may begin no other.
    fn is_gone(&self, record: Option<&Record<Digest>>) -> bool {
        self.about.is_some_and(|about| record.is_none_or(|record| record.generation() != about))
    }

    fn policy_for(&self, what: &What<Digest>, record: Option<&Record<Digest>>) -> Policy {
        let policy = self.subject.policy;
        match what {
            What::Call { .. } if self.about.is_some() && record.is_some() => {
                Policy { repeat: Repeat::ALWAYS_REPLAY, ..policy }
            }
            _ => policy,
        }
    }

    /// Stores by compare-and-set; `None` if it was refused, and the view then shows what is there instead.
    async fn store(
        &mut self,
        store: Store<Digest>,
        what: &What<Digest>,
        now: Time,
    ) -> Result<Option<Durable<Digest>>, LedgerError> {
        let Store { expected, record } = store;
        let before = self.entry();
        let begins = before.is_none_or(|entry| entry.record.generation() != record.generation());
        let begun_with = self.ask.as_ref().filter(|_| begins);
        let because = word(what, before.map(|entry| entry.record.state()));
        let change = Change {
            key: self.subject.key.clone(),
            expected,
            record,
            at: now,
            by: self.inner.epoch,
            event: because.to_owned(),
            asked: begun_with.map(|ask| ask.asked.clone()),
            sent: begun_with.and_then(|ask| ask.send_instead.clone()),
            outcome: self.bodies.to_store(&record, before),
            note: self.note.clone(),
        };
        match self.inner.keep(&change).await {
            Ok(Kept::Durable(durable)) => {
                self.inner.tell(&self.subject.key, || Happened::Stored {
                    version: record.version(),
                    generation: record.generation(),
                    state: record.state().name().to_owned(),
                    because: because.to_owned(),
                });
                let after = change.apply(self.entry());
                self.view = Some(Some(after));
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
                Ok(None)
            }
            Err(error) => {
                if record.open_owner() == Some(self.inner.epoch) {
                    self.inner.attempts.gave_up_unsent(&self.subject.key, record);
                }
                Err(error)
            }
        }
    }

    /// Sends an attempt, against the proof that its record is durable.
    fn dispatch(&mut self, dispatch: &Dispatch<Digest>, proof: Option<&Durable<Digest>>) -> Result<(), LedgerError> {
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
        self.waiting = Waiting::Reply { of, until: deadline(self.subject.timeout) };
        self.inner.launch(&self.subject, of, sent.owner(), arguments, self.sender.clone());
        Ok(())
    }

    async fn observe(&mut self, of: AttemptId, conclusive: bool) -> What<Digest> {
        let (tool, key) = (self.subject.tool.clone(), &self.subject.key);
        let asked = tokio::time::timeout(self.subject.timeout, caught(|| tool.observe(key, of))).await;
        let observation = match asked {
            Ok(Ok(Seen::Applied(body))) => Observation::Applied(self.bodies.keep(body)),
            Ok(Ok(Seen::NotApplied)) => Observation::NotApplied,
            // Nobody asked for a seal.
            Ok(Ok(Seen::Sealed | Seen::Unclear) | Err(_)) | Err(_) => Observation::Unclear,
        };
        self.observed(of, observation, conclusive)
    }

    async fn seal(&mut self, of: AttemptId, scope: SealScope) -> What<Digest> {
        let (tool, key) = (self.subject.tool.clone(), &self.subject.key);
        let asked = tokio::time::timeout(self.subject.timeout, caught(|| tool.seal(key, of, scope))).await;
        let observation = match asked {
            Ok(Ok(Seen::Applied(body))) => Observation::Applied(self.bodies.keep(body)),
            Ok(Ok(Seen::Sealed)) => Observation::Sealed(scope),
            // "Not applied" without a seal says nothing about what is still on its way.
            Ok(Ok(Seen::NotApplied | Seen::Unclear) | Err(_)) | Err(_) => Observation::Unclear,
        };
        self.observed(of, observation, false)
    }

    fn observed(&self, of: AttemptId, observation: Observation<Digest>, conclusive: bool) -> What<Digest> {
        self.inner.tell(&self.subject.key, || Happened::Observed {
            generation: of.generation,
            attempt: of.attempt.get(),
            seen: match observation {
                Observation::Applied(_) => "applied",
                Observation::NotApplied => "not applied",
                Observation::Sealed(_) => "sealed",
                Observation::Unclear => "unclear",
            }
            .to_owned(),
            conclusive,
        });
        What::Observed { of, observation, conclusive }
    }

    fn answer(&mut self, answer: Answer<Digest>) {
        let key = &self.subject.key;
        let answered = answers::spell_out(key, self.entry(), &self.bodies, answer, self.part);
        self.tell_everyone(&Ok(answered));
    }

    fn escalate(&self) {
        let Some(entry) = self.entry() else { return };
        let (State::Unknown { cause, .. } | State::Escalated { cause, .. }) = entry.record.state() else {
            return;
        };
        let generation = entry.record.generation();
        self.inner.tell(&self.subject.key, || Happened::Escalated { generation });
        if self.announces {
            self.inner.options.alerts.raise(entry, cause);
        }
    }
}

/// The end of a wait of this length from now; in the far future if it can't be reckoned.
fn deadline(wait: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(wait).unwrap_or_else(|| now + Duration::from_secs(30 * 365 * 86_400))
}

/// An event in a word or two, for the ledger's history.
fn word(what: &What<Digest>, state: Option<&State<Digest>>) -> &'static str {
    match what {
        What::Call { .. } => "call",
        What::Resume { .. } if matches!(state, Some(State::Dispatched(_))) => "owner lost",
        What::Resume { .. } => "resumed",
        What::Reply { reply: Reply::Result(_), .. } => "result",
        What::Reply { reply: Reply::Error(..), .. } => "error",
        What::Lost { how: Loss::TimedOut, .. } => "timed out",
        What::Lost { how: Loss::ConnectionLost, .. } => "connection lost",
        What::Observed { observation: Observation::Applied(_), .. } => "seen applied",
        What::Observed { observation: Observation::NotApplied, .. } => "seen not applied",
        What::Observed { observation: Observation::Sealed(_), .. } => "sealed",
        What::Observed { observation: Observation::Unclear, .. } => "seen nothing",
        What::Committed { .. } => "committed",
        What::Alerted => "escalated",
        What::Decide { .. } => "decided",
        What::Cancel => "cancelled",
        What::Delivered { .. } => "delivered",
        What::Expire => "expired",
    }
}

//! All transitions, in one `match` over state and event.

use crate::action::{Action, Actions, Answer, Dispatch, Refusal, Store, Wait};
use crate::event::{ErrorClass, Event, Loss, Observation, Reply, SealScope, Start, What};
use crate::policy::{Ends, Policy, ToolKind};
use crate::record::{Attempt, AttemptId, Cause, Handle, Outcome, Record, Sent, State, Time, Verdict, Version};

/// What a step leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step<H> {
    /// The record as it will be once the actions' `Store` is durable; as it was, if they hold none.
    pub record: Option<Record<H>>,
    /// What to do, in order.
    pub actions: Actions<H>,
}

impl Policy {
    /// One step of an operation: from its record and an event to its next record and what the shell must do.
    ///
    /// Deterministic, total and pure. A `Store`, if there is one, is the first action.
    pub fn step<H: Handle>(&self, record: Option<&Record<H>>, event: &Event<H>) -> Step<H> {
        match record {
            Some(record) => self.step_record(record, event),
            None => match event.what {
                What::Call { fingerprint, start } => self.begin(None, fingerprint, start, event),
                What::Decide { .. } => {
                    Step { record: None, actions: Actions::of([Action::Refuse(Refusal::NotUnknown)]) }
                }
                _ => Step { record: None, actions: Actions::new() },
            },
        }
    }

    /// The table of the design's "Life of an operation".
    fn step_record<H: Handle>(&self, record: &Record<H>, event: &Event<H>) -> Step<H> {
        let r = Moving { policy: self, record, event };
        match (record.state, event.what) {
            // A call: begin anew when the last operation is over; never answer other arguments; else wait or answer.
            (_, What::Call { fingerprint, start }) if self.is_over(record, event.now) => {
                self.begin(Some(record), fingerprint, start, event)
            }
            (_, What::Call { fingerprint, .. }) if fingerprint != record.fingerprint && self.rules.check_arguments => {
                r.stay([Action::Answer(Answer::Conflict)])
            }
            (State::Created | State::Dispatched(_), What::Call { .. }) => r.stay([Action::Wait(Wait::ForAttempt)]),
            (State::Unknown { cause, .. }, What::Call { .. }) if self.holds_unknown() => {
                r.stay([Action::Answer(unknown(cause))])
            }
            (State::Unknown { .. }, What::Call { .. }) => r.stay([Action::Wait(Wait::ForAttempt)]),
            (State::Escalated { cause, .. }, What::Call { .. }) => r.stay([Action::Answer(unknown(cause))]),
            (State::Confirmed { outcome, .. }, What::Call { .. }) => {
                r.stay([Action::Answer(answer(outcome.into(), None, true))])
            }
            // Asked for again while its delivery is in doubt: so it has not arrived.
            (
                State::Settled { verdict: verdict @ Verdict::Succeeded(_), sent, at, delivered: Some(_) },
                What::Call { .. },
            ) if self.repeat.ends == Ends::OnDelivery => {
                let state = State::Settled { verdict, sent, at, delivered: None };
                r.store(state, Actions::of([Action::Answer(answer(verdict, sent, true))]))
            }
            (State::Settled { verdict, sent, .. }, What::Call { .. }) => {
                r.stay([Action::Answer(answer(verdict, sent, true))])
            }

            // Recovery, timers, takeover.
            (State::Created, What::Resume { .. }) => r.dispatch(None),
            (State::Dispatched(sent), What::Resume { take_over: true, .. }) => r.unknown(sent, Cause::OwnerLost),
            (State::Dispatched(_), What::Resume { take_over: false, .. }) => r.stay([Action::Wait(Wait::ForAttempt)]),
            (State::Unknown { sent, cause, checks, quiet: None }, What::Resume { sender_done: true, .. })
                if matches!(self.tool, ToolKind::Observable { .. }) =>
            {
                r.begin_quiet(sent, cause, checks)
            }
            (State::Unknown { sent, cause, quiet, .. }, What::Resume { undisturbed, .. }) => {
                r.reconcile(sent, cause, quiet, undisturbed)
            }
            (State::Confirmed { sent, outcome }, What::Resume { .. }) => r.settle(outcome.into(), Some(sent)),

            // What did not run may be sent again, as a new attempt, if nothing else of the operation can apply.
            (State::Dispatched(sent), What::Reply { of, reply: Reply::Error(class @ ErrorClass::Busy, _) })
                if r.is_latest(sent, of) && self.is_alone(class, &sent) && r.may_retry(&sent) =>
            {
                r.dispatch(Some(sent))
            }

            // A definite reply settles, also late (rule 4); an error settles only if it proves something (rule 2).
            (
                State::Dispatched(sent) | State::Unknown { sent, .. } | State::Escalated { sent, .. },
                What::Reply { of, reply: Reply::Result(result) },
            ) if r.counts(sent, of) => r.settle(Verdict::Succeeded(result), Some(sent)),
            (
                State::Dispatched(sent) | State::Unknown { sent, .. } | State::Escalated { sent, .. },
                What::Reply { of, reply: Reply::Error(class, error) },
            ) if r.error_counts(sent, of, class) && self.is_definite(class) && self.is_alone(class, &sent) => {
                r.settle(Verdict::Failed(Some(error)), Some(sent))
            }
            (State::Dispatched(sent), What::Reply { of, reply: Reply::Error(class, error) })
                if r.is_latest(sent, of) =>
            {
                // After `Busy` another attempt is of use; after what is refused for good it isn't.
                let refused = self.is_definite(class) && class != ErrorClass::Busy;
                r.unknown(sent, if refused { Cause::Refused(error) } else { Cause::Error(error) })
            }
            (State::Confirmed { sent, outcome }, What::Reply { of, .. }) if r.is_latest(sent, of) => {
                r.settle(outcome.into(), Some(sent))
            }

            // No answer is not a failure.
            (State::Dispatched(sent), What::Lost { of, how }) if r.is_latest(sent, of) => r.unknown(
                sent,
                match how {
                    Loss::TimedOut => Cause::TimedOut,
                    Loss::ConnectionLost => Cause::ConnectionLost,
                },
            ),

            // Observations (rules 3, 6, 7): what a tool did not declare that it can tell is not believed.
            (
                State::Unknown { sent, .. } | State::Escalated { sent, .. },
                What::Observed { of, observation: Observation::Applied(result), .. },
            ) if r.is_latest(sent, of) => r.settle(Verdict::Succeeded(result), Some(sent)),
            (
                State::Unknown { sent, cause, .. } | State::Escalated { sent, cause },
                What::Observed { of, observation: Observation::Sealed(SealScope::Operation), .. },
            ) if r.is_latest(sent, of) && self.tool == ToolKind::Sealable => {
                r.settle(Verdict::Failed(error_of(cause)), Some(sent))
            }
            (
                State::Unknown { sent, .. },
                What::Observed { of, observation: Observation::Sealed(SealScope::Attempts), .. },
            ) if r.is_latest(sent, of) && self.tool == ToolKind::Sealable => {
                if r.may_retry(&sent) {
                    r.dispatch(Some(Sent { doubt: false, ..sent }))
                } else {
                    r.stay([Action::Seal { of, scope: SealScope::Operation }])
                }
            }
            (
                State::Unknown { sent, cause, .. },
                What::Observed { of, observation: Observation::NotApplied, conclusive: true },
            ) if r.is_latest(sent, of) && matches!(self.tool, ToolKind::Observable { .. }) => {
                if r.may_retry(&sent) {
                    r.dispatch(Some(Sent { doubt: false, ..sent }))
                } else {
                    r.settle(Verdict::Failed(error_of(cause)), Some(sent))
                }
            }
            (State::Unknown { sent, cause, checks, quiet }, What::Observed { of, .. }) if r.is_latest(sent, of) => {
                r.check_again(sent, cause, checks, quiet)
            }

            // The effect's own transaction: exact attempt and epoch, under the record's lock.
            (State::Dispatched(sent), What::Committed { of, owner, result })
                if self.tool == ToolKind::Transactional && r.is_latest(sent, of) && sent.owner == owner =>
            {
                r.store(State::Confirmed { sent, outcome: Outcome::Succeeded(result) }, Actions::new())
            }

            // People.
            (State::Unknown { sent, cause, .. }, What::Alerted) => {
                r.store(State::Escalated { sent, cause }, Actions::new())
            }
            (State::Unknown { sent, .. } | State::Escalated { sent, .. }, What::Decide { verdict, quiet }) => {
                match verdict {
                    // Giving up frees a derived key, just as a failure does.
                    Verdict::Failed(_) | Verdict::Abandoned(_) if !quiet => r.stay([Action::Refuse(Refusal::NotQuiet)]),
                    _ => r.settle(verdict, Some(sent)),
                }
            }
            (_, What::Decide { .. }) => r.stay([Action::Refuse(Refusal::NotUnknown)]),
            (State::Created, What::Cancel) => r.settle(Verdict::Abandoned(None), None),
            (State::Dispatched(sent), What::Cancel) if !self.rules.keep_cancelled => {
                r.settle(Verdict::Failed(None), Some(sent))
            }

            // Delivery and retention.
            (State::Settled { verdict, sent, at, delivered }, What::Delivered { generation, from })
                if generation == record.generation && delivered.is_none_or(|before| from < before) =>
            {
                r.store(State::Settled { verdict, sent, at, delivered: Some(from) }, Actions::new())
            }
            (
                State::Unknown { sent, cause, .. } | State::Escalated { sent, cause },
                What::Delivered { generation, from },
            ) if generation == record.generation && self.ends_with_delivered(&cause) => {
                let verdict = Verdict::Abandoned(error_of(cause));
                let state = State::Settled { verdict, sent: Some(sent), at: event.now, delivered: Some(from) };
                r.store(state, Actions::new())
            }
            (State::Settled { at, .. }, What::Expire)
                if self.repeat.window.is_some_and(|window| event.now.since(at) > window) =>
            {
                Step { record: None, actions: Actions::of([Action::Forget(record.version)]) }
            }

            // Everything else changes nothing: late, doubled or misdirected news of what is already decided.
            (
                _,
                What::Resume { .. }
                | What::Reply { .. }
                | What::Lost { .. }
                | What::Observed { .. }
                | What::Committed { .. }
                | What::Alerted
                | What::Cancel
                | What::Delivered { .. }
                | What::Expire,
            ) => r.stay([]),
        }
    }

    /// A new operation under the key, after `ended` if there was one.
    fn begin<H: Handle>(&self, ended: Option<&Record<H>>, fingerprint: H, start: Start, event: &Event<H>) -> Step<H> {
        let seconds = u32::try_from(event.now.0 / 1_000).unwrap_or(u32::MAX - 1);
        let record = Record {
            // Both from the clock, so that a key that was forgotten does not begin them again (rule 5): news of an attempt
            // from before can't be taken for news of this one.
            version: ended.map_or(Version(event.now.0 + 1), |last| Version(last.version.0 + 1)),
            generation: ended.map_or(0, |last| last.generation).max(seconds) + 1,
            fingerprint,
            created: event.now,
            state: match start {
                Start::Later => State::Created,
                Start::Now => State::Dispatched(first_dispatch(event)),
            },
        };
        let then = match record.state {
            State::Dispatched(sent) => Actions::of([Action::Dispatch(Dispatch::new(&record, sent))]),
            _ => Actions::of([Action::Wait(Wait::ForAttempt)]),
        };
        let store = Store { expected: ended.map(|last| last.version), record };
        Step { record: Some(record), actions: then.after(Action::Store(store)) }
    }

    /// What follows once an outcome is unknown: the table of "What may be concluded, and from what".
    fn after_unknown(&self) -> AfterUnknown {
        match self.tool {
            ToolKind::Opaque if self.rules.hold_unknown => AfterUnknown::Hold,
            ToolKind::Opaque => AfterUnknown::Resend,
            ToolKind::ReadOnly => AfterUnknown::Resend,
            ToolKind::Idempotent => AfterUnknown::ResendIfUndisturbed,
            ToolKind::Deduplicates { limit, margin, .. } => AfterUnknown::ResendWithin { limit, margin },
            ToolKind::Sealable => AfterUnknown::Seal,
            ToolKind::Observable { settling } => AfterUnknown::Observe { settling },
            ToolKind::Transactional => AfterUnknown::ResendFenced,
        }
    }

    /// Rule 2, first half: whether the error itself says that this attempt had no effect.
    fn is_definite(&self, class: ErrorClass) -> bool {
        match class {
            ErrorClass::NotRun | ErrorClass::Busy => true,
            ErrorClass::Unproven => self.errors_final || !self.rules.doubt_errors,
        }
    }

    /// Rule 2, second half: whether a definite error leaves no other copy or attempt that could still apply.
    fn is_alone(&self, class: ErrorClass, sent: &Sent) -> bool {
        match self.tool {
            ToolKind::ReadOnly | ToolKind::Transactional => true,
            // Rule 7: `failed` needs the whole operation sealed first.
            ToolKind::Sealable => false,
            ToolKind::Deduplicates { .. } if self.is_remembered(class) => true,
            ToolKind::Deduplicates { .. } | ToolKind::Idempotent | ToolKind::Opaque | ToolKind::Observable { .. } => {
                self.single_delivery && !sent.doubt
            }
        }
    }

    /// Rule 2: whether such an error is kept under the key, so that every other copy and attempt gets it as well.
    fn is_remembered(&self, class: ErrorClass) -> bool {
        matches!(self.tool, ToolKind::Deduplicates { remembers_rejections: true, .. }) && class == ErrorClass::Unproven
    }
}

/// A row of the table of what may follow an unknown.
enum AfterUnknown {
    Hold,
    Resend,
    ResendIfUndisturbed,
    ResendWithin { limit: u64, margin: u64 },
    ResendFenced,
    Seal,
    Observe { settling: u64 },
}

/// A record that an event moves.
struct Moving<'a, H> {
    policy: &'a Policy,
    record: &'a Record<H>,
    event: &'a Event<H>,
}

impl<H: Handle> Moving<'_, H> {
    fn stay<const N: usize>(&self, actions: [Action<H>; N]) -> Step<H> {
        Step { record: Some(*self.record), actions: Actions::of(actions) }
    }

    fn store(&self, state: State<H>, then: Actions<H>) -> Step<H> {
        let record = self.next(state);
        let store = Store { expected: Some(self.record.version), record };
        Step { record: Some(record), actions: then.after(Action::Store(store)) }
    }

    fn next(&self, state: State<H>) -> Record<H> {
        Record { version: Version(self.record.version.0 + 1), state, ..*self.record }
    }

    fn id(&self, sent: Sent) -> AttemptId {
        AttemptId { generation: self.record.generation, attempt: sent.attempt }
    }

    fn is_latest(&self, sent: Sent, of: AttemptId) -> bool {
        self.id(sent) == of
    }

    /// Rule 3: a reply counts for the record's attempt; of a deduplicating tool, any attempt's does.
    fn counts(&self, sent: Sent, of: AttemptId) -> bool {
        let any = matches!(self.policy.tool, ToolKind::Deduplicates { .. });
        self.is_latest(sent, of) || any && of.generation == self.record.generation && of.attempt < sent.attempt
    }

    /// Rule 3, of errors: an earlier attempt's says nothing of the latest one, unless the tool remembers it under the key.
    fn error_counts(&self, sent: Sent, of: AttemptId, class: ErrorClass) -> bool {
        self.is_latest(sent, of) || self.policy.is_remembered(class) && self.counts(sent, of)
    }

    fn may_retry(&self, sent: &Sent) -> bool {
        self.policy.retry.allows(sent.attempt, self.record.created, self.event.now)
    }

    fn wait(&self, failures: u32) -> Action<H> {
        let delay = self.policy.retry.backoff.delay(failures, self.event.draw);
        Action::Wait(Wait::Until(self.event.now.after(delay)))
    }

    /// The next attempt: after `last`, or the first.
    fn dispatch(&self, last: Option<Sent>) -> Step<H> {
        let first = first_dispatch(self.event);
        let sent = last.map_or(first, |last| Sent {
            attempt: last.attempt.next(),
            first: last.first,
            doubt: last.doubt,
            ..first
        });
        let record = self.next(State::Dispatched(sent));
        self.store(record.state, Actions::of([Action::Dispatch(Dispatch::new(&record, sent))]))
    }

    fn settle(&self, verdict: Verdict<H>, sent: Option<Sent>) -> Step<H> {
        let state = State::Settled { verdict, sent, at: self.event.now, delivered: None };
        self.store(state, Actions::of([Action::Answer(answer(verdict, sent, false))]))
    }

    fn unknown(&self, sent: Sent, cause: Cause<H>) -> Step<H> {
        let state = State::Unknown { sent, cause, checks: 0, quiet: None };
        let then = match self.policy.after_unknown() {
            AfterUnknown::Hold if self.policy.ends_with_delivered(&cause) => {
                Actions::of([Action::Answer(unknown(cause))])
            }
            AfterUnknown::Hold => Actions::of([Action::Answer(unknown(cause)), Action::Escalate]),
            _ => Actions::of([self.wait(sent.attempt.get())]),
        };
        self.store(state, then)
    }

    /// Rule 6: the settling time runs from the last possible send, which is only now known to be over.
    fn begin_quiet(&self, sent: Sent, cause: Cause<H>, checks: u32) -> Step<H> {
        let ToolKind::Observable { settling } = self.policy.tool else {
            return self.stay([]);
        };
        let state = State::Unknown { sent, cause, checks, quiet: Some(self.event.now) };
        self.store(state, Actions::of([Action::Wait(Wait::Until(self.event.now.after(settling)))]))
    }

    /// From unknown onwards, when its time has come.
    fn reconcile(&self, sent: Sent, cause: Cause<H>, quiet: Option<Time>, undisturbed: bool) -> Step<H> {
        let may_retry = self.may_retry(&sent);
        let escalate = || self.stay([Action::Answer(unknown(cause)), Action::Escalate]);
        match self.policy.after_unknown() {
            AfterUnknown::Hold if self.policy.ends_with_delivered(&cause) => {
                self.stay([Action::Answer(unknown(cause))])
            }
            AfterUnknown::Hold => escalate(),
            AfterUnknown::Resend if may_retry => self.dispatch(Some(sent)),
            AfterUnknown::Resend if self.policy.tool == ToolKind::ReadOnly => {
                self.settle(Verdict::Failed(error_of(cause)), Some(sent))
            }
            AfterUnknown::Resend => escalate(),
            AfterUnknown::ResendIfUndisturbed if may_retry && undisturbed => {
                self.dispatch(Some(Sent { doubt: true, ..sent }))
            }
            AfterUnknown::ResendIfUndisturbed => escalate(),
            AfterUnknown::ResendWithin { limit, margin } => {
                let last_arrival = self.event.now.after(margin);
                if may_retry && last_arrival < sent.first.after(limit) {
                    self.dispatch(Some(Sent { doubt: true, ..sent }))
                } else {
                    escalate()
                }
            }
            // The record is `unknown` by compare-and-set, so the attempt's transaction can't commit any more.
            AfterUnknown::ResendFenced if may_retry => self.dispatch(Some(sent)),
            AfterUnknown::ResendFenced => self.settle(Verdict::Failed(error_of(cause)), Some(sent)),
            AfterUnknown::Seal => {
                let again = may_retry && !matches!(cause, Cause::Refused(_));
                let scope = if again { SealScope::Attempts } else { SealScope::Operation };
                self.stay([Action::Seal { of: self.id(sent), scope }])
            }
            AfterUnknown::Observe { settling } => {
                let is_quiet = quiet.is_some_and(|since| self.event.now >= since.after(settling));
                let conclusive = is_quiet || !self.policy.rules.wait_for_quiet;
                self.stay([Action::Observe { of: self.id(sent), conclusive }])
            }
        }
    }

    /// An observation told nothing: ask again after a while, or a person after enough.
    fn check_again(&self, sent: Sent, cause: Cause<H>, checks: u32, quiet: Option<Time>) -> Step<H> {
        let checks = checks.saturating_add(1);
        let then = if checks < self.policy.retry.checks {
            Actions::of([self.wait(checks)])
        } else {
            Actions::of([Action::Answer(unknown(cause)), Action::Escalate])
        };
        self.store(State::Unknown { sent, cause, checks, quiet }, then)
    }
}

fn first_dispatch<H>(event: &Event<H>) -> Sent {
    Sent { attempt: Attempt::FIRST, owner: event.by, at: event.now, first: event.now, doubt: false }
}

fn error_of<H>(cause: Cause<H>) -> Option<H> {
    match cause {
        Cause::Error(error) | Cause::Refused(error) => Some(error),
        Cause::TimedOut | Cause::ConnectionLost | Cause::OwnerLost => None,
    }
}

fn unknown<H>(cause: Cause<H>) -> Answer<H> {
    Answer::Unknown { error: error_of(cause) }
}

fn answer<H>(verdict: Verdict<H>, sent: Option<Sent>, replayed: bool) -> Answer<H> {
    match verdict {
        Verdict::Succeeded(result) => Answer::Done { result, replayed },
        Verdict::Failed(error) => Answer::Failed { error, replayed },
        Verdict::Abandoned(_) if sent.is_none() => Answer::Failed { error: None, replayed },
        Verdict::Abandoned(error) => Answer::Unknown { error },
    }
}

//! What the guard would know of earlier calls: records in memory, moved by the protocol core itself.

use std::collections::HashMap;
use std::time::Duration;

use settled::ToolReply;
use settled_protocol::{
    Action, Answer, AttemptId, Digest, Durable, Ends, Epoch, ErrorClass, Event, Key, Loss, Policy, Record, Reply,
    Start, State, Time, What,
};
use tokio::time::Instant;

use crate::config::{Answers, Defaults};
use crate::guarded::guard::Terms;
use crate::guarded::keys::{CallKey, Round};
use crate::guarded::rounds::{self, Last};

/// How many operations are remembered; beyond that, those that are over are forgotten first, then all.
const OPERATIONS: usize = 1 << 16;

/// This process's ownership in records that only it has.
const SELF: Epoch = Epoch(1);

/// What the guard would have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Would {
    /// Sent it, recorded.
    Send,
    /// Passed it on: the tool is harmless as far as anybody says.
    Pass,
    /// Let it wait for the answer of the same call that was under way.
    Join,
    /// Answered it from the record.
    Replay,
    /// Refused it: its key was used with other arguments.
    Conflict,
    /// Refused it: its key is so old that the record is no longer kept.
    Expire,
    /// Not sent it, because it was not known whether the earlier call had happened.
    Hold,
    /// Refused it: it could not be told which operation it was.
    Refuse,
}

impl Would {
    pub(super) fn word(self) -> &'static str {
        match self {
            Would::Send => "sent",
            Would::Pass => "passed",
            Would::Join => "joined",
            Would::Replay => "replayed",
            Would::Conflict => "conflicted",
            Would::Expire => "expired",
            Would::Hold => "held",
            Would::Refuse => "refused",
        }
    }
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Reply(Reply<Digest>),
    /// The tool asks for input first.
    Question,
    /// No answer.
    Nothing,
}

impl After {
    /// `asks`: it is a question of the tool's.
    pub(super) fn of(reply: ToolReply, asks: bool) -> After {
        match reply {
            ToolReply::Result(_) => After::Reply(Reply::Result(Digest::of(b"result"))),
            ToolReply::Error(ErrorClass::NotRun, _) if asks => After::Question,
            ToolReply::Error(class, _) => After::Reply(Reply::Error(class, Digest::of(b"error"))),
            // Here nobody sends it again.
            ToolReply::Busy { .. } => After::Reply(Reply::Error(ErrorClass::NotRun, Digest::of(b"error"))),
            ToolReply::ConnectionLost => After::Nothing,
        }
    }
}

struct Operation {
    /// `None`: forgotten, and until then its key is answered "expired".
    record: Option<Record<Digest>>,
    expired_until: Option<Instant>,
    policy: Policy,
    round: Round,
    waits_for_input: bool,
    /// The attempt under way: the call that it was, which attempt, and from when on its outcome would count as unknown.
    out: Option<(u64, AttemptId, Instant)>,
    came: Instant,
    tombstone: Option<Duration>,
    slow_answer: Duration,
    retry_doubt: Duration,
    answers: Answers,
}

/// What is remembered.
pub(super) struct Table {
    begun: Instant,
    by_key: HashMap<Key, Operation>,
    /// Operations that are under way, by the number of their call.
    out: HashMap<u64, Key>,
}

impl Default for Table {
    fn default() -> Self {
        Table { begun: Instant::now(), by_key: HashMap::new(), out: HashMap::new() }
    }
}

impl Table {
    pub(super) fn called(
        &mut self,
        number: u64,
        found: CallKey,
        terms: &Terms,
        defaults: &Defaults,
        now: Instant,
    ) -> Would {
        let clock = Clock { begun: self.begun };
        let limits = terms.limits(found.origin);
        if !self.by_key.contains_key(&found.key) {
            self.make_room(now);
        }
        let mut known = self.by_key.remove(&found.key);
        if let Some(operation) = &mut known {
            operation.advance(clock, now);
        }
        let known = known.filter(|operation| !operation.is_gone(now));
        if known.as_ref().is_some_and(|operation| operation.record.is_none()) {
            self.by_key.extend(known.map(|operation| (found.key, operation)));
            return Would::Expire;
        }
        let policy =
            rounds::policy(terms.policy(found.origin), &found, known.as_ref().and_then(Operation::last).as_ref());
        let what = What::Call { fingerprint: found.fingerprint, start: Start::Now };
        let record = known.as_ref().and_then(|operation| operation.record);
        let step = policy.step(record.as_ref(), &clock.event(now, what));
        let (mut would, mut out) = (Would::Join, None);
        for action in step.actions.iter() {
            match (action, &step.record) {
                (Action::Dispatch(dispatch), Some(record)) => {
                    // What is stored here is as durable as this process.
                    out =
                        dispatch.send(&Durable::attest(record)).ok().map(|(of, _)| (number, of, now + limits.attempt));
                    would = Would::Send;
                }
                (Action::Answer(answer), _) => would = of_answer(answer),
                (Action::Wait(_), Some(record)) if matches!(record.state(), State::Unknown { .. }) => {
                    would = Would::Hold
                }
                _ => {}
            }
        }
        let mut operation = match (known, would) {
            (Some(operation), Would::Join | Would::Replay | Would::Conflict | Would::Hold) => operation,
            _ => Operation {
                record: None,
                expired_until: None,
                policy,
                round: found.round,
                waits_for_input: false,
                out: None,
                came: now,
                tombstone: limits.tombstone,
                slow_answer: defaults.slow_answer,
                retry_doubt: defaults.retry_doubt,
                answers: terms.declared.as_ref().map(|tool| tool.answers.clone()).unwrap_or_default(),
            },
        };
        operation.record = step.record;
        if out.is_some() {
            operation.out = out;
            self.out.insert(number, found.key.clone());
        }
        if would == Would::Replay {
            operation.delivered(clock, now, Duration::ZERO);
        }
        self.by_key.insert(found.key, operation);
        would
    }

    pub(super) fn answered(&mut self, number: u64, now: Instant, after: impl FnOnce(&Answers) -> After) {
        let clock = Clock { begun: self.begun };
        let Some(key) = self.out.remove(&number) else { return };
        let Some(operation) = self.by_key.get_mut(&key) else { return };
        operation.advance(clock, now);
        if let Some((_, of, _)) = operation.out.take_if(|(out, ..)| *out == number) {
            let after = after(&operation.answers);
            operation.after(clock, now, of, after);
        }
    }

    fn make_room(&mut self, now: Instant) {
        if self.by_key.len() < OPERATIONS {
            return;
        }
        let clock = Clock { begun: self.begun };
        self.by_key.retain(|_, operation| {
            operation.advance(clock, now);
            !operation.is_gone(now)
                && operation.record.is_none_or(|record| !operation.policy.is_over(&record, clock.at(now)))
        });
        if self.by_key.len() >= OPERATIONS {
            tracing::warn!("observed calls are forgotten: there are more than {OPERATIONS}");
            self.by_key.clear();
        }
        let by_key = &self.by_key;
        self.out.retain(|_, key| by_key.contains_key(key));
    }
}

/// The core's time, for calls that are timed by a clock that never goes back.
#[derive(Clone, Copy)]
struct Clock {
    begun: Instant,
}

impl Clock {
    fn at(self, now: Instant) -> Time {
        Time(u64::try_from(now.saturating_duration_since(self.begun).as_millis()).unwrap_or(u64::MAX))
    }

    fn event(self, now: Instant, what: What<Digest>) -> Event<Digest> {
        Event { now: self.at(now), by: SELF, draw: 0, what }
    }
}

fn of_answer(answer: Answer<Digest>) -> Would {
    match answer {
        Answer::Done { .. } | Answer::Failed { .. } => Would::Replay,
        Answer::Unknown { .. } => Would::Hold,
        Answer::InProgress => Would::Join,
        Answer::Conflict => Would::Conflict,
        Answer::Expired => Would::Expire,
    }
}

impl Operation {
    /// What time brings: an attempt that takes too long is unknown, and what is over is forgotten.
    fn advance(&mut self, clock: Clock, now: Instant) {
        if let Some((_, of, until)) = self.out.filter(|(.., until)| *until <= now) {
            self.step(clock, until, What::Lost { of, how: Loss::TimedOut });
        }
        let was_there = self.record.is_some();
        self.step(clock, now, What::Expire);
        if was_there && self.record.is_none() {
            self.expired_until = self.tombstone.map(|tombstone| later(now, tombstone));
        }
    }

    /// Whether nothing of it is kept.
    fn is_gone(&self, now: Instant) -> bool {
        self.record.is_none() && self.expired_until.is_none_or(|until| until <= now)
    }

    fn last(&self) -> Option<Last> {
        let record = self.record.as_ref()?;
        let waits_for_input = self.waits_for_input && record.is_settled();
        Some(Last { fingerprint: record.fingerprint(), round: Some(self.round.clone()), waits_for_input })
    }

    fn after(&mut self, clock: Clock, now: Instant, of: AttemptId, after: After) {
        self.waits_for_input = after == After::Question;
        let what = match after {
            After::Reply(reply) => What::Reply { of, reply },
            After::Question => What::Reply { of, reply: Reply::Error(ErrorClass::NotRun, Digest::of(b"question")) },
            After::Nothing => What::Lost { of, how: Loss::ConnectionLost },
        };
        let is_told = self.step(clock, now, what);
        if is_told && after != After::Nothing {
            // A slow answer may have come too late for a client that gave up without saying so.
            let slow = now.saturating_duration_since(self.came) > self.slow_answer;
            self.delivered(clock, now, if slow { self.retry_doubt } else { Duration::ZERO });
        }
    }

    /// An answer has reached the caller.
    fn delivered(&mut self, clock: Clock, now: Instant, doubt: Duration) {
        if self.policy.repeat.ends == Ends::OnDelivery
            && let Some(record) = &self.record
        {
            let generation = record.generation();
            self.step(clock, now, What::Delivered { generation, from: clock.at(later(now, doubt)) });
        }
    }

    /// One step of the core, and what follows from it at once. Whether somebody is answered.
    fn step(&mut self, clock: Clock, now: Instant, what: What<Digest>) -> bool {
        let step = self.policy.step(self.record.as_ref(), &clock.event(now, what));
        self.record = step.record;
        let is_answer = step.actions.iter().any(|action| matches!(action, Action::Answer(_)));
        if step.actions.iter().any(|action| matches!(action, Action::Escalate)) {
            self.step(clock, now, What::Alerted);
        }
        is_answer
    }
}

fn later(now: Instant, span: Duration) -> Instant {
    // Far enough for a table in memory.
    now + span.min(Duration::from_secs(365 * 24 * 60 * 60))
}

#[cfg(test)]
mod tests;

//! What the steps of one operation tell of how it fared.

use std::collections::BTreeMap;

use serde::Serialize;
use settled::Change;
use settled::protocol::{Cause, Digest, Record, State};

/// Counts, by name.
pub type Counts = BTreeMap<&'static str, u64>;

/// How operations fared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fates {
    /// Attempts that were sent.
    pub attempts: u64,
    /// Those after the first of their operation, by what had become of the one before.
    pub retries: Counts,
    /// How often an outcome became unknown, by cause.
    pub unknowns: Counts,
    /// What settled those that had been unknown: observation, seal, late reply, reply to a later attempt, person, cancel, other.
    pub recovered_by: Counts,
    /// What settled those that never were unknown.
    pub settled_by: Counts,
    /// How often a person was asked.
    pub escalations: u64,
}

impl Fates {
    /// Of those that had been unknown and are settled, how many were settled without a person; `None` if there are none.
    pub fn recovery_rate(&self) -> Option<f64> {
        let all: u64 = self.recovered_by.values().sum();
        let by_a_person = self.recovered_by.get("person").copied().unwrap_or_default();
        (all > 0).then(|| (all - by_a_person) as f64 / all as f64)
    }

    /// Attempts after the first, of all attempts; `None` if there are none.
    pub fn retry_share(&self) -> Option<f64> {
        let retries: u64 = self.retries.values().sum();
        (self.attempts > 0).then(|| retries as f64 / self.attempts as f64)
    }

    /// Adds an operation that took the usual way: sent once, answered, settled.
    pub fn add_usual(&mut self) {
        self.attempts += 1;
        *self.settled_by.entry("reply").or_default() += 1;
    }

    /// Adds an operation with all its steps, oldest first. There may be several operations under one key, one after the other.
    pub fn add(&mut self, steps: &[Change]) {
        let mut before: Option<&Record<Digest>> = None;
        let mut was_unknown = false;
        for step in steps {
            let now = &step.record;
            if before.is_some_and(|before| before.generation() != now.generation()) {
                before = None;
            }
            if before.is_none() {
                was_unknown = false;
            }
            self.add_step(before, step, &mut was_unknown);
            before = Some(now);
        }
    }

    fn add_step(&mut self, before: Option<&Record<Digest>>, step: &Change, was_unknown: &mut bool) {
        let now = &step.record;
        if let State::Dispatched(sent) = now.state() {
            let earlier = before.and_then(Record::sent);
            if earlier.is_none_or(|earlier| earlier.attempt() != sent.attempt()) {
                self.attempts += 1;
                if sent.attempt().get() > 1 {
                    *self.retries.entry(retry(before, &step.event)).or_default() += 1;
                }
            }
        }
        let open = |record: &Record<Digest>| matches!(record.state(), State::Unknown { .. } | State::Escalated { .. });
        if let State::Unknown { cause, .. } | State::Escalated { cause, .. } = now.state()
            && !before.is_some_and(open)
        {
            *was_unknown = true;
            *self.unknowns.entry(name(cause)).or_default() += 1;
        }
        let escalated = |record: &Record<Digest>| matches!(record.state(), State::Escalated { .. });
        if escalated(now) && !before.is_some_and(escalated) {
            self.escalations += 1;
        }
        if now.is_settled() && !before.is_some_and(Record::is_settled) {
            let by = if *was_unknown { &mut self.recovered_by } else { &mut self.settled_by };
            *by.entry(what_settled(&step.event, before.is_some_and(open), *was_unknown)).or_default() += 1;
        }
    }
}

fn retry(before: Option<&Record<Digest>>, event: &str) -> &'static str {
    match before.map(Record::state) {
        _ if event == "busy" => "busy",
        Some(State::Unknown { cause, .. } | State::Escalated { cause, .. }) => name(cause),
        _ => "other",
    }
}

fn what_settled(event: &str, open: bool, was_unknown: bool) -> &'static str {
    match event {
        "result" | "error" | "busy" | "reply" if open => "late reply",
        "result" | "error" | "busy" | "reply" if was_unknown => "reply to a later attempt",
        "result" | "error" | "busy" | "reply" => "reply",
        "committed" => "commit",
        "seen applied" | "seen not applied" => "observation",
        "sealed" => "seal",
        "decided" => "person",
        "cancelled" => "cancel",
        "delivered" => "delivery of its error",
        _ => "other",
    }
}

/// A cause in a word or two.
pub fn name(cause: &Cause<Digest>) -> &'static str {
    match cause {
        Cause::TimedOut => "timed out",
        Cause::ConnectionLost => "connection lost",
        Cause::Error(_) => "error",
        Cause::Refused(_) => "refused",
        Cause::OwnerLost => "owner lost",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use settled::protocol::{
        Action, Epoch, ErrorClass, Event, Key, Loss, Observation, Policy, Reply, Start, Time, ToolKind, Verdict, What,
    };

    use super::*;

    /// An operation that is taken through the core, event by event.
    struct Operation {
        policy: Policy,
        steps: Vec<Change>,
    }

    impl Operation {
        fn begun(tool: ToolKind) -> Operation {
            let mut operation = Operation { policy: Policy::new(tool), steps: Vec::new() };
            operation.step("call", What::Call { fingerprint: Digest::from_bytes([1; 32]), start: Start::Now });
            operation
        }

        fn step(&mut self, event: &str, what: What<Digest>) {
            let before = self.steps.last().map(|step| step.record);
            let at = Time(1_000 * (self.steps.len() as u64 + 1));
            let event_of_core = Event { now: at, by: Epoch(1), draw: 0, what };
            let step = self.policy.step(before.as_ref(), &event_of_core);
            let store = step.actions.iter().find_map(|action| match action {
                Action::Store(store) => Some(store),
                _ => None,
            });
            let store = store.unwrap_or_else(|| panic!("{event} stores nothing after {before:?}"));
            self.steps.push(Change {
                key: Key::new("shop", "charge", "1").unwrap(),
                expected: store.expected,
                record: store.record,
                at,
                by: Epoch(1),
                event: event.to_owned(),
                asked: None,
                sent: None,
                outcome: None,
                note: None,
                resource: None,
                keep_until: None,
            });
        }

        fn of(&self) -> settled::protocol::AttemptId {
            self.steps.last().unwrap().record.attempt_id().unwrap()
        }

        fn result(&mut self) {
            let of = self.of();
            self.step("result", What::Reply { of, reply: Reply::Result(Digest::from_bytes([2; 32])) });
        }

        fn timed_out(&mut self) {
            let of = self.of();
            self.step("timed out", What::Lost { of, how: Loss::TimedOut });
        }

        fn fates(&self) -> Fates {
            let mut fates = Fates::default();
            fates.add(&self.steps);
            fates
        }
    }

    fn counts(all: &[(&'static str, u64)]) -> Counts {
        all.iter().copied().collect()
    }

    #[test]
    fn the_usual_way_is_told_alike_with_and_without_its_steps() {
        let mut operation = Operation::begun(ToolKind::Opaque);
        operation.result();
        let mut usual = Fates::default();
        usual.add_usual();
        assert_eq!(operation.fates(), usual);
        assert_eq!(usual.retry_share(), Some(0.0));
        assert_eq!((usual.recovery_rate(), Fates::default().retry_share()), (None, None));
    }

    #[test]
    fn a_late_reply_recovers() {
        let mut operation = Operation::begun(ToolKind::Opaque);
        operation.timed_out();
        operation.result();
        let fates = operation.fates();
        assert_eq!(fates.unknowns, counts(&[("timed out", 1)]));
        assert_eq!(fates.recovered_by, counts(&[("late reply", 1)]));
        assert!(fates.settled_by.is_empty());
        assert_eq!(fates.recovery_rate(), Some(1.0));
    }

    #[test]
    fn a_person_recovers_nothing_by_itself() {
        let mut operation = Operation::begun(ToolKind::Opaque);
        operation.timed_out();
        operation.step("escalated", What::Alerted);
        let verdict = Verdict::Succeeded(Digest::from_bytes([3; 32]));
        operation.step("decided", What::Decide { verdict, quiet: true });
        let fates = operation.fates();
        assert_eq!((fates.escalations, fates.attempts), (1, 1));
        assert_eq!(fates.unknowns, counts(&[("timed out", 1)]), "escalating is not another unknown");
        assert_eq!(fates.recovered_by, counts(&[("person", 1)]));
        assert_eq!(fates.recovery_rate(), Some(0.0));
    }

    #[test]
    fn an_observation_recovers() {
        let mut operation = Operation::begun(ToolKind::Observable { settling: 0 });
        operation.timed_out();
        let of = operation.of();
        let observation = Observation::Applied(Digest::from_bytes([3; 32]));
        operation.step("seen applied", What::Observed { of, observation, conclusive: false });
        assert_eq!(operation.fates().recovered_by, counts(&[("observation", 1)]));
    }

    #[test]
    fn a_later_attempt_is_a_retry_with_its_cause() {
        let kind = ToolKind::Deduplicates { limit: 1_000_000, margin: 0, remembers_rejections: false };
        let mut operation = Operation::begun(kind);
        operation.timed_out();
        let resume = What::Resume { take_over: false, sender_done: true, undisturbed: true };
        operation.step("sent again", resume);
        operation.result();
        let fates = operation.fates();
        assert_eq!((fates.attempts, &fates.retries), (2, &counts(&[("timed out", 1)])));
        assert_eq!(fates.recovered_by, counts(&[("reply to a later attempt", 1)]));
        assert_eq!(fates.retry_share(), Some(0.5));
    }

    #[test]
    fn a_busy_tool_is_asked_again_without_any_doubt() {
        let mut operation = Operation::begun(ToolKind::Opaque);
        let of = operation.of();
        let error = Reply::Error(ErrorClass::Busy, Digest::from_bytes([4; 32]));
        operation.step("busy", What::Reply { of, reply: error });
        operation.result();
        let fates = operation.fates();
        assert_eq!((fates.attempts, &fates.retries), (2, &counts(&[("busy", 1)])));
        assert_eq!(fates.settled_by, counts(&[("reply", 1)]));
        assert!(fates.unknowns.is_empty());
    }
}

//! The reference's shell: takes one operation from event to event, one thing at a time.

use settled::protocol::{
    Action, Answer, AttemptId, Digest, Ends, Epoch, ErrorClass, Event, Loss, Observation, Policy, Record, Repeat,
    Reply, SealScope, Start, State, Time, ToolKind, Wait, What,
};

use crate::moves::{Play, Point, SEEN, Script, Sight, body, declared, digest};
use crate::reference::{Hung, Kept, Told, World};

/// Who drives, for whom, and how.
pub(super) struct Driver<'a> {
    pub(super) key: usize,
    pub(super) policy: Policy,
    pub(super) owner: u32,
    pub(super) script: Option<&'a Script>,
    pub(super) point: Option<Point>,
    /// A caller waits, with these arguments.
    pub(super) asks: Option<Digest>,
    pub(super) begins_later: bool,
    pub(super) about: Option<u32>,
    pub(super) began: bool,
    pub(super) sent: bool,
    pub(super) stores: usize,
    pub(super) sends: usize,
    pub(super) answered: Option<Told>,
}

impl<'a> Driver<'a> {
    pub(super) fn new(key: usize, policy: Policy, owner: u32, script: Option<&'a Script>) -> Driver<'a> {
        Driver {
            key,
            policy,
            owner,
            script,
            point: None,
            asks: None,
            begins_later: declared(key).resource,
            about: None,
            began: false,
            sent: false,
            stores: 0,
            sends: 0,
            answered: None,
        }
    }

    pub(super) fn call(&self) -> Option<What<Digest>> {
        let start = if self.begins_later { Start::Later } else { Start::Now };
        self.asks.map(|fingerprint| What::Call { fingerprint, start })
    }
}

enum Waiting {
    Nothing,
    Elsewhere,
    Until,
}

/// Its process has stopped.
pub(super) struct Stopped;

pub(super) fn unknown_policy() -> Policy {
    let repeat = Repeat { ends: Ends::WithWindow, window: Some(30 * 86_400_000) };
    Policy { repeat, ..Policy::new(ToolKind::Opaque) }
}

impl World {
    fn is_mine(&self, driver: &Driver<'_>, epoch: Epoch) -> bool {
        epoch.0 == driver.owner
    }

    pub(super) fn resume(&self, driver: &Driver<'_>, take_over: bool) -> What<Digest> {
        let owner = self.record(driver.key).and_then(Record::sent).map(|sent| sent.owner());
        let sender_done = owner.is_none_or(|owner| self.is_mine(driver, owner) || self.gone.contains(&owner.0));
        let undisturbed = declared(driver.key).resource && sender_done;
        What::Resume { take_over, sender_done, undisturbed }
    }

    fn is_expired(&self, driver: &Driver<'_>) -> bool {
        let Some(kept) = self.kept.get(&driver.key) else { return false };
        let State::Settled { at, .. } = kept.record.state() else { return false };
        let now = Time(self.now);
        if kept.tombstone && !driver.policy.is_over(&kept.record, now) {
            return true;
        }
        let windowed = driver.policy.repeat.window.filter(|window| now.since(*at) > *window);
        match (declared(driver.key).tombstone, windowed) {
            (Some(tombstone), Some(window)) => now.since(*at) <= window + tombstone.as_millis() as u64,
            _ => false,
        }
    }

    /// From this event on until there is nothing more to do.
    pub(super) fn drive(&mut self, driver: &mut Driver<'_>, first: What<Digest>) -> Result<(), Stopped> {
        let mut next = Some(first);
        let mut waiting = Waiting::Nothing;
        loop {
            if let Some(what) = next.take() {
                next = self.perform(driver, what, &mut waiting)?;
                if next.is_some() {
                    continue;
                }
            }
            next = match std::mem::replace(&mut waiting, Waiting::Nothing) {
                Waiting::Nothing if driver.answered.is_none() => driver.call(),
                Waiting::Nothing => None,
                Waiting::Until => Some(self.resume(driver, false)),
                Waiting::Elsewhere => match self.record(driver.key).map(|record| *record.state()) {
                    Some(State::Created) => Some(self.resume(driver, false)),
                    Some(State::Dispatched(_) | State::Unknown { .. }) => Some(self.resume(driver, true)),
                    _ => driver.call(),
                },
            };
            if next.is_none() {
                return Ok(());
            }
        }
    }

    fn perform(
        &mut self,
        driver: &mut Driver<'_>,
        what: What<Digest>,
        waiting: &mut Waiting,
    ) -> Result<Option<What<Digest>>, Stopped> {
        let before = self.record(driver.key).copied();
        let mut policy = driver.policy;
        if matches!(what, What::Call { .. }) {
            let gone = driver.about.is_some_and(|about| before.is_none_or(|record| record.generation() != about));
            if gone || driver.about.is_none() && self.is_expired(driver) {
                driver.answered = Some(Told::Expired);
                return Ok(None);
            }
            if driver.about.is_some() && before.is_some() {
                policy.repeat = Repeat::ALWAYS_REPLAY;
            }
        }
        let event = Event { now: Time(self.now), by: Epoch(driver.owner), draw: 0, what };
        let step = policy.step(before.as_ref(), &event);
        let mut raised = None;
        for action in step.actions.iter() {
            match action {
                Action::Store(store) => {
                    let begins = before.is_none_or(|before| before.generation() != store.record.generation());
                    let base = self.kept.get(&driver.key).map_or(Some(store.record.version().0), |kept| kept.base);
                    let keep_until = match store.record.state() {
                        State::Settled { at, .. } => {
                            driver.policy.repeat.window.map(|window| at.after(window).after(1))
                        }
                        _ => None,
                    };
                    self.kept.insert(driver.key, Kept { record: store.record, base, keep_until, tombstone: false });
                    if begins {
                        driver.about = Some(store.record.generation());
                        driver.began = true;
                    }
                    driver.stores += 1;
                    if driver.point == Some(Point::Stored(driver.stores)) {
                        return Err(Stopped);
                    }
                }
                Action::Forget(_) => {
                    let now = Time(self.now);
                    match (declared(driver.key).tombstone, self.kept.get_mut(&driver.key)) {
                        (Some(tombstone), Some(kept)) if !kept.tombstone => {
                            kept.tombstone = true;
                            kept.base = None;
                            kept.keep_until = Some(now.after(tombstone.as_millis() as u64));
                        }
                        _ => drop(self.kept.remove(&driver.key)),
                    }
                }
                Action::Dispatch(dispatch) => raised = Some(self.send(driver, dispatch.of())?),
                Action::Observe { of, conclusive } => {
                    let observation = match driver.script.map(|script| script.sight) {
                        Some(Sight::Applied) => Observation::Applied(digest(SEEN)),
                        Some(Sight::NotApplied) => Observation::NotApplied,
                        _ => Observation::Unclear,
                    };
                    let tells = !matches!(observation, Observation::Unclear);
                    self.note("observe", tells);
                    raised = Some(What::Observed { of, observation, conclusive });
                }
                Action::Seal { of, scope } => {
                    let observation = match driver.script.map(|script| script.sight) {
                        Some(Sight::Applied) => Observation::Applied(digest(SEEN)),
                        Some(Sight::Sealed) => Observation::Sealed(scope),
                        _ => Observation::Unclear,
                    };
                    self.note(if scope == SealScope::Attempts { "seal attempts" } else { "seal operation" }, {
                        matches!(observation, Observation::Sealed(_))
                    });
                    raised = Some(What::Observed { of, observation, conclusive: false });
                }
                Action::Answer(answer) => {
                    *waiting = Waiting::Nothing;
                    if driver.answered.is_none() {
                        driver.answered = Some(told(answer, driver));
                    }
                }
                Action::Wait(Wait::ForAttempt) => {
                    driver.about = self.record(driver.key).map(Record::generation);
                    *waiting = Waiting::Elsewhere;
                }
                Action::Wait(Wait::Until(_)) => {
                    // As long as the wait, and the settling time with it.
                    self.now += 5;
                    *waiting = Waiting::Until;
                }
                Action::Escalate => raised = Some(What::Alerted),
                Action::Refuse(_) => {}
            }
        }
        Ok(raised)
    }

    /// Sends an attempt; what comes of that.
    fn send(&mut self, driver: &mut Driver<'_>, of: AttemptId) -> Result<What<Digest>, Stopped> {
        *self.sent.entry(driver.key).or_default() += 1;
        let play = driver.script.and_then(|script| script.plays.get(driver.sends)).copied().unwrap_or(Play::Result);
        driver.sends += 1;
        driver.sent = true;
        if driver.point == Some(Point::Sent(driver.sends)) {
            self.hang(driver, of);
            return Err(Stopped);
        }
        let error = |class| Reply::Error(class, digest(body(play)));
        let reply = match play {
            Play::Result => Reply::Result(digest(body(play))),
            Play::Error => error(ErrorClass::Unproven),
            Play::NotRun => error(ErrorClass::NotRun),
            Play::Busy => error(ErrorClass::Busy),
            Play::ConnectionLost => return Ok(What::Lost { of, how: Loss::ConnectionLost }),
            Play::Hang => {
                self.hang(driver, of);
                return Ok(What::Lost { of, how: Loss::TimedOut });
            }
        };
        Ok(What::Reply { of, reply })
    }

    fn hang(&mut self, driver: &Driver<'_>, of: AttemptId) {
        self.hung.entry(driver.key).or_default().push(Hung { of, owner: driver.owner });
    }
}

fn told(answer: Answer<Digest>, driver: &Driver<'_>) -> Told {
    match answer {
        Answer::Done { result, replayed } => Told::Done(result, replayed || !driver.began),
        Answer::Failed { error, replayed } => Told::Failed(error, replayed || !driver.began),
        Answer::Unknown { error } => Told::Unknown(error, !driver.sent),
        Answer::InProgress => Told::InProgress,
        Answer::Conflict => Told::Conflict,
        Answer::Expired => Told::Expired,
    }
}

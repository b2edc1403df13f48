//! The reference: the core's `step` on records in memory, and a shell around it that does one thing at a time. It knows no
//! engine, no ledger, no task and no clock that runs.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest_state_machine::ReferenceStateMachine;
use settled::protocol::{AttemptId, Digest, ErrorClass, Record, Reply, State, Time, Verdict, What};

use crate::moves::{
    self, As, BEGIN, DECIDED, Declared, End, JUMP, Likely, Move, Play, Point, STEP, Script, body, declared, digest,
};
use crate::shell::{Driver, unknown_policy};

/// What a caller was told, as far as it can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Done(Digest, bool),
    Failed(Option<Digest>, bool),
    Unknown(Option<Digest>, bool),
    InProgress,
    Conflict,
    Expired,
}

/// What an operation other than a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// The call of a process that stopped.
    Stopped,
    Told(Vec<Told>),
    Cancelled(bool),
    /// Whether a person could decide it.
    Decided(bool),
    Expired(usize),
    Nothing,
}

#[derive(Clone, Debug)]
pub struct Kept {
    pub record: Record<Digest>,
    /// The version that it began with, if the key was free then.
    pub base: Option<u64>,
    pub keep_until: Option<Time>,
    pub tombstone: bool,
}

/// An attempt that hangs.
#[derive(Clone, Debug)]
pub(super) struct Hung {
    pub(super) of: AttemptId,
    pub(super) owner: u32,
}

#[derive(Clone, Debug, Default)]
pub struct World {
    pub kept: BTreeMap<usize, Kept>,
    pub sent: BTreeMap<usize, usize>,
    pub(super) hung: BTreeMap<usize, Vec<Hung>>,
    /// Keys of which the process in charge may still have an attempt in hand that has been answered.
    late: BTreeSet<usize>,
    /// The generation of the last answer of each key.
    answered: BTreeMap<usize, u32>,
    pub(super) now: u64,
    /// The process in charge.
    owner: u32,
    pub(super) gone: BTreeSet<u32>,
    /// The frozen one, and its call.
    pub frozen: Option<(u32, usize)>,
    /// It was frozen while an attempt was out, and not in the middle of a store.
    wakes: bool,
    /// The last move's outcome.
    pub came: Option<Came>,
    /// What of it succeeded and what failed, by kind.
    pub notes: Vec<(&'static str, bool)>,
}

impl World {
    pub(super) fn record(&self, key: usize) -> Option<&Record<Digest>> {
        self.kept.get(&key).map(|kept| &kept.record)
    }

    pub(super) fn note(&mut self, what: &'static str, succeeded: bool) {
        self.notes.push((what, succeeded));
    }

    fn call(&mut self, key: usize, other: bool, twice: bool, script: &Script, end: End) -> Came {
        let Declared { policy, .. } = declared(key);
        let before = self.record(key).copied();
        let mut driver = Driver::new(key, policy, self.owner, Some(script));
        driver.asks = Some(digest(moves::arguments(other).as_bytes()));
        driver.point = match end {
            End::Answer => None,
            End::Killed(point) | End::Frozen(point) => Some(point),
        };
        let Some(first) = driver.call() else { return Came::Nothing };
        if self.drive(&mut driver, first).is_err() {
            match end {
                End::Frozen(point) => {
                    self.frozen = Some((self.owner, key));
                    self.wakes = matches!(point, Point::Sent(_));
                }
                _ => drop(self.gone.insert(self.owner)),
            }
            self.another_process();
            self.note("stop at a point", true);
            return Came::Stopped;
        }
        if end != End::Answer {
            self.note("stop at a point", false);
        }
        let told = driver.answered.unwrap_or(Told::InProgress);
        self.note_call(before.as_ref(), &driver.asks, &told, driver.began);
        if script.plays.iter().take(driver.sends).any(|play| *play == Play::Hang) {
            self.note("time out", matches!(told, Told::Done(..)));
        }
        if let Some(State::Dispatched(sent) | State::Unknown { sent, .. }) = before.map(|record| *record.state())
            && sent.owner().0 != self.owner
        {
            self.note("take over by a call", matches!(told, Told::Done(..)));
        }
        let about = if matches!(told, Told::Conflict | Told::Expired) { None } else { self.record(key) };
        self.answered.insert(key, about.map_or(0, Record::generation));
        let mut all = vec![told.clone()];
        all.extend(twice.then(|| told_again(told)));
        Came::Told(all)
    }

    fn note_call(&mut self, before: Option<&Record<Digest>>, asks: &Option<Digest>, told: &Told, began: bool) {
        let same = before.map(|record| Some(record.fingerprint()) == *asks);
        match same {
            None => self.note("first call", matches!(told, Told::Done(..))),
            Some(true) => self.note("duplicate call", matches!(told, Told::Done(..))),
            Some(false) => self.note("other arguments", *told != Told::Conflict),
        }
        self.note("begin an operation", began);
        self.note("expiry of a key", *told == Told::Expired);
        match told {
            Told::Done(_, replayed) => self.note("replay", *replayed),
            Told::Failed(..) => self.note("definite failure", true),
            Told::Unknown(..) => self.note("definite failure", false),
            Told::InProgress | Told::Conflict | Told::Expired => {}
        }
    }

    fn another_process(&mut self) {
        self.owner += 1;
        self.late.clear();
        let frozen = self.frozen.map(|(owner, _)| owner);
        for hung in self.hung.values_mut() {
            hung.retain(|hung| Some(hung.owner) == frozen);
        }
    }

    fn recover(&mut self, script: &Script) -> Came {
        for key in 0..moves::KEYS {
            let Some(record) = self.record(key).copied() else { continue };
            if record.is_settled() || matches!(record.state(), State::Escalated { .. }) {
                continue;
            }
            let mut driver = Driver::new(key, declared(key).policy, self.owner, Some(script));
            let take_over = !matches!(record.state(), State::Created);
            let what = self.resume(&driver, take_over);
            // Nobody stops it.
            let _ = self.drive(&mut driver, what);
            self.note("recover", self.record(key).is_some_and(Record::is_settled));
        }
        Came::Nothing
    }

    fn late(&mut self, key: usize, play: Play, owner: u32) -> Came {
        let hung = self.hung.entry(key).or_default();
        let Some(at) = hung.iter().position(|hung| hung.owner == owner) else { return Came::Nothing };
        let Hung { of, .. } = hung.remove(at);
        let reply = match play {
            Play::Result => Reply::Result(digest(body(play))),
            Play::NotRun => Reply::Error(ErrorClass::NotRun, digest(body(play))),
            _ => Reply::Error(ErrorClass::Unproven, digest(body(play))),
        };
        let before = self.record(key).copied();
        let mut driver = Driver::new(key, declared(key).policy, owner, None);
        let _ = self.drive(&mut driver, What::Reply { of, reply });
        self.late.insert(key);
        let settled = self.record(key).copied() != before;
        self.note(if play == Play::Result { "late result" } else { "late error" }, settled);
        Came::Nothing
    }

    fn cancel(&mut self, key: usize) -> Came {
        let created = self.record(key).is_some_and(|record| matches!(record.state(), State::Created));
        if created {
            let mut driver = Driver::new(key, unknown_policy(), self.owner, None);
            let _ = self.drive(&mut driver, What::Cancel);
        }
        self.note("cancel", created);
        Came::Cancelled(created)
    }

    fn decide(&mut self, key: usize, decided: As, quiet: bool) -> Came {
        let before = self.record(key).copied();
        if matches!(before.map(|record| *record.state()), Some(State::Dispatched(_))) {
            let mut driver = Driver::new(key, unknown_policy(), self.owner, None);
            let what = self.resume(&driver, true);
            let _ = self.drive(&mut driver, what);
        }
        let verdict = match decided {
            As::Succeeded => Verdict::Succeeded(digest(DECIDED)),
            As::Failed => Verdict::Failed(Some(digest(DECIDED))),
            As::Abandoned => Verdict::Abandoned(None),
        };
        let open = self.record(key).is_some_and(|record| !record.is_settled());
        let mut driver = Driver::new(key, unknown_policy(), self.owner, None);
        let _ = self.drive(&mut driver, What::Decide { verdict, quiet });
        let done = open && self.record(key).is_some_and(Record::is_settled);
        self.note("decide", done);
        Came::Decided(done)
    }

    fn deliver(&mut self, key: usize) -> Came {
        let generation = self.answered.get(&key).copied().unwrap_or(0);
        let before = self.record(key).copied();
        if generation > 0 {
            let mut driver = Driver::new(key, declared(key).policy, self.owner, None);
            let _ = self.drive(&mut driver, What::Delivered { generation, from: Time(self.now) });
        }
        self.note("deliver", self.record(key).copied() != before);
        Came::Nothing
    }

    fn is_due(&self, key: usize) -> bool {
        let due =
            |kept: &Kept| kept.record.is_settled() && kept.keep_until.is_some_and(|until| until <= Time(self.now));
        self.kept.get(&key).is_some_and(due)
    }

    fn is_out(&self, key: usize) -> bool {
        self.hung.get(&key).is_some_and(|hung| hung.iter().any(|hung| hung.owner == self.owner))
    }

    fn expire(&mut self) -> Came {
        let mut forgotten = 0;
        for key in 0..moves::KEYS {
            if self.is_due(key) && !self.is_out(key) {
                let versions = |world: &World| world.kept.get(&key).map(|kept| (kept.record.version(), kept.tombstone));
                let before = versions(self);
                let mut driver = Driver::new(key, declared(key).policy, self.owner, None);
                let _ = self.drive(&mut driver, What::Expire);
                forgotten += usize::from(versions(self) != before);
            }
        }
        self.note("expire", forgotten > 0);
        Came::Expired(forgotten)
    }

    fn wake(&mut self) -> Came {
        let Some((owner, key)) = self.frozen.take() else { return Came::Nothing };
        let before = self.record(key).copied();
        self.late(key, Play::Result, owner);
        self.note("reply to a process that was frozen", self.record(key).copied() != before);
        Came::Nothing
    }

    fn likely(&self) -> Likely {
        let keys = |is_so: &dyn Fn(usize) -> bool| (0..moves::KEYS).filter(|key| is_so(*key)).collect();
        let state = |key: usize| self.record(key).map(Record::state);
        Likely {
            waiting: keys(&|key| matches!(state(key), Some(State::Created))),
            hanging: keys(&|key| self.is_out(key)),
            open: keys(&|key| state(key).is_some_and(|state| !matches!(state, State::Created | State::Settled { .. }))),
            answered: keys(&|key| self.answered.contains_key(&key)),
            left: keys(&|key| match state(key) {
                Some(State::Dispatched(sent) | State::Unknown { sent, .. }) => sent.owner().0 != self.owner,
                _ => false,
            }),
            expired: keys(&|key| {
                let over = |kept: &Kept| declared(key).policy.is_over(&kept.record, Time(self.now));
                self.kept.get(&key).is_some_and(over)
            }),
            wakes: self.can_wake(),
            due: (0..moves::KEYS).any(|key| self.is_due(key)),
        }
    }

    /// Whether the frozen process waits for the attempt that the record shows: what its answer means can be told.
    fn can_wake(&self) -> bool {
        let Some((owner, key)) = self.frozen.filter(|_| self.wakes) else { return false };
        let hung = self.hung.get(&key).into_iter().flatten().find(|hung| hung.owner == owner);
        let record = self.record(key);
        hung.zip(record).is_some_and(|(hung, record)| {
            record.attempt_id() == Some(hung.of) || record.is_settled() && record.generation() == hung.of.generation
        })
    }
}

fn told_again(told: Told) -> Told {
    match told {
        Told::Done(result, _) => Told::Done(result, true),
        Told::Failed(error, _) => Told::Failed(error, true),
        Told::Unknown(error, _) => Told::Unknown(error, true),
        other => other,
    }
}

/// The reference as proptest drives it.
pub struct Reference;

impl ReferenceStateMachine for Reference {
    type State = World;
    type Transition = Move;

    fn init_state() -> BoxedStrategy<World> {
        Just(World { now: BEGIN, owner: 1, ..World::default() }).boxed()
    }

    fn transitions(world: &World) -> BoxedStrategy<Move> {
        moves::any_move(world.likely()).boxed()
    }

    fn preconditions(world: &World, what: &Move) -> bool {
        match what {
            Move::Call { key, end, twice, .. } => {
                let at_work_elsewhere = world.frozen.is_some_and(|(_, held)| held == *key && declared(*key).resource);
                !(at_work_elsewhere
                    || *twice && *end != End::Answer
                    || matches!(end, End::Frozen(_)) && world.frozen.is_some())
            }
            Move::Late { key, .. } => world.is_out(*key),
            Move::Wake => world.can_wake(),
            // Whether what has just been answered is still in hand can't be told.
            Move::Expire => !world.late.iter().any(|key| world.is_due(*key)),
            Move::Cancel { key } | Move::Decide { key, .. } => world.frozen.is_none_or(|(_, held)| held != *key),
            _ => true,
        }
    }

    fn apply(mut world: World, what: &Move) -> World {
        world.notes.clear();
        // Time goes on, so that one operation can be told from the next.
        world.now += STEP;
        let came = match what {
            Move::Call { key, other, twice, script, end } => world.call(*key, *other, *twice, script, *end),
            Move::Late { key, play } => world.late(*key, *play, world.owner),
            Move::Restart => {
                world.gone.insert(world.owner);
                world.another_process();
                Came::Nothing
            }
            Move::Recover { script } => world.recover(script),
            Move::Wake => world.wake(),
            Move::Cancel { key } => world.cancel(*key),
            Move::Decide { key, decided, quiet } => world.decide(*key, *decided, *quiet),
            Move::Deliver { key } => world.deliver(*key),
            Move::Jump => {
                world.now += JUMP;
                Came::Nothing
            }
            Move::Expire => world.expire(),
        };
        world.came = Some(came);
        world
    }
}

//! The ledger's side: what guards ask of it passes through here, and durable steps wait for leave.

use settled::protocol::{Key, State};
use settled::{Entry, Filter, Liveness};
use settled_model::description::{Acknowledged, Claim, Intent, Resources, StartRule};

use super::{Forgetting, Parted, Purpose, Stage, Storing, Watching};
use crate::wire::{Op, OpAnswer, Role, StoreHow, ToPart, number_of};

/// What becomes of a store that is let go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is carried out.
    Works,
    /// Nothing is stored, and the guard is told of an error.
    Fails,
    /// It is stored, and the guard is told of an error.
    Unacknowledged,
    /// It is in memory only, and the guard is told that it is durable.
    NotOnDisk,
    /// Nothing is stored, and the guard goes on as if it were.
    GoesOnUnrecorded,
}

impl Stage {
    fn mistaken(&self) -> bool {
        self.options.mistakes
    }

    /// A guard asks the ledger.
    pub(super) fn guard_asks(&mut self, guard: u8, id: u64, op: Op) {
        let incarnation = self.parts.get(&Role::Guard(guard)).map_or(0, |part| part.incarnation);
        let description = &self.rules.description;
        let mut purpose = Purpose::Guard(guard, incarnation, id, None);
        match &op {
            Op::Store { change, .. } => {
                self.note(format!(
                    "guard {}: about to store {} {} ({})",
                    guard + 1,
                    change.key.id(),
                    change.record.state().name(),
                    change.event
                ));
                self.storing.push(Storing { guard, id, change: change.clone() });
                return self.let_be_refused();
            }
            Op::Forget { key, expected, remains } => {
                let (key, expected, remains) = (key.clone(), *expected, *remains);
                return self.forgetting.push(Forgetting { guard, id, key, expected, remains });
            }
            Op::Changed { key, seen } => {
                if self.versions.get(key).is_some_and(|known| known != seen) {
                    return self.answer_guard(guard, incarnation, id, OpAnswer::Yes(true));
                }
                return self.watching.push(Watching { guard, id, key: key.clone() });
            }
            // Budgets of retries are the description's.
            Op::Draw { .. } => return self.answer_guard(guard, incarnation, id, OpAnswer::Yes(true)),
            Op::Liveness { epoch } => {
                let runs_at_once = description.guard.start == StartRule::TwoWrites
                    && description.guard.claim == Claim::ReadThenWrite
                    && self.epochs.get(epoch).is_some_and(|of| of.0 != guard);
                let liveness = if !description.guard.gives_up && self.mistaken() {
                    Some(Liveness::Alive)
                } else if self.lapsed.contains(epoch) || runs_at_once && self.mistaken() {
                    Some(Liveness::Lapsed)
                } else {
                    None
                };
                if let Some(liveness) = liveness {
                    return self.answer_guard(guard, incarnation, id, OpAnswer::Liveness(liveness));
                }
            }
            Op::Get { key } => {
                if self.blind.remove(&guard) {
                    let answer = OpAnswer::Unavailable("its answer got lost".to_owned());
                    return self.answer_guard(guard, incarnation, id, answer);
                }
                purpose = Purpose::Guard(guard, incarnation, id, Some(number_of(key)));
            }
            Op::Line { .. } => purpose = Purpose::Line(guard, incarnation, id),
            _ => {}
        }
        self.pass_on(op, purpose);
    }

    fn pass_on(&mut self, op: Op, purpose: Purpose) -> u64 {
        let number = self.number();
        self.asked.insert(number, purpose);
        self.say(Role::Ledger, ToPart::Op { id: number, op });
        number
    }

    pub(super) fn answer_guard(&mut self, guard: u8, incarnation: u32, id: u64, answer: OpAnswer) {
        if self.parts.get(&Role::Guard(guard)).is_some_and(|part| part.incarnation == incarnation) {
            self.say(Role::Guard(guard), ToPart::Answer { id, answer });
        }
    }

    pub(super) fn refuse(&mut self, purpose: Purpose) {
        let answer = OpAnswer::Unavailable("its process has ended".to_owned());
        match purpose {
            Purpose::Guard(guard, incarnation, id, _) | Purpose::Line(guard, incarnation, id) => {
                self.answer_guard(guard, incarnation, id, answer);
            }
            Purpose::Own => {}
        }
    }

    pub(super) fn ledger_answers(&mut self, number: u64, mut answer: OpAnswer) {
        match self.asked.remove(&number) {
            None => {}
            Some(Purpose::Own) => drop(self.answers.insert(number, answer)),
            Some(Purpose::Line(guard, incarnation, id)) => {
                if let OpAnswer::Entries(line) = &mut answer {
                    self.reorder(line);
                }
                self.answer_guard(guard, incarnation, id, answer);
            }
            Some(Purpose::Guard(guard, incarnation, id, looked)) => {
                match (&answer, looked) {
                    (OpAnswer::Epoch(epoch), _) => drop(self.epochs.insert(*epoch, (guard, incarnation))),
                    (OpAnswer::Entry(entry), Some(number)) => {
                        *self.looks.entry((guard, number)).or_default() += 1;
                        if let Some(key) = self.keys.key(number) {
                            self.versions.insert(key, entry.as_ref().map(|entry| entry.record.version()));
                        }
                    }
                    _ => {}
                }
                self.answer_guard(guard, incarnation, id, answer);
            }
        }
    }

    /// A line as a description has it that is to be shown failing.
    fn reorder(&self, line: &mut Vec<Entry>) {
        if !self.mistaken() {
            return;
        }
        match self.rules.description.guard.resources {
            Resources::LineByClock => line.sort_by_key(|entry| (entry.record.created(), entry.place)),
            Resources::LineFreedByLease => line.retain(|entry| match entry.record.state() {
                State::Dispatched(sent) => {
                    self.epochs.contains_key(&sent.owner()) && !self.lapsed.contains(&sent.owner())
                }
                State::Unknown { .. } | State::Escalated { .. } => false,
                State::Created | State::Confirmed { .. } | State::Settled { .. } => true,
            }),
            Resources::Ignored | Resources::OneAtATime | Resources::Line => {}
        }
    }

    /// Asks the ledger for the conductor itself.
    pub(super) async fn ledger(&mut self, op: Op) -> Result<OpAnswer, Parted> {
        let number = self.pass_on(op, Purpose::Own);
        let lenient = std::mem::replace(&mut self.lenient, false);
        let answer = self.until(|| "the ledger answers".to_owned(), |stage| stage.answers.remove(&number)).await;
        self.lenient = lenient;
        answer
    }

    /// Those who wait for a change of the key look again.
    pub(super) fn wake(&mut self, key: Option<&Key>) {
        let all = std::mem::take(&mut self.watching);
        let (woken, others) = all.into_iter().partition(|watch| key.is_none_or(|key| watch.key == *key));
        self.watching = others;
        let woken: Vec<Watching> = woken;
        for Watching { guard, id, .. } in woken {
            let incarnation = self.parts.get(&Role::Guard(guard)).map_or(0, |part| part.incarnation);
            self.answer_guard(guard, incarnation, id, OpAnswer::Yes(true));
        }
    }

    /// What follows from an older version than the one that is there is refused, whenever it is let go on: now, then.
    fn let_be_refused(&mut self) {
        if self.mistaken() && self.rules.description.guard.claim == Claim::ReadThenWrite {
            return;
        }
        let all = std::mem::take(&mut self.storing);
        for store in all {
            match self.versions.get(&store.change.key) {
                Some(known) if *known != store.change.expected => {
                    let Storing { guard, id, change } = store;
                    let incarnation = self.parts.get(&Role::Guard(guard)).map_or(0, |part| part.incarnation);
                    let op = Op::Store { change, how: StoreHow::default() };
                    self.pass_on(op, Purpose::Guard(guard, incarnation, id, None));
                }
                _ => self.storing.push(store),
            }
        }
    }

    /// Lets a guard's store go on. Returns whether it was made.
    pub(super) async fn grant(&mut self, store: Storing, verdict: Verdict) -> Result<bool, Parted> {
        let Storing { guard, id, change } = store;
        let description = &self.rules.description;
        let is_intent = matches!(change.record.state(), State::Created | State::Dispatched(_));
        let lags = description.ledger.acknowledged != Acknowledged::Durable
            || description.guard.intent == Intent::AfterEffect && is_intent
            || verdict == Verdict::NotOnDisk;
        let how = StoreHow {
            anyway: self.mistaken() && description.guard.claim == Claim::ReadThenWrite,
            volatile: self.mistaken() && lags,
        };
        let incarnation = self.parts.get(&Role::Guard(guard)).map_or(0, |part| part.incarnation);
        let name = change.record.state().name();
        self.note(format!("ledger: guard {} stores {} {name}: {verdict:?}", guard + 1, change.key.id()));
        if !matches!(verdict, Verdict::Fails | Verdict::GoesOnUnrecorded) {
            let (key, version) = (change.key.clone(), change.record.version());
            let generation = change.record.generation();
            let answer = self.ledger(Op::Store { change, how }).await?;
            let stored = matches!(answer, OpAnswer::Stored(true));
            if stored {
                self.versions.insert(key.clone(), Some(version));
                self.generations.insert(number_of(&key), generation);
            }
            let answer = match verdict {
                Verdict::Unacknowledged => {
                    self.blind.insert(guard);
                    OpAnswer::Unavailable("its answer got lost".to_owned())
                }
                _ => answer,
            };
            self.answer_guard(guard, incarnation, id, answer);
            self.let_be_refused();
            self.wake(Some(&key));
            return Ok(stored);
        }
        let answer = match verdict {
            Verdict::GoesOnUnrecorded => OpAnswer::Stored(true),
            _ => OpAnswer::Unavailable("it can't be written now".to_owned()),
        };
        self.answer_guard(guard, incarnation, id, answer);
        Ok(false)
    }

    /// Lets a guard's forgetting go on.
    pub(super) async fn let_forget(&mut self, forget: Forgetting) -> Result<(), Parted> {
        let Forgetting { guard, id, key, expected, remains } = forget;
        let incarnation = self.parts.get(&Role::Guard(guard)).map_or(0, |part| part.incarnation);
        let answer = self.ledger(Op::Forget { key: key.clone(), expected, remains }).await?;
        self.gone(&key);
        self.answer_guard(guard, incarnation, id, answer);
        Ok(())
    }

    /// A key's record is gone.
    pub(super) fn gone(&mut self, key: &Key) {
        self.versions.insert(key.clone(), None);
        self.evidence.forgotten.insert(number_of(key));
        self.let_be_refused();
        self.wake(Some(key));
    }

    /// The records as they stand.
    pub(super) async fn records(&mut self) -> Result<Vec<Entry>, Parted> {
        match self.ledger(Op::Scan { filter: Filter::All }).await? {
            OpAnswer::Entries(mut entries) => {
                entries.retain(|entry| self.keys.has(&entry.key));
                Ok(entries)
            }
            other => Err(Parted { expected: "the ledger lists its records".to_owned(), seen: format!("{other:?}") }),
        }
    }
}

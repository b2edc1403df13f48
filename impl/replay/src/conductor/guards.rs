//! A guard's steps: it is let go on as far as the schedule says, and what it does is compared with that.

use settled::protocol::{Digest, Record, State};
use settled_model::description::{AfterSyncError, Torn, WithoutLedger};
use settled_model::machine::{Stage as LifeStage, View};
use settled_model::world::{Do, Heard, Input, Message, Phase, Storing as Fault};

use super::ledger::Verdict;
use super::sends::questions;
use super::{Parted, Stage, Storing};
use crate::run::Taken;
use crate::wire::{Gate, Op, RUN_OUT_MS, Role, ToPart, Told, Which, number_of};

/// A guard's step, and where it belongs.
#[derive(Clone, Copy)]
pub(super) struct GuardStep<'a> {
    pub taken: &'a Taken,
    pub guard: u8,
    pub storing: Fault,
}

impl Stage {
    pub(super) async fn guard_step(&mut self, step: GuardStep<'_>, input: Input) -> Result<(), Parted> {
        let GuardStep { taken, guard, .. } = step;
        self.pause(Role::Guard(guard), false);
        match input {
            Input::Take { call } => return self.take_call(step, call).await,
            Input::Resume { key, take_over } => self.resume(step, key, take_over).await?,
            Input::TimeOut { key } => {
                let attempt = self.rules.view_of(&taken.before, key).and_then(|view| view.attempt);
                let generation = self.generations.get(&key).copied().unwrap_or(0);
                let attempt = attempt.map_or(1, |of| of.attempt.get());
                let which = Some(Which { key, generation, attempt });
                self.command(Role::Guard(guard), |id| ToPart::RunOut { id, which, ms: RUN_OUT_MS + 1_000 }).await?;
                self.follow(step, key).await?;
            }
            Input::Receive { reply } => {
                let question = matches!(reply, Message::Seen { .. });
                let (key, of) = match reply {
                    Message::Reply { key, of, .. } | Message::Seen { key, of, .. } => (key, of),
                    _ => return Ok(()),
                };
                let attempt = u32::from(of.attempt);
                let at = self
                    .until(
                        || format!("the answer to attempt {attempt} is on its way to guard {}", guard + 1),
                        |stage| {
                            stage.back.iter().position(|back| {
                                back.from == guard + 1
                                    && back.which.key == key
                                    && back.which.attempt == attempt
                                    && back.question == question
                            })
                        },
                    )
                    .await?;
                let back = self.back.remove(at);
                self.send_back(back.connection, back.reply);
                self.follow(step, key).await?;
            }
            Input::Go { todo, lost } => match todo.what {
                Do::Send(of) => {
                    self.let_send(guard, todo.key, u32::from(of.attempt)).await?;
                }
                Do::Answer(..) if lost => {
                    let call = self.answered_call(taken).await?;
                    self.calls.remove(&call);
                }
                Do::Answer(..) => {}
                Do::Alert | Do::Begin | Do::NoteDelivery(_) | Do::Write { .. } => self.follow(step, todo.key).await?,
            },
            Input::GiveUp { key } => {
                self.command(Role::Guard(guard), |id| ToPart::Cancel { id, key }).await?;
                self.follow(step, key).await?;
            }
            Input::Expire { key } => {
                self.command(Role::Guard(guard), |id| ToPart::Expire { id }).await?;
                self.follow(step, key).await?;
            }
        }
        self.ask_if_asked(step).await?;
        self.tell(taken).await
    }

    async fn take_call(&mut self, step: GuardStep<'_>, call: u8) -> Result<(), Parted> {
        let GuardStep { taken, guard, .. } = step;
        let key = self.rules.key_of(call, &taken.before.callers[usize::from(call)]);
        let fresh = self.calls.get(&call).is_some_and(|calling| calling.guard.is_none());
        let looked = self.looks.get(&(guard, key)).copied().unwrap_or(0);
        if fresh {
            self.hand_on(call, guard).await?;
        } else if is_told(taken, call) && taken.after.callers[usize::from(call)].phase == Phase::Told(Heard::InProgress)
        {
            self.command(Role::Guard(guard), |id| ToPart::LookAgain { id, call }).await?;
        }
        let waits = !is_told(taken, call) && taken.changes(&self.rules, key).is_none() && step.storing == Fault::Works;
        if fresh && waits {
            let name = settled_model::call_name(call);
            self.until(
                || format!("guard {} looks up caller {name}’s call", guard + 1),
                |stage| (stage.looks.get(&(guard, key)).copied().unwrap_or(0) > looked).then_some(()),
            )
            .await?;
        }
        self.follow(step, key).await?;
        self.tell(taken).await
    }

    async fn resume(&mut self, step: GuardStep<'_>, key: u8, take_over: bool) -> Result<(), Parted> {
        let GuardStep { taken, guard, .. } = step;
        if take_over && let Some(owner) = self.owner_of(taken, key).filter(|owner| *owner != guard) {
            // It may be at work still; its lease has run out.
            self.pause(Role::Guard(owner), true);
            let its = |of: &(u8, u32)| of.0 == owner;
            self.lapsed.extend(self.epochs.iter().filter(|(_, of)| its(of)).map(|(epoch, _)| *epoch));
        }
        let writes = taken.changes(&self.rules, key).is_some();
        let reads = taken.after.guards[usize::from(guard)].todos().any(|todo| {
            todo.key == key
                && matches!(todo.what, Do::Write { .. })
                && !taken.before.guards[usize::from(guard)].todos().any(|before| before == todo)
        });
        let asks = questions(taken, guard).next().is_some();
        if !writes && !reads && !asks && step.storing == Fault::Works {
            return Ok(());
        }
        let at_it = |stage: &mut Stage| {
            let stores = stage.storing.iter().any(|store| number_of(&store.change.key) == key);
            let asks = stage.gates.iter().any(|gate| matches!(&gate.gate, Gate::Ask(which, _) if which.key == key));
            (stores || asks).then_some(())
        };
        let on_its_way = |stage: &mut Stage| {
            let stores = stage.storing.iter().any(|store| store.guard == guard && number_of(&store.change.key) == key);
            let asks = stage
                .gates
                .iter()
                .any(|gate| gate.guard == guard && matches!(&gate.gate, Gate::Ask(which, _) if which.key == key));
            (stores || asks).then_some(())
        };
        let found = self.settle(|stage| if reads { on_its_way(stage) } else { at_it(stage) }).await;
        if !found {
            // Nobody is at it by itself: the guard looks through what was left.
            let name = self.keys.key(key);
            self.wake(name.as_ref());
            self.command(Role::Guard(guard), |id| ToPart::Recover { id }).await?;
        }
        if reads {
            return self.until(|| format!("guard {} goes on with k{key}", guard + 1), on_its_way).await;
        }
        self.follow(step, key).await
    }

    /// Whether something comes to be so by itself.
    async fn settle(&mut self, mut found: impl FnMut(&mut Stage) -> Option<()>) -> bool {
        self.until_quiet(&mut found).await.is_some()
    }

    fn owner_of(&self, taken: &Taken, key: u8) -> Option<u8> {
        match self.rules.view_of(&taken.before, key)?.stage {
            LifeStage::Dispatched(owner) if owner.0 > 0 => u8::try_from(owner.0 - 1).ok(),
            _ => None,
        }
    }

    /// What the guard stores in this step, and what it is then about to send.
    pub(super) async fn follow(&mut self, step: GuardStep<'_>, key: u8) -> Result<(), Parted> {
        let GuardStep { taken, guard, storing } = step;
        if storing != Fault::Works {
            let store = self.next_store(guard, key, || "stores".to_owned()).await?;
            self.fail_store(store, storing).await?;
        } else if let Some((_, after)) = taken.changes(&self.rules, key) {
            match after {
                None => {
                    let forget = self
                        .until(
                            || format!("guard {} forgets k{key}", guard + 1),
                            |stage| stage.forgetting.iter().position(|forget| number_of(&forget.key) == key),
                        )
                        .await?;
                    let forget = self.forgetting.remove(forget);
                    self.let_forget(forget).await?;
                }
                Some(view) => self.stores(guard, key, view).await?,
            }
        }
        let before: Vec<_> = taken.before.guards[usize::from(guard)].todos().collect();
        let sends = taken.after.guards[usize::from(guard)].todos().filter(|todo| !before.contains(todo));
        for (key, of) in sends.filter_map(|todo| match todo.what {
            Do::Send(of) => Some((todo.key, of)),
            _ => None,
        }) {
            self.at_send_gate(guard, key, u32::from(of.attempt)).await?;
        }
        Ok(())
    }

    async fn next_store(&mut self, guard: u8, key: u8, what: impl FnOnce() -> String) -> Result<Storing, Parted> {
        let at = self
            .until(
                || format!("guard {} {} (k{key})", guard + 1, what()),
                |stage| {
                    let its = |store: &Storing| number_of(&store.change.key) == key;
                    let own = stage.storing.iter().position(|store| its(store) && store.guard == guard);
                    // Which of several guards goes on with an operation that is nobody's makes no difference.
                    own.or_else(|| stage.storing.iter().position(its))
                },
            )
            .await?;
        Ok(self.storing.remove(at))
    }

    async fn stores(&mut self, guard: u8, key: u8, view: View) -> Result<(), Parted> {
        loop {
            let store = self.next_store(guard, key, || format!("stores “{}”", say(&view))).await?;
            let record = store.change.record;
            let there = is_as(&view, &record);
            let on_the_way = matches!(record.state(), State::Created | State::Confirmed { .. });
            if !there && !on_the_way {
                let seen = record.state().name().to_owned();
                self.storing.push(store);
                return Err(Parted { expected: format!("guard {} stores “{}”", guard + 1, say(&view)), seen });
            }
            let stored = self.grant(store, Verdict::Works).await?;
            if stored && there {
                return Ok(());
            }
        }
    }

    async fn fail_store(&mut self, store: Storing, storing: Fault) -> Result<(), Parted> {
        let (guard, key) = (store.guard, store.change.key.clone());
        let description = &self.rules.description;
        let goes_on = description.guard.without_ledger == WithoutLedger::SendsAnyway && self.options.mistakes;
        let carries_on = description.ledger.after_sync_error == AfterSyncError::CarriesOn && self.options.mistakes;
        let erases = description.ledger.torn == Torn::Erases && self.options.mistakes;
        match storing {
            Fault::Works => drop(self.grant(store, Verdict::Works).await?),
            Fault::Unreachable | Fault::Full if goes_on => {
                self.grant(store, Verdict::GoesOnUnrecorded).await?;
            }
            Fault::Unreachable | Fault::Full => drop(self.grant(store, Verdict::Fails).await?),
            Fault::Unacknowledged => drop(self.grant(store, Verdict::Unacknowledged).await?),
            Fault::Unsynced if carries_on => drop(self.grant(store, Verdict::NotOnDisk).await?),
            Fault::Unsynced => self.kill_and_restart(Role::Guard(guard)).await?,
            Fault::Torn => {
                if erases {
                    self.ledger(Op::Erase { key: key.clone() }).await?;
                }
                self.power_fails().await?;
            }
        }
        Ok(())
    }

    /// A caller to whom an answer is on its way.
    async fn answered_call(&mut self, taken: &Taken) -> Result<u8, Parted> {
        let waited = |call: u8| matches!(taken.before.callers[usize::from(call)].phase, Phase::Waiting { .. });
        self.until(
            || "an answer is on its way to a caller".to_owned(),
            |stage| {
                stage
                    .calls
                    .values()
                    .find(|calling| calling.answer.is_some() && waited(calling.call.call))
                    .map(|c| c.call.call)
            },
        )
        .await
    }

    /// Tells the callers who are told in this step, and compares what they hear.
    pub(super) async fn tell(&mut self, taken: &Taken) -> Result<(), Parted> {
        for call in 0..self.rules.description.caller.operations {
            if !is_told(taken, call) {
                continue;
            }
            let Phase::Told(heard) = taken.after.callers[usize::from(call)].phase else { continue };
            let name = settled_model::call_name(call);
            let expected = told_by(heard);
            let (connection, reply) = self
                .until(
                    || format!("caller {name} is told “{expected}”"),
                    |stage| {
                        let calling = stage.calls.get(&call)?;
                        calling.answer.clone().map(|answer| (calling.connection, answer))
                    },
                )
                .await?;
            self.calls.remove(&call);
            let told = self.let_hear(call, connection, Some(reply)).await?;
            if told != expected {
                return Err(Parted {
                    expected: format!("caller {name} is told “{expected}”"),
                    seen: format!("it is told “{told}”"),
                });
            }
        }
        Ok(())
    }
}

/// Whether a caller is told something in this step.
fn is_told(taken: &Taken, call: u8) -> bool {
    let (before, after) = (&taken.before.callers[usize::from(call)], &taken.after.callers[usize::from(call)]);
    before.phase != after.phase && matches!(after.phase, Phase::Told(_))
}

pub(super) fn told_by(heard: Heard) -> Told {
    match heard {
        Heard::Done(effect) => Told::Done(u32::from(effect)),
        Heard::Failed => Told::Failed,
        Heard::Unknown => Told::Unknown,
        Heard::InProgress => Told::InProgress,
        Heard::Conflict => Told::Conflict,
        Heard::ConnectionLost => Told::ConnectionLost,
    }
}

fn is_as(view: &View, record: &Record<Digest>) -> bool {
    let attempt = |record: &Record<Digest>| record.attempt_id().map(|of| of.attempt);
    let same_attempt = view.attempt.map(|of| of.attempt) == attempt(record);
    match (view.stage, record.state()) {
        (LifeStage::Created, State::Created)
        | (LifeStage::Confirmed, State::Confirmed { .. })
        | (LifeStage::Settled(_), State::Settled { .. }) => true,
        (LifeStage::Dispatched(_), State::Dispatched(_))
        | (LifeStage::Unknown(_), State::Unknown { .. })
        | (LifeStage::Escalated, State::Escalated { .. }) => same_attempt,
        _ => false,
    }
}

fn say(view: &View) -> String {
    let attempt = view.attempt.map_or(String::new(), |of| format!(", attempt {}", of.attempt));
    let stage = match view.stage {
        LifeStage::Created => "intent created",
        LifeStage::Dispatched(_) => "dispatched",
        LifeStage::Unknown(_) => "unknown",
        LifeStage::Escalated => "escalated",
        LifeStage::Confirmed => "confirmed",
        LifeStage::Settled(_) => "settled",
    };
    format!("{stage}{attempt}")
}

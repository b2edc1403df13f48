//! A foreign schedule, as far as there is anything to do about it: what it does to callers, processes, messages and stores
//! is done here; what a guard does is its own.

use settled_model::Rules;
use settled_model::machine::{Situation, Stage as LifeStage};
use settled_model::world::{Do, How as Fate, Input, Message, Move, Storing as Fault, Why, World};

use super::ledger::Verdict;
use super::moves::how_of;
use super::{Gate, Parted, Stage};
use crate::run::Taken;
use crate::wire::{Call, Frame, How, RUN_OUT_MS, Reply, Role, ToPart, Told};

/// How many keys a logical call may use here.
const KEYS_PER_CALL: u8 = 8;

impl Stage {
    /// From here on the schedule need not be followed: what does not come once nothing moves any more, does not come.
    pub fn follow_loosely(&mut self) {
        self.lenient = true;
    }

    /// Does what a foreign schedule's step does to its surroundings.
    ///
    /// # Errors
    /// If there is nothing here that it could be done to.
    pub async fn carry_out_loosely(&mut self, taken: &Taken, theirs: &Rules) -> Result<(), Parted> {
        let before = &taken.before;
        let done = match taken.what {
            Move::Call { call, why, .. } => self.call_loosely(theirs, call, why).await,
            Move::Save { call } => self.command(Role::Callers, |id| ToPart::Save { id, call }).await,
            Move::Cancel { call } => self.cancel_loosely(call).await,
            Move::CrashClient => self.kill_and_restart(Role::Callers).await,
            Move::Hear { reply } => self.hear_loosely(reply.key()).await,
            Move::Guard { guard, input, storing } => self.guard_loosely(before, theirs, guard, input, storing).await,
            Move::CrashGuard { guard } => self.kill_and_restart(Role::Guard(guard)).await,
            Move::SetClock { guard, ahead, .. } => {
                *self.offsets.entry(guard).or_default() += if ahead { 1 } else { -1 };
                self.set_clock(guard);
                Ok(())
            }
            Move::PowerFails => self.power_fails().await,
            Move::FailOver => {
                let restarted = self.kill_and_restart(Role::Ledger).await;
                self.wake(None);
                restarted
            }
            Move::Sync { .. } | Move::Forget { .. } => {
                Err(self.nothing("a store that loses or forgets what it should keep"))
            }
            Move::Apply { request, how } => self.apply_loosely(before, theirs, request, how).await,
            Move::Finish { how, .. } => self.finish_loosely(how).await,
            Move::Lose { message: message @ Message::Request { .. } } => {
                let at = self.request_of(self.call_for(before, theirs, message)).await?;
                self.in_transit.remove(at);
                Ok(())
            }
            Move::Lose { message } => {
                let at = self.reply_of(self.call_for(before, theirs, message)).await?;
                self.back.remove(at);
                Ok(())
            }
            Move::Duplicate { request } => {
                let at = self.request_of(self.call_for(before, theirs, request)).await?;
                let copy = self.in_transit[at].clone();
                self.in_transit.push(copy);
                Ok(())
            }
            Move::Cut { request } => {
                let at = self.request_of(self.call_for(before, theirs, request)).await?;
                self.in_transit[at].cut = true;
                let connection = self.in_transit[at].connection;
                self.send_back(connection, None);
                Ok(())
            }
            Move::Look { .. } => {
                let at = self
                    .reach("a question is on its way", |stage| {
                        stage.in_transit.iter().position(|sent| matches!(sent.frame, Frame::Question { .. }))
                    })
                    .await?;
                let what = self.in_transit.remove(at);
                self.deliver(what, How::Answered).await.map(drop)
            }
            Move::Tick => self.tick().await,
            Move::Decide { .. } => Err(self.nothing("a person decides")),
        };
        self.note_live();
        done
    }

    fn nothing(&self, what: &str) -> Parted {
        Parted { expected: what.to_owned(), seen: "there is no such thing here".to_owned() }
    }

    /// For which logical call a message of the schedule's is.
    fn call_for(&self, before: &World, theirs: &Rules, message: Message) -> u8 {
        match message {
            Message::Request { call, .. } | Message::Working { call, .. } => call,
            other if theirs.description.is_direct() => other.key(),
            other => theirs.call_of_record(before, other.key()),
        }
    }

    /// Lets guards go on by themselves until something is so.
    async fn reach<T>(&mut self, what: &str, mut found: impl FnMut(&mut Stage) -> Option<T>) -> Result<T, Parted> {
        loop {
            let mut either = |stage: &mut Stage| match found(stage) {
                Some(found) => Some(Some(found)),
                None if !stage.storing.is_empty() || stage.open_gate().is_some() => Some(None),
                None => None,
            };
            match self.until_quiet(&mut either).await {
                Some(Some(found)) => return Ok(found),
                Some(None) => self.guards_go_on().await?,
                None => return Err(Parted { expected: what.to_owned(), seen: self.pending() }),
            }
        }
    }

    /// Lets the first guard go on that waits for leave.
    pub(super) async fn guards_go_on(&mut self) -> Result<(), Parted> {
        if !self.storing.is_empty() {
            let store = self.storing.remove(0);
            self.grant(store, Verdict::Works).await?;
        } else if let Some(at) = self.open_gate() {
            let gate = self.gates.remove(at);
            match gate.gate.clone() {
                Gate::Send(which) => {
                    let (guard, key, attempt) = (gate.guard, which.key, which.attempt);
                    self.gates.push(gate);
                    self.let_send(guard, key, attempt).await?;
                }
                Gate::Ask(which, _) => {
                    self.last_asked.insert((gate.guard, which.key), self.clock_units(gate.guard));
                    self.say(Role::Guard(gate.guard), ToPart::Go { id: gate.id, lost: false });
                }
            }
        }
        Ok(())
    }

    /// A gate that may be passed. A tool is asked once in a unit of time: a guard that gets no good answer asks again at once.
    pub(super) fn open_gate(&self) -> Option<usize> {
        self.gates.iter().position(|gate| match &gate.gate {
            Gate::Send(_) => true,
            Gate::Ask(which, _) => self.last_asked.get(&(gate.guard, which.key)) != Some(&self.clock_units(gate.guard)),
        })
    }

    fn is_of(call: u8, key: u8) -> bool {
        key / KEYS_PER_CALL == call
    }

    async fn request_of(&mut self, call: u8) -> Result<usize, Parted> {
        self.reach("a request is on its way to the tool", |stage| {
            stage
                .in_transit
                .iter()
                .position(|sent| matches!(sent.frame, Frame::Request { call: its, .. } if its == call))
        })
        .await
    }

    async fn reply_of(&mut self, call: u8) -> Result<usize, Parted> {
        self.reach("an answer of the tool is on its way", |stage| {
            stage.back.iter().position(|back| Self::is_of(call, back.which.key))
        })
        .await
    }

    /// Callers keep to the rules here: a key of their own for each wish, and a new one only after a failure.
    async fn call_loosely(&mut self, theirs: &Rules, call: u8, why: Why) -> Result<(), Parted> {
        let told = self.evidence.told.iter();
        let failures = told.clone().filter(|told| told.call == call && told.told == Told::Failed).count() as u8;
        let last = told.clone().rev().find(|told| told.call == call).map(|told| told.told);
        if why == Why::It(Situation::Failed) && last != Some(Told::Failed) {
            return Err(self.nothing("a call that was told that it failed"));
        }
        let key = match why {
            Why::KeyReused => 0,
            _ => call * KEYS_PER_CALL + failures.min(KEYS_PER_CALL - 1),
        };
        let number = self.calls_made.get(&call).copied().unwrap_or(0) + 1;
        // A key that another call has used comes with that call's arguments only if those are its own.
        let arguments = if self.rules.description.caller.same_arguments { 0 } else { call };
        self.make_call(Call { call, number, key, arguments }, true).await?;
        match theirs.description.is_direct() {
            true => self.hand_on(call, 0).await,
            false => Ok(()),
        }
    }

    async fn cancel_loosely(&mut self, call: u8) -> Result<(), Parted> {
        self.command(Role::Callers, |id| ToPart::Hang { id, call }).await?;
        let Some(calling) = self.calls.remove(&call) else { return Ok(()) };
        let Some(guard) = calling.guard else { return Ok(()) };
        let key = calling.call.key;
        self.command(Role::Guard(guard), |id| ToPart::Cancel { id, key }).await
    }

    /// A direct caller hears the tool; behind a guard it hears that.
    async fn hear_loosely(&mut self, call: u8) -> Result<(), Parted> {
        if let Some(at) = self.back.iter().position(|back| Self::is_of(call, back.which.key)) {
            let back = self.back.remove(at);
            self.send_back(back.connection, back.reply);
        }
        self.hear_guard(call).await
    }

    async fn hear_guard(&mut self, call: u8) -> Result<(), Parted> {
        let answer = self.answer_to(call).await?;
        self.calls.remove(&call);
        self.let_hear(call, answer.0, Some(answer.1)).await.map(drop)
    }

    async fn answer_to(&mut self, call: u8) -> Result<(u64, Reply), Parted> {
        self.reach("a caller is answered", |stage| {
            let calling = stage.calls.get(&call)?;
            calling.answer.clone().map(|answer| (calling.connection, answer))
        })
        .await
    }

    async fn apply_loosely(
        &mut self,
        before: &World,
        theirs: &Rules,
        request: Message,
        fate: Fate,
    ) -> Result<(), Parted> {
        let at = self.request_of(self.call_for(before, theirs, request)).await?;
        let what = self.in_transit.remove(at);
        let how = how_of(fate);
        self.deliver(what, how).await?;
        if matches!(how, How::StopBefore | How::StopAfter) {
            self.kill_and_restart(Role::Tool).await?;
        }
        Ok(())
    }

    async fn finish_loosely(&mut self, fate: Fate) -> Result<(), Parted> {
        let working = self.at_tool.iter().filter(|(_, at)| at.working).map(|(number, _)| *number).min();
        let Some(number) = working else { return Err(self.nothing("the tool is at work")) };
        let how = how_of(fate);
        self.end_work(number, how).await?;
        if how == How::StopAfter {
            self.kill_and_restart(Role::Tool).await?;
        }
        Ok(())
    }

    async fn guard_loosely(
        &mut self,
        before: &World,
        theirs: &Rules,
        guard: u8,
        input: Input,
        storing: Fault,
    ) -> Result<(), Parted> {
        self.pause(Role::Guard(guard), false);
        match input {
            Input::Take { call } => {
                if self.calls.get(&call).is_some_and(|calling| calling.guard.is_none()) {
                    self.hand_on(call, guard).await?;
                }
            }
            Input::Resume { key, take_over } => {
                let owner = theirs.view_of(before, key).and_then(|view| match view.stage {
                    LifeStage::Dispatched(owner) if owner.0 > 0 => u8::try_from(owner.0 - 1).ok(),
                    _ => None,
                });
                if take_over && let Some(owner) = owner.filter(|owner| *owner != guard) {
                    self.pause(Role::Guard(owner), true);
                    self.lapsed.extend(self.epochs.iter().filter(|(_, of)| of.0 == owner).map(|(epoch, _)| *epoch));
                }
                self.wake(None);
                self.command(Role::Guard(guard), |id| ToPart::Recover { id }).await?;
            }
            Input::TimeOut { .. } => {
                self.command(Role::Guard(guard), |id| ToPart::RunOut { id, which: None, ms: RUN_OUT_MS + 1_000 })
                    .await?;
            }
            Input::Receive { reply } => {
                let call = self.call_for(before, theirs, reply);
                let at = self.reply_of(call).await?;
                let back = self.back.remove(at);
                self.send_back(back.connection, back.reply);
            }
            Input::Go { todo, lost } => match todo.what {
                Do::Send(_) => {
                    self.request_of(theirs.call_of_record(before, todo.key)).await?;
                }
                Do::Answer(..) if lost => {
                    let call = theirs.call_of_record(before, todo.key);
                    self.answer_to(call).await?;
                    self.calls.remove(&call);
                }
                Do::Answer(..) => return self.hear_guard(theirs.call_of_record(before, todo.key)).await,
                Do::Alert | Do::Begin | Do::NoteDelivery(_) | Do::Write { .. } => {}
            },
            Input::GiveUp { .. } => return Err(self.nothing("a call in a line is given up")),
            Input::Expire { .. } => self.command(Role::Guard(guard), |id| ToPart::Expire { id }).await?,
        }
        self.store_loosely(guard, storing).await
    }

    /// Lets a guard store once, if it is about to; with the fault that the schedule has there.
    async fn store_loosely(&mut self, guard: u8, storing: Fault) -> Result<(), Parted> {
        let found = self
            .until_quiet(&mut |stage: &mut Stage| {
                stage.storing.iter().position(|store| store.guard == guard).or(
                    // What is stored by another goes on as well: it may be what this one waits for.
                    (!stage.storing.is_empty()).then_some(0),
                )
            })
            .await;
        match (found, storing) {
            (None, Fault::Works) => Ok(()),
            (None, _) => Err(self.nothing("a guard that stores")),
            (Some(at), Fault::Works) => {
                let store = self.storing.remove(at);
                self.grant(store, Verdict::Works).await.map(drop)
            }
            (Some(at), Fault::Torn) => {
                // Its guard dies with it.
                self.storing.remove(at);
                self.power_fails().await
            }
            (Some(at), Fault::Unsynced) => {
                let guard = self.storing.remove(at).guard;
                self.kill_and_restart(Role::Guard(guard)).await
            }
            (Some(at), Fault::Unacknowledged) => {
                let store = self.storing.remove(at);
                self.grant(store, Verdict::Unacknowledged).await.map(drop)
            }
            (Some(at), Fault::Unreachable | Fault::Full) => {
                let store = self.storing.remove(at);
                self.grant(store, Verdict::Fails).await.map(drop)
            }
        }
    }
}

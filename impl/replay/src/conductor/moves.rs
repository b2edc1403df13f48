//! Each of the model's moves, made for real.

use settled_model::description::{Acknowledged, Intent};
use settled_model::world::{How as Fate, Message, Move, Phase};

use super::guards::{GuardStep, told_by};
use super::tool::WhichSent;
use super::{Parted, Stage};
use crate::judge::ToldThen;
use crate::run::Taken;
use crate::wire::{BEGINNING_MS, Call, How, Op, Role, ToPart, Told, UNIT_MS};

impl Stage {
    /// Makes a move happen.
    ///
    /// # Errors
    /// If reality does something else.
    pub async fn carry_out(&mut self, taken: &Taken) -> Result<(), Parted> {
        match taken.what {
            Move::Call { call, .. } => self.call(taken, call).await?,
            Move::Save { call } => self.command(Role::Callers, |id| ToPart::Save { id, call }).await?,
            Move::Cancel { call } => self.cancel(taken, call).await?,
            Move::CrashClient => self.kill_and_restart(Role::Callers).await?,
            Move::Hear { reply } => self.hear_from_tool(taken, reply).await?,
            Move::Guard { guard, input, storing } => {
                self.guard_step(GuardStep { taken, guard, storing }, input).await?;
            }
            Move::CrashGuard { guard } => {
                self.kill_and_restart(Role::Guard(guard)).await?;
                if self.rules.description.guard.intent == Intent::AfterEffect {
                    self.lose_unsynced().await?;
                }
            }
            Move::SetClock { guard, ahead, .. } => {
                *self.offsets.entry(guard).or_default() += if ahead { 1 } else { -1 };
                self.set_clock(guard);
            }
            Move::PowerFails => self.power_fails().await?,
            Move::FailOver => {
                // The replica takes over with what it has got.
                self.kill_and_restart(Role::Ledger).await?;
                self.wake(None);
            }
            Move::Sync { key } => {
                if let Some(key) = self.keys.key(key) {
                    self.ledger(Op::Sync { key }).await?;
                }
            }
            Move::Forget { key, tool: true } => self.command(Role::Tool, |id| ToPart::Forget { id, key }).await?,
            Move::Forget { key, tool: false } => {
                if let Some(key) = self.keys.key(key) {
                    self.ledger(Op::Erase { key: key.clone() }).await?;
                    self.gone(&key);
                }
            }
            Move::Apply { request, how } => self.apply(request, how).await?,
            Move::Finish { working, how } => self.finish_work(working, how).await?,
            Move::Lose { message } => self.lose(message).await?,
            Move::Duplicate { request } => {
                let at = self.in_transit_at(request).await?;
                let copy = self.in_transit[at].clone();
                self.in_transit.push(copy);
            }
            Move::Cut { request } => self.cut(taken, request).await?,
            Move::Look { question } => {
                let at = self.in_transit_at(question).await?;
                let what = self.in_transit.remove(at);
                self.deliver(what, How::Answered).await?;
            }
            Move::Tick => self.tick().await?,
            Move::Decide { key } => {
                let effect = u32::from(taken.before.keys[usize::from(key)].made);
                let guard = self.any_guard();
                self.command(Role::Guard(guard), |id| ToPart::Decide { id, key, effect }).await?;
                let storing = settled_model::world::Storing::Works;
                self.follow(GuardStep { taken, guard, storing }, key).await?;
            }
        }
        self.drop_what_cannot_matter(taken);
        self.note_live();
        Ok(())
    }

    pub(super) fn any_guard(&self) -> u8 {
        (0..self.rules.description.guard.processes)
            .find(|guard| self.parts.get(&Role::Guard(*guard)).is_some_and(|part| !part.stopped))
            .unwrap_or(0)
    }

    async fn call(&mut self, taken: &Taken, call: u8) -> Result<(), Parted> {
        let caller = &taken.after.callers[usize::from(call)];
        let number = self.calls_made.get(&call).copied().unwrap_or(0) + 1;
        let key = self.rules.key_of(call, caller);
        let arguments = self.rules.arguments_of(call);
        self.make_call(Call { call, number, key, arguments }, !self.direct()).await
    }

    async fn cancel(&mut self, taken: &Taken, call: u8) -> Result<(), Parted> {
        self.command(Role::Callers, |id| ToPart::Hang { id, call }).await?;
        let Some(calling) = self.calls.remove(&call) else { return Ok(()) };
        let Some(guard) = calling.guard else { return Ok(()) };
        let key = calling.call.key;
        self.command(Role::Guard(guard), |id| ToPart::Cancel { id, key }).await?;
        let storing = settled_model::world::Storing::Works;
        self.follow(GuardStep { taken, guard, storing }, key).await
    }

    async fn hear_from_tool(&mut self, taken: &Taken, reply: Message) -> Result<(), Parted> {
        let Message::Reply { key: call, of, .. } = reply else { return Ok(()) };
        let attempt = u32::from(of.attempt);
        let name = settled_model::call_name(call);
        let at = self
            .until(
                || format!("the answer to attempt {attempt} is on its way to caller {name}"),
                |stage| {
                    stage
                        .back
                        .iter()
                        .position(|back| back.from == 0 && back.which.key == call && back.which.attempt == attempt)
                },
            )
            .await?;
        let back = self.back.remove(at);
        let Phase::Told(heard) = taken.after.callers[usize::from(call)].phase else {
            self.send_back(back.connection, back.reply);
            return Ok(());
        };
        let told = self.let_hear(call, back.connection, back.reply).await?;
        let expected = told_by(heard);
        if told != expected {
            let expected = format!("caller {name} is told “{expected}”");
            return Err(Parted { expected, seen: format!("it is told “{told}”") });
        }
        Ok(())
    }

    /// Takes down what a caller was told.
    pub(super) fn take_down_told(&mut self, call: u8, told: Told) {
        let number = self.calls_made.get(&call).copied().unwrap_or(0);
        let key = self.evidence.keys.get(&(call, number)).copied().unwrap_or(call);
        let generation = self.generations.get(&key).copied().unwrap_or(0);
        self.look_at_effects();
        let effects = self.evidence.made_for();
        self.evidence.told.push(ToldThen { call, number, key, generation, told, effects });
    }

    async fn in_transit_at(&mut self, message: Message) -> Result<usize, Parted> {
        let (of, cut, question) = match message {
            Message::Request { of, cut, .. } => (of, Some(cut), false),
            Message::Question { of, .. } => (of, None, true),
            _ => return Err(Parted { expected: "a message to the tool".to_owned(), seen: self.pending() }),
        };
        let which = WhichSent { key: message.key(), attempt: u32::from(of.attempt), cut, question };
        self.until(
            || format!("attempt {} (k{}) is on its way to the tool", which.attempt, which.key),
            |stage| stage.find_in_transit(&which),
        )
        .await
    }

    async fn apply(&mut self, request: Message, fate: Fate) -> Result<(), Parted> {
        let at = self.in_transit_at(request).await?;
        let what = self.in_transit.remove(at);
        let how = how_of(fate);
        self.deliver(what, how).await?;
        if matches!(how, How::StopBefore | How::StopAfter) {
            self.kill_and_restart(Role::Tool).await?;
        }
        Ok(())
    }

    async fn finish_work(&mut self, working: Message, fate: Fate) -> Result<(), Parted> {
        let Message::Working { key, of, .. } = working else { return Ok(()) };
        let attempt = u32::from(of.attempt);
        let number = self
            .until(
                || format!("the tool is at work on attempt {attempt} (k{key})"),
                |stage| {
                    let its =
                        |at: &super::AtTool| at.working && at.what.which.key == key && at.what.which.attempt == attempt;
                    stage.at_tool.iter().filter(|(_, at)| its(at)).map(|(number, _)| *number).min()
                },
            )
            .await?;
        let how = how_of(fate);
        self.end_work(number, how).await?;
        if how == How::StopAfter {
            self.kill_and_restart(Role::Tool).await?;
        }
        Ok(())
    }

    async fn lose(&mut self, message: Message) -> Result<(), Parted> {
        if message_is_back(message) {
            let (key, attempt) = (message.key(), attempt_of(message));
            let at = self
                .until(
                    || format!("the answer to attempt {attempt} (k{key}) is on its way"),
                    |stage| stage.back.iter().position(|back| back.which.key == key && back.which.attempt == attempt),
                )
                .await?;
            self.back.remove(at);
        } else {
            let at = self.in_transit_at(message).await?;
            self.in_transit.remove(at);
        }
        Ok(())
    }

    async fn cut(&mut self, taken: &Taken, request: Message) -> Result<(), Parted> {
        let at = self.in_transit_at(request).await?;
        self.in_transit[at].cut = true;
        let (connection, from) = (self.in_transit[at].connection, self.in_transit[at].from);
        self.send_back(connection, None);
        let Some(guard) = from.checked_sub(1) else { return Ok(()) };
        let storing = settled_model::world::Storing::Works;
        self.follow(GuardStep { taken, guard, storing }, request.key()).await
    }

    /// Power fails: all guards die, and what is not on disk is gone.
    pub(super) async fn power_fails(&mut self) -> Result<(), Parted> {
        let guards: Vec<_> = (0..self.rules.description.guard.processes).map(Role::Guard).collect();
        for role in &guards {
            self.kill(*role).await?;
        }
        if self.rules.description.ledger.acknowledged != Acknowledged::Unreplicated {
            self.kill_and_restart(Role::Ledger).await?;
        }
        for role in guards {
            self.start_guard(role).await?;
        }
        Ok(())
    }

    async fn start_guard(&mut self, role: Role) -> Result<(), Parted> {
        self.spawn(role)?;
        self.await_ready(role).await
    }

    async fn lose_unsynced(&mut self) -> Result<(), Parted> {
        self.ledger(Op::LoseUnsynced).await?;
        self.versions.clear();
        self.wake(None);
        Ok(())
    }

    /// A unit of time passes, for everyone.
    pub(super) async fn tick(&mut self) -> Result<(), Parted> {
        self.units += 1;
        for guard in 0..self.rules.description.guard.processes {
            self.set_clock(guard);
            if self.parts.get(&Role::Guard(guard)).is_some_and(|part| !part.stopped) {
                self.command(Role::Guard(guard), |id| ToPart::RunOut { id, which: None, ms: UNIT_MS }).await?;
            }
        }
        Ok(())
    }

    pub(super) fn clock_units(&self, guard: u8) -> u64 {
        (self.units + 8).saturating_add_signed(self.offsets.get(&guard).copied().unwrap_or(0))
    }

    pub(super) fn set_clock(&mut self, guard: u8) {
        let ms = BEGINNING_MS + self.clock_units(guard) * UNIT_MS;
        self.say(Role::Guard(guard), ToPart::Clock { ms });
    }

    /// Answers of which the model says that they can't matter any more are let through: that is so in reality, or it is seen.
    fn drop_what_cannot_matter(&mut self, taken: &Taken) {
        if self.direct() {
            return;
        }
        let expected = |key: u8, attempt: u32, question: bool| {
            taken.after.messages().any(|message| match message {
                Message::Reply { key: its, of, .. } => !question && its == key && u32::from(of.attempt) == attempt,
                Message::Seen { key: its, of, .. } => question && its == key && u32::from(of.attempt) == attempt,
                _ => false,
            })
        };
        let all = std::mem::take(&mut self.back);
        for back in all {
            if expected(back.which.key, back.which.attempt, back.question) {
                self.back.push(back);
            } else {
                self.send_back(back.connection, back.reply);
            }
        }
    }

    /// Takes note of whether two attempts of one operation have taken effect, or still can.
    pub(super) fn note_live(&mut self) {
        let mut live: std::collections::HashSet<(u8, u32, u32)> = std::collections::HashSet::new();
        for line in &self.evidence.lines {
            if let crate::part::Line::Effect { which, .. } = line {
                live.insert((which.key, which.generation, which.attempt));
            }
        }
        let sent = self.in_transit.iter().filter(|sent| matches!(sent.frame, crate::wire::Frame::Request { .. }));
        let queued = self.gates.iter().filter_map(|gate| match &gate.gate {
            super::Gate::Send(which) => Some(which),
            super::Gate::Ask(..) => None,
        });
        for which in sent.map(|sent| &sent.which).chain(queued) {
            if self.can_apply(which) {
                live.insert((which.key, which.generation, which.attempt));
            }
        }
        let two = live.iter().any(|one| live.iter().any(|other| one.0 == other.0 && one != other));
        self.evidence.two_live |= two;
    }
}

pub(super) fn how_of(fate: Fate) -> How {
    match fate {
        Fate::Answered => How::Answered,
        Fate::CrashBefore => How::StopBefore,
        Fate::CrashAfter => How::StopAfter,
        Fate::ErrorBefore => How::ErrorBefore,
        Fate::ErrorAfter => How::ErrorAfter,
        Fate::Rejected => How::Rejected,
    }
}

fn message_is_back(message: Message) -> bool {
    matches!(message, Message::Reply { .. } | Message::Seen { .. })
}

fn attempt_of(message: Message) -> u32 {
    match message {
        Message::Request { of, .. }
        | Message::Working { of, .. }
        | Message::Reply { of, .. }
        | Message::Question { of, .. }
        | Message::Seen { of, .. } => u32::from(of.attempt),
    }
}

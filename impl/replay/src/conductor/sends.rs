//! What guards send: attempts and questions, each let go on the wire when its time has come.

use settled::protocol::State;
use settled_model::description::Acknowledged;
use settled_model::world::{Input, Message, Move};

use super::guards::GuardStep;
use super::{AtGate, Gate, Parted, Stage};
use crate::run::Taken;
use crate::wire::{Op, OpAnswer, Role, ToPart, Which, number_of};

impl Stage {
    pub(super) async fn at_send_gate(&mut self, guard: u8, key: u8, attempt: u32) -> Result<usize, Parted> {
        let at_gate = move |gate: &AtGate| matches!(&gate.gate, Gate::Send(which) if which.key == key && which.attempt == attempt);
        self.until(
            || format!("guard {} is about to send attempt {attempt} (k{key})", guard + 1),
            |stage| {
                let own = stage.gates.iter().position(|gate| at_gate(gate) && gate.guard == guard);
                own.or_else(|| stage.gates.iter().position(at_gate))
            },
        )
        .await
    }

    /// Lets an attempt go on the wire.
    pub(super) async fn let_send(&mut self, guard: u8, key: u8, attempt: u32) -> Result<(), Parted> {
        let at = self.at_send_gate(guard, key, attempt).await?;
        let gate = self.gates.remove(at);
        self.pause(Role::Guard(gate.guard), false);
        let Gate::Send(which) = gate.gate else { return Ok(()) };
        self.note_intent(&which).await?;
        let before = self.in_transit.len();
        self.say(Role::Guard(gate.guard), ToPart::Go { id: gate.id, lost: false });
        let lenient = std::mem::replace(&mut self.lenient, false);
        let sent = self
            .until(
                || format!("guard {} sends attempt {attempt} (k{key})", gate.guard + 1),
                |stage| (stage.in_transit.len() > before).then_some(()),
            )
            .await;
        self.lenient = lenient;
        sent
    }

    /// Whether a durable record tells of an attempt that is about to be sent.
    async fn note_intent(&mut self, which: &Which) -> Result<(), Parted> {
        let Some(key) = self.keys.key(which.key) else { return Ok(()) };
        let on_disk = self.rules.description.ledger.acknowledged != Acknowledged::Unreplicated;
        let answer = self.ledger(if on_disk { Op::OnDisk { key } } else { Op::Get { key } }).await?;
        if let OpAnswer::Entry(Some(entry)) = answer
            && let Some(of) = entry.record.attempt_id()
            && of.generation >= which.generation
            && (of.generation > which.generation || of.attempt.get() >= which.attempt)
        {
            self.evidence.recorded.insert((which.key, which.generation, which.attempt));
        }
        Ok(())
    }

    /// Why no engine makes this step, if a guard is to ask about what another one looks after.
    pub fn leaves_to_another(&self, taken: &Taken) -> Option<String> {
        let Move::Guard { guard, input: Input::Resume { key, take_over: false }, .. } = taken.what else { return None };
        questions(taken, guard).next()?;
        let stopped = |guard: u8| self.parts.get(&Role::Guard(guard)).is_none_or(|part| part.stopped);
        let owner = self.storing.iter().find(|store| {
            let is_unknown = matches!(store.change.record.state(), State::Unknown { .. });
            store.guard != guard && number_of(&store.change.key) == key && is_unknown && !stopped(store.guard)
        })?;
        let (this, other) = (guard + 1, owner.guard + 1);
        Some(format!(
            "guard {this} is to ask the tool about an operation that guard {other} has recorded as unknown; the engine \
             leaves that to guard {other} for as long as that lives"
        ))
    }

    /// The questions that the guard asks in this step.
    pub(super) async fn ask_if_asked(&mut self, step: GuardStep<'_>) -> Result<(), Parted> {
        let GuardStep { taken, guard, .. } = step;
        let asked: Vec<_> = questions(taken, guard).collect();
        for (key, attempt) in asked {
            let asks = |gate: &AtGate| matches!(&gate.gate, Gate::Ask(which, _) if which.key == key && which.attempt == attempt);
            loop {
                let at = self
                    .until(
                        || format!("guard {} asks the tool about attempt {attempt} (k{key})", guard + 1),
                        |stage| stage.gates.iter().position(asks),
                    )
                    .await?;
                let gate = self.gates.remove(at);
                // What it asked before its clock went on does not count: it asks again.
                let early = gate.since < self.clock_units(gate.guard);
                self.say(Role::Guard(gate.guard), ToPart::Go { id: gate.id, lost: early });
                if early {
                    continue;
                }
                // It may have asked before its clock went on all the same, if that was heard of only then: its time for the
                // question was over, and it asks again.
                let which = super::tool::WhichSent { key, attempt, cut: None, question: true };
                let asked = self
                    .until(
                        || "the question is on its way".to_owned(),
                        |stage| {
                            let again = |other: &AtGate| other.guard == gate.guard && asks(other);
                            let sent = stage.find_in_transit(&which).map(|_| true);
                            sent.or_else(|| stage.gates.iter().any(again).then_some(false))
                        },
                    )
                    .await?;
                if asked {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The questions that a guard puts on their way: key and attempt.
pub(super) fn questions(taken: &Taken, guard: u8) -> impl Iterator<Item = (u8, u32)> + '_ {
    let count = |world: &settled_model::world::World, message: &Message| {
        world.messages().filter(|other| other == message).count()
    };
    taken.after.messages().filter_map(move |message| match message {
        Message::Question { key, of, from, .. }
            if from == guard + 1 && count(&taken.after, &message) > count(&taken.before, &message) =>
        {
            Some((key, u32::from(of.attempt)))
        }
        _ => None,
    })
}

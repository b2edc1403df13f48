//! What can happen next in a world.
//!
//! Each durable write, each send, each effect and each answer is a move of its own, so a crash can fall between any two of
//! them. What a move leads to is in `apply`.

use settled_explorer::{Budget, Fault};

use crate::description::{Acknowledged, Checkpoint, InProgress};
use crate::machine::{Situation, SoFar, Stage};

use super::{Caller, DEAD, Do, Heard, How, Input, Message, Move, Phase, Rules, Storing, Why, World};

/// The moves found so far, and which faults are left.
struct Offers<'a> {
    left: Budget,
    moves: &'a mut Vec<(Move, Option<Fault>)>,
}

impl Offers<'_> {
    fn free(&mut self, what: Move) {
        self.moves.push((what, None));
    }

    fn fault(&mut self, fault: Fault, what: Move) {
        if self.left.left(fault) > 0 {
            self.moves.push((what, Some(fault)));
        }
    }

    fn either(&mut self, fault: Option<Fault>, what: Move) {
        match fault {
            None => self.free(what),
            Some(fault) => self.fault(fault, what),
        }
    }

    /// A guard's step: as it should be, and with everything that may befall what it stores.
    fn guard(&mut self, guard: u8, input: Input, fault: Option<Fault>) {
        self.either(fault, Move::Guard { guard, input, storing: Storing::Works });
        if fault.is_none() {
            for (storing, fault) in Storing::FAULTS {
                self.fault(fault, Move::Guard { guard, input, storing });
            }
        }
    }
}

impl Rules {
    /// Everything that may happen next.
    pub fn moves(&self, world: &World, left: Budget, moves: &mut Vec<(Move, Option<Fault>)>) {
        if world.wrongs.overflowed {
            return;
        }
        // The order decides which of several shortest runs is shown: those in which the tool is quick read best.
        let offers = &mut Offers { left, moves };
        self.network_moves(world, offers);
        for guard in 0..self.guards() {
            self.guard_moves(world, guard, offers);
        }
        for call in 0..self.callers() {
            self.caller_moves(world, call, offers);
        }
        if self.may_crash_client(world) {
            offers.fault(Fault::ClientCrash, Move::CrashClient);
        }
        self.store_moves(world, offers);
        if self.may_tick(world) {
            offers.either(self.price_of_time(world), Move::Tick);
        }
    }

    fn caller_moves(&self, world: &World, call: u8, offers: &mut Offers) {
        let caller = &world.callers[usize::from(call)];
        let (situation, why, fault) = match caller.phase {
            Phase::Idle if self.may_begin(world, call) => (Situation::First, None, None),
            Phase::Idle => return,
            Phase::Restarted if !self.may_begin(world, call) => return,
            Phase::Waiting { .. } if self.description.is_direct() => {
                let latest = super::Of { generation: 1, attempt: caller.calls };
                let may_come = world.messages().any(|message| message.may_answer(call, latest));
                (Situation::Silence, None, may_come.then_some(Fault::Timeout))
            }
            Phase::Waiting { at } if self.is_served(world, call, at) => {
                (Situation::Silence, Some(Why::AtOnce), Some(Fault::ConcurrentCall))
            }
            Phase::Waiting { .. } => (Situation::Silence, None, None),
            Phase::Told(Heard::ConnectionLost) => (Situation::ConnectionLost, None, None),
            Phase::Told(Heard::Failed) => (Situation::Failed, None, None),
            Phase::Told(Heard::InProgress) => (Situation::InProgress, None, None),
            Phase::Told(Heard::Done(_)) if !caller.saved => (Situation::Done, None, Some(Fault::Rerun)),
            Phase::Told(Heard::Done(_) | Heard::Unknown | Heard::Conflict) => return self.save(world, call, offers),
            Phase::Cancelled => (Situation::Cancelled, None, None),
            Phase::Restarted => (Situation::Restarted, None, None),
        };
        let since_first = world.now - caller.since.min(world.now);
        let so_far = SoFar { calls: caller.calls, key: caller.key, since_first };
        if let Some(key) = self.caller.calls(situation, so_far) {
            for guard in 0..self.guards().max(1) {
                let why = why.unwrap_or(Why::It(situation));
                offers.either(fault, Move::Call { call, guard, key, why });
                if situation == Situation::First && call > 0 && world.callers[0].calls > 0 {
                    let why = Why::KeyReused;
                    offers.fault(Fault::KeyReuse, Move::Call { call, guard, key: Caller::REUSED, why });
                }
            }
        }
        if matches!(caller.phase, Phase::Waiting { .. }) {
            offers.fault(Fault::Cancel, Move::Cancel { call });
        }
        self.save(world, call, offers);
    }

    fn save(&self, world: &World, call: u8, offers: &mut Offers) {
        let answered = |caller: &Caller| matches!(caller.phase, Phase::Told(_)) && caller.phase.is_definite();
        let caller = &world.callers[usize::from(call)];
        let may = self.saves() && !caller.saved && answered(caller);
        let at_end = self.description.caller.checkpoint == Checkpoint::AtEnd;
        if may && (!at_end || world.callers[..usize::from(self.callers())].iter().all(answered)) {
            offers.free(Move::Save { call });
        }
    }

    /// Whether a call is still known to the guard that got it.
    fn is_served(&self, world: &World, call: u8, at: u8) -> bool {
        let guard = &world.guards[usize::from(at)];
        (guard.arrived | guard.waiting) & 1 << call != 0
    }

    fn may_crash_client(&self, world: &World) -> bool {
        world.callers[..usize::from(self.callers())].iter().any(|caller| match caller.phase {
            Phase::Waiting { .. } => true,
            Phase::Told(_) => !caller.saved,
            Phase::Idle | Phase::Cancelled | Phase::Restarted => false,
        })
    }

    fn guard_moves(&self, world: &World, guard: u8, offers: &mut Offers) {
        let me = World::owner(guard);
        let state = &world.guards[usize::from(guard)];
        for call in 0..self.callers() {
            if (state.arrived | state.waiting) & 1 << call != 0 {
                offers.guard(guard, Input::Take { call }, None);
            }
        }
        let mut last = None;
        for todo in state.todos() {
            if last.replace(todo.key) != Some(todo.key) {
                offers.guard(guard, Input::Go { todo, lost: false }, None);
                if matches!(todo.what, Do::Answer(..)) {
                    offers.fault(
                        Fault::CallerPartition,
                        Move::Guard { guard, input: Input::Go { todo, lost: true }, storing: Storing::Works },
                    );
                }
            }
        }
        let mut holds_something = state.arrived | state.waiting != 0 || !state.todo.is_empty();
        for (key, entry) in (0u8..).zip(&world.keys) {
            let Some(record) = entry.record else { continue };
            let busy = state.todo.iter().any(|todo| todo.key_of_todo() == key);
            let asking = world.messages().any(|message| message.asks_for(key, me));
            let view = self.guard.view(record);
            let resume = |take_over| Input::Resume { key, take_over };
            let gives_up = self.description.guard.gives_up && !busy;
            match view.stage {
                Stage::Created if self.waits_in_line(world, key) => self.line_moves(world, guard, key, busy, offers),
                Stage::Created | Stage::Confirmed if gives_up => offers.guard(guard, resume(false), None),
                Stage::Unknown(_) if gives_up && !asking => offers.guard(guard, resume(false), None),
                Stage::Dispatched(owner) if owner == me => {
                    holds_something = true;
                    if gives_up && let Some(of) = view.attempt {
                        let may_come = world.messages().any(|message| message.may_answer(key, of.into()));
                        offers.guard(guard, Input::TimeOut { key }, may_come.then_some(Fault::Timeout));
                    }
                }
                Stage::Dispatched(DEAD) if gives_up => offers.guard(guard, resume(true), None),
                Stage::Dispatched(_) if gives_up => offers.guard(guard, resume(true), Some(Fault::Takeover)),
                Stage::Settled(_) if self.description.guard.window > 0 && !busy => {
                    offers.guard(guard, Input::Expire { key }, None);
                }
                _ => {}
            }
            holds_something |= asking;
        }
        if holds_something {
            offers.fault(Fault::GuardCrash, Move::CrashGuard { guard });
        }
        if self.description.clocks_matter() {
            let begun = world.now > 0 || world.keys.iter().any(|key| key.record.is_some());
            for ahead in [true, false] {
                if !begun && state.clock == 0 {
                    offers.fault(Fault::ClockSkew, Move::SetClock { guard, ahead, jump: false });
                }
                offers.fault(Fault::ClockJump, Move::SetClock { guard, ahead, jump: true });
            }
        }
    }

    /// What may become of an operation that waits for its resource: its own process looks whether it is first, or has waited
    /// long enough; another gives it up if that process's lease has run out.
    fn line_moves(&self, world: &World, guard: u8, key: u8, busy: bool, offers: &mut Offers) {
        let creator = world.keys[usize::from(key)].by;
        let give_up = Input::GiveUp { key };
        if busy || !self.description.guard.gives_up {
        } else if creator == guard + 1 {
            offers.guard(guard, Input::Resume { key, take_over: false }, None);
            if !self.is_its_turn(world, key) {
                let fault = (!self.is_held_for_long(world, key)).then_some(Fault::Timeout);
                offers.guard(guard, give_up, fault);
            }
        } else {
            offers.guard(guard, give_up, (creator != 0).then_some(Fault::Takeover));
        }
    }

    fn network_moves(&self, world: &World, offers: &mut Offers) {
        let direct = self.description.is_direct();
        for (at, message) in world.messages().enumerate() {
            if at > 0 && world.network[at - 1] == world.network[at] {
                continue;
            }
            let overtakes = world.overtakes(at).then_some(Fault::Reordering);
            match message {
                Message::Request { owner, cut, .. } => {
                    let request = message;
                    offers.either(overtakes, Move::Apply { request, how: How::Answered });
                    if overtakes.is_none() {
                        for (how, fault) in How::FAULTS {
                            let at_end = self.description.tool.lasting;
                            if !at_end || !matches!(how, How::CrashAfter | How::ErrorAfter) {
                                offers.fault(fault, Move::Apply { request, how });
                            }
                        }
                    }
                    offers.fault(Fault::LostRequest, Move::Lose { message });
                    offers.fault(Fault::Duplicate, Move::Duplicate { request });
                    if owner != 0 && !cut {
                        offers.fault(Fault::ToolPartition, Move::Cut { request });
                    }
                }
                Message::Working { .. } => {
                    offers.free(Move::Finish { working: message, how: How::Answered });
                    offers.fault(Fault::ToolCrashAfter, Move::Finish { working: message, how: How::CrashAfter });
                    offers.fault(Fault::ErrorAfter, Move::Finish { working: message, how: How::ErrorAfter });
                }
                Message::Reply { to, .. } => {
                    if direct {
                        offers.free(Move::Hear { reply: message });
                    } else {
                        offers.guard(to - 1, Input::Receive { reply: message }, None);
                    }
                    offers.fault(Fault::LostReply, Move::Lose { message });
                }
                Message::Question { .. } => offers.either(overtakes, Move::Look { question: message }),
                Message::Seen { to, .. } => offers.guard(to - 1, Input::Receive { reply: message }, None),
            }
        }
    }

    fn store_moves(&self, world: &World, offers: &mut Offers) {
        let acknowledged = self.description.ledger.acknowledged;
        let (ledger_forgets, tool_forgets) = self.forgets();
        let mut lags = false;
        for (key, state) in (0u8..).zip(&world.keys) {
            lags |= state.record != state.durable;
            if acknowledged != Acknowledged::Durable && state.record != state.durable {
                offers.free(Move::Sync { key });
            }
            if ledger_forgets && state.record.is_some() {
                offers.fault(Fault::KeyExpiry, Move::Forget { key, tool: false });
            }
            if tool_forgets && state.memory.effect > 0 {
                offers.fault(Fault::KeyExpiry, Move::Forget { key, tool: true });
            }
            if let Some(record) = state.record
                && matches!(self.guard.view(record).stage, Stage::Unknown(_) | Stage::Escalated)
            {
                offers.fault(Fault::Decision, Move::Decide { key });
            }
        }
        if lags {
            offers.fault(Fault::LedgerFailover, Move::FailOver);
        }
        let alive = |guard: &super::Guard| guard.arrived | guard.waiting != 0 || !guard.todo.is_empty();
        if lags || world.guards.iter().any(alive) || world.keys.iter().any(|key| key.record.is_some()) {
            offers.fault(Fault::UnsyncedLoss, Move::PowerFails);
        }
    }

    /// Whether what a call that waits is told is that it is under way.
    pub(crate) fn tells_in_progress(&self) -> bool {
        self.description.guard.in_progress == InProgress::Told
    }
}

impl Phase {
    pub(crate) fn is_definite(self) -> bool {
        matches!(self, Phase::Told(Heard::Done(_) | Heard::Failed | Heard::Unknown | Heard::Conflict))
    }
}

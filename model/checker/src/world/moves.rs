//! What can happen next in a world.
//!
//! Each durable write, each send, each effect and each answer is a move of its own, so a crash can fall between any two of
//! them. What a move leads to is in `apply`.

use settled_explorer::{Budget, Fault};

use crate::description::{Acknowledged, Checkpoint, InProgress, Kind};
use crate::machine::{Situation, SoFar, Stage};

use super::{Caller, DEAD, Do, Heard, Message, Phase, Rules, Todo, World};

/// One move of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    /// A caller calls (a guard, or the tool itself): for the first time or again.
    Call {
        /// The logical call.
        call: u8,
        /// The guard that gets it; 0 if there is none.
        guard: u8,
        /// With which of its keys.
        key: u8,
        /// Why.
        why: Why,
    },
    /// A caller's process durably remembers that it was answered.
    Save {
        /// The logical call.
        call: u8,
    },
    /// A caller gives its call up, and says so.
    Cancel {
        /// The logical call.
        call: u8,
    },
    /// The callers' process is killed and starts again.
    CrashClient,
    /// A direct caller gets the tool's answer.
    Hear {
        /// The answer.
        reply: Message,
    },
    /// A guard does something by its own state machine: load, step, compare-and-set.
    Guard {
        /// The guard.
        guard: u8,
        /// About what.
        input: Input,
        /// What becomes of what it stores.
        storing: Storing,
    },
    /// A guard process is killed and started again.
    CrashGuard {
        /// The guard.
        guard: u8,
    },
    /// A guard's clock is set wrong.
    SetClock {
        /// The guard.
        guard: u8,
        /// By which way.
        ahead: bool,
        /// In the middle of a run.
        jump: bool,
    },
    /// Power fails: all guards die, and what was not synced is gone.
    PowerFails,
    /// The ledger's replica takes over, with what it has got.
    FailOver,
    /// A write becomes durable, or reaches the replica, after all.
    Sync {
        /// The key.
        key: u8,
    },
    /// A store forgets a key.
    Forget {
        /// The key.
        key: u8,
        /// The tool's memory rather than the ledger.
        tool: bool,
    },
    /// The tool gets a request.
    Apply {
        /// The request.
        request: Message,
        /// What becomes of it.
        how: How,
    },
    /// The tool ends its work on a request (effects that last).
    Finish {
        /// The request.
        working: Message,
        /// What becomes of its answer.
        how: How,
    },
    /// A message is lost on its way.
    Lose {
        /// The message.
        message: Message,
    },
    /// A request is delivered a second time.
    Duplicate {
        /// The request.
        request: Message,
    },
    /// The connection ends under a request that may still arrive.
    Cut {
        /// The request.
        request: Message,
    },
    /// The tool answers an observation or a seal.
    Look {
        /// The question.
        question: Message,
    },
    /// A unit of time passes.
    Tick,
    /// A person decides an unknown operation.
    Decide {
        /// The key.
        key: u8,
    },
}

/// What a guard's state machine is fed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A call.
    Take {
        /// The logical call.
        call: u8,
    },
    /// A record that it finds: after a restart, for a dead owner, or because it is unknown.
    Resume {
        /// The key.
        key: u8,
        /// Whether it takes over from an owner that may be alive.
        take_over: bool,
    },
    /// It has waited long enough for an attempt's answer.
    TimeOut {
        /// The key.
        key: u8,
    },
    /// An answer of the tool.
    Receive {
        /// The answer.
        reply: Message,
    },
    /// What it has yet to do.
    Go {
        /// What.
        todo: Todo,
        /// Whether an answer gets lost on its way to the caller.
        lost: bool,
    },
    /// A settled record's time is over.
    Expire {
        /// The key.
        key: u8,
    },
}

/// What becomes of what a guard stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storing {
    /// It is stored.
    Works,
    /// The ledger can't be reached: nothing is stored.
    Unreachable,
    /// It is stored, but the guard doesn't learn of it.
    Unacknowledged,
    /// The disk is full: nothing is stored.
    Full,
    /// It can be read, but is not on disk, and the guard is told of an error.
    Unsynced,
    /// Power fails in its middle.
    Torn,
}

/// Why a caller calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// In this situation, by its own rules.
    It(Situation),
    /// While the same call is still being served.
    AtOnce,
    /// For the first time, with another logical call's key.
    KeyReused,
}

/// What becomes of a request at the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// It is carried out and answered.
    Answered,
    /// The tool dies before the effect.
    CrashBefore,
    /// The tool dies after the effect.
    CrashAfter,
    /// An error comes instead of the effect.
    ErrorBefore,
    /// An error comes after the effect.
    ErrorAfter,
    /// It is refused before the tool runs, and the error proves it.
    Rejected,
}

impl How {
    pub(crate) const FAULTS: [(How, Fault); 5] = [
        (How::CrashBefore, Fault::ToolCrashBefore),
        (How::CrashAfter, Fault::ToolCrashAfter),
        (How::ErrorBefore, Fault::ErrorBefore),
        (How::ErrorAfter, Fault::ErrorAfter),
        (How::Rejected, Fault::Rejection),
    ];
}

impl Storing {
    const FAULTS: [(Storing, Fault); 5] = [
        (Storing::Unreachable, Fault::LedgerPartition),
        (Storing::Unacknowledged, Fault::LedgerPartition),
        (Storing::Full, Fault::DiskFull),
        (Storing::Unsynced, Fault::SyncError),
        (Storing::Torn, Fault::TornWrite),
    ];
}

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
                if matches!(todo.what, Do::Answer(_)) {
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
        if self.description.uses_time() {
            let begun = world.now > 0 || world.keys.iter().any(|key| key.record.is_some());
            for ahead in [true, false] {
                if !begun && state.clock == 0 {
                    offers.fault(Fault::ClockSkew, Move::SetClock { guard, ahead, jump: false });
                }
                offers.fault(Fault::ClockJump, Move::SetClock { guard, ahead, jump: true });
            }
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

    /// Whether time can make a difference yet.
    fn may_tick(&self, world: &World) -> bool {
        let rules = &self.description;
        if !rules.uses_time() || world.now >= 30 {
            return false;
        }
        let open = || {
            world
                .keys
                .iter()
                .filter_map(|key| key.record)
                .any(|record| matches!(self.guard.view(record).stage, Stage::Dispatched(_) | Stage::Unknown(_)))
        };
        // Which time it is matters only between the moment from which on all is quiet and the moment at which that counts.
        let observing = world
            .keys
            .iter()
            .filter_map(|key| self.guard.view(key.record?).until)
            .any(|until| (0..self.guards()).any(|guard| self.clock(world, guard) < until));
        let kept = rules.guard.window > 0
            && world.keys.iter().filter_map(|key| key.record).any(|record| {
                matches!(self.guard.view(record).stage, Stage::Settled(_)) && !self.is_expired(world, record)
            });
        let remembered = rules.tool.remembers > 0
            && (world.keys.iter().any(|key| key.memory.effect > 0)
                || world.now <= rules.tool.remembers + rules.guard.margin && open());
        observing || kept || remembered
    }

    /// Which fault it is that time passes now, if it is one.
    pub(crate) fn price_of_time(&self, world: &World) -> Option<Fault> {
        let in_transit = world.messages().any(|message| matches!(message, Message::Request { .. }));
        let calls_count = self.description.guard.window > 0;
        // A call that is held back for its resource is on its way no more.
        let arriving = |guard: &super::Guard| {
            (0..self.callers()).filter(|call| guard.arrived & 1 << call != 0).any(|call| {
                let key = self.key_of(call, &world.callers[usize::from(call)]);
                !self.must_wait_for_resource(world, call, key)
            })
        };
        if in_transit || calls_count && world.guards.iter().any(arriving) {
            return Some(Fault::Delay);
        }
        let paused = |todo: Todo| matches!(todo.what, Do::Send(_) | Do::Write { .. });
        world.guards.iter().any(|guard| guard.todos().any(paused)).then_some(Fault::Pause)
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

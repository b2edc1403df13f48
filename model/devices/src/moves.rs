//! What may happen, and what follows.

use settled_explorer::{Budget, Fault, PropertySet, System};

use crate::description::{Apply, OpId, Queue, Target};
use crate::world::{COPIES, DeviceWorld, Entry, SERVER, State};

/// Something that happens. Devices and operations are numbered from 0; those of one device follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    /// A device's wall clock is wrong from the beginning.
    Skew {
        /// Whose clock.
        device: u8,
        /// Ahead, or behind.
        ahead: bool,
    },
    /// A device's wall clock jumps.
    Jump {
        /// Whose clock.
        device: u8,
        /// Ahead, or back.
        ahead: bool,
    },
    /// A device makes its next operation, offline.
    Make {
        /// Which device.
        device: u8,
        /// Whether time has passed since the last operation on any device.
        later: bool,
    },
    /// The maker sends an operation that is in its queue and not on its way: for the first time, or again, since the request
    /// or its acknowledgement was lost.
    Send(u8),
    /// A request with this operation arrives; the server's acknowledgement arrives as well.
    ///
    /// An acknowledgement that is late changes nothing: all that it does is to end the sending, and what a device does in the
    /// meantime it could have done before. So the two are one step.
    Arrive(u8),
    /// A request arrives, and the acknowledgement is lost.
    LoseReply(u8),
    /// A request arrives, and the server's process dies after the effect.
    Crash(u8),
    /// A request is lost.
    LoseRequest(u8),
    /// A request is doubled.
    Duplicate(u8),
    /// A device's process restarts: its queue survives, and what was on its way is sent again.
    Restart(u8),
    /// A device gets an operation from the server.
    Pull {
        /// Which device.
        device: u8,
        /// Which operation.
        operation: u8,
    },
}

impl System for DeviceWorld {
    type State = State;
    type Move = Move;

    fn initial(&self) -> State {
        State::INITIAL
    }

    fn bounds(&self) -> Budget {
        self.bounds
    }

    fn moves(&self, state: &State, left: Budget, moves: &mut Vec<(Move, Option<Fault>)>) {
        for device in 0..self.devices.devices {
            self.moves_of_device(state, left, device, moves);
        }
        for operation in self.operations() {
            self.moves_of_operation(state, left, operation, moves);
        }
    }

    fn apply(&self, state: &State, what: Move) -> Option<State> {
        let mut after = *state;
        match what {
            Move::Skew { device, ahead } | Move::Jump { device, ahead } => {
                after.offsets[usize::from(device)] += if ahead { 1 } else { -1 };
            }
            Move::Make { device, later } => self.make(&mut after, device, later)?,
            Move::Send(op) => {
                after.requests.add(op);
                if self.devices.queue == Queue::UntilSent {
                    after.entries[usize::from(op)] = Entry::Dropped;
                }
            }
            Move::Duplicate(op) => after.requests.add(op),
            Move::Arrive(op) => {
                self.arrive(&mut after, op, true);
                self.acknowledge(&mut after, op);
            }
            Move::LoseReply(op) => self.arrive(&mut after, op, true),
            Move::Crash(op) => self.arrive(&mut after, op, self.devices.apply == Apply::Atomic),
            Move::LoseRequest(op) => after.requests.take(op),
            Move::Restart(device) => {
                for op in self.sent(state, device).filter(|op| state.requests.of(*op) < COPIES) {
                    after.requests.add(op);
                }
            }
            Move::Pull { device, operation } => {
                if self.corrects() && self.maker(operation) == device {
                    self.acknowledge(&mut after, operation);
                } else {
                    self.take(&mut after, device.into(), operation);
                }
                if after.busy != 0 {
                    (after.tick, after.busy) = (after.tick + 1, 0);
                }
            }
        }
        self.tidy(&mut after);
        (after != *state).then_some(after)
    }

    /// None: devices are not alike, since the higher one wins a tie.
    fn symmetric(&self, _: &State, _: &mut dyn FnMut(&State)) {}

    fn properties(&self) -> PropertySet {
        self.said()
    }

    fn violated(&self, state: &State) -> PropertySet {
        self.broken(state)
    }

    fn violated_at_rest(&self, _: &State) -> PropertySet {
        PropertySet::NONE
    }

    fn ended(&self, state: &State) -> bool {
        self.has_ended(state)
    }
}

impl DeviceWorld {
    fn moves_of_device(&self, state: &State, left: Budget, device: u8, moves: &mut Vec<(Move, Option<Fault>)>) {
        let mut fault = |what, fault| {
            if left.left(fault) > 0 {
                moves.push((what, Some(fault)));
            }
        };
        let makes = self.next(state, device).is_some();
        if self.clock_matters(state, device) {
            let untouched = state.entries == State::INITIAL.entries && state.offsets[usize::from(device)] == 0;
            for ahead in [true, false] {
                if untouched {
                    fault(Move::Skew { device, ahead }, Fault::ClockSkew);
                }
                fault(Move::Jump { device, ahead }, Fault::ClockJump);
            }
        }
        // What is recorded is answered alike, once or twice.
        let again = |op: u8| state.requests.of(op) < COPIES && !state.is_recorded(op);
        if self.sent(state, device).any(again) {
            fault(Move::Restart(device), Fault::ClientCrash);
        }
        if makes {
            // Two operations of one device are never made at the same time; those of two devices may be.
            if state.busy & 1 << device == 0 {
                moves.push((Move::Make { device, later: false }, None));
            }
            if state.busy != 0 {
                moves.push((Move::Make { device, later: true }, None));
            }
        }
        for operation in self.operations().filter(|op| self.can_pull(state, device, *op)) {
            moves.push((Move::Pull { device, operation }, None));
        }
    }

    fn moves_of_operation(&self, state: &State, left: Budget, op: u8, moves: &mut Vec<(Move, Option<Fault>)>) {
        let on_the_way = state.requests.of(op);
        if on_the_way == 0 {
            if state.entry(op) == Entry::Queued && self.is_next_to_send(state, op) {
                moves.push((Move::Send(op), None));
            }
            return;
        }
        moves.push((Move::Arrive(op), None));
        let mut fault = |what, fault, may: bool| {
            if may && left.left(fault) > 0 {
                moves.push((what, Some(fault)));
            }
        };
        fault(Move::LoseReply(op), Fault::LostReply, state.entry(op) == Entry::Queued);
        fault(Move::Crash(op), Fault::GuardCrash, !state.is_recorded(op));
        fault(Move::LoseRequest(op), Fault::LostRequest, true);
        fault(Move::Duplicate(op), Fault::Duplicate, on_the_way < COPIES && !state.is_recorded(op));
    }

    /// A device makes an operation. The state is not yet tidied.
    pub(crate) fn make(&self, state: &mut State, device: u8, later: bool) -> Option<()> {
        let op = self.next(state, device)?;
        if later {
            (state.tick, state.busy) = (state.tick + 1, 0);
        }
        state.busy |= 1 << device;
        if self.devices.target == Target::Register {
            let held = state.held[usize::from(device)].set();
            let through = self.operations().filter(|seen| held & 1 << seen != 0);
            state.seen[usize::from(op)] = through.fold(held, |all, seen| all | state.seen[usize::from(seen)]);
        }
        state.times[usize::from(op)] = self.event_time(state, device);
        if self.corrects() {
            state.after[usize::from(op)] = self.confirmed(state, device);
        }
        state.entries[usize::from(op)] = Entry::Queued;
        self.take(state, device.into(), op);
        Some(())
    }

    /// The operations of a device that are on their way, and that it has not dropped.
    fn sent(&self, state: &State, device: u8) -> impl Iterator<Item = u8> {
        let state = *state;
        self.operations().filter(move |op| {
            self.maker(*op) == device && state.entry(*op) == Entry::Queued && state.requests.of(*op) > 0
        })
    }

    /// The server takes a request and applies its operation, unless it knows that it has.
    fn arrive(&self, state: &mut State, op: u8, record: bool) {
        state.requests.take(op);
        if state.is_recorded(op) {
            return;
        }
        if self.corrects() {
            self.date(state, op);
        }
        if state.held[SERVER].of(op) < COPIES {
            self.take(state, SERVER, op);
        }
        if record && self.devices.op_id == OpId::Device {
            state.recorded |= 1 << op;
        }
    }

    /// The device drops an acknowledged operation from its queue. If the server names operations, the acknowledgement names a
    /// new one, unless there are more already than are told apart: then the device has one copy too many, and drops it.
    fn acknowledge(&self, state: &mut State, op: u8) {
        state.entries[usize::from(op)] = Entry::Dropped;
        let device = usize::from(self.maker(op));
        while state.held[device].of(op) > state.held[SERVER].of(op).max(1) {
            state.held[device].take(op);
        }
        if self.corrects() {
            self.hear_all(state, op);
        }
    }
}

//! What is promised, and whether a state keeps it.

use settled_explorer::{PropertyName, PropertySet};

use crate::description::{OpId, Target};
use crate::world::{DeviceWorld, Entry, NOTHING, SERVER, State};

impl DeviceWorld {
    /// The properties that say anything about this world.
    pub(crate) fn said(&self) -> PropertySet {
        PropertySet::NONE
            .with(PropertyName::AtMostOnce, true)
            .with(PropertyName::Convergence, true)
            .with(PropertyName::CausalRespect, self.devices.newest_wins())
            .with(PropertyName::Settles, true)
            .with(PropertyName::CanSettle, true)
    }

    /// The properties that this state violates.
    pub(crate) fn broken(&self, state: &State) -> PropertySet {
        PropertySet::NONE
            .with(PropertyName::AtMostOnce, self.operations().any(|op| state.held[SERVER].of(op) > 1))
            .with(PropertyName::Convergence, self.diverges(state))
            .with(PropertyName::CausalRespect, self.devices.newest_wins() && self.disrespects(state))
    }

    /// Whether every operation has been made, is out of its queue, and is held by every replica.
    pub(crate) fn has_ended(&self, state: &State) -> bool {
        self.operations().all(|op| {
            state.entry(op) == Entry::Dropped
                && state.held[SERVER].of(op) > 0
                && (0..self.devices.devices).all(|device| !self.can_pull(state, device, op))
        })
    }

    /// What a replica shows: the operation that won, or the sum.
    pub(crate) fn value(&self, state: &State, replica: usize) -> u8 {
        match self.devices.target {
            Target::Register => state.shown[replica],
            Target::Counter => state.held[replica].sum(),
        }
    }

    /// Whether two replicas that hold the same operations show different values.
    fn diverges(&self, state: &State) -> bool {
        let mut replicas = self.replicas();
        while let Some(one) = replicas.next() {
            for other in replicas.clone() {
                if self.value(state, one) != self.value(state, other) && self.hold_the_same(state, one, other) {
                    return true;
                }
            }
        }
        false
    }

    /// Whether two replicas hold the same operations. If the server names them, copies with two names are two operations.
    fn hold_the_same(&self, state: &State, one: usize, other: usize) -> bool {
        let (here, there) = (state.held[one], state.held[other]);
        // An operation has its event time only when the server has given it one, and its device has heard of that.
        if self.corrects() && [one, other].into_iter().any(|replica| self.waits(state, replica)) {
            return false;
        }
        match self.devices.op_id {
            OpId::Device => here.set() == there.set(),
            OpId::Server => here == there,
        }
    }

    /// Whether a replica shows an operation although it holds one that was made after seeing it.
    fn disrespects(&self, state: &State) -> bool {
        self.replicas().any(|replica| {
            let (shown, held) = (state.shown[replica], state.held[replica]);
            shown != NOTHING
                && self.operations().any(|op| held.of(op) > 0 && state.seen[usize::from(op)] & 1 << shown != 0)
        })
    }
}

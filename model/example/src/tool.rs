//! The tool: what it durably remembers of a key, and what it makes of what reaches it.

use settled_model::machine::{Asked, Served, Tool, ToolMemory};
use settled_protocol::{AttemptId, ErrorClass, Observation, SealScope};

use crate::Phase;

/// Reserves first, and takes effect when that is confirmed.
#[derive(Clone, Copy, Debug)]
pub struct Reservations {
    /// Whether a cancelled reservation is marked for good. `false`: it is deleted.
    pub fence: bool,
}

/// What is known of a key's reservation: kept in [`ToolMemory::own`], the byte that is a tool's own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reservation {
    None,
    Reserved,
    Cancelled,
}

impl Reservation {
    fn of(memory: &ToolMemory) -> Reservation {
        match memory.own {
            0 => Reservation::None,
            1 => Reservation::Reserved,
            _ => Reservation::Cancelled,
        }
    }
}

impl Tool for Reservations {
    /// Asked when a request arrives: a change of `memory` is durable at once. After [`Served::Apply`] the world makes the effect
    /// and notes it in `memory.effect`. Crashes before and after this, errors and lost answers are the world's.
    fn request(&self, memory: &mut ToolMemory, asked: &Asked) -> Served {
        match (Phase::of(asked.of), Reservation::of(memory)) {
            _ if memory.effect > 0 => Served::Repeat(memory.effect),
            (Phase::Reserve, Reservation::None | Reservation::Reserved) => {
                memory.own = Reservation::Reserved as u8;
                Served::Repeat(0)
            }
            (Phase::Confirm, Reservation::Reserved) => Served::Apply,
            (Phase::Reserve, Reservation::Cancelled) | (Phase::Confirm, Reservation::None | Reservation::Cancelled) => {
                Served::Refuse(ErrorClass::NotRun)
            }
        }
    }

    /// Asked when an observation or, with a scope, a seal arrives. A seal may change `memory`; here, it cancels.
    fn question(&self, memory: &mut ToolMemory, _of: AttemptId, seal: Option<SealScope>) -> Observation<u8> {
        match seal {
            _ if memory.effect > 0 => Observation::Applied(memory.effect),
            None => Observation::NotApplied,
            Some(scope) => {
                let left = if self.fence { Reservation::Cancelled } else { Reservation::None };
                memory.own = left as u8;
                Observation::Sealed(scope)
            }
        }
    }

    /// Asked in every state about every request on its way: for "unknown blocks". Must say what `request` would do now.
    fn can_apply(&self, memory: &ToolMemory, of: AttemptId) -> bool {
        memory.effect == 0 && Phase::of(of) == Phase::Confirm && Reservation::of(memory) == Reservation::Reserved
    }
}

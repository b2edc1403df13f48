//! A protocol of your own, checked: machines in place of those that ship. Copy this folder and change them.
//!
//! The protocol is *reserve–confirm* (Try–Confirm–Cancel), which a description can't express: the tool first reserves,
//! without an effect; the guard confirms, and then it takes effect; whatever goes wrong before that leads to a cancellation.
//! [`Reservations`] with `fence: false` is a known mistake: cancelling deletes the reservation instead of marking it, so a late
//! copy of the request to reserve brings it back to life, and a late confirmation takes effect although the caller is told `failed`.
//!
//! # What you write, and what you don't
//!
//! Three machines: a [`Guard`](settled_model::machine::Guard) (here [`ReservingGuard`]), a
//! [`Caller`](settled_model::machine::Caller) ([`BudgetedCaller`]) and a [`Tool`](settled_model::machine::Tool)
//! ([`Reservations`]); any of them may be one that ships. World, faults, properties and traces are there already: network,
//! ledger, crashes and clocks are the world's, and so is what a process remembers besides its record: who waits for an answer,
//! and what is still to be sent. The [description](description()) still says what is the world's: callers, processes, keys,
//! ledger, faults, and when and how things happen (`guard.in-progress`, `guard.gives-up`, `tool.lasting` …). What it says of a
//! machine's own decisions (`caller.after-…`, `guard.single-delivery`, `tool.attempts` …) is not asked. `tool.kind` decides whether
//! "unknown blocks" is said at all, and must not be `transactional`: then the guard commits effects, and no tool is asked.
//!
//! * **All methods must be pure.** The explorer calls them in any order, from several threads, and for one state many times:
//!   what isn't in an argument or in the machine's own constants does not exist. `settled_explorer::contract::check` looks for
//!   breaches.
//! * **Name attempts by what they ask for.** A request carries nothing but its attempt's number, so a protocol with two requests
//!   gives each its number, as [`Phase`] does. Numbers only grow, and must stay below 8.
//! * **Results name effects**, from 1. 0 is free for an answer without an effect; here: "reserved".
//!
//! # How big worlds get
//!
//! This one, with one key, two processes and six faults, has 15,000 states and takes a second or two. With three of the faults
//! it has 2,300, with three more 93,000. A second key multiplies: `BudgetedCaller { keys: 2, .. }` without polls, with those
//! three faults, has 150,000 states where one key has 800, as what is left of the first operation stays about while the second
//! runs. So begin with one caller, one key and the faults that you fear, and add to that.

mod caller;
mod guard;
mod tool;

use settled_model::machine::Machines;
use settled_model::{Description, LoadError, Rules, parse};
use settled_protocol::{Attempt, AttemptId};

pub use caller::BudgetedCaller;
pub use guard::{Record, ReservingGuard};
pub use tool::Reservations;

/// What an attempt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Attempt 1: reserve, without an effect.
    Reserve,
    /// Attempt 2: take effect.
    Confirm,
}

impl Phase {
    /// The attempt that asks for it. There is one operation under a key, so its generation is always the first.
    pub fn attempt(self) -> AttemptId {
        let attempt = match self {
            Phase::Reserve => Attempt::FIRST,
            Phase::Confirm => Attempt::FIRST.next(),
        };
        AttemptId { generation: 1, attempt }
    }

    /// What this attempt asks for.
    pub fn of(attempt: AttemptId) -> Phase {
        if attempt.attempt == Attempt::FIRST { Phase::Reserve } else { Phase::Confirm }
    }
}

/// Callers, processes, keys, and faults with their bounds.
///
/// # Errors
/// Names line and field, if you have changed the file so that no world can be built from it.
pub fn description() -> Result<Description, LoadError> {
    parse("reserve-confirm.toml", include_str!("../reserve-confirm.toml"))
}

/// The world of this description with the three machines of this crate.
pub fn rules(description: Description, fence: bool) -> Rules {
    let machines = Machines {
        guard: ReservingGuard,
        caller: Box::new(BudgetedCaller { calls: 2, keys: 1 }),
        tool: Box::new(Reservations { fence }),
    };
    Rules::with(description, machines)
}

//! Operations that devices make offline, and the states that they converge to.
//!
//! An [`Operation`] carries its own name, its device, an event time of a [hybrid logical clock](HybridClock), its target and a
//! change. A target's state ([`Merged`]) is a join over the set of its operations, by the target's [`Rule`]: operations are compared by
//! event time, then device, then name, never by arrival.

//!
//! What the server does with an operation that reaches it is decided here as well: whether it is applied ([`Arrival::decide`]), and
//! at which event time ([`Clocks::redate`]).

mod clock;
mod dating;
mod operation;
mod receive;
mod state;

pub use clock::{HybridClock, HybridTime, TooFarAhead};
pub use dating::{Clocks, Moved, Times};
pub use operation::{Change, Name, NotAName, NotAnOpId, OpId, Operation, Stamp, Value};
pub use receive::{Arrival, Decision, Fit, Known};
pub use state::{Merged, Misfit, Rule, View, Written};

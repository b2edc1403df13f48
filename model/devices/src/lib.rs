//! Many devices that act offline: a world of replicas that merge operations, small enough to be explored exhaustively.
//!
//! Each device makes operations on one target without asking anybody, queues them, sends them to a server, and pulls what
//! the others made. Every device and the server are replicas. A [`Devices`] description says how they do it; its default is
//! sound, and so is a server that corrects event times (`dating = "server"`). Each of these choices breaks a promise:
//!
//! | choice | breaks | with |
//! | --- | --- | --- |
//! | `merge = "first-arrival"`, `"last-arrival"` | convergence (and with `"last-arrival"` causal respect) | no fault |
//! | `ties = "arrival"` | convergence | no fault |
//! | `clock = "wall"` | causal respect | `clock-skews` or `clock-jumps` |
//! | `redated = "kept"`, with `dating = "server"` | convergence, causal respect | `clock-skews` or `clock-jumps` |
//! | `apply = "result-after"` | at-most-once (and on a counter convergence) | `guard-crashes` |
//! | `op-id = "server"` | at-most-once | `lost-replies`, `client-crashes`, `duplicates` or `guard-crashes` |
//! | `queue = "until-sent"` | settles | `lost-requests` |

mod dating;
pub mod description;
mod moves;
mod properties;
mod say;
mod world;

pub use description::{Devices, FAULTS, Unbuildable};
pub use moves::Move;
pub use world::{DeviceWorld, State};

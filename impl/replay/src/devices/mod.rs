//! Devices that act offline and merge: their counterexamples on real processes.

mod play;
mod replica;

pub use play::{replay, survive};
pub use replica::{Operation, Replica, pack, unpack};

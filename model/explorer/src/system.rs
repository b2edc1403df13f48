//! What can be explored: a world's states and moves, as pure functions.

use std::fmt::Debug;
use std::hash::Hash;

use crate::faults::{Budget, Fault};
use crate::properties::PropertySet;

/// A world that can be explored.
///
/// How often each fault may still happen is not part of the state: the explorer keeps it. That is what makes its reduction
/// over budgets sound, and it rests on this contract (which `explore`'s tests check for the worlds of this crate):
/// a move that is no fault is offered whatever is `left`, a fault is offered if and only if it is left, given the state,
/// and what a move leads to depends on the state alone.
pub trait System: Sync {
    /// A state, without budgets.
    type State: Clone + Eq + Hash + Debug + Send + Sync;
    /// A move.
    type Move: Copy + Eq + Hash + Debug + Send + Sync;

    /// The first state.
    fn initial(&self) -> Self::State;

    /// How often each fault may happen.
    fn bounds(&self) -> Budget;

    /// What may happen next, and which fault it is, if it is one.
    fn moves(&self, state: &Self::State, left: Budget, moves: &mut Vec<(Self::Move, Option<Fault>)>);

    /// The state after a move; `None` if the move changes nothing.
    fn apply(&self, state: &Self::State, what: Self::Move) -> Option<Self::State>;

    /// Calls `each` with every state that differs from this one only in the names of things that are alike (the state
    /// itself need not be among them).
    fn symmetric(&self, state: &Self::State, each: &mut dyn FnMut(&Self::State));

    /// The one state that stands for all that are [alike](System::symmetric), if it can be found without looking at each of
    /// them. It must be the same for all of those.
    fn canonical(&self, _state: &Self::State) -> Option<Self::State> {
        None
    }

    /// The properties that say anything about this world.
    fn properties(&self) -> PropertySet;

    /// The properties that this state violates. `Settles` and `CanSettle` are never among them: the explorer decides them
    /// on the graph.
    fn violated(&self, state: &Self::State) -> PropertySet;

    /// The properties that this state violates, given that nothing can happen in it any more that is no fault. (`Settles`
    /// need not be among them: the explorer adds it if the state has not [ended](System::ended).)
    fn violated_at_rest(&self, state: &Self::State) -> PropertySet;

    /// Writes a state in few bytes, if this world can: the explorer keeps states so until their turn comes. A world that
    /// does must read them back with [`unpack`](System::unpack).
    fn pack(&self, _state: &Self::State, _bytes: &mut Vec<u8>) -> bool {
        false
    }

    /// The state that was written as these bytes by [`pack`](System::pack).
    fn unpack(&self, _bytes: &[u8]) -> Option<Self::State> {
        None
    }

    /// Whether every operation has ended, settled or escalated.
    fn ended(&self, state: &Self::State) -> bool;
}

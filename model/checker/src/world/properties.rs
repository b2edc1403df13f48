//! The properties, as they are decided in a state.

use settled_explorer::{PropertyName, PropertySet};

use crate::description::Kind;
use crate::machine::Stage;

use super::{Do, KeyState, Message, Of, Rules, World};

impl Rules {
    /// The properties that say anything about this world.
    pub fn properties(&self) -> PropertySet {
        use PropertyName::*;
        let rules = &self.description;
        let guarded = !rules.is_direct();
        let blocks = !matches!(rules.declared(), Kind::Deduplicates | Kind::Idempotent);
        [AtMostOnce, NoPhantomSuccess, NoFalseFailure, FaithfulReplay, NoSuppression]
            .into_iter()
            .collect::<PropertySet>()
            .with(IntentFirst, guarded)
            .with(UnknownBlocks, blocks)
            .with(NoOverlap, rules.tool.lasting)
            .with(Settles, guarded)
            .with(CanSettle, guarded)
            .with(BoundedRetries, self.counts_sends())
            .with(BoundedMemory, rules.budget.memory > 0)
    }

    /// The properties that this state violates.
    pub fn violated(&self, world: &World) -> PropertySet {
        use PropertyName::*;
        let wrongs = world.wrongs;
        let callers = 0..self.callers();
        let budget = &self.description.budget;
        let sends = || world.callers.iter().map(|caller| caller.sends);
        let too_often = budget.operation > 0 && sends().any(|sends| sends > budget.operation)
            || budget.fleet > 0 && sends().sum::<u8>() > budget.fleet;
        PropertySet::NONE
            .with(AtMostOnce, callers.into_iter().any(|call| world.effects_of(call) > 1))
            .with(NoPhantomSuccess, wrongs.phantom)
            .with(NoFalseFailure, world.keys.iter().any(|key| key.told_failed & key.applied != 0))
            .with(FaithfulReplay, wrongs.unfaithful)
            .with(NoSuppression, wrongs.suppressed)
            .with(IntentFirst, wrongs.unrecorded)
            .with(UnknownBlocks, (0u8..).zip(&world.keys).any(|(key, entry)| self.live(world, key, entry) > 1))
            .with(NoOverlap, wrongs.overlapped)
            .with(BoundedRetries, too_often)
            .with(BoundedMemory, wrongs.slipped_in || self.keeps_too_long(world))
            .and(self.properties)
    }

    /// Whether a record is there whose window is over, where that is longer than it may remain.
    fn keeps_too_long(&self, world: &World) -> bool {
        let (window, memory) = (self.description.guard.window, self.description.budget.memory);
        memory > 0
            && window > memory
            && world.keys.iter().filter_map(|key| key.record).any(|record| self.is_expired(world, record))
    }

    /// The properties that this state violates, given that nothing happens any more that is no fault.
    pub fn violated_at_rest(&self, world: &World) -> PropertySet {
        let kept = world
            .keys
            .iter()
            .filter_map(|key| key.record)
            .any(|record| matches!(self.guard.view(record).stage, Stage::Settled(_)));
        let memory = self.description.budget.memory > 0 && kept;
        PropertySet::NONE.with(PropertyName::BoundedMemory, memory)
    }

    /// Whether every operation that was begun has been settled or escalated.
    pub fn ended(&self, world: &World) -> bool {
        world
            .keys
            .iter()
            .filter_map(|key| key.record)
            .all(|record| matches!(self.guard.view(record).stage, Stage::Settled(_) | Stage::Escalated))
    }

    /// How many attempts of a key's operations have taken effect or still can.
    fn live(&self, world: &World, key: u8, entry: &KeyState) -> u32 {
        let can_apply = |of: Of| {
            if self.is_transactional() {
                return entry.record.is_some_and(|record| {
                    let view = self.guard.view(record);
                    matches!(view.stage, Stage::Dispatched(_)) && view.attempt.map(Of::from) == Some(of)
                });
            }
            self.tool.can_apply(&entry.memory, of.into())
        };
        let requested = world.messages().filter_map(|message| match message {
            Message::Request { key: its, of, .. } if its == key => Some(of),
            _ => None,
        });
        let queued = world.guards.iter().flat_map(super::Guard::todos).filter_map(|todo| match todo.what {
            Do::Send(of) if todo.key == key => Some(of),
            _ => None,
        });
        let live = requested.chain(queued).filter(|of| can_apply(*of)).fold(entry.applied, |all, of| all | of.bit());
        live.count_ones()
    }
}

//! Taking note of what the ledger has made durable, as it happens there.

use settled::protocol::{Key, Version};
use settled::{Change, Remains};

use crate::truth::tool_of;
use crate::world::World;

impl World {
    /// The ledger has made a change.
    pub(crate) fn stored(&self, change: &Change) {
        let before = self.truth(|truth| truth.stored(change));
        let kind = tool_of(&change.key).and_then(|tool| self.plan.tools.get(tool)).map(|tool| tool.kind);
        if let (Some(before), Some(kind)) = (before, kind) {
            self.coverage(|coverage| coverage.transition(kind, before, &change.event, change.record.state().name()));
        }
    }

    /// Something of a key is about to be forgotten: from now on it may be gone.
    pub(crate) fn forgets(&self, key: &Key, expected: Version) {
        self.truth(|truth| {
            if let Some(held) = truth.held.get_mut(key).filter(|held| held.version <= expected) {
                held.forgetting = true;
            }
        });
    }

    pub(crate) fn forgot(&self, key: &Key, expected: Version, remains: Remains, forgotten: bool) -> bool {
        let before = self.truth(|truth| {
            // Word of the last change may have been lost.
            let held = truth.held.get_mut(key).filter(|held| held.version <= expected)?;
            let before = held.state;
            match remains {
                Remains::Tombstone { keep_until } if forgotten => held.keep_until = Some(keep_until),
                Remains::Nothing if forgotten => drop(truth.held.remove(key)),
                Remains::Tombstone { .. } | Remains::Nothing => {}
            }
            Some(before)
        });
        let kind = tool_of(key).and_then(|tool| self.plan.tools.get(tool)).map(|tool| tool.kind);
        if let (true, Some(before), Some(kind)) = (forgotten, before, kind) {
            let after = if remains == Remains::Nothing { "absent" } else { "tombstone" };
            self.coverage(|coverage| coverage.transition(kind, before, "expired", after));
        }
        forgotten
    }
}

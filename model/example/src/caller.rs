//! The caller of one logical call.

use settled_model::machine::{Caller, Situation, SoFar};

/// A caller with two budgets: silence costs a call, a failure costs a key as well. While its call is under way, it polls.
#[derive(Clone, Copy, Debug)]
pub struct BudgetedCaller {
    /// How often it calls, polls left out.
    pub calls: u8,
    /// How many keys it uses. The world must have room for them: see `caller.calls` in the description.
    pub keys: u8,
}

impl Caller for BudgetedCaller {
    /// Asked whenever it could call again: whether it does, and with which of its keys. Which guard gets the call is the
    /// world's choice. Everything but polls must be bounded, or worlds have no end. (`so_far.key` is 255 after a
    /// `key-reuses` fault.)
    fn calls(&self, situation: Situation, so_far: SoFar) -> Option<u8> {
        let same = so_far.key;
        let key = match situation {
            Situation::InProgress => return Some(same),
            Situation::Cancelled => return None,
            Situation::Failed => same.saturating_add(1),
            Situation::First
            | Situation::Silence
            | Situation::ConnectionLost
            | Situation::Done
            | Situation::Restarted => same,
        };
        (so_far.calls < self.calls && key < self.keys).then_some(key)
    }
}

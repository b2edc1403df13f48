//! The caller that a description describes.

use crate::description::{Again, CallerRules, KeySource};

use super::{Caller, Situation, SoFar};

/// A caller by its description.
#[derive(Clone, Debug)]
pub struct DescribedCaller {
    /// What it does.
    pub rules: CallerRules,
}

impl Caller for DescribedCaller {
    fn calls(&self, situation: Situation, so_far: SoFar) -> Option<u8> {
        let rules = &self.rules;
        let polls = situation == Situation::InProgress;
        if !polls && so_far.calls >= rules.calls || rules.horizon > 0 && so_far.since_first > rules.horizon {
            return None;
        }
        let again = match situation {
            Situation::First | Situation::Done | Situation::InProgress => Again::Retry,
            Situation::Silence | Situation::ConnectionLost => rules.after_silence,
            Situation::Failed => rules.after_failed,
            Situation::Cancelled => rules.after_cancel,
            Situation::Restarted => rules.after_crash,
        };
        let key = match rules.key {
            KeySource::PerCall if polls => so_far.key,
            KeySource::PerCall => so_far.calls,
            KeySource::Caller if situation == Situation::Failed && rules.new_key_after_failure => {
                so_far.key.wrapping_add(1)
            }
            _ => so_far.key,
        };
        (again == Again::Retry).then_some(key)
    }
}

//! A description's terms, as the engine takes them.

use std::sync::Arc;
use std::time::Duration;

use settled::protocol::{Policy, Rules, ToolKind};
use settled::{Entry, Limits, Recoverable, Resource, Tool};
use settled_model::Description;
use settled_model::description::{Frees, InDoubt, InProgress, Kind, Resources, StartRule};

use crate::wire::{Keys, RUN_OUT_MS, Spec, UNIT_MS, number_of};

#[derive(Clone)]
pub struct Terms {
    pub description: Description,
    pub policy: Policy,
    pub mistakes: bool,
    pub keys: Keys,
    hasty: Vec<u8>,
}

/// Longer than any replay, and than all the time that passes in one.
const EVER: Duration = Duration::from_secs(20 * 365 * 86_400);

impl Terms {
    pub fn new(mut description: Description, spec: &Spec) -> Terms {
        if !spec.mistakes {
            description.guard.rules = Rules::SOUND;
        }
        let policy = scaled(description.policy());
        Terms { description, policy, mistakes: spec.mistakes, keys: spec.keys.clone(), hasty: spec.hasty.clone() }
    }

    /// How long a caller waits for what is under way.
    pub fn patience(&self) -> Option<Duration> {
        (self.description.guard.in_progress == InProgress::Told).then_some(Duration::ZERO)
    }

    pub fn takes_doubt_for_busy(&self) -> bool {
        self.mistakes && self.description.guard.in_doubt == InDoubt::Busy
    }

    /// What a call has to itself. An idempotent tool's call may be repeated only while nobody else changes its resource; and
    /// what is recorded before it is sent waits for a turn.
    pub fn resource(&self, call: u8) -> Option<Resource> {
        let guard = &self.description.guard;
        let wanted = guard.resources != Resources::Ignored
            || guard.start == StartRule::TwoWrites
            || self.description.declared() == Kind::Idempotent;
        let name = if self.description.caller.same_resource { "shared".to_owned() } else { format!("of call {call}") };
        wanted.then(|| Resource { scope: self.keys.scope.clone(), name })
    }

    pub fn limits(&self, key: u8) -> Limits {
        // What the network holds back arrives before the schedule lets this run out.
        let lingers = self.description.guard.frees != Frees::WhenSettled;
        Limits {
            attempt: if self.hasty.contains(&key) && (self.description.guard.gives_up || !self.mistakes) {
                Duration::from_millis(RUN_OUT_MS)
            } else {
                EVER
            },
            settle: EVER,
            queue: EVER,
            transit: if lingers { Duration::from_millis(RUN_OUT_MS) } else { Duration::ZERO },
            tombstone: None,
        }
    }

    pub fn recoverable(&self, entry: &Entry, tool: Arc<dyn Tool>) -> Option<Recoverable> {
        let limits = self.limits(number_of(&entry.key));
        self.keys.has(&entry.key).then(|| Recoverable { policy: self.policy, tool: Some(tool), limits })
    }
}

/// The policy with the model's units of time as milliseconds.
fn scaled(mut policy: Policy) -> Policy {
    let wait = |units: u64| units.saturating_mul(UNIT_MS);
    match &mut policy.tool {
        // A guard that does not wait until all is quiet believes what it sees at once.
        ToolKind::Observable { settling } if !policy.rules.wait_for_quiet => *settling = 0,
        ToolKind::Observable { settling } => *settling = wait(*settling),
        ToolKind::Deduplicates { limit, margin, .. } => {
            *limit = wait(*limit);
            *margin = wait(*margin);
        }
        ToolKind::ReadOnly | ToolKind::Idempotent | ToolKind::Opaque | ToolKind::Sealable | ToolKind::Transactional => {
        }
    }
    policy.repeat.window = policy.repeat.window.map(wait);
    policy
}

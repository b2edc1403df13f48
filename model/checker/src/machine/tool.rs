//! The tool that a description describes. (A transactional one is the world's own: its effect commits with the ledger.)

use settled_protocol::{AttemptId, ErrorClass, Observation, SealScope};

use crate::description::Kind;

use super::{Asked, Served, Tool, ToolMemory};

/// A tool by its kind.
#[derive(Clone, Copy, Debug)]
pub struct DescribedTool {
    /// The kind.
    pub kind: Kind,
}

impl Tool for DescribedTool {
    fn request(&self, memory: &mut ToolMemory, asked: &Asked) -> Served {
        match self.kind {
            Kind::Opaque | Kind::Observable | Kind::Transactional => Served::Apply,
            Kind::Idempotent if memory.effect > 0 && asked.undisturbed => Served::Repeat(memory.effect),
            Kind::Idempotent => Served::Apply,
            Kind::Deduplicates | Kind::Sealable if memory.effect > 0 => Served::Repeat(memory.effect),
            Kind::Sealable if u32::from(memory.sealed) >= asked.of.attempt.get() => {
                Served::Refuse(ErrorClass::Unproven)
            }
            Kind::Deduplicates | Kind::Sealable => Served::Apply,
        }
    }

    fn question(&self, memory: &mut ToolMemory, of: AttemptId, seal: Option<SealScope>) -> Observation<u8> {
        match (memory.effect, seal) {
            (1.., _) => Observation::Applied(memory.effect),
            (0, None) => Observation::NotApplied,
            (0, Some(scope)) => {
                memory.sealed = match scope {
                    SealScope::Attempts => memory.sealed.max(u8::try_from(of.attempt.get()).unwrap_or(u8::MAX)),
                    SealScope::Operation => u8::MAX,
                };
                Observation::Sealed(scope)
            }
        }
    }

    fn can_apply(&self, memory: &ToolMemory, of: AttemptId) -> bool {
        match self.kind {
            Kind::Sealable => memory.effect == 0 && of.attempt.get() > u32::from(memory.sealed),
            Kind::Opaque | Kind::Observable | Kind::Deduplicates | Kind::Transactional | Kind::Idempotent => true,
        }
    }
}

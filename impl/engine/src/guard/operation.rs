//! Describing an operation step by step.

use serde::Serialize;
use settled_protocol::{Key, Policy, ToolKind, fingerprint};

use super::GuardError;
use crate::ledger::Resource;
use crate::operation::{Limits, Operation};

/// An operation's scope and tool; give it a [`key`](OperationBuilder::key).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationBuilder {
    scope: String,
    tool: String,
}

/// An operation with a key. Without further words it has no arguments, an opaque tool, no resource, the default limits,
/// and is replayed for ever.
#[derive(Clone, Debug)]
pub struct Keyed {
    operation: Operation,
}

impl OperationBuilder {
    pub(super) fn new(scope: String, tool: String) -> OperationBuilder {
        OperationBuilder { scope, tool }
    }

    /// Names the operation within its scope and tool: what is called again with the same id is the same wish.
    ///
    /// # Errors
    /// [`GuardError::Key`].
    pub fn key(self, id: impl Into<String>) -> Result<Keyed, GuardError> {
        let key = Key::new(self.scope, self.tool, id)?;
        Ok(Keyed { operation: Operation::new(key, "null", Policy::new(ToolKind::Opaque)) })
    }
}

impl Keyed {
    /// Its arguments. They are stored as JSON; the same key with others is a conflict. The order of members and the
    /// spelling of numbers do not matter.
    ///
    /// # Errors
    /// [`GuardError::Arguments`] or [`GuardError::Fingerprint`].
    pub fn arguments<A: Serialize + ?Sized>(mut self, arguments: &A) -> Result<Keyed, GuardError> {
        let asked = serde_json::to_vec(arguments).map_err(GuardError::Arguments)?;
        self.operation.fingerprint = fingerprint(&asked)?;
        self.operation.asked = asked.into();
        Ok(self)
    }

    /// What its tool can do, and what a repeated call means.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Keyed {
        self.operation.policy = policy;
        self
    }

    /// How long things may take.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Keyed {
        self.operation.limits = limits;
        self
    }

    /// What it must have to itself while it is under way, named within its scope.
    #[must_use]
    pub fn resource(mut self, name: impl Into<String>) -> Keyed {
        let scope = self.operation.key.scope().to_owned();
        self.operation.resource = Some(Resource { scope, name: name.into() });
        self
    }

    /// The operation.
    pub fn build(self) -> Operation {
        self.operation
    }
}

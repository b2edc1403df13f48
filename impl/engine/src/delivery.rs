//! Knowing that an answer has reached its caller.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use settled_protocol::{Digest, Key, Policy, What};

use crate::drive::{Drive, Subject, millis};
use crate::engine::{Engine, Waiter};
use crate::error::EngineError;
use crate::history::Happened;
use crate::inflight::Hold;
use crate::ledger::LedgerError;
use crate::operation::Answered;
use crate::operation::Limits;
use crate::recover::NoTool;
use crate::task;

/// An answer that is just being written to a caller. Until it is confirmed or dropped, other calls of the key wait: whether
/// they are repeats of this one, or new wishes, depends on whether the answer arrives.
#[must_use = "an answer counts as delivered only when this is confirmed"]
pub struct Delivery {
    engine: Engine,
    key: Key,
    generation: u32,
    policy: Policy,
    hold: Hold<Key, Digest, Waiter>,
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("key", &self.key).field("generation", &self.generation).finish_non_exhaustive()
    }
}

impl Engine {
    /// To be taken before an answer is written to its caller, where the policy's repeats end on delivery. Never waits.
    pub async fn delivering(&self, answered: &Answered, policy: Policy) -> Delivery {
        Delivery {
            engine: self.clone(),
            key: answered.key.clone(),
            generation: answered.generation,
            policy,
            hold: self.inner.in_flight.hold(&answered.key),
        }
    }
}

impl Delivery {
    /// The answer has reached its caller; or perhaps not, if it took so long that the caller may have given up without
    /// saying so. Then it counts only after `doubt`: repeats until then are taken for retries, and replayed. Records that,
    /// also if the returned future is dropped, and then lets other calls of the key go on. A no-op if a later operation has
    /// begun under the key since.
    ///
    /// # Errors
    /// If it could not be recorded: a later call may then be answered once more with the same answer.
    pub async fn confirm(self, doubt: Duration) -> Result<(), EngineError> {
        if self.generation == 0 {
            return Ok(());
        }
        let confirming = task::spawn(self.record(doubt));
        match confirming.await {
            Ok(recorded) => Ok(recorded?),
            Err(ended) => Err(LedgerError::Unavailable(format!("the recording task ended: {ended}")).into()),
        }
    }

    async fn record(self, doubt: Duration) -> Result<(), LedgerError> {
        let Delivery { engine, key, generation, policy, hold } = self;
        let inner = engine.inner;
        let subject = Subject {
            key: key.clone(),
            fingerprint: Digest::of(b""),
            policy,
            tool: Arc::new(NoTool),
            resource: None,
            limits: Limits::default(),
        };
        let mut drive = Drive::new(inner.clone(), Arc::new(subject), None);
        // By the clock by which the next call is dated.
        let from = inner.now().after(millis(doubt));
        drive.perform(What::Delivered { generation, from }).await?;
        inner.tell(&key, || Happened::Delivered { generation, from });
        drop(hold);
        Ok(())
    }
}

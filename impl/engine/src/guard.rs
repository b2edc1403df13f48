//! The guard as a library: a service wraps the function that does the work.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use settled_engine::{Engine, EngineOptions, Failure, Guard, Guarded, MemoryLedger};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Charge { customer: String, cents: u64 }
//!
//! #[derive(Serialize, Deserialize, Debug, PartialEq)]
//! struct Receipt { number: u64 }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::start(std::sync::Arc::new(MemoryLedger::new()), EngineOptions::default()).await?;
//! let guard = Guard::new(engine);
//! let order = Charge { customer: "alice".into(), cents: 4200 };
//! let operation = || Guard::operation("shop", "charge").key("order 7")?.arguments(&order).map(|o| o.build());
//!
//! for replayed in [false, true] {
//!     let told = guard.call(operation()?, || async { Ok::<_, Failure>(Receipt { number: 1 }) }).await?;
//!     assert_eq!(told, Guarded::Done { value: Receipt { number: 1 }, replayed });
//! }
//! # Ok(())
//! # }
//! ```

mod answer;
mod failure;
mod handler;
mod operation;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use settled_protocol::{CanonicalError, Key, KeyError, Policy};

pub use self::answer::{Guarded, NotDone};
pub use self::failure::{Failure, IntoFailure};
pub use self::handler::{Attempting, Handler, applied};
pub use self::operation::{Keyed, OperationBuilder};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::ledger::Entry;
use crate::operation::{Limits, Operation};
use crate::recover::Recoverable;
use crate::tool::Tool;

/// Calls functions at most once per key, and tells every caller of the key the same. Cheap to clone; clones share what is
/// registered.
#[derive(Clone)]
pub struct Guard {
    engine: Engine,
    registered: Arc<RwLock<HashMap<String, Recoverable>>>,
    callers_retry_for: Duration,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// Why a guarded call has no answer. Only [`Unreadable`](GuardError::Unreadable) stands for an operation that happened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// The parts do not make a key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The arguments can't be written as JSON.
    #[error("the arguments can't be written as JSON, so nothing was sent: {0}")]
    Arguments(#[source] serde_json::Error),
    /// The arguments have no canonical form.
    #[error("the arguments have no fingerprint, so nothing was sent: {0}")]
    Fingerprint(#[from] CanonicalError),
    /// A repeated call could come when its record is no longer kept, and would take effect again.
    #[error(
        "results are kept for {} ms, but a call can still be repeated {} ms after it: keep them longer \
         (`policy.repeat.window`), or retry for a shorter time (`policy.retry.total`, `limits.attempt`, \
         `limits.transit`, `Guard::callers_retry_for`)", kept.as_millis(), horizon.as_millis()
    )]
    RetentionTooShort {
        /// How long the policy keeps a settled operation.
        kept: Duration,
        /// How long a call with its key can still come.
        horizon: Duration,
    },
    /// The operation happened, but its result is not what this caller expects.
    #[error("{key} happened, but its result can't be read: {source}; do not repeat it under another key")]
    Unreadable {
        /// The operation's key.
        key: Key,
        /// What is wrong with the result.
        source: serde_json::Error,
    },
    /// The engine could not do its part; nothing was sent for this call.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Guard {
    /// A guard on this engine. Spawn [`maintain`](Guard::maintain) as well, so that what earlier processes left is taken
    /// further.
    pub fn new(engine: Engine) -> Guard {
        Guard { engine, registered: Arc::default(), callers_retry_for: Duration::ZERO }
    }

    /// Declares how long callers may repeat a call with the same key after they were answered. Policies that keep results
    /// for a shorter time are refused.
    pub fn callers_retry_for(self, time: Duration) -> Guard {
        Guard { callers_retry_for: time, ..self }
    }

    /// The engine that it works on.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Begins to describe an operation. The scope separates tenants, sessions and workflows.
    pub fn operation(scope: impl Into<String>, tool: impl Into<String>) -> OperationBuilder {
        OperationBuilder::new(scope.into(), tool.into())
    }

    /// Calls a function for this operation, or replays what an earlier call with its key came to. The function may be called
    /// again only where the operation's policy allows to send it again. An error that it returns may have come after an
    /// effect unless it is a [`Failure`] that says otherwise.
    ///
    /// Dropping the returned future cancels nothing that was begun: the work runs on, and a later call is told.
    ///
    /// # Errors
    /// See [`GuardError`].
    pub async fn call<T, E, F, Fut>(&self, operation: Operation, function: F) -> Result<Guarded<T>, GuardError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: IntoFailure,
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.call_handler(operation, &Handler::new(move |_| function())).await
    }

    /// As [`call`](Guard::call); the function is told which attempt it is, and under which key, to pass them on.
    ///
    /// # Errors
    /// See [`GuardError`].
    pub async fn call_with<T, E, F, Fut>(&self, operation: Operation, function: F) -> Result<Guarded<T>, GuardError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: IntoFailure,
        F: Fn(Attempting) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.call_handler(operation, &Handler::new(function)).await
    }

    /// As [`call`](Guard::call), with a handler that can also find out whether an operation was applied.
    ///
    /// # Errors
    /// See [`GuardError`].
    pub async fn call_handler<T>(&self, operation: Operation, handler: &Handler<T>) -> Result<Guarded<T>, GuardError>
    where
        T: DeserializeOwned + Send + 'static,
    {
        self.call_tool(operation, handler.tool()).await
    }

    /// As [`call`](Guard::call), with a tool of another kind whose results are JSON.
    ///
    /// # Errors
    /// See [`GuardError`].
    pub async fn call_tool<T: DeserializeOwned>(
        &self,
        operation: Operation,
        tool: Arc<dyn Tool>,
    ) -> Result<Guarded<T>, GuardError> {
        self.check_retention(&operation.policy, &operation.limits)?;
        answer::read(self.engine.call(operation, tool).await?)
    }

    /// Declares how the operations of a tool that an earlier process left are taken further by
    /// [`maintain`](Guard::maintain). Replaces what was registered for the tool before. The handler reads what to do from
    /// [`Attempting::arguments`]: nothing else is left after a crash.
    ///
    /// # Errors
    /// [`GuardError::RetentionTooShort`].
    pub fn register<T: Send + 'static>(
        &self,
        tool: impl Into<String>,
        policy: Policy,
        limits: Limits,
        handler: &Handler<T>,
    ) -> Result<(), GuardError> {
        self.register_tool(tool, Recoverable { policy, limits, tool: Some(handler.tool()) })
    }

    /// As [`register`](Guard::register), for a tool of another kind.
    ///
    /// # Errors
    /// [`GuardError::RetentionTooShort`].
    pub fn register_tool(&self, tool: impl Into<String>, recoverable: Recoverable) -> Result<(), GuardError> {
        self.check_retention(&recoverable.policy, &recoverable.limits)?;
        self.registered.write().unwrap_or_else(PoisonError::into_inner).insert(tool.into(), recoverable);
        Ok(())
    }

    /// How to take an operation further whose tool is registered.
    pub fn recoverable(&self, entry: &Entry) -> Option<Recoverable> {
        self.registered.read().unwrap_or_else(PoisonError::into_inner).get(entry.key.tool()).cloned()
    }

    /// Takes further what earlier processes left of the registered tools, asks about unknown outcomes, and forgets what has
    /// been kept for long enough; again and again, this long apart. Never returns: spawn it.
    pub async fn maintain(&self, every: Duration) {
        let guard = self.clone();
        self.engine.maintain(Arc::new(move |entry: &Entry| guard.recoverable(entry)), every).await;
    }

    /// A result must outlive every call that could repeat it (rule 12): those of patient callers, and the copies of its
    /// attempts that the engine itself may have sent.
    fn check_retention(&self, policy: &Policy, limits: &Limits) -> Result<(), GuardError> {
        let Some(window) = policy.repeat.window else {
            return Ok(());
        };
        let kept = Duration::from_millis(window);
        let own =
            Duration::from_millis(policy.retry.total).saturating_add(limits.attempt).saturating_add(limits.transit);
        let horizon = own.max(self.callers_retry_for);
        if kept < horizon {
            return Err(GuardError::RetentionTooShort { kept, horizon });
        }
        Ok(())
    }
}

//! A function, and perhaps an observer and a seal, as the engine's tool.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use settled_protocol::{AttemptId, Epoch, Key, SealScope};

use super::IntoFailure;
use crate::tool::{Outgoing, Question, Seen, Tool, ToolReply};

type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Run = dyn Fn(Attempting) -> Pending<ToolReply> + Send + Sync;
type Observe = dyn Fn(Question) -> Pending<Seen> + Send + Sync;
type Seal = dyn Fn(Question, SealScope) -> Pending<Seen> + Send + Sync;

/// The attempt that a guarded function is called for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempting {
    /// The operation's key: for a service that deduplicates, this is what to send along.
    pub key: Key,
    /// The attempt.
    pub attempt: AttemptId,
    /// The ownership under which it is made.
    pub epoch: Epoch,
    arguments: Bytes,
}

impl Attempting {
    /// The operation's arguments.
    ///
    /// # Errors
    /// If they are not what the handler expects; returned as an error of the handler that is unproven, so make it a
    /// [`Failure::NotRun`](super::Failure::NotRun) where nothing has been done yet.
    pub fn arguments<A: DeserializeOwned>(&self) -> Result<A, serde_json::Error> {
        serde_json::from_slice(&self.arguments)
    }

    /// The operation's arguments, byte for byte.
    pub fn raw_arguments(&self) -> &Bytes {
        &self.arguments
    }
}

/// A function that carries operations out, and how to find out whether it did. Cheap to clone.
pub struct Handler<T> {
    functions: Functions,
    returns: PhantomData<fn() -> T>,
}

#[derive(Clone)]
struct Functions {
    run: Arc<Run>,
    observe: Option<Arc<Observe>>,
    seal: Option<Arc<Seal>>,
}

impl<T> Clone for Handler<T> {
    fn clone(&self) -> Self {
        Handler { functions: self.functions.clone(), returns: PhantomData }
    }
}

impl<T> fmt::Debug for Handler<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler")
            .field("observes", &self.functions.observe.is_some())
            .field("seals", &self.functions.seal.is_some())
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Handler<T> {
    /// Carries operations out by this function.
    pub fn new<E, F, Fut>(function: F) -> Handler<T>
    where
        T: Serialize,
        E: IntoFailure,
        F: Fn(Attempting) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        let run = move |attempting: Attempting| -> Pending<ToolReply> {
            let key = attempting.key.clone();
            let running = function(attempting);
            Box::pin(async move {
                match running.await {
                    Ok(value) => ToolReply::Result(written(&key, &value)),
                    Err(error) => error.into_failure().into_reply(),
                }
            })
        };
        Handler { functions: Functions { run: Arc::new(run), observe: None, seal: None }, returns: PhantomData }
    }

    /// Finds out whether an operation was applied, for observable tools. The function must change nothing; what it can't
    /// find out is [`Seen::Unclear`]. See [`applied`].
    pub fn observe<F, Fut>(mut self, function: F) -> Handler<T>
    where
        F: Fn(Question) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Seen> + Send + 'static,
    {
        self.functions.observe = Some(Arc::new(move |question| Box::pin(function(question))));
        self
    }

    /// Finds out whether an operation was applied, and if not, sees to it that what the scope says never will be, for
    /// sealable tools.
    pub fn seal<F, Fut>(mut self, function: F) -> Handler<T>
    where
        F: Fn(Question, SealScope) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Seen> + Send + 'static,
    {
        self.functions.seal = Some(Arc::new(move |question, scope| Box::pin(function(question, scope))));
        self
    }
}

impl<T> Handler<T> {
    pub(super) fn tool(&self) -> Arc<dyn Tool> {
        Arc::new(self.functions.clone())
    }
}

/// What an observer has seen: the operation was applied, with this result. Unclear if that can't be written as JSON.
pub fn applied<T: Serialize>(value: &T) -> Seen {
    serde_json::to_vec(value).map_or(Seen::Unclear, |result| Seen::Applied(result.into()))
}

/// The stored form of a result. It happened, also if it can't be written down: then its callers are told just that.
fn written<T: Serialize>(key: &Key, value: &T) -> Bytes {
    match serde_json::to_vec(value) {
        Ok(result) => result.into(),
        Err(error) => {
            tracing::error!(%key, %error, "an operation happened, but its result can't be written as JSON");
            Bytes::new()
        }
    }
}

#[async_trait]
impl Tool for Functions {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        let attempting = Attempting {
            key: outgoing.key.clone(),
            attempt: outgoing.attempt,
            epoch: outgoing.epoch,
            arguments: outgoing.arguments.clone(),
        };
        (self.run)(attempting).await
    }

    async fn observe(&self, question: &Question) -> Seen {
        match &self.observe {
            Some(observe) => observe(question.clone()).await,
            None => Seen::Unclear,
        }
    }

    async fn seal(&self, question: &Question, scope: SealScope) -> Seen {
        match &self.seal {
            Some(seal) => seal(question.clone(), scope).await,
            None => Seen::Unclear,
        }
    }
}

//! One guarded tool call, from its key to the delivery of its answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use settled::protocol::{Ends, Key, Policy, State, ToolKind};
use settled::{Answer, Answered, EngineError, Operation};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::answer::{Asker, INVALID_PARAMS, error_line};
use crate::config::ToolConfig;
use crate::frame::IdKey;
use crate::guard::Terms;
use crate::keys::{Origin, derive};
use crate::relay::Proxy;
use crate::server::TRANSPORT_ERROR;
use crate::splice;
use crate::tool::McpTool;

/// The first revision whose results say what they are.
const TYPED_RESULTS: &str = "2026-07-28";

/// A `tools/call` as it came.
pub(crate) struct Call {
    /// The request id's own text.
    pub(crate) id: String,
    pub(crate) tool: String,
    /// The parameters' text.
    pub(crate) params: String,
    pub(crate) came: Instant,
}

/// How often, and how far apart, a call that was cancelled while it was being recorded is looked for.
const CANCELS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(500)];

/// A call that the client waits for.
#[derive(Default)]
pub(crate) struct Opened {
    cancelled: watch::Sender<bool>,
    /// Once it is known.
    key: OnceLock<Key>,
}

impl Opened {
    fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Resolves when the client does not wait any more.
    async fn cancelled(&self) {
        // The sender lives as long as this does.
        let _ = self.cancelled.subscribe().wait_for(|cancelled| *cancelled).await;
    }
}

/// Calls that the server knows nothing of, by the client's request id.
#[derive(Default)]
pub(crate) struct Calls {
    by_id: Mutex<HashMap<IdKey, Arc<Opened>>>,
}

impl Calls {
    /// A call comes.
    pub(crate) fn open(&self, id: &str) -> Arc<Opened> {
        let opened = Arc::new(Opened::default());
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner).insert(IdKey::new(id), opened.clone());
        opened
    }

    fn close(&self, id: &str, opened: &Arc<Opened>) {
        let mut by_id = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        let id = IdKey::new(id);
        if by_id.get(&id).is_some_and(|own| Arc::ptr_eq(own, opened)) {
            by_id.remove(&id);
        }
    }

    /// Marks a call as cancelled; `false` if it is none of these.
    pub(crate) fn cancel(&self, id: &IdKey) -> bool {
        let by_id = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        by_id.get(id).map(|opened| opened.cancelled.send_replace(true)).is_some()
    }

    /// Whether somebody still waits for a call with this key.
    fn is_wanted(&self, key: &Key) -> bool {
        let by_id = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        by_id.values().any(|opened| opened.key.get() == Some(key) && !opened.is_cancelled())
    }
}

impl Proxy {
    /// A guarded call. The permit is held until it is answered.
    pub(crate) async fn call(
        self: Arc<Self>,
        call: Call,
        terms: Terms,
        opened: Arc<Opened>,
        _permit: OwnedSemaphorePermit,
    ) {
        self.guarded(&call, terms, &opened).await;
        self.calls.close(&call.id, &opened);
    }

    async fn guarded(&self, call: &Call, terms: Terms, opened: &Opened) {
        let found = match derive(&self.scope, &call.tool, &call.params, terms.fields()) {
            Ok(found) => found,
            Err(problem) => {
                let text = format!("nothing was sent: {problem}");
                return self.refuse(call, INVALID_PARAMS, &text, opened).await;
            }
        };
        let resource = match terms.resource(&self.scope, &call.params) {
            Ok(resource) => resource,
            Err(problem) => {
                let text = format!("nothing was sent: {problem}, which names the resource that the call needs");
                return self.refuse(call, INVALID_PARAMS, &text, opened).await;
            }
        };
        let _ = opened.key.set(found.key.clone());
        let policy = terms.policy(found.origin);
        let may_wait = resource.is_some();
        let operation = Operation {
            key: found.key.clone(),
            fingerprint: found.fingerprint,
            asked: Bytes::from(call.params.clone()),
            send_instead: None,
            policy,
            resource,
            limits: terms.limits(found.origin),
        };
        let told = tokio::select! {
            biased;
            told = self.answer(operation, &terms) => told,
            () = self.withdraw(&found.key, opened), if may_wait => return,
        };
        let answered = match told {
            Ok(answered) => answered,
            // Whenever something may have been sent, the engine answers "unknown" instead.
            Err(error) => {
                return self.refuse(call, TRANSPORT_ERROR, &error.to_string(), opened).await;
            }
        };
        let asker = Asker {
            id: call.id.clone(),
            tool: call.tool.clone(),
            by_parameter: found.origin == Origin::Parameter,
            typed_results: typed_results(&call.params),
            task: splice::get(&call.params, "task").is_some(),
            ledger: self.config.ledger.clone(),
            // Of an opaque tool nothing is being found out, also before a person has been asked.
            being_established: policy.tool != ToolKind::Opaque
                && matches!(answered.answer, Answer::Unknown { .. })
                && self.stands(&answered.key).await == Stands::Unknown,
        };
        self.tell(call, &asker, &answered, policy, opened).await;
    }

    /// The answer, or how things stand when the caller has waited for long enough.
    async fn answer(&self, operation: Operation, terms: &Terms) -> Result<Answered, EngineError> {
        let key = operation.key.clone();
        let tool = Arc::new(self.tool(&key, terms.declared.clone()));
        let calling = self.engine.call(operation, tool);
        let Some(patience) = terms.call_timeout() else {
            return calling.await;
        };
        match timeout(patience, calling).await {
            Ok(told) => told,
            Err(_) => {
                let answer = match self.stands(&key).await {
                    Stands::Unknown | Stands::WithAPerson => Answer::Unknown { error: None, replayed: false },
                    Stands::Otherwise => Answer::InProgress,
                };
                Ok(Answered { key, generation: 0, created: 0, answer })
            }
        }
    }

    /// How an operation stands, for the words about it.
    async fn stands(&self, key: &Key) -> Stands {
        match self.engine.ledger().get(key).await {
            Ok(Some(entry)) => match entry.record.state() {
                State::Unknown { .. } => Stands::Unknown,
                State::Escalated { .. } => Stands::WithAPerson,
                _ => Stands::Otherwise,
            },
            _ => Stands::Otherwise,
        }
    }

    /// Resolves when the call has been cancelled while it waited, and will never be sent.
    async fn withdraw(&self, key: &Key, opened: &Opened) {
        opened.cancelled().await;
        for pause in CANCELS {
            sleep(pause).await;
            if self.calls.is_wanted(key) {
                break;
            }
            match self.engine.cancel(key).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, %key, "a call that waits could not be cancelled"),
            }
        }
        // What was sent goes on to its outcome.
        std::future::pending().await
    }

    async fn refuse(&self, call: &Call, code: i64, text: &str, opened: &Opened) {
        if !opened.is_cancelled() {
            self.client.send(error_line(&call.id, code, text, None)).await;
        }
    }

    /// Gives the answer, and records that it arrived if that ends the operation.
    async fn tell(&self, call: &Call, asker: &Asker, answered: &Answered, policy: Policy, opened: &Opened) {
        let ends = policy.repeat.ends == Ends::OnDelivery
            && matches!(
                answered.answer,
                Answer::Done { .. } | Answer::Failed { .. } | Answer::Unknown { error: Some(_), .. }
            );
        if opened.is_cancelled() {
            return;
        }
        let line = asker.line(answered);
        if !ends {
            self.client.send(line).await;
            return;
        }
        let delivery = self.engine.delivering(answered, policy).await;
        if opened.is_cancelled() {
            return;
        }
        let arrived = self.client.deliver(line).await && !opened.is_cancelled();
        if !arrived {
            return;
        }
        // After a slow answer the client may have given up without saying so.
        let defaults = &self.config.defaults;
        let slow = call.came.elapsed() > defaults.slow_answer;
        let doubt = if slow { defaults.retry_doubt } else { Duration::ZERO };
        if let Err(error) = delivery.confirm(doubt).await {
            tracing::error!(
                %error, key = %answered.key, "the delivery of an answer could not be recorded: a repeat will be replayed"
            );
        }
    }

    /// The way to a tool.
    pub(crate) fn tool(&self, key: &Key, declared: Option<Arc<ToolConfig>>) -> McpTool {
        McpTool {
            server: self.server.clone(),
            tools: self.tools.clone(),
            ready: self.ready.clone(),
            closing: self.closing.clone(),
            declared,
            questions: self.questions.clone(),
            observer: self.observers.get(key.tool()).cloned(),
        }
    }
}

/// How an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// It is being found out whether it happened.
    Unknown,
    /// A person was asked whether it happened.
    WithAPerson,
    Otherwise,
}

fn typed_results(params: &str) -> bool {
    splice::get(params, "_meta")
        .and_then(|meta| splice::get_string(meta, "io.modelcontextprotocol/protocolVersion"))
        // Revisions are dates, so they compare as text.
        .is_some_and(|revision| revision.as_str() >= TYPED_RESULTS)
}

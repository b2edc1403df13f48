//! One guarded tool call, from its key to the delivery of its answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use settled::protocol::{Ends, Policy};
use settled::{Answer, Answered, Operation};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use crate::answer::{Asker, INVALID_PARAMS, error_line};
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

/// Calls that the server knows nothing of, by the client's request id, and whether each was cancelled.
#[derive(Default)]
pub(crate) struct Calls {
    by_id: Mutex<HashMap<IdKey, Arc<AtomicBool>>>,
}

impl Calls {
    /// A call comes; returns what turns true when it is cancelled.
    pub(crate) fn open(&self, id: &str) -> Arc<AtomicBool> {
        let cancelled = Arc::new(AtomicBool::new(false));
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner).insert(IdKey::new(id), cancelled.clone());
        cancelled
    }

    fn close(&self, id: &str, cancelled: &Arc<AtomicBool>) {
        let mut by_id = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        let id = IdKey::new(id);
        if by_id.get(&id).is_some_and(|own| Arc::ptr_eq(own, cancelled)) {
            by_id.remove(&id);
        }
    }

    /// Marks a call as cancelled; `false` if it is none of these.
    pub(crate) fn cancel(&self, id: &IdKey) -> bool {
        let by_id = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        by_id.get(id).map(|cancelled| cancelled.store(true, Ordering::Release)).is_some()
    }
}

impl Proxy {
    /// A guarded call. The permit is held until it is answered.
    pub(crate) async fn call(
        self: Arc<Self>,
        call: Call,
        terms: Terms,
        cancelled: Arc<AtomicBool>,
        _permit: OwnedSemaphorePermit,
    ) {
        self.guarded(&call, terms, &cancelled).await;
        self.calls.close(&call.id, &cancelled);
    }

    async fn guarded(&self, call: &Call, terms: Terms, cancelled: &Arc<AtomicBool>) {
        let found = match derive(&self.scope, &call.tool, &call.params, terms.fields.as_deref()) {
            Ok(found) => found,
            Err(problem) => {
                let text = format!("nothing was sent: {problem}");
                return self.refuse(call, INVALID_PARAMS, &text, cancelled).await;
            }
        };
        let policy = terms.policy(found.origin);
        let operation = Operation {
            key: found.key.clone(),
            fingerprint: found.fingerprint,
            asked: Bytes::from(call.params.clone()),
            send_instead: None,
            policy,
            timeout: terms.timeout,
        };
        let tool = Arc::new(self.tool(terms.pass_key_as));
        let answered = match self.engine.call(operation, tool).await {
            Ok(answered) => answered,
            // Whenever something may have been sent, the engine answers "unknown" instead.
            Err(error) => {
                return self.refuse(call, TRANSPORT_ERROR, &error.to_string(), cancelled).await;
            }
        };
        let asker = Asker {
            id: call.id.clone(),
            tool: call.tool.clone(),
            by_parameter: found.origin == Origin::Parameter,
            typed_results: typed_results(&call.params),
            task: splice::get(&call.params, "task").is_some(),
            ledger: self.config.ledger.clone(),
        };
        self.tell(call, &asker, &answered, policy, cancelled).await;
    }

    async fn refuse(&self, call: &Call, code: i64, text: &str, cancelled: &AtomicBool) {
        if !cancelled.load(Ordering::Acquire) {
            self.client.send(error_line(&call.id, code, text, None)).await;
        }
    }

    /// Gives the answer, and records that it arrived if that ends the operation.
    async fn tell(&self, call: &Call, asker: &Asker, answered: &Answered, policy: Policy, cancelled: &Arc<AtomicBool>) {
        let ends = policy.repeat.ends == Ends::OnDelivery
            && matches!(
                answered.answer,
                Answer::Done { .. } | Answer::Failed { .. } | Answer::Unknown { error: Some(_), .. }
            );
        if cancelled.load(Ordering::Acquire) {
            return;
        }
        let line = asker.line(answered);
        if !ends {
            self.client.send(line).await;
            return;
        }
        let delivery = self.engine.delivering(answered, policy).await;
        if cancelled.load(Ordering::Acquire) {
            return;
        }
        let arrived = self.client.deliver(line).await && !cancelled.load(Ordering::Acquire);
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
    pub(crate) fn tool(&self, pass_key_as: Option<String>) -> McpTool {
        let (ready, closing): (watch::Receiver<bool>, _) = (self.ready.subscribe(), self.closing.clone());
        McpTool { server: self.server.clone(), ready, closing, pass_key_as }
    }
}

fn typed_results(params: &str) -> bool {
    splice::get(params, "_meta")
        .and_then(|meta| splice::get_string(meta, "io.modelcontextprotocol/protocolVersion"))
        // Revisions are dates, so they compare as text.
        .is_some_and(|revision| revision.as_str() >= TYPED_RESULTS)
}

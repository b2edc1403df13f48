//! One guarded tool call, from its key to the delivery of its answer.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use settled::protocol::{Ends, Key, Policy, ToolKind};
use settled::{Answer, Answered, Operation};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::at_rest::{MEMBER, is_forged};
use crate::behind::server::TRANSPORT_ERROR;
use crate::config::ToolConfig;
use crate::guarded::admission::Place;
use crate::guarded::guard::Terms;
use crate::guarded::keys::{CallKey, NoKey, Origin, PARAMETER, Round, Rule, derive, round};
use crate::guarded::rounds::{self, Last};
use crate::guarded::tool::McpTool;
use crate::messages::context::Context;
use crate::messages::frame::IdKey;
use crate::messages::splice::{self, quoted};
use crate::relay::Proxy;
use crate::told::answer::{Asker, INVALID_PARAMS, error_line};
use crate::told::patience::Patience;
use crate::told::status::waits_for_input;
use crate::told::tasks::{declared, without_wish};

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
    /// What came with it.
    pub(crate) context: Arc<Context>,
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
    pub(crate) fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Resolves when the client does not wait any more.
    pub(crate) async fn cancelled(&self) {
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

    /// A call has been answered.
    pub(crate) fn close(&self, id: &str, opened: &Arc<Opened>) {
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
    pub(crate) fn is_wanted(&self, key: &Key) -> bool {
        let by_id = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        by_id.values().any(|opened| opened.key.get() == Some(key) && !opened.is_cancelled())
    }
}

impl Call {
    /// Whether whoever asks knows results that say what they are.
    pub(crate) fn typed_results(&self) -> bool {
        let named = splice::get(&self.params, "_meta")
            .and_then(|meta| splice::get_string(meta, "io.modelcontextprotocol/protocolVersion"));
        // Revisions are dates, so they compare as text.
        named.as_ref().or(self.context.revision.as_ref()).is_some_and(|revision| revision.as_str() >= TYPED_RESULTS)
    }

    /// The token under which the client wants to be told of progress, as its own text.
    pub(crate) fn progress_token(&self) -> Option<&str> {
        splice::get(&self.params, "_meta").and_then(|meta| splice::get(meta, "progressToken"))
    }
}

impl Proxy {
    /// A guarded call. Its place is held until it is answered.
    pub(crate) async fn call(self: Arc<Self>, call: Call, terms: Terms, opened: Arc<Opened>, _place: Place) {
        self.guarded(&call, terms, &opened).await;
        self.calls.close(&call.id, &opened);
    }

    /// Which operation a call is.
    fn found(&self, call: &Call, terms: &Terms) -> Result<CallKey, NoKey> {
        if is_forged(&call.params) {
            return Err(NoKey::Reserved(MEMBER));
        }
        let header = call.context.idempotency_key.as_deref();
        // Where the proxy offers tasks, they are another way to an answer, and the wish for one is no part of the call.
        let plain = if self.book.session_tasks() { without_wish(&call.params) } else { None };
        let params = plain.as_ref().unwrap_or(&call.params);
        let found = derive(&self.scope, &call.tool, params, header, terms.rule())?;
        Ok(self.secrets.renamed(found, terms.confidential())?)
    }

    /// The key of a call, if it has one.
    pub(crate) fn key_of(&self, call: &Call, terms: &Terms) -> Option<Key> {
        self.found(call, terms).ok().map(|found| found.key)
    }

    async fn guarded(&self, call: &Call, terms: Terms, opened: &Arc<Opened>) {
        let found = match self.found(call, &terms) {
            Ok(found) => found,
            Err(problem) => {
                let text = format!("nothing was sent: {problem}");
                let data = json!({ "type": problem.kind() });
                return self.refuse(call, INVALID_PARAMS, &text, Some(&data), opened).await;
            }
        };
        let resource = match terms.resource(&self.scope, &call.params) {
            Ok(resource) => resource,
            Err(problem) => {
                let text = format!("nothing was sent: {problem}, which names the resource that the call needs");
                return self.refuse(call, INVALID_PARAMS, &text, None, opened).await;
            }
        };
        let _ = opened.key.set(found.key.clone());
        let patience = Patience::of(&terms, &self.config.defaults, call);
        if let Err(problem) = self.admitted(&found.key, patience, call).await {
            let text = format!("nothing was sent: {problem}");
            let data = json!({ "type": problem.kind() });
            return self.refuse(call, TRANSPORT_ERROR, &text, Some(&data), opened).await;
        }
        let under_way = self.admission.enter(&found.key);
        let keep = |params: &str| self.secrets.keep(&found.key, params, terms.confidential());
        let changed = self.changed(call, &found);
        let (asked, send_instead) = match (keep(&call.params), changed.as_ref().map(|instead| keep(instead))) {
            (Ok(asked), None) => (asked, None),
            (Ok(asked), Some(Ok(instead))) => (asked, Some(instead)),
            (Err(problem), _) | (_, Some(Err(problem))) => {
                let text = format!("nothing was sent: {problem}");
                return self.refuse(call, TRANSPORT_ERROR, &text, None, opened).await;
            }
        };
        // Two equal rounds at once: the second is judged by what became of the first.
        let _turn = if found.round == Round::First { None } else { under_way.turn().await };
        let policy = self.policy(&found, &terms).await;
        let may_wait = resource.is_some();
        let operation = Operation {
            key: found.key.clone(),
            fingerprint: found.fingerprint,
            asked,
            send_instead,
            policy,
            resource,
            limits: terms.limits(found.origin),
        };
        let wants_task = self.wants_task(call, policy);
        let answer = self.answer(operation, &terms, patience, call, changed.as_ref().unwrap_or(&call.params));
        let mut answer = pin!(answer);
        let told = tokio::select! {
            biased;
            told = &mut answer => told,
            () = self.withdraw(&found.key, opened), if may_wait => return,
            line = self.task_begun(call, &found.key, found.fingerprint), if wants_task => {
                self.give(line, opened).await;
                // From now on the task is what can be cancelled. The call's place is kept as long as it is carried out.
                self.calls.close(&call.id, opened);
                let _ = answer.await;
                return;
            }
        };
        let answered = match told {
            Ok(answered) => self.secrets.readable(answered),
            // Whenever something may have been sent, the engine answers "unknown" instead.
            Err(error) => {
                return self.refuse(call, TRANSPORT_ERROR, &error.to_string(), None, opened).await;
            }
        };
        let asker = Asker {
            id: call.id.clone(),
            by_parameter: found.origin == Origin::Parameter,
            by_name: found.origin == Origin::Named,
            typed_results: call.typed_results(),
            task: splice::get(&call.params, "task").is_some() && !self.book.session_tasks(),
            has_output_schema: self.tools.has_output_schema(&call.tool),
            may_ask_status: self.may_ask_status(),
            messages: self.config.messages.clone(),
            ledger: self.config.ledger.clone(),
            // Of an opaque tool nothing is being found out, also before a person has been asked.
            being_established: policy.tool != ToolKind::Opaque
                && matches!(answered.answer, Answer::Unknown { .. })
                && self.is_unknown(&answered.key).await,
        };
        if answered.answer == Answer::Conflict && found.origin == Origin::Named {
            self.note_merged(call, &found.key, terms.rule()).await;
        }
        if wants_task
            && answered.generation > 0
            && let Some(line) = self.task_answered(call, &answered, found.fingerprint).await
        {
            return self.give(line, opened).await;
        }
        if self.config.tasks
            && terms.policy(found.origin).repeat.ends != Ends::OnDelivery
            && declared(&call.params)
            && answered.generation > 0
            && let Some(status) = asker.open(&answered)
            && let Some(line) = self.task_line(&call.id, &answered.key, &status).await
        {
            return self.give(line, opened).await;
        }
        self.tell(call, &asker, &answered, terms.policy(found.origin), opened).await;
    }

    /// The policy of a call. A later round, after the tool has asked for input, goes on with the operation: it is sent although
    /// the round before it is over, unless that was the last, or is this very one.
    async fn policy(&self, found: &CallKey, terms: &Terms) -> Policy {
        let policy = terms.policy(found.origin);
        if found.round == Round::First {
            return policy;
        }
        let Ok(Some(entry)) = self.engine.ledger().get(&found.key).await else { return policy };
        let entry = self.secrets.readable_entry(entry);
        let last = Last {
            fingerprint: entry.record.fingerprint(),
            round: str::from_utf8(&entry.asked).ok().and_then(|asked| round(asked).ok()),
            waits_for_input: waits_for_input(&entry),
        };
        rounds::policy(policy, found, Some(&last))
    }

    /// The parameters as the server gets them, if not as they came: with the caller's own key as SEP-3182 has it, where the
    /// server takes it and it came in another way, and without the wish for a task, where the proxy makes it.
    fn changed(&self, call: &Call, found: &CallKey) -> Option<String> {
        let plain = if self.book.session_tasks() { without_wish(&call.params) } else { None };
        let own = found.own.as_ref().filter(|_| found.origin != Origin::Parameter && self.book.takes_keys());
        match own {
            Some(own) => splice::set(plain.as_ref().unwrap_or(&call.params), PARAMETER, &quoted(own)),
            None => plain,
        }
    }

    /// Whether a call is to be answered with a task of the proxy's own as soon as it is recorded (revision 2025-11-25).
    fn wants_task(&self, call: &Call, policy: Policy) -> bool {
        self.book.session_tasks()
            && policy.repeat.ends != Ends::OnDelivery
            && splice::get(&call.params, "task").is_some()
    }

    /// Gives an answer that nothing depends on.
    async fn give(&self, line: String, opened: &Opened) {
        if !opened.is_cancelled() {
            self.client.send(line).await;
        }
    }

    async fn note_merged(&self, call: &Call, key: &Key, rule: Rule<'_>) {
        let entry = self.engine.ledger().get(key).await.ok().flatten().map(|entry| self.secrets.readable_entry(entry));
        let earlier = entry.as_ref().and_then(|entry| str::from_utf8(&entry.asked).ok());
        self.merged.note(&call.tool, earlier, &call.params, rule.ephemeral);
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

    async fn refuse(&self, call: &Call, code: i64, text: &str, data: Option<&Value>, opened: &Opened) {
        self.give(error_line(&call.id, code, text, data), opened).await;
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
    pub(crate) fn tool(&self, key: &Key, declared: Option<Arc<ToolConfig>>, context: Arc<Context>) -> McpTool {
        McpTool {
            messages: self.config.messages.clone(),
            secrets: self.secrets.clone(),
            clear: None,
            context,
            attempts: self.attempts.clone(),
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

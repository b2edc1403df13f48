//! Tasks of the proxy's own (the tasks extension of revision 2026-07-28): a client that can deal with tasks gets one for a call
//! that is unknown or takes long, and asks for it until there is an outcome.
//!
//! A task is an operation of the ledger under another name: it was durable before it is announced, and outlives this process.
//! A call that is a new wish once its answer has arrived gets none: only an answer to the call itself can be known to arrive.

use std::time::Duration;

use serde_json::{Value, json};
use settled::Entry;
use settled::protocol::{Key, State};

use crate::answer::{INVALID_PARAMS, STATUS, asks_for_input, error_line, result_line, time};
use crate::config::Text;
use crate::relay::Proxy;
use crate::server::TRANSPORT_ERROR;
use crate::splice;
use crate::status::Stands;

/// The extension's name.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How the ids of such tasks begin.
const PREFIX: &str = "settled-task:";

/// JSON-RPC's error of revision 2026-07-28 for a client that lacks a capability.
const MISSING_CAPABILITY: i64 = -32021;

/// How often a client is to ask while a call is being carried out.
const SOON: Duration = Duration::from_secs(2);

/// How often, if something has to be found out.
const LATER: Duration = Duration::from_secs(15);

/// A request about a task of the proxy's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskRequest {
    Get,
    /// Both are acknowledged and change nothing: what was sent goes on to its outcome.
    UpdateOrCancel,
}

impl TaskRequest {
    /// The request, if these are a method and parameters of one about such a task.
    pub(crate) fn of(method: &str, params: Option<&str>) -> Option<TaskRequest> {
        let request = match method {
            "tasks/get" => TaskRequest::Get,
            "tasks/update" | "tasks/cancel" => TaskRequest::UpdateOrCancel,
            _ => return None,
        };
        splice::get_string(params?, "taskId").filter(|id| id.starts_with(PREFIX)).map(|_| request)
    }
}

/// Whether a request comes from a client that can deal with tasks.
pub(crate) fn declared(params: &str) -> bool {
    let capabilities = splice::get(params, "_meta")
        .and_then(|meta| splice::get(meta, "io.modelcontextprotocol/clientCapabilities"))
        .and_then(|capabilities| splice::get(capabilities, "extensions"));
    capabilities.and_then(|extensions| splice::get(extensions, EXTENSION)).is_some_and(|value| value != "null")
}

/// The id of an operation's task. The scope is not part of it: it is always the asker's own.
fn task_id(entry: &Entry) -> String {
    let address = entry.key.to_string();
    let rest = address.split_once('/').map_or("", |(_, rest)| rest);
    format!("{PREFIX}{}:{rest}", entry.record.generation())
}

/// The operation of a task, in this scope: its key and its generation.
fn operation(id: &str, scope: &str) -> Option<(Key, u32)> {
    let (generation, rest) = id.strip_prefix(PREFIX)?.split_once(':')?;
    let key: Key = format!("x/{rest}").parse().ok()?;
    Some((Key::new(scope, key.tool(), key.id()).ok()?, generation.parse().ok()?))
}

impl Proxy {
    /// The line that creates a task, in place of an answer that says nothing definite yet. `None`: the operation is not in the
    /// ledger, or has an outcome by now.
    pub(crate) async fn task_line(&self, id: &str, key: &Key, status: &Value) -> Option<String> {
        let entry = self.secrets.readable_entry(self.engine.ledger().get(key).await.ok()??);
        let stands = self.stands_for(&entry);
        if !matches!(stands, Stands::InProgress | Stands::Unknown | Stands::WithAPerson) {
            return None;
        }
        let mut task = self.task(&entry, "working");
        task["resultType"] = "task".into();
        task["_meta"] = json!({ STATUS: status });
        Some(result_line(id, &task.to_string()))
    }

    /// The answer to a request about such a task.
    pub(crate) async fn answer_task(&self, id: &str, request: TaskRequest, params: &str) {
        let line = self.answer_line(id, request, params).await;
        self.client.send(line).await;
    }

    async fn answer_line(&self, id: &str, request: TaskRequest, params: &str) -> String {
        if !declared(params) {
            let needed = json!({ "requiredCapabilities": { "extensions": { EXTENSION: {} } } });
            return error_line(id, MISSING_CAPABILITY, "Missing required client capability", Some(&needed));
        }
        let task = splice::get_string(params, "taskId").unwrap_or_default();
        let not_found = || error_line(id, INVALID_PARAMS, "there is no such task, or it is no longer kept", None);
        let Some((key, generation)) = operation(&task, &self.scope) else { return not_found() };
        let entry = match self.engine.ledger().get(&key).await {
            Ok(Some(entry)) if entry.record.generation() == generation && !entry.tombstone => {
                self.secrets.readable_entry(entry)
            }
            Ok(_) => return not_found(),
            Err(error) => return error_line(id, TRANSPORT_ERROR, &error.to_string(), None),
        };
        match request {
            TaskRequest::Get => result_line(id, &self.detailed(&entry)),
            TaskRequest::UpdateOrCancel => result_line(id, r#"{"resultType":"complete"}"#),
        }
    }

    /// A task as it stands, with its outcome if there is one.
    fn detailed(&self, entry: &Entry) -> String {
        let stands = self.stands_for(entry);
        let body = entry.outcome.as_ref().map(|body| String::from_utf8_lossy(body)).unwrap_or_default();
        let result = splice::get(&body, "result").filter(|result| !asks_for_input(result));
        let (status, member, value) = match (stands, result, splice::get(&body, "error")) {
            (Stands::InProgress | Stands::Unknown | Stands::WithAPerson, ..) => ("working", None, None),
            (Stands::Done | Stands::Failed, Some(result), _) => ("completed", Some("result"), Some(result.to_owned())),
            (Stands::Done | Stands::Failed, None, Some(error)) => ("failed", Some("error"), Some(error.to_owned())),
            _ => ("completed", Some("result"), Some(self.in_words(entry, stands, body.trim()))),
        };
        let mut task = self.task(entry, status);
        task["resultType"] = "complete".into();
        let task = task.to_string();
        match (member, value) {
            (Some(member), Some(value)) => splice::set(&task, member, &value).unwrap_or(task),
            _ => task,
        }
    }

    /// A result for an operation without an answer of the tool.
    fn in_words(&self, entry: &Entry, stands: Stands, by_hand: &str) -> String {
        let words = match stands {
            Stands::Done => self.text(Text::Happened, &entry.key),
            stands => self.text(stands.text(), &entry.key),
        };
        let has_body = !by_hand.is_empty() && matches!(stands, Stands::Done | Stands::Failed);
        let text = if has_body { by_hand } else { &words };
        let is_error = stands != Stands::Done || self.tools.has_output_schema(entry.key.tool());
        let status = json!({ "status": stands.word(), "key": entry.key.to_string(), "replayed": true });
        json!({
            "resultType": "complete",
            "content": [{ "type": "text", "text": text }],
            "isError": is_error,
            "_meta": { STATUS: status },
        })
        .to_string()
    }

    fn task(&self, entry: &Entry, status: &str) -> Value {
        let stands = self.stands_for(entry);
        let every = if stands == Stands::InProgress { SOON } else { LATER };
        let created = time(entry.record.created().0);
        json!({
            "taskId": task_id(entry),
            "status": status,
            "statusMessage": self.text(stands.text(), &entry.key),
            "createdAt": created,
            "lastUpdatedAt": last_change(entry).and_then(time).or(created),
            // How long it is kept after it has ended says the configuration; until then, for ever.
            "ttlMs": null,
            "pollIntervalMs": u64::try_from(every.as_millis()).unwrap_or_default(),
        })
    }
}

/// When the operation changed last, as far as the record tells.
fn last_change(entry: &Entry) -> Option<u64> {
    match entry.record.state() {
        State::Settled { at, .. } => Some(at.0),
        _ => entry.record.sent().map(|sent| sent.at().0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splice::quoted;

    #[test]
    fn ids_lead_back_to_their_operation_and_only_in_their_scope() {
        let id = format!("{PREFIX}3:charge/key:a%2Fb");
        let (key, generation) = operation(&id, "shop").unwrap();
        assert_eq!((key.to_string().as_str(), generation), ("shop/charge/key:a%2Fb", 3));
        assert_eq!(operation(&id, "other").unwrap().0.scope(), "other");
        for wrong in ["", "settled-task:", "settled-task:3", "settled-task:x:a/b", "settled-task:3:a/b/c", "3:a/b"] {
            assert_eq!(operation(wrong, "shop"), None, "{wrong}");
        }
    }

    #[test]
    fn whose_requests_are_taken() {
        let of = |method, id| TaskRequest::of(method, Some(&format!(r#"{{"taskId":{}}}"#, quoted(id))));
        assert_eq!(of("tasks/get", "settled-task:1:a/b"), Some(TaskRequest::Get));
        assert_eq!(of("tasks/cancel", "settled-task:1:a/b"), Some(TaskRequest::UpdateOrCancel));
        assert_eq!(of("tasks/get", "786512e2"), None);
        assert_eq!(of("tasks/list", "settled-task:1:a/b"), None);
        assert_eq!(TaskRequest::of("tasks/get", None), None);
    }

    #[test]
    fn who_can_deal_with_tasks() {
        let of = |extensions: &str| {
            declared(&format!(
                r#"{{"_meta":{{"io.modelcontextprotocol/clientCapabilities":{{"extensions":{extensions}}}}}}}"#
            ))
        };
        assert!(of(r#"{"io.modelcontextprotocol/tasks":{}}"#));
        assert!(!of("{}") && !declared("{}"));
    }
}

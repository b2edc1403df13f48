//! Tasks of the proxy's own: a client that can deal with tasks gets one for a call that is unknown or takes long, and asks for it
//! until there is an outcome. `extension` has them as revision 2026-07-28 does, `utility` as revision 2025-11-25.
//!
//! A task is an operation of the ledger under another name: it was durable before it is announced, and outlives this process.
//! A call that is a new wish once its answer has arrived gets none: only an answer to the call itself can be known to arrive.

mod extension;
mod utility;

use std::time::Duration;

use serde_json::{Value, json};
use settled::Entry;
use settled::protocol::{Key, State};
use tokio::time::Instant;

use crate::behind::server::TRANSPORT_ERROR;
use crate::config::Text;
use crate::guarded::call::Opened;
use crate::messages::splice;
use crate::relay::Proxy;
use crate::told::answer::{INVALID_PARAMS, STATUS, asks_for_input, error_line, time};
use crate::told::status::Stands;

pub(crate) use extension::{EXTENSION, declared};
pub(crate) use utility::{CAPABILITY, are_offered, supported, without_wish};

/// How the ids of such tasks begin.
const PREFIX: &str = "settled-task:";

/// How often a client is to ask while a call is being carried out.
const SOON: Duration = Duration::from_secs(2);

/// How often, if something has to be found out.
const LATER: Duration = Duration::from_secs(15);

/// A request about tasks of the proxy's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskRequest {
    /// The request id's own text.
    pub(crate) id: String,
    pub(crate) method: TaskMethod,
    /// The parameters' text.
    pub(crate) params: String,
    pub(crate) came: Instant,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskMethod {
    /// How it stands.
    Get,
    /// Its result, once there is one (revision 2025-11-25).
    Result,
    /// All tasks (revision 2025-11-25).
    List,
    /// An answer to what the task asks (revision 2026-07-28): none of these asks anything.
    Update,
    Cancel,
}

impl TaskMethod {
    /// What is asked, if these are a method and parameters of a request about such a task. `session`: the client has opened
    /// a session in which the proxy offers tasks, so there are no others.
    pub(crate) fn of(method: &str, params: Option<&str>, session: bool) -> Option<TaskMethod> {
        let asked = match method {
            "tasks/get" => TaskMethod::Get,
            "tasks/result" => TaskMethod::Result,
            "tasks/list" if session => return Some(TaskMethod::List),
            "tasks/update" => TaskMethod::Update,
            "tasks/cancel" => TaskMethod::Cancel,
            _ => return None,
        };
        splice::get_string(params?, "taskId").filter(|id| id.starts_with(PREFIX)).map(|_| asked)
    }
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

/// What there is to say of a task that has ended.
enum Said {
    /// The tool's own result.
    Result(String),
    /// The tool's own error.
    Error(String),
    /// Nothing of the tool's.
    Words(Value),
}

impl Proxy {
    /// The operation that a request is about, if it names one: who waits for that needs no place of its own.
    pub(crate) fn operation_of(&self, request: &TaskRequest) -> Option<Key> {
        let id = splice::get_string(&request.params, "taskId")?;
        operation(&id, &self.scope).map(|(key, _)| key)
    }

    /// Answers a request about such tasks.
    pub(crate) async fn answer_task(&self, request: &TaskRequest, opened: &Opened) {
        let line = if declared(&request.params) || !self.book.session_tasks() {
            self.extension_line(request).await
        } else {
            self.utility_line(request, opened).await
        };
        if !opened.is_cancelled() {
            self.client.send(line).await;
        }
    }

    /// The operation of the task that a request names, as it stands; or the line that says why not.
    async fn of_task(&self, request: &TaskRequest) -> Result<Entry, String> {
        let task = splice::get_string(&request.params, "taskId").unwrap_or_default();
        let not_found =
            || error_line(&request.id, INVALID_PARAMS, "there is no such task, or it is no longer kept", None);
        let (key, generation) = operation(&task, &self.scope).ok_or_else(not_found)?;
        match self.engine.ledger().get(&key).await {
            Ok(Some(entry)) if entry.record.generation() == generation && !entry.tombstone => {
                Ok(self.secrets.readable_entry(entry))
            }
            Ok(_) => Err(not_found()),
            Err(error) => Err(error_line(&request.id, TRANSPORT_ERROR, &error.to_string(), None)),
        }
    }

    /// What there is to say of an operation; `None`: nothing definite yet.
    fn said(&self, entry: &Entry) -> Option<Said> {
        let stands = self.stands_for(entry);
        let body = entry.outcome.as_ref().map(|body| String::from_utf8_lossy(body)).unwrap_or_default();
        let result = splice::get(&body, "result").filter(|result| !asks_for_input(result));
        match (stands, result, splice::get(&body, "error")) {
            (Stands::InProgress | Stands::Unknown | Stands::WithAPerson, ..) => None,
            (Stands::Done | Stands::Failed, Some(result), _) => Some(Said::Result(result.to_owned())),
            (Stands::Done | Stands::Failed, None, Some(error)) => Some(Said::Error(error.to_owned())),
            _ => Some(Said::Words(self.in_words(entry, stands, body.trim()))),
        }
    }

    /// A result for an operation without an answer of the tool.
    fn in_words(&self, entry: &Entry, stands: Stands, by_hand: &str) -> Value {
        let words = match stands {
            Stands::Done => self.text(Text::Happened, &entry.key),
            stands => self.text(stands.text(), &entry.key),
        };
        let has_body = !by_hand.is_empty() && matches!(stands, Stands::Done | Stands::Failed);
        let text = if has_body { by_hand } else { &words };
        let is_error = stands != Stands::Done || self.tools.has_output_schema(entry.key.tool());
        json!({
            "content": [{ "type": "text", "text": text }],
            "isError": is_error,
            "_meta": { STATUS: mark(entry, stands) },
        })
    }

    /// What both revisions say of a task.
    fn task(&self, entry: &Entry, status: &str) -> Value {
        let created = time(entry.record.created().0);
        json!({
            "taskId": task_id(entry),
            "status": status,
            "statusMessage": self.text(self.stands_for(entry).text(), &entry.key),
            "createdAt": created,
            "lastUpdatedAt": last_change(entry).and_then(time).or(created),
        })
    }

    /// How often a client is to ask, in milliseconds.
    fn ask_every(&self, entry: &Entry) -> u64 {
        let every = if self.stands_for(entry) == Stands::InProgress { SOON } else { LATER };
        u64::try_from(every.as_millis()).unwrap_or_default()
    }
}

/// The mark of what is told of an operation by its task.
fn mark(entry: &Entry, stands: Stands) -> Value {
    json!({ "status": stands.word(), "key": entry.key.to_string(), "replayed": true })
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
    use crate::messages::splice::quoted;

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
        let of = |method, id| TaskMethod::of(method, Some(&format!(r#"{{"taskId":{}}}"#, quoted(id))), false);
        assert_eq!(of("tasks/get", "settled-task:1:a/b"), Some(TaskMethod::Get));
        assert_eq!(of("tasks/cancel", "settled-task:1:a/b"), Some(TaskMethod::Cancel));
        assert_eq!(of("tasks/get", "786512e2"), None);
        assert_eq!(of("tasks/list", "settled-task:1:a/b"), None, "the server's own, if it has any");
        assert_eq!(TaskMethod::of("tasks/get", None, true), None);
        assert_eq!(TaskMethod::of("tasks/list", None, true), Some(TaskMethod::List));
    }
}

//! Tasks as the extension of revision 2026-07-28 has them: a call's answer may be a task, and `tasks/get` has the result in it.

use serde_json::{Value, json};
use settled::Entry;
use settled::protocol::Key;

use super::{Said, TaskMethod, TaskRequest};
use crate::messages::splice;
use crate::relay::Proxy;
use crate::told::answer::{STATUS, error_line, result_line};

/// The extension's name.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// JSON-RPC's error of revision 2026-07-28 for a client that lacks a capability.
const MISSING_CAPABILITY: i64 = -32021;

/// Whether a request comes from a client that can deal with tasks.
pub(crate) fn declared(params: &str) -> bool {
    let capabilities = splice::get(params, "_meta")
        .and_then(|meta| splice::get(meta, "io.modelcontextprotocol/clientCapabilities"))
        .and_then(|capabilities| splice::get(capabilities, "extensions"));
    capabilities.and_then(|extensions| splice::get(extensions, EXTENSION)).is_some_and(|value| value != "null")
}

impl Proxy {
    /// The line that creates a task, in place of an answer that says nothing definite yet. `None`: the operation is not in the
    /// ledger, or has an outcome by now.
    pub(crate) async fn task_line(&self, id: &str, key: &Key, status: &Value) -> Option<String> {
        let entry = self.secrets.readable_entry(self.engine.ledger().get(key).await.ok()??);
        if self.said(&entry).is_some() {
            return None;
        }
        let mut task = self.extension_task(&entry, "working");
        task["resultType"] = "task".into();
        task["_meta"] = json!({ STATUS: status });
        Some(result_line(id, &task.to_string()))
    }

    /// The answer to a request about such a task.
    pub(super) async fn extension_line(&self, request: &TaskRequest) -> String {
        let id = &request.id;
        if !declared(&request.params) {
            let needed = json!({ "requiredCapabilities": { "extensions": { EXTENSION: {} } } });
            return error_line(id, MISSING_CAPABILITY, "Missing required client capability", Some(&needed));
        }
        let entry = match self.of_task(request).await {
            Ok(entry) => entry,
            Err(line) => return line,
        };
        match request.method {
            TaskMethod::Get => result_line(id, &self.detailed(&entry)),
            // Acknowledged: what was sent goes on to its outcome, and nothing is asked.
            TaskMethod::Update | TaskMethod::Cancel => result_line(id, r#"{"resultType":"complete"}"#),
            TaskMethod::Result | TaskMethod::List => error_line(id, -32601, "Method not found", None),
        }
    }

    /// A task as it stands, with its outcome if there is one.
    fn detailed(&self, entry: &Entry) -> String {
        let (status, member, value) = match self.said(entry) {
            None => ("working", "", String::new()),
            Some(Said::Result(result)) => ("completed", "result", result),
            Some(Said::Error(error)) => ("failed", "error", error),
            Some(Said::Words(mut words)) => {
                words["resultType"] = "complete".into();
                ("completed", "result", words.to_string())
            }
        };
        let mut task = self.extension_task(entry, status);
        task["resultType"] = "complete".into();
        let task = task.to_string();
        if member.is_empty() { task } else { splice::set(&task, member, &value).unwrap_or(task) }
    }

    fn extension_task(&self, entry: &Entry, status: &str) -> Value {
        let mut task = self.task(entry, status);
        // How long it is kept after it has ended says the configuration; until then, for ever.
        task["ttlMs"] = Value::Null;
        task["pollIntervalMs"] = self.ask_every(entry).into();
        task
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

//! Tasks as the experimental utility of revision 2025-11-25 has them: the client asks for a task with its call, gets it at once,
//! and fetches the result when there is one.
//!
//! They are offered in front of servers that have none. Those of a server that has some are its own, and pass.

use std::time::Duration;

use serde_json::{Value, json};
use settled::protocol::{Digest, Ends, Key, State};
use settled::{Answered, Entry, Filter};
use tokio::time::{Instant, sleep, timeout_at};

use super::{Said, TaskMethod, TaskRequest, mark, task_id};
use crate::behind::server::TRANSPORT_ERROR;
use crate::config::Config;
use crate::guarded::call::{Call, Opened};
use crate::guarded::guard::{Decision, decide};
use crate::listed::tools::listed;
use crate::messages::splice;
use crate::relay::Proxy;
use crate::told::answer::{INVALID_PARAMS, STATUS, error_line, result_line};
use crate::told::patience::before_the_client_gives_up;
use crate::told::status::Stands;

/// The revisions that have it: from the first one on, until the other.
const REVISIONS: (&str, &str) = ("2025-11-25", "2026");

/// What is announced.
pub(crate) const CAPABILITY: &str = r#"{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}"#;

/// In `_meta` of a task's result.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// How long it takes at first until a record is looked at again, and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_secs(1));

/// How many tasks are listed at a time.
const LISTED: usize = 50;

/// How many operations are looked through for them, at a time and in all for one page.
const LOOKED_THROUGH: (usize, usize) = (500, 20_000);

/// Whether the proxy offers tasks in a session that is opened with this result of the server's.
pub(crate) fn are_offered(result: &str) -> bool {
    let (first, end) = REVISIONS;
    let revision = splice::get_string(result, "protocolVersion").unwrap_or_default();
    let capabilities = splice::get(result, "capabilities").unwrap_or("{}");
    // Revisions are dates, so they compare as text.
    (first..end).contains(&revision.as_str())
        && splice::get(capabilities, "tools").is_some()
        && splice::get(capabilities, "tasks").is_none_or(|tasks| tasks == "null")
}

/// A result of `tools/list` in which every tool whose calls can become tasks says so; `None`: unchanged.
pub(crate) fn supported(config: &Config, result: &str) -> Option<String> {
    let tools = splice::get(result, "tools")?;
    let mut is_changed = false;
    let marked: Vec<String> = splice::elements(tools)?
        .into_iter()
        .map(|tool| match supporting(config, tool) {
            Some(tool) => {
                is_changed = true;
                tool
            }
            None => tool.to_owned(),
        })
        .collect();
    is_changed.then(|| splice::set(result, "tools", &format!("[{}]", marked.join(",")))).flatten()
}

fn supporting(config: &Config, tool: &str) -> Option<String> {
    let (name, annotations) = listed(tool)?;
    let Decision::Guard(terms) = decide(config, &name, Some(&annotations)) else { return None };
    if terms.derived_keys_end() == Ends::OnDelivery {
        return None;
    }
    let execution = splice::get(tool, "execution").filter(|value| *value != "null").unwrap_or("{}");
    splice::set(tool, "execution", &splice::set(execution, "taskSupport", "\"optional\"")?)
}

/// The parameters of a call without the wish for a task, which means nothing to a server that has none.
pub(crate) fn without_wish(params: &str) -> Option<String> {
    splice::get(params, "task")?;
    splice::without(params, "task")
}

impl Proxy {
    /// Resolves with the line that creates a task, once the operation is recorded and as long as it has no outcome.
    pub(crate) async fn task_begun(&self, call: &Call, key: &Key, fingerprint: Digest) -> String {
        let mut pause = LOOKS.0;
        loop {
            if let Ok(Some(entry)) = self.engine.ledger().get(key).await
                && entry.record.fingerprint() == fingerprint
                && !entry.record.is_settled()
            {
                return self.created_line(&call.id, &entry);
            }
            sleep(pause).await;
            pause = (pause * 2).min(LOOKS.1);
        }
    }

    /// The line that creates a task for a call that was answered already; `None`: there is no operation of these arguments.
    pub(crate) async fn task_answered(&self, call: &Call, answered: &Answered, fingerprint: Digest) -> Option<String> {
        let entry = self.engine.ledger().get(&answered.key).await.ok()??;
        let is_its_own = entry.record.fingerprint() == fingerprint && !entry.tombstone;
        is_its_own.then(|| self.created_line(&call.id, &entry))
    }

    fn created_line(&self, id: &str, entry: &Entry) -> String {
        let entry = self.secrets.readable_entry(entry.clone());
        // A task begins as `working`, whatever is known of it by now: the client asks next.
        let task = self.utility_task(&entry, "working");
        let mut mark = mark(&entry, self.stands_for(&entry));
        mark["status"] = "task_created".into();
        // Whether the call or an earlier one began it is not known here.
        if let Some(members) = mark.as_object_mut() {
            members.remove("replayed");
        }
        result_line(id, &json!({ "task": task, "_meta": { STATUS: mark } }).to_string())
    }

    /// The answer to a request about tasks.
    pub(super) async fn utility_line(&self, request: &TaskRequest, opened: &Opened) -> String {
        let id = &request.id;
        if request.method == TaskMethod::List {
            return self.listed_line(request).await;
        }
        let entry = match self.of_task(request).await {
            Ok(entry) => entry,
            Err(line) => return line,
        };
        match request.method {
            TaskMethod::Get | TaskMethod::List => result_line(id, &self.stands_as_task(&entry).to_string()),
            TaskMethod::Result => self.result_of_task(request, entry, opened).await,
            TaskMethod::Cancel => self.cancel_task(request, entry).await,
            TaskMethod::Update => error_line(id, -32601, "Method not found", None),
        }
    }

    /// The result of a task, as soon as there is one; before that, when the client is about to give up, how it stands.
    async fn result_of_task(&self, request: &TaskRequest, mut entry: Entry, opened: &Opened) -> String {
        let until = before_the_client_gives_up(&self.config.defaults).map(|patience| request.came + patience);
        let mut pause = LOOKS.0;
        loop {
            if let Some(said) = self.said(&entry) {
                return self.final_line(request, &entry, said);
            }
            let stands = self.stands_for(&entry);
            let is_over = until.is_some_and(|until| Instant::now() >= until);
            if is_over || stands == Stands::WithAPerson || opened.is_cancelled() {
                let kind = if stands == Stands::InProgress { "task_in_progress" } else { "task_unknown" };
                let data = json!({ "type": kind, STATUS: mark(&entry, stands) });
                let text = self.text(stands.text(), &entry.key);
                return error_line(&request.id, TRANSPORT_ERROR, &text, Some(&data));
            }
            let next = Instant::now() + pause;
            let _ = timeout_at(until.map_or(next, |until| until.min(next)), opened.cancelled()).await;
            pause = (pause * 2).min(LOOKS.1);
            entry = match self.of_task(request).await {
                Ok(entry) => entry,
                Err(line) => return line,
            };
        }
    }

    fn final_line(&self, request: &TaskRequest, entry: &Entry, said: Said) -> String {
        let status = mark(entry, self.stands_for(entry)).to_string();
        let result = match said {
            Said::Result(result) => result,
            Said::Words(words) => words.to_string(),
            Said::Error(error) => {
                let data = splice::get(&error, "data").unwrap_or("{}");
                let marked = splice::set(data, STATUS, &status).and_then(|data| splice::set(&error, "data", &data));
                let error = marked.unwrap_or(error);
                return format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, request.id);
            }
        };
        let related = json!({ "taskId": task_id(entry) }).to_string();
        let meta = splice::get(&result, "_meta").filter(|meta| *meta != "null").unwrap_or("{}");
        let marked = splice::set(meta, RELATED, &related)
            .and_then(|meta| splice::set(&meta, STATUS, &status))
            .and_then(|meta| splice::set(&result, "_meta", &meta));
        result_line(&request.id, &marked.unwrap_or(result))
    }

    /// What was not sent is given up; what was goes on to its outcome.
    async fn cancel_task(&self, request: &TaskRequest, entry: Entry) -> String {
        let id = &request.id;
        if self.said(&entry).is_some() {
            return error_line(id, INVALID_PARAMS, "the task has ended, so it can't be cancelled", None);
        }
        let withdrawn = match entry.record.state() {
            State::Created if !self.calls.is_wanted(&entry.key) => self.engine.cancel(&entry.key).await,
            _ => Ok(false),
        };
        match withdrawn {
            Ok(true) => match self.of_task(request).await {
                Ok(entry) => result_line(id, &self.stands_as_task(&entry).to_string()),
                Err(line) => line,
            },
            Ok(false) => {
                let text = "the call was sent, or somebody else waits for it, so it can't be cancelled: it goes on to its outcome";
                error_line(id, INVALID_PARAMS, text, None)
            }
            Err(error) => error_line(id, TRANSPORT_ERROR, &error.to_string(), None),
        }
    }

    /// A page of the tasks of the caller's scope: of all its calls that were asked for as tasks.
    async fn listed_line(&self, request: &TaskRequest) -> String {
        let ledger = self.engine.ledger();
        let failed = |error: &dyn std::fmt::Display| error_line(&request.id, TRANSPORT_ERROR, &error.to_string(), None);
        let mut last = None;
        if let Some(cursor) = splice::get_string(&request.params, "cursor") {
            let key = cursor.parse::<Key>().ok().filter(|key| key.scope() == self.scope);
            last = match key {
                Some(key) => match ledger.get(&key).await {
                    Ok(entry) => entry,
                    Err(error) => return failed(&error),
                },
                None => None,
            };
            if last.is_none() {
                return error_line(
                    &request.id,
                    INVALID_PARAMS,
                    "there is no such cursor any more: list from the start",
                    None,
                );
            }
        }
        let mut tasks = Vec::new();
        let mut looked_at = 0;
        // Only an operation of the caller's own can be where the next page begins.
        let mut next: Option<Key> = None;
        let is_all = 'pages: loop {
            let page = match ledger.page(Filter::All, last.as_ref(), LOOKED_THROUGH.0).await {
                Ok(page) => page,
                Err(error) => return failed(&error),
            };
            let Some(end) = page.last().cloned() else { break true };
            for entry in page {
                looked_at += 1;
                if entry.key.scope() != self.scope || entry.tombstone {
                    continue;
                }
                next = Some(entry.key.clone());
                let entry = self.secrets.readable_entry(entry);
                if str::from_utf8(&entry.asked).is_ok_and(|asked| splice::get(asked, "task").is_some()) {
                    tasks.push(self.stands_as_task(&entry));
                }
                if tasks.len() >= LISTED || looked_at >= LOOKED_THROUGH.1 {
                    break 'pages false;
                }
            }
            last = Some(end);
        };
        let mut result = json!({ "tasks": tasks });
        if let Some(next) = next.filter(|_| !is_all) {
            result["nextCursor"] = next.to_string().into();
        }
        result_line(&request.id, &result.to_string())
    }

    fn stands_as_task(&self, entry: &Entry) -> Value {
        let status = match self.stands_for(entry) {
            Stands::InProgress | Stands::Unknown | Stands::WithAPerson => "working",
            Stands::Failed => "failed",
            Stands::Abandoned if entry.record.sent().is_none() => "cancelled",
            // Not "failed", which would allow another call: that it is not known whether it happened is the result.
            Stands::Abandoned | Stands::Done | Stands::Expired | Stands::WaitsForInput => "completed",
        };
        self.utility_task(entry, status)
    }

    fn utility_task(&self, entry: &Entry, status: &str) -> Value {
        let mut task = self.task(entry, status);
        // How long it is kept after it has ended says the configuration; until then, for ever.
        task["ttl"] = Value::Null;
        task["pollInterval"] = self.ask_every(entry).into();
        task
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offered_where_the_server_has_none() {
        let opened = |revision: &str, capabilities: &str| {
            are_offered(&format!(r#"{{"protocolVersion":"{revision}","capabilities":{capabilities}}}"#))
        };
        assert!(opened("2025-11-25", r#"{"tools":{}}"#));
        assert!(!opened("2025-06-18", r#"{"tools":{}}"#), "that revision has none");
        assert!(!opened("2026-07-28", r#"{"tools":{}}"#), "that one has others");
        assert!(!opened("2025-11-25", r#"{"tools":{},"tasks":{"list":{}}}"#), "the server's own");
        assert!(!opened("2025-11-25", r#"{"prompts":{}}"#));
    }

    #[test]
    fn tools_that_support_tasks_say_so() {
        let config =
            Config::parse("settled.toml".as_ref(), "[tools.sure]\nkind = 'opaque'\nrepeat = 'replay'").unwrap();
        let list = r#"{ "tools":[ {"name":"read","annotations":{"readOnlyHint":true}}, {"name":"plain","n":1.0} ,{"name":"sure","execution":{"a":1e400}}, {"name":"charge","annotations":{"destructiveHint":true}}], "nextCursor":"2"}"#;
        let marked = supported(&config, list).unwrap();
        assert_eq!(
            marked,
            r#"{ "tools":[{"name":"read","annotations":{"readOnlyHint":true}},{"name":"plain","n":1.0},{"name":"sure","execution":{"a":1e400,"taskSupport":"optional"}},{"name":"charge","annotations":{"destructiveHint":true},"execution":{"taskSupport":"optional"}}], "nextCursor":"2"}"#
        );
        assert_eq!(supported(&config, r#"{"tools":[{"name":"plain"}]}"#), None);
    }

    #[test]
    fn the_wish_is_taken_out_and_nothing_else() {
        assert_eq!(without_wish(r#"{"name":"a", "task" : {"ttl":1} ,"n":1.50}"#).unwrap(), r#"{"name":"a","n":1.50}"#);
        assert_eq!(without_wish(r#"{"name":"a"}"#), None);
    }
}

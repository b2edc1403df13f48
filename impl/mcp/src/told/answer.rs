//! What the client is told: the tool's own answer byte for byte, marked in `_meta`; or plain words.

mod shape;
mod words;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use settled::protocol::Key;
use settled::{Answer, Answered};

use crate::behind::server::TRANSPORT_ERROR;
use crate::config::{Messages, Text};
use crate::messages::splice;

pub(crate) use shape::{asks_for_input, error_line, is_task, result_line, stored};
pub(crate) use words::About;

/// The mark's name in `_meta`, and in the `data` of errors.
pub(crate) const STATUS: &str = "io.settled/status";

/// In `_meta` of a result that is not the tool's own answer, but what was found out about the call.
pub(crate) const OBSERVED: &str = "io.settled/observed";

/// JSON-RPC's "invalid params".
pub(crate) const INVALID_PARAMS: i64 = -32602;

/// Who asked, and how.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    /// The request id's own text.
    pub(crate) id: String,
    /// With `params.idempotencyKey`: it knows the errors that go with it (SEP-3182).
    pub(crate) by_parameter: bool,
    /// The key is one of arguments that are declared as `key`.
    pub(crate) by_name: bool,
    /// It speaks revision 2026-07-28 or later, whose results say what they are.
    pub(crate) typed_results: bool,
    /// It asked for a task, so a result that names one is only the beginning.
    pub(crate) task: bool,
    /// What the tool answers has a schema, so that clients refuse what does not fit it.
    pub(crate) has_output_schema: bool,
    /// There is a tool to ask how an operation stands.
    pub(crate) may_ask_status: bool,
    /// The ledger, if a person who looks has to name it.
    pub(crate) ledger: Option<String>,
    /// If it is not known whether it happened: somebody is still finding out, other than a person.
    pub(crate) being_established: bool,
    /// The words.
    pub(crate) messages: Arc<Messages>,
}

/// What the caller may do next, in `structuredContent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Call again: nothing has happened.
    MayRetry,
    /// Ask again with the same arguments, later: it is not sent twice.
    AskLater,
    /// Nothing: it must not be repeated.
    Never,
}

impl Next {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Next::MayRetry => "allowed",
            Next::AskLater => "later",
            Next::Never => "never",
        }
    }
}

impl Asker {
    /// The whole line of an answer.
    pub(crate) fn line(&self, answered: &Answered) -> String {
        let key = &answered.key;
        match &answered.answer {
            Answer::Done { result, replayed } => {
                let status = self.status(answered, "done", *replayed);
                let instead = (self.text(Text::Happened, key), Next::Never);
                self.own(result, &status, self.mark(*replayed, key).as_deref(), instead)
            }
            Answer::Failed { error: Some(error), replayed } => {
                let status = self.status(answered, "failed", *replayed);
                let instead = (self.text(Text::Failed, key), Next::MayRetry);
                self.own(error, &status, self.mark(*replayed, key).as_deref(), instead)
            }
            Answer::Failed { error: None, replayed } => {
                let status = self.status(answered, "failed", *replayed);
                self.words(true, &self.text(Text::Failed, key), &status, Next::MayRetry)
            }
            Answer::Unknown { error, replayed } => self.unknown(answered, error.as_deref(), *replayed),
            Answer::InProgress => {
                let status = self.status(answered, "in_progress", true);
                let words = self.with_question(self.text(Text::InProgress, key), key);
                if self.by_parameter {
                    self.typed_error(TRANSPORT_ERROR, &words, "idempotency_key_in_progress", &status)
                } else {
                    self.words(true, &words, &status, Next::AskLater)
                }
            }
            Answer::Conflict => {
                let text = if self.by_name { Text::ConflictNamed } else { Text::Conflict };
                let status = self.status(answered, "conflict", false);
                self.typed_error(INVALID_PARAMS, &self.text(text, key), "idempotency_key_conflict", &status)
            }
            Answer::Expired => {
                let status = self.status(answered, "expired", false);
                self.typed_error(INVALID_PARAMS, &self.text(Text::Expired, key), "idempotency_key_expired", &status)
            }
        }
    }

    /// Nobody knows whether it happened. An error of the tool that left it open is told unchanged to whoever got it first, and
    /// explained to those who ask again.
    fn unknown(&self, answered: &Answered, error: Option<&[u8]>, replayed: bool) -> String {
        let status = self.status(answered, "unknown", replayed);
        let (words, next) = self.unknown_words(&answered.key);
        match error {
            None => self.words(true, &words, &status, next),
            Some(error) => {
                let why = replayed.then(|| self.messages.join(&words, &self.text(Text::UnknownError, &answered.key)));
                self.own(error, &status, why.as_deref(), (words, next))
            }
        }
    }

    /// What is said of an unknown outcome.
    pub(crate) fn unknown_words(&self, key: &Key) -> (String, Next) {
        let (text, next) = match self.being_established {
            true => (Text::UnknownPending, Next::AskLater),
            false => (Text::Unknown, Next::Never),
        };
        (self.with_question(self.text(text, key), key), next)
    }

    /// A text, filled in.
    pub(crate) fn text(&self, text: Text, key: &Key) -> String {
        self.messages.text(text, &About::operation(key, command(key, self.ledger.as_deref())))
    }

    fn with_question(&self, words: String, key: &Key) -> String {
        match self.may_ask_status {
            true => self.messages.join(&words, &self.text(Text::AskStatus, key)),
            false => words,
        }
    }

    /// The mark of an answer that says nothing definite yet, which a task can take the place of; `None` for all others.
    pub(crate) fn open(&self, answered: &Answered) -> Option<Value> {
        match &answered.answer {
            Answer::InProgress => Some(self.status(answered, "in_progress", true)),
            Answer::Unknown { error: None, replayed } => Some(self.status(answered, "unknown", *replayed)),
            _ => None,
        }
    }

    /// The words that mark a replay, if there are to be any.
    fn mark(&self, replayed: bool, key: &Key) -> Option<String> {
        (replayed && self.messages.mark_replays).then(|| self.text(Text::Replayed, key))
    }

    fn status(&self, answered: &Answered, status: &str, replayed: bool) -> Value {
        let mut text = json!({ "status": status, "key": answered.key.to_string(), "replayed": replayed });
        // A conflict says nothing of the earlier call, not even when it was.
        if answered.created > 0
            && !matches!(answered.answer, Answer::Conflict)
            && let (Some(at), Some(members)) = (time(answered.created), text.as_object_mut())
        {
            members.insert("createdAt".to_owned(), at.into());
        }
        text
    }

    fn typed_error(&self, code: i64, message: &str, kind: &str, status: &Value) -> String {
        error_line(&self.id, code, message, Some(&json!({ "type": kind, STATUS: status })))
    }

    /// A result in words, for people and models, and as `structuredContent` for programs. What does not fit the tool's schema
    /// would be refused by clients, unless it is an error without structured content.
    fn words(&self, is_error: bool, text: &str, status: &Value, next: Next) -> String {
        let is_error = is_error || self.has_output_schema;
        let mut result =
            json!({ "content": [{ "type": "text", "text": text }], "isError": is_error, "_meta": { STATUS: status } });
        if !self.has_output_schema {
            result["structuredContent"] = json!({
                "status": status["status"], "operation": status["key"], "retry": next.name(), "message": text,
            });
        }
        if self.typed_results {
            result["resultType"] = "complete".into();
        }
        result_line(&self.id, &result.to_string())
    }

    /// The tool's own answer, marked; `why`: a sentence to add. `instead`: for a record without the tool's own answer.
    fn own(&self, body: &[u8], status: &Value, why: Option<&str>, instead: (String, Next)) -> String {
        let text = String::from_utf8_lossy(body);
        if let Some(result) = splice::get(&text, "result") {
            let result = match why {
                // A question and a task's handle have no room for words.
                Some(why) if !asks_for_input(result) && !is_task(result, self.task) => shape::with_block(result, why),
                _ => result.to_owned(),
            };
            let marked = self.marked_result(&result, status).unwrap_or(result);
            result_line(&self.id, &marked)
        } else if let Some(error) = splice::get(&text, "error") {
            let error = match why {
                Some(why) => shape::with_sentence(error, why),
                None => error.to_owned(),
            };
            let marked = shape::marked_error(&error, status).unwrap_or(error);
            format!(r#"{{"jsonrpc":"2.0","id":{},"error":{marked}}}"#, self.id)
        } else {
            // What a person wrote when deciding, or nothing.
            let (instead, next) = &instead;
            let text = if text.trim().is_empty() { instead } else { text.trim() };
            self.words(status.get("status") != Some(&Value::from("done")), text, status, *next)
        }
    }

    fn marked_result(&self, result: &str, status: &Value) -> Option<String> {
        if asks_for_input(result) {
            // Not an outcome: the client is to answer, and to go on.
            return None;
        }
        let mut status = status.clone();
        if is_task(result, self.task)
            && let Some(word) = status.get_mut("status")
        {
            *word = "task_created".into();
        }
        let meta = splice::get(result, "_meta").filter(|meta| *meta != "null").unwrap_or("{}");
        let observed = splice::get(meta, OBSERVED).is_some();
        let meta = splice::set(meta, STATUS, &status.to_string())?;
        let mut marked = splice::set(result, "_meta", &meta)?;
        // What was observed in place of the tool's own answer does not fit its schema, and says so.
        if observed && self.has_output_schema && splice::get(result, "structuredContent").is_none() {
            marked = splice::set(&marked, "isError", "true")?;
        }
        if observed && self.typed_results && splice::get(result, "resultType").is_none() {
            marked = splice::set(&marked, "resultType", "\"complete\"")?;
        }
        Some(marked)
    }
}

/// The command with which a person can look at an operation.
pub(crate) fn command(key: &Key, ledger: Option<&str>) -> String {
    let ledger = match ledger {
        Some(ledger) => format!(" --ledger {}", shell_quoted(&shown(ledger))),
        None => String::new(),
    };
    format!("settled log show {}{ledger}", shell_quoted(&key.to_string()))
}

/// A time of the ledger as text.
pub(crate) fn time(millis: u64) -> Option<String> {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(millis))?;
    Some(humantime::format_rfc3339_millis(at).to_string())
}

/// A ledger's URL without the password in it, which is not for the client to see.
fn shown(ledger: &str) -> String {
    match url::Url::parse(ledger) {
        Ok(mut url) if url.password().is_some() => {
            // What can have a password can do without one.
            let _ = url.set_password(None);
            url.to_string()
        }
        _ => ledger.to_owned(),
    }
}

/// A key as one word of a command line, whatever the caller put into it.
fn shell_quoted(key: &str) -> String {
    format!("'{}'", key.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;

//! What the client is told: the tool's own answer byte for byte, marked in `_meta`; or plain words.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use settled::{Answer, Answered};

use crate::server::TRANSPORT_ERROR;
use crate::splice::{self, quoted};

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
    /// The tool.
    pub(crate) tool: String,
    /// With `params.idempotencyKey`: it knows the errors that go with it.
    pub(crate) by_parameter: bool,
    /// It speaks revision 2026-07-28 or later, whose results say what they are.
    pub(crate) typed_results: bool,
    /// It asked for a task, so a result that names one is only the beginning.
    pub(crate) task: bool,
    /// The ledger, if a person who looks has to name it.
    pub(crate) ledger: Option<String>,
    /// If it is not known whether it happened: somebody is still finding out, other than a person.
    pub(crate) being_established: bool,
}

/// A JSON-RPC error.
pub(crate) fn error_line(id: &str, code: i64, message: &str, data: Option<&Value>) -> String {
    let data = data.map(|data| format!(",\"data\":{data}")).unwrap_or_default();
    let message = quoted(message);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{data}}}}}"#)
}

/// What was stored of a tool's answer: exactly one member, `result` or `error`.
pub(crate) fn stored(member: &str, text: &str) -> String {
    format!(r#"{{"{member}":{text}}}"#)
}

impl Asker {
    /// The whole line of an answer.
    pub(crate) fn line(&self, answered: &Answered) -> String {
        match &answered.answer {
            Answer::Done { result, replayed } => {
                self.own(result, &self.status(answered, "done", *replayed), None, "It happened: a person has found out.")
            }
            Answer::Failed { error: Some(error), replayed } => {
                self.own(error, &self.status(answered, "failed", *replayed), None, DID_NOT_HAPPEN)
            }
            Answer::Failed { error: None, replayed } => {
                self.words(true, DID_NOT_HAPPEN, &self.status(answered, "failed", *replayed))
            }
            Answer::Unknown { error, replayed } => {
                let status = self.status(answered, "unknown", *replayed);
                let key = shell_quoted(&answered.key.to_string());
                let ledger = match &self.ledger {
                    Some(ledger) => format!(" --ledger {}", shell_quoted(&shown(ledger))),
                    None => String::new(),
                };
                let next = if self.being_established {
                    "Do not repeat it under another key or with other arguments: that is being found out. To be told, ask \
                     again later with the same arguments; that does not send it again unless it is certain that it did \
                     not happen."
                } else {
                    "Do not repeat it: it will not be sent again."
                };
                let unknown = format!(
                    "It is not known whether this call of {} happened. {next} A person can look with `settled log show \
                     {key}{ledger}`, which says how to decide.",
                    self.tool
                );
                match error {
                    None => self.words(true, &unknown, &status),
                    Some(error) => {
                        let why = format!(
                            "{unknown} This is the error of the earlier call; an error can come after the effect. If \
                             every error of this tool means that nothing happened, declare `errors = \"final\"` under \
                             [tools.{}] in settled.toml.",
                            self.tool
                        );
                        self.own(error, &status, replayed.then_some(why.as_str()), &unknown)
                    }
                }
            }
            Answer::InProgress => {
                let status = self.status(answered, "in_progress", true);
                let words = "This call is being carried out. It is not sent again: ask again later with the same \
                             arguments to be told what came of it.";
                if self.by_parameter {
                    self.typed_error(TRANSPORT_ERROR, words, "idempotency_key_in_progress", &status)
                } else {
                    self.words(true, words, &status)
                }
            }
            Answer::Conflict => self.typed_error(
                INVALID_PARAMS,
                "nothing was sent: this idempotency key was used with other arguments; use a new key for another operation",
                "idempotency_key_conflict",
                &self.status(answered, "conflict", false),
            ),
            Answer::Expired => self.typed_error(
                INVALID_PARAMS,
                "nothing was sent: a call with this idempotency key has ended, and its answer is no longer kept, so it can't \
                 be told; use a new key for another operation",
                "idempotency_key_expired",
                &self.status(answered, "expired", false),
            ),
        }
    }

    fn status(&self, answered: &Answered, status: &str, replayed: bool) -> Value {
        let mut text = json!({ "status": status, "key": answered.key.to_string(), "replayed": replayed });
        // A conflict says nothing of the earlier call, not even when it was.
        if answered.created > 0
            && !matches!(answered.answer, Answer::Conflict)
            && let Some(at) = UNIX_EPOCH.checked_add(Duration::from_millis(answered.created))
            && let Some(members) = text.as_object_mut()
        {
            members.insert("createdAt".to_owned(), humantime::format_rfc3339_millis(at).to_string().into());
        }
        text
    }

    fn typed_error(&self, code: i64, message: &str, kind: &str, status: &Value) -> String {
        error_line(&self.id, code, message, Some(&json!({ "type": kind, STATUS: status })))
    }

    /// A result in words.
    fn words(&self, is_error: bool, text: &str, status: &Value) -> String {
        let mut result =
            json!({ "content": [{ "type": "text", "text": text }], "isError": is_error, "_meta": { STATUS: status } });
        if self.typed_results
            && let Some(members) = result.as_object_mut()
        {
            members.insert("resultType".to_owned(), "complete".into());
        }
        format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, self.id)
    }

    /// The tool's own answer, marked; `why`: a sentence to add. `instead`: for a record without the tool's own answer.
    fn own(&self, body: &[u8], status: &Value, why: Option<&str>, instead: &str) -> String {
        let text = String::from_utf8_lossy(body);
        if let Some(result) = splice::get(&text, "result") {
            let result = match why {
                Some(why) => with_block(result, why),
                None => result.to_owned(),
            };
            let marked = self.marked_result(&result, status).unwrap_or(result);
            format!(r#"{{"jsonrpc":"2.0","id":{},"result":{marked}}}"#, self.id)
        } else if let Some(error) = splice::get(&text, "error") {
            let error = match why {
                Some(why) => with_sentence(error, why),
                None => error.to_owned(),
            };
            let marked = marked_error(&error, status).unwrap_or(error);
            format!(r#"{{"jsonrpc":"2.0","id":{},"error":{marked}}}"#, self.id)
        } else {
            // What a person wrote when deciding, or nothing.
            let text = if text.trim().is_empty() { instead } else { text.trim() };
            self.words(status.get("status") != Some(&Value::from("done")), text, status)
        }
    }

    fn marked_result(&self, result: &str, status: &Value) -> Option<String> {
        if asks_for_input(result) {
            // Not an outcome: the client is to answer, and to go on.
            return None;
        }
        let mut status = status.clone();
        if self.task
            && splice::get(result, "task").is_some()
            && let Some(word) = status.get_mut("status")
        {
            *word = "task_created".into();
        }
        let meta = splice::get(result, "_meta").filter(|meta| *meta != "null").unwrap_or("{}");
        let meta = splice::set(meta, STATUS, &status.to_string())?;
        splice::set(result, "_meta", &meta)
    }
}

const DID_NOT_HAPPEN: &str = "This call did not happen and will not happen any more.";

/// Whether a result only asks the client for more.
pub(crate) fn asks_for_input(result: &str) -> bool {
    splice::get_string(result, "resultType").is_some_and(|kind| kind == "input_required")
}

fn marked_error(error: &str, status: &Value) -> Option<String> {
    let data = splice::set(splice::get(error, "data").unwrap_or("{}"), STATUS, &status.to_string())?;
    splice::set(error, "data", &data)
}

/// The result with a text block more.
fn with_block(result: &str, text: &str) -> String {
    let block = json!({ "type": "text", "text": text });
    let content = splice::get(result, "content").unwrap_or("[]");
    let blocks = splice::elements(content).map(|blocks| blocks.len());
    let longer = match (blocks, content.rfind(']').and_then(|end| content.get(..end))) {
        (Some(0), Some(start)) => format!("{start}{block}]"),
        (Some(_), Some(start)) => format!("{start},{block}]"),
        _ => return result.to_owned(),
    };
    splice::set(result, "content", &longer).unwrap_or_else(|| result.to_owned())
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

/// The error with a sentence more.
fn with_sentence(error: &str, text: &str) -> String {
    let message = splice::get_string(error, "message").unwrap_or_default();
    let longer = if message.is_empty() { text.to_owned() } else { format!("{message} [{text}]") };
    splice::set(error, "message", &quoted(&longer)).unwrap_or_else(|| error.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use settled_protocol::Key;

    fn asker() -> Asker {
        Asker {
            id: "\"a\"".to_owned(),
            tool: "charge".to_owned(),
            by_parameter: false,
            typed_results: false,
            task: false,
            ledger: Some("/var/lib/it's here".into()),
            being_established: false,
        }
    }

    fn answered(answer: Answer) -> Answered {
        let key = Key::new("shop", "charge", "key:1").unwrap();
        Answered { key, generation: 1, created: 1_700_000_000_000, answer }
    }

    fn done(result: &str) -> Answer {
        Answer::Done { result: stored("result", result).into(), replayed: true }
    }

    const MARK: &str =
        r#"{"status":"done","key":"shop/charge/key:1","replayed":true,"createdAt":"2023-11-14T22:13:20.000Z"}"#;

    #[test]
    fn a_result_keeps_every_byte_but_the_mark() {
        let result = r#"{ "content":[], "big":12345678901234567890123, "s":"\ud800" }"#;
        let line = asker().line(&answered(done(result)));
        let marked = format!(
            r#"{{ "content":[], "big":12345678901234567890123, "s":"\ud800" ,"_meta":{{"io.settled/status":{MARK}}}}}"#
        );
        assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","id":"a","result":{marked}}}"#));
        let line = asker().line(&answered(done(r#"{"_meta":{"x":1e400},"content":[]}"#)));
        assert!(line.contains(&format!(r#""_meta":{{"x":1e400,"io.settled/status":{MARK}}},"content":[]"#)), "{line}");
        let line = asker().line(&answered(done(r#"{"_meta":null,"content":[]}"#)));
        assert!(line.contains(&format!(r#""_meta":{{"io.settled/status":{MARK}}},"content":[]"#)), "{line}");
        let line = asker().line(&answered(done("[1]")));
        assert_eq!(line, r#"{"jsonrpc":"2.0","id":"a","result":[1]}"#);
    }

    #[test]
    fn errors_are_marked_where_there_is_room() {
        let failed = |error: &str| Answer::Failed { error: Some(stored("error", error).into()), replayed: false };
        let line = asker().line(&answered(failed(r#"{"code":-32602,"message":"no"}"#)));
        assert!(
            line.contains(r#""error":{"code":-32602,"message":"no","data":{"io.settled/status":{"status":"failed""#),
            "{line}"
        );
        let line = asker().line(&answered(failed(r#"{"code":1,"message":"no","data":7}"#)));
        assert_eq!(line, r#"{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"no","data":7}}"#);
    }

    #[test]
    fn input_required_passes_unchanged() {
        let result = r#"{"resultType":"input_required","requestState":"s"}"#;
        let answer = Answer::Failed { error: Some(stored("result", result).into()), replayed: false };
        let line = asker().line(&answered(answer));
        assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","id":"a","result":{result}}}"#));
    }

    #[test]
    fn unknown_in_words() {
        let mut asker = asker();
        asker.typed_results = true;
        let line = asker.line(&answered(Answer::Unknown { error: None, replayed: false }));
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["result"]["isError"], true);
        assert_eq!(value["result"]["resultType"], "complete");
        assert_eq!(value["result"]["_meta"][STATUS]["status"], "unknown");
        let text = value["result"]["content"][0]["text"].as_str().unwrap();
        for part in [
            "not known",
            "Do not repeat",
            "not be sent again",
            r"settled log show 'shop/charge/key:1' --ledger '/var/lib/it'\''s here'",
            "which says how to decide",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn an_unknown_that_is_being_established_may_be_asked_about() {
        let mut asker = asker();
        asker.being_established = true;
        asker.ledger = Some("postgres://me:secret@db/settled".to_owned());
        let line = asker.line(&answered(Answer::Unknown { error: None, replayed: false }));
        let value: Value = serde_json::from_str(&line).unwrap();
        let text = value["result"]["content"][0]["text"].as_str().unwrap();
        for part in ["not known", "being found out", "ask again later", "--ledger 'postgres://me@db/settled'"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!line.contains("secret"), "{line}");
    }

    #[test]
    fn an_error_that_leaves_it_open_is_explained_to_the_retry_only() {
        let error = stored("result", r#"{"content":[{"type":"text","text":"boom"}],"isError":true}"#);
        let unknown = |replayed| Answer::Unknown { error: Some(error.clone().into()), replayed };
        let first: Value = serde_json::from_str(&asker().line(&answered(unknown(false)))).unwrap();
        assert_eq!(first["result"]["content"].as_array().unwrap().len(), 1);
        let retry: Value = serde_json::from_str(&asker().line(&answered(unknown(true)))).unwrap();
        assert_eq!(retry["result"]["content"][0]["text"], "boom");
        assert!(retry["result"]["content"][1]["text"].as_str().unwrap().contains("errors = \"final\""));
        let error = stored("error", r#"{"code":-32603,"message":"boom"}"#);
        let answer = Answer::Unknown { error: Some(error.into()), replayed: true };
        let retry: Value = serde_json::from_str(&asker().line(&answered(answer))).unwrap();
        let message = retry["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("boom [") && message.contains("[tools.charge]"), "{message}");
    }

    #[test]
    fn conflicts_and_calls_under_way() {
        let line = asker().line(&answered(Answer::Conflict));
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["error"]["data"]["type"], "idempotency_key_conflict");
        assert_eq!(value["error"]["data"][STATUS].get("createdAt"), None);
        let value: Value = serde_json::from_str(&asker().line(&answered(Answer::InProgress))).unwrap();
        assert_eq!(value["result"]["_meta"][STATUS]["status"], "in_progress");
        let typed = Asker { by_parameter: true, ..asker() };
        let value: Value = serde_json::from_str(&typed.line(&answered(Answer::InProgress))).unwrap();
        assert_eq!(value["error"]["data"]["type"], "idempotency_key_in_progress");
    }

    #[test]
    fn a_created_task_is_not_called_done() {
        let asker = Asker { task: true, ..asker() };
        let line = asker.line(&answered(done(r#"{"task":{"taskId":"t"}}"#)));
        assert!(line.contains(r#""status":"task_created""#), "{line}");
    }

    #[test]
    fn what_a_person_recorded() {
        let by_hand = |result: &str| Answer::Done { result: result.to_owned().into(), replayed: true };
        let value: Value = serde_json::from_str(&asker().line(&answered(by_hand("receipt 17")))).unwrap();
        assert_eq!(value["result"]["content"][0]["text"], "receipt 17");
        assert_eq!(value["result"]["isError"], false);
        let value: Value = serde_json::from_str(&asker().line(&answered(by_hand("")))).unwrap();
        assert!(value["result"]["content"][0]["text"].as_str().unwrap().contains("It happened"));
    }
}

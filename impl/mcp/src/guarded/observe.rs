//! Asking what became of a call.

use std::time::Duration;

use serde_json::{Map, Value, json};
use settled::{Question, Seen};
use settled_observers::{Evidence, Given, Shape, Verdict};
use settled_protocol::SealScope;

use crate::book::OwnReply;
use crate::config::{Ask, Observe, Text};
use crate::guarded::guard::Annotations;
use crate::guarded::keys::META_KEY;
use crate::guarded::tool::{McpTool, is_error, passed_key};
use crate::messages::splice::{self, quoted};
use crate::told::answer::{About, OBSERVED, asks_for_input, stored};

/// How many questions about calls are put to the server's tools at once: after an outage there may be thousands.
pub(crate) const QUESTIONS: usize = 8;

impl McpTool {
    /// Asks, and reads the answer. What can't be found out is [`Seen::Unclear`], and the log says why.
    pub(crate) async fn ask(&self, question: &Question, scope: Option<SealScope>) -> Seen {
        let Some(observe) = self.declared.as_ref().and_then(|declared| declared.observe()) else {
            return Seen::Unclear;
        };
        let verdict = match self.read(&question.key, &question.arguments) {
            Ok(params) => {
                let params = &*params;
                let key = passed_key(&question.key, question.attempt);
                let arguments = splice::get(params, "arguments").unwrap_or("{}");
                let given = Given { key: &key, attempt: question.attempt.attempt.get(), scope, arguments };
                self.ask_about(observe, &given, params).await
            }
            Err(problem) => Verdict::Unclear(format!("what was recorded of the call can't be read: {problem}")),
        };
        let as_content = observe.reading.result.is_some();
        let told = self.messages.text(Text::Observed, &About::operation(&question.key, String::new()));
        verdict.seen(question, |observed| result(&told, observed, as_content).into())
    }

    async fn ask_about(&self, observe: &Observe, given: &Given<'_>, params: &str) -> Verdict {
        match (&observe.ask, &self.observer) {
            (Ask::Tool { name, arguments, allow_unannotated }, _) => {
                // What only reads may be asked; a seal changes what it is told to.
                let needs_hint = (given.scope.is_none()).then_some(*allow_unannotated);
                match self.ask_tool(name, arguments, needs_hint, given, params, observe.timeout).await {
                    Ok(evidence) => observe.reading.read(&evidence),
                    Err(reason) => Verdict::Unclear(reason),
                }
            }
            (Ask::Way(_), Some(observer)) => observer.ask(given).await,
            (Ask::Way(_), None) => Verdict::Unclear("the observer is not ready".to_owned()),
        }
    }

    /// Calls a tool of the server. `needs_hint`: it must be said to be read-only, or that must be left open and allowed.
    async fn ask_tool(
        &self,
        name: &str,
        arguments: &Shape,
        needs_hint: Option<bool>,
        given: &Given<'_>,
        params: &str,
        within: Duration,
    ) -> Result<Evidence, String> {
        let arguments = arguments.value(given).map_err(|missing| missing.to_string())?;
        if !self.is_open().await {
            return Err("no client has opened a session with the server".to_owned());
        }
        if let Some(allow_unannotated) = needs_hint {
            self.tools.listed().await;
            may_be_asked(name, self.tools.known(name).flatten(), allow_unannotated)?;
        }
        let meta = meta(params).map(|meta| format!(",\"_meta\":{meta}")).unwrap_or_default();
        let params = format!(r#"{{"name":{},"arguments":{arguments}{meta}}}"#, quoted(name));
        let _turn = self.questions.acquire().await;
        let answer = tokio::time::timeout(within, self.server.request("tools/call", &params)).await;
        match answer {
            Err(_) => Err(format!("`{name}` did not answer within {}", humantime::format_duration(within))),
            Ok(OwnReply::Result(result)) if is_error(&result) => Err(format!("`{name}` answered with an error")),
            Ok(OwnReply::Result(result)) if asks_for_input(&result) => {
                Err(format!("`{name}` asks for more input, which nobody can give"))
            }
            Ok(OwnReply::Result(result)) => match serde_json::from_str(&result) {
                Ok(body) => Ok(Evidence { body: Some(body), ..Evidence::default() }),
                Err(_) => Err(format!("the answer of `{name}` can't be read")),
            },
            Ok(OwnReply::Error(_)) => Err(format!("`{name}` answered with a protocol error")),
            Ok(OwnReply::Lost) => Err(format!("the server ended before `{name}` answered")),
            Ok(OwnReply::NotSent(reason)) => Err(reason),
            Ok(OwnReply::Refused(refusal)) => Err(refusal.words),
        }
    }
}

/// Whether a tool may be asked about another one's effect: only if it is known not to have one of its own.
///
/// # Errors
/// Why not, and what to do about it.
pub(crate) fn may_be_asked(name: &str, claims: Option<Annotations>, allow_unannotated: bool) -> Result<(), String> {
    match claims.map(|claims| claims.read_only) {
        None => Err(format!("the server has no tool `{name}`")),
        Some(Some(true)) => Ok(()),
        Some(None) if allow_unannotated => Ok(()),
        Some(None) => Err(format!(
            "the server does not say that `{name}` only reads (`readOnlyHint`), so it is not called: if it does, write \
             `allow_unannotated = true`"
        )),
        Some(Some(false)) => {
            Err(format!("the server says that `{name}` does more than read (`readOnlyHint`), so it is not called"))
        }
    }
}

/// A call's `_meta` for a question about it: without what is the call's alone.
fn meta(params: &str) -> Option<String> {
    let members: Map<String, Value> = serde_json::from_str(splice::get(params, "_meta")?).ok()?;
    let kept: Map<_, _> = members.into_iter().filter(|(name, _)| name != "progressToken" && name != META_KEY).collect();
    (!kept.is_empty()).then(|| Value::Object(kept).to_string())
}

/// What the caller of an observed call is told, in these words. `as_content`: what was observed is declared to be what the call answers.
fn result(words: &str, observed: &Value, as_content: bool) -> String {
    let seen = match observed {
        Value::Null => String::new(),
        Value::String(text) => format!("\n\n{text}"),
        other => format!("\n\n{other}"),
    };
    let text = format!("{words}{seen}");
    let mut result =
        json!({ "content": [{ "type": "text", "text": text }], "isError": false, "_meta": { OBSERVED: true } });
    if as_content
        && observed.is_object()
        && let Some(members) = result.as_object_mut()
    {
        members.insert("structuredContent".to_owned(), observed.clone());
    }
    stored("result", &result.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_reads_is_asked() {
        let claims = |read_only| Some(Annotations { read_only, ..Annotations::default() });
        let asked = |claims, allow| may_be_asked("get", claims, allow).is_ok();
        assert!(asked(claims(Some(true)), false));
        assert!(!asked(claims(None), false) && asked(claims(None), true));
        assert!(!asked(claims(Some(false)), true), "a claim to do more is believed");
        assert!(!asked(None, true));
    }

    #[test]
    fn the_question_does_not_carry_what_is_the_calls_alone() {
        let params = r#"{"_meta":{"progressToken":1,"io.settled/idempotency-key":"k","x":2}}"#;
        assert_eq!(meta(params), Some(r#"{"x":2}"#.to_owned()));
        assert_eq!(meta(r#"{"_meta":{"progressToken":1}}"#), None);
        assert_eq!(meta("{}"), None);
    }

    #[test]
    fn what_was_observed_is_told() {
        let told = |observed: Value, as_content| -> Value {
            serde_json::from_str::<Value>(&result("It took effect, but its answer was lost.", &observed, as_content))
                .unwrap()["result"]
                .clone()
        };
        let plain = told(json!({"status": "charged"}), false);
        let text = plain["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("took effect") && text.contains("lost") && text.contains(r#"{"status":"charged"}"#));
        assert_eq!((plain.get("structuredContent"), &plain["isError"]), (None, &json!(false)));
        assert_eq!(told(json!({"a": 1}), true)["structuredContent"], json!({"a": 1}));
        assert_eq!(told(json!([1]), true).get("structuredContent"), None);
    }
}

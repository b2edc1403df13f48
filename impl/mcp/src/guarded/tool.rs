//! A tool behind the MCP server, as the engine sees it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use settled::{Outgoing, Question, Seen, Tool, ToolReply};
use settled_observers::{Evidence, Observer};
use settled_protocol::{AttemptId, Digest, ErrorClass, Key, SealScope};
use tokio::sync::Semaphore;

use crate::at_rest::{Secrets, Unreadable};
use crate::behind::server::{Own, ServerHandle, TRANSPORT_ERROR};
use crate::book::OwnReply;
use crate::config::{Answers, Kind, Messages, ToolConfig};
use crate::flag::Flag;
use crate::guarded::keys;
use crate::listed::tools::Tools;
use crate::messages::context::Context;
use crate::messages::splice::{self, quoted};
use crate::session::Attempts;
use crate::told::answer::{asks_for_input, stored};
use crate::upstream::proves::Refusal;

/// JSON-RPC errors that come instead of a run of the tool: parse error, invalid request, unknown method, invalid
/// parameters.
const NOT_RUN: [i64; 4] = [-32700, -32600, -32601, -32602];

/// The longest that a busy tool is left alone because it wants it so.
const LONGEST_REST: f64 = 24.0 * 60.0 * 60.0;

/// Sends `tools/call` with the parameters that the client sent.
pub(crate) struct McpTool {
    /// What came with the call.
    pub(crate) context: Arc<Context>,
    /// What is out at the server.
    pub(crate) attempts: Attempts,
    pub(crate) server: ServerHandle,
    /// What the server says of its tools.
    pub(crate) tools: Arc<Tools>,
    /// The session is open: the server takes calls.
    pub(crate) ready: Flag,
    /// Nobody will open it any more.
    pub(crate) closing: Flag,
    /// The words for what was found out.
    pub(crate) messages: Arc<Messages>,
    /// How confidential calls are kept.
    pub(crate) secrets: Secrets,
    /// The parameters as the client sent them, while somebody has them who did.
    pub(crate) clear: Option<String>,
    /// What is declared of it.
    pub(crate) declared: Option<Arc<ToolConfig>>,
    /// Held while a tool of the server is asked.
    pub(crate) questions: Arc<Semaphore>,
    /// Whom to ask what became of a call, if that is not another tool of the server.
    pub(crate) observer: Option<Observer>,
}

#[async_trait]
impl Tool for McpTool {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        if !self.is_open().await {
            return not_sent("no client has opened a session with the server");
        }
        let params = match self.read(&outgoing.key, &outgoing.arguments).map(|kept| self.params(outgoing, &kept)) {
            Ok(Some(params)) => params,
            Ok(None) => return not_sent("the recorded arguments of this call can't be read"),
            Err(problem) => return not_sent(&format!("what was recorded of this call can't be read: {problem}")),
        };
        let _out = self.attempts.begin().await;
        let own =
            Own { method: "tools/call", params: &params, permit: Some(outgoing.permit()), context: &self.context };
        let answer = self.server.send(own, || outgoing.sent()).await;
        match &self.declared {
            Some(declared) => self.kept(&outgoing.key, reply(answer, &declared.answers)),
            None => reply(answer, &Answers::default()),
        }
    }

    async fn observe(&self, question: &Question) -> Seen {
        self.kept_of(&question.key, self.ask(question, None).await)
    }

    async fn seal(&self, question: &Question, scope: SealScope) -> Seen {
        self.kept_of(&question.key, self.ask(question, Some(scope)).await)
    }
}

impl McpTool {
    /// Resolves once the server takes calls; `false`: it never will.
    pub(crate) async fn is_open(&self) -> bool {
        tokio::select! {
            biased;
            () = self.ready.raised() => true,
            () = self.closing.raised() => false,
        }
    }

    /// The parameters of a call as the client sent them.
    pub(crate) fn read<'a>(&'a self, key: &Key, kept: &'a Bytes) -> Result<Cow<'a, str>, Unreadable> {
        let kept = str::from_utf8(kept).map_err(|_| Unreadable::Damaged)?;
        match (self.secrets.read(key, kept), &self.clear) {
            // What was not kept is known to whoever asks now: the fingerprint says that it is the same.
            (Err(Unreadable::Redacted), Some(clear)) => Ok(Cow::Borrowed(clear)),
            (read, _) => read,
        }
    }

    /// A reply, as it is kept.
    fn kept(&self, key: &Key, reply: ToolReply) -> ToolReply {
        match reply {
            ToolReply::Result(body) => ToolReply::Result(self.keep(key, body)),
            ToolReply::Error(class, body) => ToolReply::Error(class, self.keep(key, body)),
            ToolReply::Busy { retry_after, body } => ToolReply::Busy { retry_after, body: self.keep(key, body) },
            ToolReply::ConnectionLost => ToolReply::ConnectionLost,
        }
    }

    fn kept_of(&self, key: &Key, seen: Seen) -> Seen {
        match seen {
            Seen::Applied(body) => Seen::Applied(self.keep(key, body)),
            other => other,
        }
    }

    fn keep(&self, key: &Key, body: Bytes) -> Bytes {
        match &self.declared {
            Some(declared) => self.secrets.keep_answer(key, body, &declared.confidential),
            None => body,
        }
    }

    fn params(&self, outgoing: &Outgoing, params: &str) -> Option<String> {
        let key_as = self.declared.as_ref().and_then(|declared| declared.pass_key_as.as_ref());
        let attempt_as = match self.declared.as_ref().map(|declared| &declared.kind) {
            Some(Kind::Sealable { pass_attempt_as, .. }) => Some(pass_attempt_as),
            _ => None,
        };
        if key_as.is_none() && attempt_as.is_none() {
            return Some(params.to_owned());
        }
        let mut arguments = splice::get(params, "arguments").unwrap_or("{}").to_owned();
        if let Some(name) = key_as {
            arguments = splice::set(&arguments, name, &quoted(&passed_key(&outgoing.key, outgoing.attempt)))?;
        }
        if let Some(name) = attempt_as {
            arguments = splice::set(&arguments, name, &outgoing.attempt.attempt.get().to_string())?;
        }
        splice::set(params, "arguments", &arguments)
    }
}

/// What is sent to the tool as the key.
pub(crate) fn passed_key(key: &Key, of: AttemptId) -> String {
    let digest = key.digest();
    // A later operation under a derived key is another one for the tool as well. The caller's own key always names the
    // same.
    let digest = if keys::is_callers_own(key) {
        digest
    } else {
        Digest::of_parts(&[digest.as_bytes(), &of.generation.to_be_bytes()])
    };
    digest.to_string()
}

/// What an answer proves (rule 2).
pub(crate) fn reply(reply: OwnReply, declared: &Answers) -> ToolReply {
    let evidence = || evidence(&reply);
    let any = |conditions: &[settled_observers::Condition]| {
        // A result that is no error may well quote one.
        let is_result = matches!(&reply, OwnReply::Result(result) if !is_error(result));
        !is_result && conditions.iter().any(|condition| condition.holds(&evidence()))
    };
    if any(&declared.busy_errors)
        && let Some(body) = body(&reply)
    {
        return ToolReply::Busy { retry_after: retry_after(&evidence(), declared), body };
    }
    if any(&declared.final_errors)
        && let Some(body) = body(&reply)
    {
        return ToolReply::Error(ErrorClass::NotRun, body);
    }
    match reply {
        OwnReply::Result(result) => {
            let body = Bytes::from(stored("result", &result));
            if asks_for_input(&result) {
                // Not an outcome: the tool waits for the client's answer, which comes as another call.
                ToolReply::Error(ErrorClass::NotRun, body)
            } else if is_error(&result) {
                ToolReply::Error(ErrorClass::Unproven, body)
            } else {
                ToolReply::Result(body)
            }
        }
        OwnReply::Error(error) => {
            let class = if comes_instead_of_a_run(&error) { ErrorClass::NotRun } else { ErrorClass::Unproven };
            ToolReply::Error(class, stored("error", &error).into())
        }
        OwnReply::Lost => ToolReply::ConnectionLost,
        OwnReply::NotSent(reason) => not_sent(&reason),
        OwnReply::Refused(refusal) => refused(refusal),
    }
}

/// The server did not run it, and may when it is asked again.
fn refused(refusal: Refusal) -> ToolReply {
    let message = quoted(&format!("it was not run: {}", refusal.words));
    let error = format!(r#"{{"code":{TRANSPORT_ERROR},"message":{message},"data":{}}}"#, refusal.data);
    let body = Bytes::from(stored("error", &error));
    match refusal.again {
        Some(after) => ToolReply::Busy { retry_after: Some(after), body },
        None => ToolReply::Error(ErrorClass::NotRun, body),
    }
}

/// Whether a result says that the tool failed.
pub(crate) fn is_error(result: &str) -> bool {
    splice::get(result, "isError") == Some("true")
}

fn body(reply: &OwnReply) -> Option<Bytes> {
    match reply {
        OwnReply::Result(result) => Some(stored("result", result).into()),
        OwnReply::Error(error) => Some(stored("error", error).into()),
        OwnReply::Lost | OwnReply::NotSent(_) | OwnReply::Refused(_) => None,
    }
}

/// What conditions see of an answer.
fn evidence(reply: &OwnReply) -> Evidence {
    match reply {
        OwnReply::Result(result) => Evidence { body: serde_json::from_str(result).ok(), ..Evidence::default() },
        OwnReply::Error(error) => Evidence {
            code: splice::get(error, "code").and_then(|code| serde_json::from_str(code).ok()),
            body: serde_json::from_str(error).ok(),
            ..Evidence::default()
        },
        OwnReply::Lost | OwnReply::NotSent(_) | OwnReply::Refused(_) => Evidence::default(),
    }
}

/// After how many seconds a busy tool may be asked again, if it says so.
fn retry_after(evidence: &Evidence, declared: &Answers) -> Option<Duration> {
    let found = declared.retry_after_at.as_ref()?.find(evidence.body.as_ref()?)?;
    let seconds = match &*found {
        serde_json::Value::Number(number) => number.as_f64(),
        serde_json::Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    seconds.filter(|seconds: &f64| *seconds >= 0.0).map(|seconds| Duration::from_secs_f64(seconds.min(LONGEST_REST)))
}

fn comes_instead_of_a_run(error: &str) -> bool {
    let code = splice::get(error, "code").and_then(|code| serde_json::from_str::<i64>(code).ok());
    // Some servers also report a result that does not fit its schema as invalid parameters: that comes after the run.
    let message = splice::get_string(error, "message").unwrap_or_default().to_lowercase();
    let of_the_result = ["output", "structured content", "structuredcontent"].iter().any(|word| message.contains(word));
    code.is_some_and(|code| NOT_RUN.contains(&code)) && !of_the_result
}

fn not_sent(reason: &str) -> ToolReply {
    let message = quoted(&format!("nothing was sent: {reason}"));
    let error = format!(r#"{{"code":{TRANSPORT_ERROR},"message":{message}}}"#);
    ToolReply::Error(ErrorClass::NotRun, stored("error", &error).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(answer: OwnReply) -> Option<ErrorClass> {
        match reply(answer, &Answers::default()) {
            ToolReply::Error(class, _) => Some(class),
            _ => None,
        }
    }

    #[test]
    fn what_an_answer_proves() {
        let result = |text: &str| OwnReply::Result(text.to_owned());
        let error = |text: &str| OwnReply::Error(text.to_owned());
        let plain = |answer| reply(answer, &Answers::default());
        assert_eq!(plain(result(r#"{"content":[]}"#)), ToolReply::Result(r#"{"result":{"content":[]}}"#.into()));
        assert_eq!(class(result(r#"{"isError": true}"#)), Some(ErrorClass::Unproven));
        assert_eq!(class(result(r#"{"isError":false}"#)), None);
        assert_eq!(class(result(r#"{"resultType":"input_required"}"#)), Some(ErrorClass::NotRun));
        for code in NOT_RUN {
            assert_eq!(class(error(&format!(r#"{{"code":{code},"message":"x"}}"#))), Some(ErrorClass::NotRun));
        }
        assert_eq!(class(error(r#"{"code":-32603}"#)), Some(ErrorClass::Unproven));
        assert_eq!(class(error(r#"{"code":-32602,"message":"Output validation error"}"#)), Some(ErrorClass::Unproven));
        assert_eq!(class(error(r#"[]"#)), Some(ErrorClass::Unproven));
        assert_eq!(plain(OwnReply::Lost), ToolReply::ConnectionLost);
        assert_eq!(class(OwnReply::NotSent("x".to_owned())), Some(ErrorClass::NotRun));
    }

    #[test]
    fn what_the_tool_declares_of_its_answers() {
        let text = "[tools.t]\nfinal_errors = { at = '/structuredContent/code', is = 'card_declined' }\n\
                    busy_errors = [{ code = -32001 }, { at = '/structuredContent/code', is = 'busy' }]\n\
                    retry_after_at = '/data/seconds'";
        let config = crate::Config::parse("settled.toml".as_ref(), text).unwrap();
        let reply = |answer| reply(answer, &config.tools["t"].answers);
        let result = |text: &str| OwnReply::Result(text.to_owned());
        let declined = r#"{"structuredContent":{"code":"card_declined"},"isError":true}"#;
        let body = Bytes::from(stored("result", declined));
        assert_eq!(reply(result(declined)), ToolReply::Error(ErrorClass::NotRun, body));
        let other = r#"{"structuredContent":{"code":"timeout"},"isError":true}"#;
        let body = Bytes::from(stored("result", other));
        assert_eq!(reply(result(other)), ToolReply::Error(ErrorClass::Unproven, body));
        let busy = |error: &str| match reply(OwnReply::Error(error.to_owned())) {
            ToolReply::Busy { retry_after, .. } => Some(retry_after),
            _ => None,
        };
        assert_eq!(busy(r#"{"code":-32001,"data":{"seconds":2.5}}"#), Some(Some(Duration::from_millis(2500))));
        assert_eq!(busy(r#"{"code":-32001,"data":{"seconds":"7"}}"#), Some(Some(Duration::from_secs(7))));
        assert_eq!(busy(r#"{"code":-32001,"data":{"seconds":-1}}"#), Some(None));
        assert_eq!(busy(r#"{"code":-32001}"#), Some(None));
        assert_eq!(busy(r#"{"code":-32002}"#), None);
        assert_eq!(reply(OwnReply::Lost), ToolReply::ConnectionLost);
    }
}

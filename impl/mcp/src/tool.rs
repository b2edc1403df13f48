//! A tool behind the MCP server, as the engine sees it.

use async_trait::async_trait;
use bytes::Bytes;
use settled::{Outgoing, Tool, ToolReply};
use settled_protocol::{Digest, ErrorClass};
use tokio::sync::watch;

use crate::answer::{asks_for_input, stored};
use crate::book::OwnReply;
use crate::keys;
use crate::server::{ServerHandle, TRANSPORT_ERROR, raised};
use crate::splice::{self, quoted};

/// JSON-RPC errors that come instead of a run of the tool: parse error, invalid request, unknown method, invalid
/// parameters.
const NOT_RUN: [i64; 4] = [-32700, -32600, -32601, -32602];

/// Sends `tools/call` with the parameters that the client sent.
pub(crate) struct McpTool {
    pub(crate) server: ServerHandle,
    /// The session is open: the server takes calls.
    pub(crate) ready: watch::Receiver<bool>,
    /// Nobody will open it any more.
    pub(crate) closing: watch::Receiver<bool>,
    /// The argument under which the tool expects the key.
    pub(crate) pass_key_as: Option<String>,
}

#[async_trait]
impl Tool for McpTool {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        let (mut ready, mut closing) = (self.ready.clone(), self.closing.clone());
        let open = tokio::select! {
            biased;
            () = raised(&mut ready) => true,
            () = raised(&mut closing) => false,
        };
        if !open {
            return not_sent("no client has opened a session with the server");
        }
        let Some(params) = self.params(outgoing) else {
            return not_sent("the recorded arguments of this call can't be read");
        };
        reply(self.server.request("tools/call", &params, || outgoing.sent()).await)
    }
}

impl McpTool {
    fn params(&self, outgoing: &Outgoing) -> Option<String> {
        let params = str::from_utf8(&outgoing.arguments).ok()?;
        let Some(name) = &self.pass_key_as else {
            return Some(params.to_owned());
        };
        let key = outgoing.key.digest();
        // A later operation under a derived key is another one for the tool as well. The caller's own key always names
        // the same.
        let key = if keys::is_callers_own(&outgoing.key) {
            key
        } else {
            Digest::of_parts(&[key.as_bytes(), &outgoing.attempt.generation.to_be_bytes()])
        };
        let arguments = splice::get(params, "arguments").unwrap_or("{}");
        let arguments = splice::set(arguments, name, &quoted(&key.to_string()))?;
        splice::set(params, "arguments", &arguments)
    }
}

/// What an answer proves (rule 2).
fn reply(reply: OwnReply) -> ToolReply {
    match reply {
        OwnReply::Result(result) => {
            let body = Bytes::from(stored("result", &result));
            if asks_for_input(&result) {
                // Not an outcome: the tool waits for the client's answer, which comes as another call.
                ToolReply::Error(ErrorClass::NotRun, body)
            } else if splice::get(&result, "isError") == Some("true") {
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
    }
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
        match reply(answer) {
            ToolReply::Error(class, _) => Some(class),
            _ => None,
        }
    }

    #[test]
    fn what_an_answer_proves() {
        let result = |text: &str| OwnReply::Result(text.to_owned());
        let error = |text: &str| OwnReply::Error(text.to_owned());
        assert_eq!(reply(result(r#"{"content":[]}"#)), ToolReply::Result(r#"{"result":{"content":[]}}"#.into()));
        assert_eq!(class(result(r#"{"isError": true}"#)), Some(ErrorClass::Unproven));
        assert_eq!(class(result(r#"{"isError":false}"#)), None);
        assert_eq!(class(result(r#"{"resultType":"input_required"}"#)), Some(ErrorClass::NotRun));
        for code in NOT_RUN {
            assert_eq!(class(error(&format!(r#"{{"code":{code},"message":"x"}}"#))), Some(ErrorClass::NotRun));
        }
        assert_eq!(class(error(r#"{"code":-32603}"#)), Some(ErrorClass::Unproven));
        assert_eq!(class(error(r#"{"code":-32602,"message":"Output validation error"}"#)), Some(ErrorClass::Unproven));
        assert_eq!(class(error(r#"[]"#)), Some(ErrorClass::Unproven));
        assert_eq!(reply(OwnReply::Lost), ToolReply::ConnectionLost);
        assert_eq!(class(OwnReply::NotSent("x".to_owned())), Some(ErrorClass::NotRun));
    }
}

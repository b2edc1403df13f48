//! The tool as MCP has it: what is answered to each message. Sessions are not needed, and there are none.

use serde_json::{Value, json};

use super::step::{Cut, Tool, Wish};

/// The newest revision that is spoken; whatever older one a client asks for is, too.
const REVISION: &str = "2025-11-25";

/// What is answered; nothing to a notification.
pub async fn answer(tool: &Tool, message: Value) -> Result<Option<Value>, Cut> {
    let Value::Array(batch) = message else { return one(tool, message).await };
    let mut replies = Vec::new();
    for message in batch {
        replies.extend(one(tool, message).await?);
    }
    Ok((!replies.is_empty()).then_some(Value::Array(replies)))
}

/// What is answered to what is no message.
pub fn unreadable() -> Value {
    error(&Value::Null, -32700, "this is not JSON")
}

/// The call that a message makes, if it does.
pub fn wish(message: &Value) -> Option<Wish> {
    (message["method"] == "tools/call").then(|| serde_json::from_value(message["params"]["arguments"].clone()).ok())?
}

async fn one(tool: &Tool, message: Value) -> Result<Option<Value>, Cut> {
    let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else { return Ok(None) };
    let result = match method {
        "initialize" => {
            let asked = message["params"]["protocolVersion"].as_str().filter(|asked| *asked < REVISION);
            json!({
                "protocolVersion": asked.unwrap_or(REVISION),
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "profile-tool", "version": env!("CARGO_PKG_VERSION") },
            })
        }
        "ping" => json!({}),
        "tools/list" => json!({ "tools": [definition()] }),
        "tools/call" if message["params"]["name"] != "step" => {
            return Ok(Some(error(id, -32602, "there is one tool, `step`")));
        }
        "tools/call" => match wish(&message) {
            Some(wish) => {
                let done = json!({ "step": wish.step, "ok": true });
                tool.step(wish).await?;
                json!({ "content": [{ "type": "text", "text": done.to_string() }], "isError": false })
            }
            None => return Ok(Some(error(id, -32602, "the arguments are `run` and `step`"))),
        },
        _ => return Ok(Some(error(id, -32601, "there is no such method"))),
    };
    Ok(Some(json!({ "jsonrpc": "2.0", "id": id, "result": result })))
}

fn definition() -> Value {
    json!({
        "name": "step",
        "description": "Has the effect of one step of a run.",
        "inputSchema": {
            "type": "object",
            "properties": { "run": { "type": "string" }, "step": { "type": "string" } },
            "required": ["run", "step"],
        },
        "annotations": { "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true },
    })
}

fn error(id: &Value, code: i32, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

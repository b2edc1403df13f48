//! What the clients say, and how they know an answer.

use serde::Deserialize;

use crate::error::BenchError;
use crate::mcp::Tool;

/// The revision of MCP that is spoken.
pub const REVISION: &str = "2025-06-18";

/// Opens a session.
pub fn initialize() -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{REVISION}","capabilities":{{}},"clientInfo":{{"name":"settled-bench","version":"1"}}}}}}"#
    )
}

/// Says that it is open.
pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Asks for the tools.
pub const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// Calls a tool. No two calls are alike: `number` is in the arguments, too.
pub fn call(id: u64, tool: Tool, number: u64) -> String {
    let name = match tool {
        Tool::Read => "read",
        Tool::Charge => "charge",
    };
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}","arguments":{{"customer":"alice","cents":4200,"order":{number}}}}}}}"#
    )
}

#[derive(Deserialize)]
struct Answer<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    result: Option<&'a serde_json::value::RawValue>,
    #[serde(borrow)]
    error: Option<&'a serde_json::value::RawValue>,
}

/// The id that a message answers; `None` if it answers nothing.
///
/// # Errors
/// If it is an error: then there is nothing to measure.
pub fn answered(message: &str) -> Result<Option<u64>, BenchError> {
    let Ok(answer) = serde_json::from_str::<Answer<'_>>(message) else { return Ok(None) };
    match (answer.id, answer.result, answer.error) {
        (_, _, Some(error)) => Err(BenchError::Answer(error.get().to_owned())),
        (Some(id), Some(result), None) if !result.get().contains(r#""isError":true"#) => Ok(Some(id)),
        (Some(_), Some(result), None) => Err(BenchError::Answer(result.get().to_owned())),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        assert_eq!(answered(r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#).unwrap(), Some(7));
        assert_eq!(answered(r#"{"jsonrpc":"2.0","method":"notifications/message"}"#).unwrap(), None);
        assert_eq!(answered(r#"{"jsonrpc":"2.0","id":"x","method":"ping"}"#).unwrap(), None);
        assert!(answered(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}"#).is_err());
        assert!(answered(r#"{"jsonrpc":"2.0","id":7,"result":{"isError":true}}"#).is_err());
        let call: serde_json::Value = serde_json::from_str(&call(3, Tool::Charge, 9)).unwrap();
        assert_eq!((call["id"].as_u64(), call["params"]["name"].as_str()), (Some(3), Some("charge")));
        assert_eq!(call["params"]["arguments"]["order"], 9);
    }
}

//! The shapes of JSON-RPC answers and of tools' results, changed as text.

use serde_json::{Value, json};

use super::STATUS;
use crate::messages::splice::{self, quoted};

/// A JSON-RPC error.
pub(crate) fn error_line(id: &str, code: i64, message: &str, data: Option<&Value>) -> String {
    let data = data.map(|data| format!(",\"data\":{data}")).unwrap_or_default();
    let message = quoted(message);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{data}}}}}"#)
}

/// A JSON-RPC result.
pub(crate) fn result_line(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// What was stored of a tool's answer: exactly one member, `result` or `error`.
pub(crate) fn stored(member: &str, text: &str) -> String {
    format!(r#"{{"{member}":{text}}}"#)
}

/// Whether a result only asks the client for more (revision 2026-07-28, multi-round-trip requests).
pub(crate) fn asks_for_input(result: &str) -> bool {
    splice::get_string(result, "resultType").is_some_and(|kind| kind == "input_required")
}

/// Whether a result is only the handle of a task of the server's: with a `task` where the client has asked for one (revision
/// 2025-11-25), or by its type (the tasks extension of revision 2026-07-28).
pub(crate) fn is_task(result: &str, asked_for: bool) -> bool {
    (asked_for && splice::get(result, "task").is_some())
        || splice::get_string(result, "resultType").is_some_and(|kind| kind == "task")
}

/// The error with the mark in its `data`, if there is room.
pub(super) fn marked_error(error: &str, status: &Value) -> Option<String> {
    let data = splice::set(splice::get(error, "data").unwrap_or("{}"), STATUS, &status.to_string())?;
    splice::set(error, "data", &data)
}

/// The result with a text block more.
pub(super) fn with_block(result: &str, text: &str) -> String {
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

/// The error with a sentence more.
pub(super) fn with_sentence(error: &str, text: &str) -> String {
    let message = splice::get_string(error, "message").unwrap_or_default();
    let longer = if message.is_empty() { text.to_owned() } else { format!("{message} [{text}]") };
    splice::set(error, "message", &quoted(&longer)).unwrap_or_else(|| error.to_owned())
}

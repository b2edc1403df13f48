//! What came back from a call.

use serde_json::Value;

/// The answer to one call, or that there was none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// A result.
    Success(Value),
    /// A result with `isError: true`.
    ToolError(Value),
    /// A JSON-RPC error.
    Error(Value),
    /// None, for this reason.
    None(Missing),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Missing {
    #[error("the server ended{0}")]
    Died(String),
    #[error("no answer within {0}")]
    Timeout(String),
    #[error("{0}")]
    Unreadable(String),
    #[error("the connection failed: {0}")]
    Connection(String),
    #[error("the answer was dropped")]
    Dropped,
}

impl Answer {
    /// From a JSON-RPC response.
    pub(crate) fn of(mut response: Value) -> Answer {
        if let Some(error) = response.get_mut("error").filter(|error| !error.is_null()) {
            return Answer::Error(error.take());
        }
        match response.get_mut("result") {
            Some(result) if result.get("isError") == Some(&Value::Bool(true)) => Answer::ToolError(result.take()),
            Some(result) => Answer::Success(result.take()),
            None => Answer::None(Missing::Unreadable("an answer with neither result nor error".to_owned())),
        }
    }

    pub(crate) fn is_success(&self) -> bool {
        matches!(self, Answer::Success(_))
    }

    /// Whether it says that the call failed.
    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Answer::ToolError(_) | Answer::Error(_))
    }

    /// What it says, without what is only about the transport.
    pub(crate) fn text(&self) -> String {
        match self {
            Answer::Success(result) | Answer::ToolError(result) => {
                let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
                let texts: Vec<&str> = blocks.filter_map(|block| block.get("text")?.as_str()).collect();
                match (texts.is_empty(), result.get("structuredContent")) {
                    (true, Some(structured)) => structured.to_string(),
                    (true, None) => result.to_string(),
                    (false, _) => texts.join("\n"),
                }
            }
            Answer::Error(error) => {
                let message = error.get("message").and_then(Value::as_str).unwrap_or("an error without message");
                let code = error.get("code").map(|code| format!("{code}: ")).unwrap_or_default();
                format!("{code}{message}")
            }
            Answer::None(missing) => missing.to_string(),
        }
    }

    /// In a line.
    pub(crate) fn line(&self) -> String {
        let text = short(&self.text(), 160);
        match self {
            Answer::Success(_) => format!("success: {text}"),
            Answer::ToolError(_) => format!("isError: {text}"),
            Answer::Error(_) => format!("error {text}"),
            Answer::None(_) => format!("none: {text}"),
        }
    }
}

/// A text in one line of at most so many characters.
pub(crate) fn short(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

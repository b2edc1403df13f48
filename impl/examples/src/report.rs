//! What the client saw: one outcome per attempt, for people as a line and for programs through serde.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// All attempts that the client made for one call, in order. There is at least one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientReport {
    /// The attempts, numbered from 1.
    pub attempts: Vec<Attempt>,
}

impl ClientReport {
    /// Whether the last attempt got a result that is not an error result.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.attempts.last().is_some_and(|attempt| matches!(attempt.outcome, Outcome::Result { is_error: false, .. }))
    }
}

/// One sending of the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Counted from 1.
    pub number: u64,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// How an attempt ended, as seen by the client. Serialised with a member `outcome` that names the variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// A tool result arrived.
    Result {
        /// Whether the result says that the tool failed (`isError`).
        is_error: bool,
        /// The result's text blocks, joined by line breaks; empty if it has none.
        text: String,
        /// The result's `_meta`, unchanged.
        #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
        meta: Option<Map<String, Value>>,
    },
    /// A JSON-RPC error arrived instead of a result.
    Error {
        /// The JSON-RPC error code.
        code: i32,
        /// The error's message.
        message: String,
        /// The error's data, unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    /// No answer came within the timeout.
    TimedOut {
        /// The timeout in milliseconds.
        after_ms: u64,
    },
    /// The connection could not be set up, or ended before an answer came.
    ConnectionLost {
        /// What the client knows about it.
        reason: String,
    },
    /// An answer came that is neither a tool result nor an error.
    Unusable {
        /// What is wrong with it.
        reason: String,
    },
}

impl Outcome {
    /// Whether a client of the common kind calls again: no answer came. Any answer, an error too, ends the call.
    #[must_use]
    pub fn is_retried(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::ConnectionLost { .. })
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {}: {}", self.number, self.outcome)
    }
}

impl fmt::Display for Outcome {
    /// One line, whatever the server's text holds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Result { text, .. } if text.is_empty() => f.write_str("a result without text"),
            Self::Result { is_error: false, text, .. } => write!(f, "{}", OneLine(text)),
            Self::Result { is_error: true, text, .. } => write!(f, "error result: {}", OneLine(text)),
            Self::Error { code, message, .. } => write!(f, "error {code}: {}", OneLine(message)),
            Self::TimedOut { after_ms } => write!(f, "timed out after {after_ms} ms"),
            Self::ConnectionLost { reason } => write!(f, "connection lost: {}", OneLine(reason)),
            Self::Unusable { reason } => write!(f, "unusable answer: {}", OneLine(reason)),
        }
    }
}

/// Text from elsewhere with its control characters made harmless for a terminal.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.split_inclusive(char::is_control) {
            let text = part.trim_end_matches(char::is_control);
            f.write_str(text)?;
            if text.len() < part.len() {
                f.write_str(" ")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn attempt(outcome: Outcome) -> Attempt {
        Attempt { number: 2, outcome }
    }

    #[test]
    fn an_attempt_is_one_line_for_people() {
        let result = |is_error, text: &str| Outcome::Result { is_error, text: text.into(), meta: None };
        for (outcome, line) in [
            (result(false, "charged alice 4200"), "attempt 2: charged alice 4200"),
            (result(true, "no\n\u{1b}[31mmoney"), "attempt 2: error result: no  [31mmoney"),
            (result(false, ""), "attempt 2: a result without text"),
            (Outcome::TimedOut { after_ms: 600 }, "attempt 2: timed out after 600 ms"),
            (Outcome::ConnectionLost { reason: "gone".into() }, "attempt 2: connection lost: gone"),
            (Outcome::Error { code: -32602, message: "no".into(), data: None }, "attempt 2: error -32602: no"),
        ] {
            assert_eq!(attempt(outcome).to_string(), line);
        }
    }

    #[test]
    fn a_report_keeps_meta_through_serde_and_knows_success() {
        let meta = json!({"example.com/replayed": true});
        let report = ClientReport {
            attempts: vec![attempt(Outcome::Result {
                is_error: true,
                text: "x".into(),
                meta: meta.as_object().cloned(),
            })],
        };
        let value = serde_json::to_value(&report).unwrap();
        assert_eq!(
            value,
            json!({"attempts": [{"number": 2, "outcome": "result", "is_error": true, "text": "x", "_meta": meta}]})
        );
        assert_eq!(serde_json::from_value::<ClientReport>(value).unwrap(), report);
        assert!(!report.succeeded());
    }
}

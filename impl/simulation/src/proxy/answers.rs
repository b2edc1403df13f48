//! Reading what a proxy's client is told.

use std::time::UNIX_EPOCH;

use bytes::Bytes;
use serde_json::Value;
use settled::Answer;

const STATUS: &str = "io.settled/status";

/// What was told.
pub(crate) struct Read {
    pub(crate) answer: Answer,
    /// When the operation began, by the record.
    pub(crate) created: Option<u64>,
}

/// Reads an answer; none: it doesn't say how things stand, since nothing was sent.
pub(crate) fn read(message: &Value) -> Option<Read> {
    let result = message.pointer("/result");
    let status = match result {
        Some(result) => result.get("_meta")?.get(STATUS)?,
        None => message.pointer("/error/data")?.get(STATUS)?,
    };
    let text = match result {
        Some(result) => result.pointer("/content/0/text"),
        None => message.pointer("/error/message"),
    };
    let text = Bytes::from(text.and_then(Value::as_str).unwrap_or_default().to_owned());
    let replayed = status.get("replayed").and_then(Value::as_bool).unwrap_or_default();
    let answer = match status.get("status")?.as_str()? {
        "done" => Answer::Done { result: text, replayed },
        "failed" => Answer::Failed { error: Some(text), replayed },
        "unknown" => Answer::Unknown { error: None, replayed },
        "in_progress" => Answer::InProgress,
        "conflict" => Answer::Conflict,
        "expired" => Answer::Expired,
        _ => return None,
    };
    let created = status.get("createdAt").and_then(Value::as_str).and_then(millis);
    Some(Read { answer, created })
}

fn millis(text: &str) -> Option<u64> {
    let since = humantime::parse_rfc3339(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

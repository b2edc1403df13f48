//! A tool of the server that tells its state: each value of its answer, by its place.

use serde_json::Value;

use super::{Observing, is_ignored};
use crate::answer::Answer;
use crate::client::{Call, Client};
use crate::error::AuditError;
use crate::leaves::leaves;
use crate::state::Item;

pub(super) async fn read(
    client: &Client,
    observer: &Observing,
    ignore: &[String],
) -> Result<Vec<(String, Item)>, AuditError> {
    let call = Call { tool: observer.tool.clone(), arguments: observer.arguments.clone(), key: None, id: None };
    let answer = client.call(&call).await;
    let Answer::Success(result) = &answer else {
        return Err(AuditError::Watch { what: format!("tool {}", observer.tool), problem: answer.line() });
    };
    let value = match result.get("structuredContent") {
        Some(structured) => structured.clone(),
        None => {
            let text = answer.text();
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        }
    };
    let found = leaves(&value).into_iter().filter(|(place, _)| !is_ignored(place, ignore));
    Ok(found.map(|(place, value)| (place, Item::value(value))).collect())
}

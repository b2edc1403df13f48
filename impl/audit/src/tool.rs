//! A tool, as the server lists it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool of the server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it expects.
    #[serde(default)]
    pub input_schema: Value,
    /// What it claims of itself.
    #[serde(default, deserialize_with = "lenient")]
    pub annotations: Annotations,
}

/// What a tool claims of itself. Nothing that is not there is claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Annotations {
    /// It changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It may delete or overwrite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Called again with the same arguments it changes nothing further.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It reaches beyond the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl Annotations {
    /// Whether the tool claims to change nothing.
    #[must_use]
    pub fn reads_only(&self) -> bool {
        self.read_only_hint == Some(true)
    }

    /// In the words of the protocol, those that are there.
    #[must_use]
    pub fn words(&self) -> String {
        let hints = [
            ("readOnlyHint", self.read_only_hint),
            ("destructiveHint", self.destructive_hint),
            ("idempotentHint", self.idempotent_hint),
            ("openWorldHint", self.open_world_hint),
        ];
        let said = hints.iter().filter_map(|(name, hint)| hint.map(|hint| format!("{name}: {hint}")));
        let said: Vec<String> = said.collect();
        if said.is_empty() { "none".to_owned() } else { said.join(", ") }
    }
}

/// Annotations of another shape claim nothing.
fn lenient<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Annotations, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

//! The file that says what tools are called with.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::AuditError;
use crate::template::PLACEHOLDERS;

/// What tools are called with.
///
/// ```toml
/// [tools.move_file]
/// arguments = { source = "{directory}/{unique}.txt", destination = "{directory}/{unique}.moved" }
/// before = [{ tool = "write_file", arguments = { path = "{directory}/{unique}.txt", content = "{unique}" } }]
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArgumentsFile {
    /// By tool.
    #[serde(default)]
    pub tools: BTreeMap<String, Prepared>,
    /// What the observer is called with.
    #[serde(default)]
    pub observer: Map<String, Value>,
}

/// What one tool is called with.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepared {
    /// The arguments. `{unique}` (a word), `{number}`, `{uuid}` are others in each experiment; `{directory}` is the first directory
    /// that is watched.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// What is called before, once in each experiment, with the same fresh words, to make what the call needs.
    #[serde(default)]
    pub before: Vec<Before>,
}

/// A call that makes what another needs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Before {
    /// The tool.
    pub tool: String,
    /// What it is called with.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

impl ArgumentsFile {
    /// Reads a file: JSON if its name ends so, else TOML.
    ///
    /// # Errors
    /// If it can't be read or understood.
    pub fn load(path: &Path) -> Result<ArgumentsFile, AuditError> {
        let wrong = |problem: String| AuditError::File { path: path.to_owned(), problem };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let file: ArgumentsFile = if path.extension().is_some_and(|extension| extension == "json") {
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?
        } else {
            toml::from_str(&text).map_err(|error| wrong(error.to_string()))?
        };
        for (tool, prepared) in &file.tools {
            let before = prepared.before.iter().map(|before| &before.arguments);
            for arguments in before.chain([&prepared.arguments]) {
                check(&Value::Object(arguments.clone()))
                    .map_err(|unknown| wrong(format!("tools.{tool}: {{{unknown}}} is none of {}", known())))?;
            }
        }
        Ok(file)
    }
}

fn known() -> String {
    PLACEHOLDERS.map(|name| format!("{{{name}}}")).join(", ")
}

/// A placeholder that isn't one is more likely a slip than a wish. (A brace that isn't the beginning of a word is just a brace.)
fn check(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) => {
            let mut rest = text.as_str();
            while let Some((_, after)) = rest.split_once('{') {
                if let Some((name, _)) = after.split_once('}')
                    && !name.is_empty()
                    && name.chars().all(|letter| letter.is_ascii_lowercase())
                    && !PLACEHOLDERS.contains(&name)
                {
                    return Err(name.to_owned());
                }
                rest = after;
            }
            Ok(())
        }
        Value::Array(elements) => elements.iter().try_for_each(check),
        Value::Object(members) => members.values().try_for_each(check),
        _ => Ok(()),
    }
}

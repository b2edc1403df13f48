//! Arguments with placeholders, filled in anew for each experiment.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Number, Value};

use crate::error::AuditError;

/// `{name}`s that are filled in.
pub(crate) const PLACEHOLDERS: [&str; 4] = ["unique", "number", "uuid", "directory"];

/// Gives what no call before has been given.
#[derive(Debug)]
pub(crate) struct Source {
    run: [u8; 3],
    count: AtomicU64,
    directory: Option<String>,
}

/// What one experiment's calls are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fresh {
    /// A word: letters and digits, always of one length.
    pub(crate) unique: String,
    number: u64,
    directory: Option<String>,
}

impl Source {
    pub(crate) fn new(directory: Option<String>) -> Result<Source, AuditError> {
        let mut run = [0; 3];
        getrandom::fill(&mut run).map_err(|error| AuditError::Input(format!("no randomness: {error}")))?;
        Ok(Source { run, count: AtomicU64::new(1), directory })
    }

    pub(crate) fn fresh(&self) -> Fresh {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let [a, b, c] = self.run;
        Fresh {
            unique: format!("x{a:02x}{b:02x}{c:02x}n{count:04}"),
            // Numbers of another audit of the same server are others, and all are exact in JSON.
            number: (0x0100_0000 + u64::from(u32::from_be_bytes([0, a, b, c]))) * 10_000 + count,
            directory: self.directory.clone(),
        }
    }
}

impl Fresh {
    /// The arguments with everything filled in.
    pub(crate) fn fill(&self, template: &Map<String, Value>) -> Result<Value, AuditError> {
        let members = template.iter().map(|(name, value)| Ok((name.clone(), self.value(value)?)));
        Ok(Value::Object(members.collect::<Result<_, AuditError>>()?))
    }

    /// A text without what was filled in.
    pub(crate) fn strip(&self, text: &str) -> String {
        let text = text.replace(&self.unique, "\u{1}").replace(&self.uuid(), "\u{1}");
        text.replace(&self.number.to_string(), "\u{1}")
    }

    fn uuid(&self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", self.number)
    }

    fn value(&self, template: &Value) -> Result<Value, AuditError> {
        match template {
            Value::String(text) if text == "{number}" => Ok(Value::Number(Number::from(self.number))),
            Value::String(text) => self.text(text).map(Value::String),
            Value::Array(elements) => elements.iter().map(|element| self.value(element)).collect(),
            Value::Object(members) => self.fill(members),
            other => Ok(other.clone()),
        }
    }

    fn text(&self, template: &str) -> Result<String, AuditError> {
        let mut text = template.replace("{unique}", &self.unique).replace("{number}", &self.number.to_string());
        if text.contains("{uuid}") {
            text = text.replace("{uuid}", &self.uuid());
        }
        match (&self.directory, text.contains("{directory}")) {
            (Some(directory), true) => Ok(text.replace("{directory}", directory)),
            (None, true) => Err(AuditError::Input(format!(
                "`{template}`: {{directory}} is the directory that is watched, and none is: give `--watch DIR`"
            ))),
            (_, false) => Ok(text),
        }
    }
}

/// Whether what is called differs from one experiment to the next.
pub(crate) fn is_fresh_each_time(template: &Map<String, Value>) -> bool {
    template.values().any(is_fresh)
}

/// Whether a value of an argument does.
pub(crate) fn is_fresh(value: &Value) -> bool {
    let text = value.to_string();
    ["{unique}", "{number}", "{uuid}"].iter().any(|placeholder| text.contains(placeholder))
}

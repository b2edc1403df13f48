//! Secrets are passed on to the server, which may say them: they are never printed.

use std::ffi::OsString;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const HIDDEN: &str = "[hidden]";
/// Shorter values are in all sorts of words.
const SHORTEST: usize = 6;
const SUSPICIOUS: [&str; 9] =
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH", "COOKIE", "DATABASE_URL"];

/// What is not to be printed.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// The values of variables whose names say that they are secret, and these.
    pub fn new(
        environment: impl Iterator<Item = (OsString, OsString)>,
        more: impl IntoIterator<Item = String>,
    ) -> Secrets {
        let named = environment.filter_map(|(name, value)| {
            let name = name.to_string_lossy().to_ascii_uppercase();
            SUSPICIOUS.iter().any(|word| name.contains(word)).then(|| value.to_string_lossy().into_owned())
        });
        let mut values: Vec<String> = named.chain(more).filter(|value| value.len() >= SHORTEST).collect();
        // One that is part of another is hidden after it.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Secrets(values)
    }

    /// A text without them.
    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), HIDDEN))
    }

    /// A report without them. What can't be written as JSON is left out: it isn't printed at all.
    pub(crate) fn hide_in<T: Serialize + DeserializeOwned>(&self, report: T) -> Result<T, serde_json::Error> {
        let mut value = serde_json::to_value(&report)?;
        self.hide_value(&mut value);
        serde_json::from_value(value)
    }

    fn hide_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.hide(text),
            Value::Array(elements) => elements.iter_mut().for_each(|element| self.hide_value(element)),
            Value::Object(members) => members.values_mut().for_each(|member| self.hide_value(member)),
            _ => {}
        }
    }
}

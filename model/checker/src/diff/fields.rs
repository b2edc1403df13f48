//! The fields in which two descriptions differ, as written in TOML.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;
use serde_json::Value;

use crate::description::Description;

/// Fields that say nothing of what a protocol does.
const WORDS: [&str; 3] = ["name", "about", "source"];

/// One field with its values in two descriptions. Printed as a line of TOML to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// The table that it stands in, as `caller`.
    pub table: String,
    /// Its name.
    pub key: String,
    /// Its value before, as written in TOML; `None`: left out.
    pub before: Option<String>,
    /// Its value after.
    pub after: Option<String>,
}

impl Display for FieldChange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "(left out)".to_owned());
        write!(f, "[{}] {} = {} → {}", self.table, self.key, value(&self.before), value(&self.after))
    }
}

/// The fields in which two descriptions differ, in the order of the description; names and texts left out.
pub fn field_changes(before: &Description, after: &Description) -> Vec<FieldChange> {
    let (before, after) = (fields(before), fields(after));
    let there = |all: &[Field], field: &Field| {
        all.iter().find(|(table, key, _)| (table, key) == (&field.0, &field.1)).map(|(_, _, value)| value.clone())
    };
    let added = after.iter().filter(|field| there(&before, field).is_none());
    let each = before.iter().chain(added);
    let changes = each.map(|field| FieldChange {
        table: field.0.clone(),
        key: field.1.clone(),
        before: there(&before, field).or_else(|| unwritten(&field.0)),
        after: there(&after, field).or_else(|| unwritten(&field.0)),
    });
    changes.filter(|change| change.before != change.after).collect()
}

/// What a field that is not written stands for: a fault that is left out can't happen.
fn unwritten(table: &str) -> Option<String> {
    (table == "faults").then(|| "0".to_owned())
}

type Field = (String, String, String);

fn fields(description: &Description) -> Vec<Field> {
    let mut all = Vec::new();
    if let Ok(Value::Object(tables)) = serde_json::to_value(description) {
        for (name, table) in tables.iter().filter(|(name, _)| !WORDS.contains(&name.as_str())) {
            flatten(name, table, &mut all);
        }
    }
    all
}

fn flatten(path: &str, table: &Value, all: &mut Vec<Field>) {
    for (key, value) in table.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) => flatten(&format!("{path}.{key}"), value, all),
            // Words, numbers and booleans are written alike in JSON and in TOML.
            value => all.push((path.to_owned(), key.clone(), value.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::{KeySource, Kind};

    #[test]
    fn changes_are_lines_of_toml() {
        let before: Description = toml::from_str("name = \"x\"\nabout = \"y\"\n").unwrap();
        let mut after = before.clone();
        after.name = "z".to_owned();
        after.caller.key = KeySource::PerCall;
        after.guard.rules.hold_unknown = false;
        after.tool.declared = Some(Kind::Sealable);
        after.faults.timeouts = 2;
        let lines: Vec<_> = field_changes(&before, &after).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "[caller] key = \"caller\" → \"per-call\"",
                "[guard.rules] hold-unknown = true → false",
                "[tool] declared = (left out) → \"sealable\"",
                "[faults] timeouts = 0 → 2",
            ]
        );
        assert_eq!(field_changes(&before, &before), []);
    }
}

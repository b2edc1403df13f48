//! A JSON document as its values, each by its place.

use serde_json::Value;

/// The values, by their JSON pointers. What is empty has none, so that the first element of a list is like any other.
pub(crate) fn leaves(document: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    walk(document, String::new(), &mut found);
    found
}

fn walk(value: &Value, place: String, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                walk(member, format!("{place}/{name}"), found);
            }
        }
        Value::Array(elements) => {
            for (at, element) in elements.iter().enumerate() {
                walk(element, format!("{place}/{at}"), found);
            }
        }
        // A text of many lines, as tools for people give it.
        Value::String(text) if text.lines().count() > 1 => {
            found.extend(text.lines().enumerate().map(|(at, line)| (format!("{place}/{at}"), line.to_owned())));
        }
        leaf => found.push((if place.is_empty() { "/".to_owned() } else { place }, leaf.to_string())),
    }
}

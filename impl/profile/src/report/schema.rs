//! The published schema is made of the types, and of nothing else.

use serde_json::{Value, json};

use crate::profile::Report;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/profile.schema.json");

/// Descriptions are for readers of JSON: no links into the documentation of the types.
fn for_readers(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(text)) = members.get_mut("description") {
                *text = text
                    .replace("[`", "`")
                    .replace("`]", "`")
                    .replace('\n', " ")
                    .replace("`FORMAT`", "`settled-profile/1`");
            }
            members.values_mut().for_each(for_readers);
        }
        Value::Array(items) => items.iter_mut().for_each(for_readers),
        _ => {}
    }
}

fn made() -> Value {
    let mut schema = schemars::schema_for!(Report).to_value();
    for_readers(&mut schema);
    schema["title"] = json!("A conformance profile of settled");
    schema
}

/// After a change of the types: `SETTLED_WRITE_SCHEMA=1 cargo test -p settled-profile --lib schema`.
#[test]
fn the_published_schema_is_that_of_the_types() {
    let made = serde_json::to_string_pretty(&made()).unwrap() + "\n";
    if std::env::var_os("SETTLED_WRITE_SCHEMA").is_some() {
        std::fs::write(FILE, &made).unwrap();
    }
    assert_eq!(std::fs::read_to_string(FILE).unwrap(), made, "see the test's documentation");
}

#[test]
fn nothing_else_is_allowed_and_everything_is_described() {
    fn objects<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
        match value {
            Value::Object(members) => {
                if members.contains_key("properties") {
                    found.push(value);
                }
                members.values().for_each(|value| objects(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| objects(value, found)),
            _ => {}
        }
    }
    let schema = made();
    let mut found = Vec::new();
    objects(&schema, &mut found);
    assert!(found.len() >= 8);
    for object in found {
        assert_eq!(object["additionalProperties"], json!(false), "{object}");
        let properties = object["properties"].as_object().unwrap();
        for (name, property) in properties {
            // What is one variant of several is described as that.
            let variant = properties.len() == 1 && object.get("description").is_some();
            let described = variant || property.get("description").is_some() || property.get("$ref").is_some();
            assert!(described, "{name}: {property}");
        }
    }
}

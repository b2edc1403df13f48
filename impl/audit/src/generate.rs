//! Arguments that suit a tool's input schema, as a template: what is free to choose is other in each experiment.

use serde_json::{Map, Value, json};

use crate::template::Source;

/// Deeper than this a schema is not followed: it refers to itself.
const DEEPEST: usize = 12;

/// Why no arguments could be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no arguments could be made from its input schema ({0}); give them in a file, with --arguments")]
pub(crate) struct CannotGenerate(String);

/// The arguments, of required members only: what is optional is rather left out than guessed. Whether they suit in all respects is
/// for the server to say: an error is its answer to the first call then.
pub(crate) fn generate(schema: &Value, source: &Source) -> Result<Map<String, Value>, CannotGenerate> {
    let maker = Maker { root: schema, has_directory: source.fresh().fill(&directory()).is_ok() };
    let made = if schema.is_object() { maker.make(schema, "", 0).map_err(CannotGenerate)? } else { json!({}) };
    let Value::Object(template) = made else {
        return Err(CannotGenerate("it asks for no object".to_owned()));
    };
    Ok(template)
}

fn directory() -> Map<String, Value> {
    Map::from_iter([(String::new(), json!("{directory}"))])
}

struct Maker<'a> {
    root: &'a Value,
    has_directory: bool,
}

impl Maker<'_> {
    fn make(&self, schema: &Value, name: &str, depth: usize) -> Result<Value, String> {
        if depth > DEEPEST {
            return Err(format!("`{name}` is too deep"));
        }
        if let Some(value) = given(schema) {
            return Ok(value);
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let pointer = reference.strip_prefix('#').ok_or_else(|| format!("`{reference}` is elsewhere"))?;
            let target = self.root.pointer(pointer).ok_or_else(|| format!("`{reference}` is not there"))?;
            return self.make(target, name, depth + 1);
        }
        for choice in ["anyOf", "oneOf"] {
            if let Some(choices) = schema.get(choice).and_then(Value::as_array) {
                // One that is not null says more.
                let is_null = |choice: &&Value| choice.get("type") == Some(&json!("null"));
                let made =
                    choices.iter().filter(|choice| !is_null(choice)).map(|choice| self.make(choice, name, depth + 1));
                return made.into_iter().find(Result::is_ok).unwrap_or_else(|| Err(format!("no {choice} of `{name}`")));
            }
        }
        if let Some(all) = schema.get("allOf").and_then(Value::as_array) {
            return self.all(schema, all, name, depth);
        }
        match kind(schema) {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, name, depth),
            "string" => self.string(schema, name),
            "integer" | "number" => Ok(number(schema)),
            "boolean" => Ok(json!(true)),
            "null" => Ok(Value::Null),
            other => Err(format!("`{name}` is of the type {other}")),
        }
    }

    fn all(&self, schema: &Value, all: &[Value], name: &str, depth: usize) -> Result<Value, String> {
        let mut merged = Map::new();
        let mut own = schema.clone();
        if let Some(own) = own.as_object_mut() {
            own.remove("allOf");
        }
        for part in all.iter().chain(own.as_object().is_some_and(|own| !own.is_empty()).then_some(&own)) {
            match self.make(part, name, depth + 1)? {
                Value::Object(members) => merged.extend(members),
                other => return Ok(other),
            }
        }
        Ok(Value::Object(merged))
    }

    fn object(&self, schema: &Value, depth: usize) -> Result<Value, String> {
        let mut members = Map::new();
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            let member = schema.get("properties").and_then(|properties| properties.get(name)).unwrap_or(&Value::Null);
            members.insert(name.to_owned(), self.make(member, name, depth + 1)?);
        }
        Ok(Value::Object(members))
    }

    /// As few elements as are allowed, but one: an empty list is rarely worth a call.
    fn array(&self, schema: &Value, name: &str, depth: usize) -> Result<Value, String> {
        let limit = |limit: &str| schema.get(limit).and_then(Value::as_u64);
        let fewest = limit("minItems").unwrap_or(0).max(1).min(limit("maxItems").unwrap_or(u64::MAX));
        let first = schema.get("prefixItems").and_then(Value::as_array).cloned().unwrap_or_default();
        let rest = schema.get("items").cloned().unwrap_or(Value::Null);
        let count = usize::try_from(fewest).unwrap_or(usize::MAX).max(first.len());
        if count > 1000 {
            return Err(format!("`{name}` needs {count} elements"));
        }
        let elements = (0..count).map(|at| self.make(first.get(at).unwrap_or(&rest), name, depth + 1));
        Ok(Value::Array(elements.collect::<Result<_, _>>()?))
    }

    fn string(&self, schema: &Value, name: &str) -> Result<Value, String> {
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
            return Err(format!("`{name}` must match {pattern}"));
        }
        let text = match schema.get("format").and_then(Value::as_str) {
            Some("date-time") => "2026-01-01T00:00:00Z",
            Some("date") => "2026-01-01",
            Some("time") => "00:00:00Z",
            Some("duration") => "PT1S",
            Some("email" | "idn-email") => "{unique}@example.com",
            Some("hostname" | "idn-hostname") => "{unique}.example.com",
            Some("ipv4") => "192.0.2.1",
            Some("ipv6") => "2001:db8::1",
            Some("uri" | "iri" | "uri-reference" | "url") => "https://example.com/{unique}",
            Some("uuid") => "{uuid}",
            Some(_) | None if self.has_directory && is_path(name) => "{directory}/{unique}.txt",
            Some(_) | None => "{unique}",
        };
        let length = |limit: &str| schema.get(limit).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let mut text = text.to_owned();
        if text == "{unique}" {
            // Which it is filled in with has 12 letters.
            const FILLED: usize = 12;
            if length("maxLength").is_some_and(|most| most < FILLED) {
                text = "x".repeat(length("maxLength").unwrap_or_default().min(FILLED));
            }
            if let Some(fewest) = length("minLength").filter(|fewest| (FILLED..10_000).contains(fewest)) {
                text.push_str(&"x".repeat(fewest - FILLED));
            }
        }
        Ok(Value::String(text))
    }
}

/// A value that the schema names itself.
fn given(schema: &Value) -> Option<Value> {
    let first = |list: &str| schema.get(list).and_then(Value::as_array).and_then(|list| list.first());
    let named = schema.get("const").or_else(|| first("enum")).or_else(|| schema.get("default"));
    named.or_else(|| first("examples")).or_else(|| schema.get("example")).cloned()
}

fn kind(schema: &Value) -> &str {
    let named = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        Some(kind) => kind.as_str(),
        None => None,
    };
    match named {
        Some(kind) => kind,
        None if schema.get("properties").is_some() || schema.get("required").is_some() => "object",
        None if schema.get("items").is_some() => "array",
        None if schema.get("minimum").is_some() || schema.get("maximum").is_some() => "number",
        // Anything will do.
        None => "string",
    }
}

fn number(schema: &Value) -> Value {
    let limit = |limit: &str| schema.get(limit).and_then(Value::as_f64);
    let step = limit("multipleOf").filter(|step| *step > 0.0).unwrap_or(1.0);
    let least = limit("minimum").or_else(|| limit("exclusiveMinimum").map(|least| least + step));
    let most = limit("maximum").or_else(|| limit("exclusiveMaximum").map(|most| most - step));
    let wanted = match (least, most) {
        (Some(least), _) => (least.max(0.0) / step).ceil() * step,
        (None, Some(most)) if most < step => (most / step).floor() * step,
        _ => step,
    };
    let wanted = most.map_or(wanted, |most| wanted.min(most));
    // Whole numbers are written as such: `1.0` is no integer to every server.
    match format!("{wanted}").parse::<i64>() {
        Ok(whole) => json!(whole),
        Err(_) => json!(wanted),
    }
}

fn is_path(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["path", "file", "filename", "filepath", "destination", "source"].contains(&name.as_str())
        || name.ends_with("_path")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn made(schema: Value) -> Result<Value, String> {
        let source = Source::new(Some("/watched".to_owned())).unwrap();
        generate(&schema, &source).map(Value::Object).map_err(|cannot| cannot.to_string())
    }

    /// What is made for one required member of this schema.
    fn member(name: &str, schema: Value) -> Result<Value, String> {
        let whole = json!({ "type": "object", "required": [name], "properties": { name: schema, "other": {} } });
        made(whole).map(|mut made| made[name].take())
    }

    #[test]
    fn what_is_required_is_made_and_the_rest_left_out() {
        let schema = json!({ "type": "object", "required": ["a", "b"], "properties": {
            "a": { "type": "object", "required": ["c"], "properties": { "c": { "type": "boolean" } } },
            "b": { "type": "array", "items": { "$ref": "#/$defs/item" }, "minItems": 2 },
            "d": { "type": "string" },
        }, "$defs": { "item": { "type": ["null", "integer"], "minimum": 5 } } });
        assert_eq!(made(schema), Ok(json!({ "a": { "c": true }, "b": [5, 5] })));
        assert_eq!(made(json!({ "type": "object" })), Ok(json!({})));
        assert_eq!(made(Value::Null), Ok(json!({})));
    }

    #[test]
    fn values_that_the_schema_names_come_first() {
        assert_eq!(member("a", json!({ "enum": ["x", "y"] })), Ok(json!("x")));
        assert_eq!(member("a", json!({ "const": 7 })), Ok(json!(7)));
        assert_eq!(member("a", json!({ "type": "integer", "default": 3 })), Ok(json!(3)));
        assert_eq!(member("a", json!({ "type": "string", "examples": ["e"] })), Ok(json!("e")));
    }

    #[test]
    fn texts_are_fresh_and_of_their_format() {
        assert_eq!(member("title", json!({ "type": "string" })), Ok(json!("{unique}")));
        assert_eq!(member("path", json!({ "type": "string" })), Ok(json!("{directory}/{unique}.txt")));
        assert_eq!(member("to", json!({ "type": "string", "format": "email" })), Ok(json!("{unique}@example.com")));
        assert_eq!(member("id", json!({ "type": "string", "format": "uuid" })), Ok(json!("{uuid}")));
        assert_eq!(member("a", json!({ "type": "string", "maxLength": 3 })), Ok(json!("xxx")));
        let long = member("a", json!({ "type": "string", "minLength": 15 })).unwrap();
        assert_eq!(long, json!("{unique}xxx"));
    }

    #[test]
    fn numbers_are_within_their_limits() {
        let number = |schema: Value| member("n", schema).unwrap();
        assert_eq!(number(json!({ "type": "integer" })), json!(1));
        assert_eq!(number(json!({ "type": "integer", "minimum": 10 })), json!(10));
        assert_eq!(number(json!({ "type": "integer", "exclusiveMinimum": 10 })), json!(11));
        assert_eq!(number(json!({ "type": "integer", "maximum": -3 })), json!(-3));
        assert_eq!(number(json!({ "type": "number", "multipleOf": 0.5 })), json!(0.5));
        assert_eq!(number(json!({ "type": "integer", "minimum": 3, "multipleOf": 5 })), json!(5));
    }

    #[test]
    fn one_of_several_and_all_of_several() {
        let any = json!({ "anyOf": [{ "type": "null" }, { "type": "string", "pattern": "a" }, { "type": "integer" }] });
        assert_eq!(member("a", any), Ok(json!(1)));
        let part = |name: &str| json!({ "type": "object", "required": [name], "properties": { name: { "const": 1 } } });
        assert_eq!(made(json!({ "allOf": [part("a"), part("b")] })), Ok(json!({ "a": 1, "b": 1 })));
    }

    #[test]
    fn what_can_not_be_made_is_said() {
        let pattern = member("code", json!({ "type": "string", "pattern": "^[A-Z]{3}$" })).unwrap_err();
        assert!(pattern.contains("`code` must match ^[A-Z]{3}$") && pattern.contains("--arguments"), "{pattern}");
        let itself = json!({ "type": "object", "required": ["a"], "properties": { "a": { "$ref": "#" } } });
        assert!(made(itself).unwrap_err().contains("too deep"));
        assert!(member("a", json!({ "$ref": "http://elsewhere/" })).unwrap_err().contains("is elsewhere"));
        assert!(made(json!({ "type": "array" })).unwrap_err().contains("no object"));
    }
}

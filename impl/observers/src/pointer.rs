//! JSON pointers (RFC 6901) that also lead into strings which hold JSON, as the text blocks of MCP results often do.

use std::borrow::Cow;

use serde_json::Value;

/// A place in a JSON value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pointer {
    steps: Vec<String>,
}

/// Where a pointer leads.
enum Found<'a> {
    There(Cow<'a, Value>),
    /// Everything but the last step is there.
    Absent,
    /// It can't be told.
    Nowhere,
}

impl Pointer {
    /// Reads a pointer: empty for the whole, else `/a/0/b`, with `~1` for a slash and `~0` for a tilde.
    ///
    /// # Errors
    /// What is wrong, and how to write it.
    pub fn parse(text: &str) -> Result<Pointer, String> {
        if text.is_empty() {
            return Ok(Pointer::default());
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!("has the JSON pointer `{text}`: write it with a slash first, as in `/{text}`"));
        };
        let steps = rest.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
        Ok(Pointer { steps })
    }

    /// The value there.
    pub fn find<'a>(&self, value: &'a Value) -> Option<Cow<'a, Value>> {
        match self.walk(Cow::Borrowed(value)) {
            Found::There(value) => Some(value),
            Found::Absent | Found::Nowhere => None,
        }
    }

    /// Whether it is certain that nothing is there: the object or list that would hold it is.
    pub fn is_absent(&self, value: &Value) -> bool {
        matches!(self.walk(Cow::Borrowed(value)), Found::Absent)
    }

    fn walk<'a>(&self, value: Cow<'a, Value>) -> Found<'a> {
        let mut at = value;
        for (number, step) in self.steps.iter().enumerate() {
            if let Value::String(text) = &*at {
                match serde_json::from_str::<Value>(text) {
                    Ok(inner @ (Value::Object(_) | Value::Array(_))) => at = Cow::Owned(inner),
                    _ => return Found::Nowhere,
                }
            }
            if !matches!(&*at, Value::Object(_) | Value::Array(_)) {
                return Found::Nowhere;
            }
            let next = match at {
                Cow::Borrowed(value) => child(value, step).map(Cow::Borrowed),
                Cow::Owned(value) => child(&value, step).cloned().map(Cow::Owned),
            };
            at = match next {
                Some(next) => next,
                None if number + 1 == self.steps.len() => return Found::Absent,
                None => return Found::Nowhere,
            };
        }
        Found::There(at)
    }
}

fn child<'a>(value: &'a Value, step: &str) -> Option<&'a Value> {
    match value {
        Value::Object(members) => members.get(step),
        Value::Array(items) => step.parse::<usize>().ok().and_then(|place| items.get(place)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn leads_into_values_and_into_text_that_holds_json() {
        let value =
            json!({"content": [{"type": "text", "text": "{\"status\": \"charged\", \"a/b\": {\"~\": 1}}"}], "s": "x"});
        let at = |text: &str| Pointer::parse(text).unwrap().find(&value).map(Cow::into_owned);
        assert_eq!(at(""), Some(value.clone()));
        assert_eq!(at("/content/0/text/status"), Some(json!("charged")));
        assert_eq!(at("/content/0/text/a~1b/~0"), Some(json!(1)));
        assert_eq!(at("/content/1"), None);
        assert_eq!(at("/s/x"), None);
    }

    #[test]
    fn absence_is_only_told_where_it_can_be_seen() {
        let value = json!({"a": {"b": 1}, "text": "plain", "json": "{\"c\": null}", "n": null});
        let absent = |text: &str| Pointer::parse(text).unwrap().is_absent(&value);
        assert!(absent("/x") && absent("/a/c") && absent("/json/d"));
        assert!(!absent("/a/b") && !absent("/json/c") && !absent("/n"));
        // Nothing can be said of what is inside of something that is not there, or not JSON.
        assert!(!absent("/x/y") && !absent("/text/y") && !absent("/n/y") && !absent("/a/b/c"));
    }

    #[test]
    fn a_pointer_begins_with_a_slash() {
        assert!(Pointer::parse("status").unwrap_err().contains("`/status`"));
    }
}

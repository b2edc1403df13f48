//! Changes, as they are written on the command line: `title=Milk`, `tags+=urgent`, `tags-=urgent`, `votes` or `+=3`.

use settled_protocol::merge::{Change, Name, Rule, Value};

/// A change of a field, or of the target itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The way to the field.
    pub fields: Vec<Name>,
    /// What is done to it.
    pub what: What,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// `=`
    Set(Value),
    /// `+=`
    More(Value),
    /// `-=`
    Less(Value),
}

/// Reads a change.
pub fn parse(text: &str) -> Result<Written, String> {
    let usage = || {
        format!(
            "`{text}` is no change: FIELD=VALUE, FIELD+=VALUE or FIELD-=VALUE (without FIELD for a target that has none)"
        )
    };
    let (left, value) = text.split_once('=').ok_or_else(usage)?;
    let value = read(value);
    let (path, what) = match left.strip_suffix('+') {
        Some(path) => (path, What::More(value)),
        None => match left.strip_suffix('-') {
            Some(path) => (path, What::Less(value)),
            None => (left, What::Set(value)),
        },
    };
    let fields = match path {
        "" => Vec::new(),
        path => {
            path.split('.').map(Name::new).collect::<Result<_, _>>().map_err(|error| format!("`{text}`: {error}"))?
        }
    };
    Ok(Written { fields, what })
}

/// A value: an integer, `true`, `false`, `null`, a text in quotation marks; anything else is a text as it stands.
fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::Text(text.to_owned()))
}

impl Written {
    /// The change of a target with this rule; `None` if it is a removal, which needs to know what is there.
    pub fn change(&self, rule: &Rule) -> Result<Option<Change>, String> {
        let mut at = rule;
        for field in &self.fields {
            at = match at {
                Rule::Map(fields) => fields.get(field).ok_or_else(|| format!("there is no field `{field}`"))?,
                _ => return Err(format!("there is no field `{field}`: what it would be in has none")),
            };
        }
        let counted = |by: &Value, sign: i64| match by {
            Value::Number(by) => {
                by.checked_mul(sign).map(Change::Count).ok_or_else(|| "that is too much to count".to_owned())
            }
            _ => Err("a counter is counted up and down by integers".to_owned()),
        };
        let change = match (&self.what, at) {
            (What::Set(value), _) => Change::Set(value.clone()),
            (What::More(by), Rule::Counter) => counted(by, 1)?,
            (What::Less(by), Rule::Counter) => counted(by, -1)?,
            (What::More(value), _) => Change::Add(value.clone()),
            (What::Less(_), _) => return Ok(None),
        };
        Ok(Some(self.fields.iter().rev().fold(change, |change, field| Change::Field(field.clone(), Box::new(change)))))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read() {
        let name = |text: &str| Name::new(text).unwrap();
        let fields = |path: &[&str]| path.iter().map(|field| name(field)).collect::<Vec<_>>();
        for (text, path, what) in [
            ("title=Buy = milk", &["title"][..], What::Set(Value::Text("Buy = milk".into()))),
            ("best.time=41", &["best", "time"], What::Set(Value::Number(41))),
            ("title=\"41\"", &["title"], What::Set(Value::Text("41".into()))),
            ("done=true", &["done"], What::Set(Value::Bool(true))),
            ("tags+=a", &["tags"], What::More(Value::Text("a".into()))),
            ("tags-=a", &["tags"], What::Less(Value::Text("a".into()))),
            ("+=3", &[], What::More(Value::Number(3))),
            ("n=1.5", &["n"], What::Set(Value::Text("1.5".into()))),
        ] {
            assert_eq!(parse(text), Ok(Written { fields: fields(path), what }), "{text}");
        }
        for text in ["title", "a..b=1", ".=1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

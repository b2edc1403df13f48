//! What an observer is told of the call that it is asked about.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use settled_protocol::SealScope;
use std::collections::HashMap;

/// What an observer is told of the call that it is asked about.
///
/// The arguments are kept as text and looked into only where a template names one, so that no number loses digits on
/// its way to the observer: one that asked about another order than the one that was sent would see "not applied".
#[derive(Clone, Debug)]
pub struct Given<'a> {
    /// What was sent as the operation's key: `{$key}`.
    pub key: &'a str,
    /// The latest attempt's number: `{$attempt}`.
    pub attempt: u32,
    /// What a seal is to cover: `{$scope}`. `None`: this is no seal.
    pub scope: Option<SealScope>,
    /// The arguments that were sent: the text of a JSON object.
    pub arguments: &'a str,
}

/// Why a template can't be filled in for a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The call has no such argument.
    #[error("the call has no argument `{0}`")]
    Argument(String),
    /// Its arguments are not a JSON object.
    #[error("the call's arguments are not a JSON object")]
    NotAnObject,
    /// It is there, but not as something that can be written as text.
    #[error("the call's argument `{0}` is an object, a list or null, which can't be part of a text")]
    NotText(String),
    /// It can't be handed on without changing it.
    #[error("the call's argument `{0}` can't be handed on without changing it")]
    NotExact(String),
    /// There is no scope but in a seal.
    #[error("`{{$scope}}` has a meaning only in a seal")]
    NoScope,
}

/// `attempts` or `operation`, as `{$scope}` says it.
pub(crate) fn scope_name(scope: SealScope) -> &'static str {
    match scope {
        SealScope::Attempts => "attempts",
        SealScope::Operation => "operation",
    }
}

fn parse<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}

impl Given<'_> {
    /// The argument at this path. Of several members with one name the last counts, as with most parsers.
    pub(crate) fn argument(&self, path: &[String]) -> Result<Value, Missing> {
        let name = || path.join(".");
        let mut at: &RawValue = parse(self.arguments).ok_or(Missing::NotAnObject)?;
        if !at.get().starts_with('{') {
            return Err(Missing::NotAnObject);
        }
        for step in path {
            let found = if at.get().starts_with('{') {
                parse::<HashMap<String, &RawValue>>(at.get()).and_then(|members| members.get(step).copied())
            } else {
                let place = step.parse::<usize>().ok();
                place.and_then(|place| parse::<Vec<&RawValue>>(at.get())?.get(place).copied())
            };
            at = found.ok_or_else(|| Missing::Argument(name()))?;
        }
        exact(at.get()).ok_or_else(|| Missing::NotExact(name()))
    }
}

/// The value of a JSON text, if nothing of it is lost.
fn exact(text: &str) -> Option<Value> {
    match text.as_bytes().first()? {
        b'{' => {
            let members: HashMap<String, &RawValue> = parse(text)?;
            let mut object = serde_json::Map::new();
            for (name, value) in members {
                object.insert(name, exact(value.get())?);
            }
            object.sort_keys();
            Some(Value::Object(object))
        }
        b'[' => parse::<Vec<&RawValue>>(text)?.into_iter().map(|item| exact(item.get())).collect::<Option<_>>(),
        b'-' | b'0'..=b'9' => exact_number(text),
        _ => parse_owned(text),
    }
}

fn parse_owned<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// A number without loss; `7.0` and `7e0` are 7, as for every tool that reads JSON numbers.
fn exact_number(text: &str) -> Option<Value> {
    if let Ok(integer) = text.parse::<i64>() {
        return Some(integer.into());
    }
    if let Ok(integer) = text.parse::<u64>() {
        return Some(integer.into());
    }
    let number: f64 = text.parse().ok().filter(|number: &f64| number.is_finite())?;
    const WHOLE: f64 = 9_007_199_254_740_992.0;
    let digits = text.split(['e', 'E']).next()?.bytes().filter(u8::is_ascii_digit).count();
    // Up to 15 digits, a decimal and its double stand for each other.
    if digits > 15 {
        return None;
    }
    if number.fract() == 0.0 && number.abs() < WHOLE {
        return Some((number as i64).into());
    }
    serde_json::Number::from_f64(number).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(arguments: &str, path: &str) -> Result<Value, Missing> {
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        Given { key: "k", attempt: 1, scope: None, arguments }.argument(&path)
    }

    #[test]
    fn arguments_are_found_and_kept() {
        let text = r#" {"a":1,"b":{"c":["x",{"d":true}]},"a":"last","n":null,"o":{"z":1,"y":2.5}} "#.trim();
        assert_eq!(of(text, "a"), Ok(json!("last")));
        assert_eq!(of(text, "b.c.1.d"), Ok(json!(true)));
        assert_eq!(of(text, "n"), Ok(Value::Null));
        assert_eq!(of(text, "o"), Ok(json!({"y": 2.5, "z": 1})));
        assert_eq!(of(text, "b.x"), Err(Missing::Argument("b.x".to_owned())));
        assert_eq!(of(text, "a.x"), Err(Missing::Argument("a.x".to_owned())));
        assert_eq!(of("[1]", "0"), Err(Missing::NotAnObject));
        assert_eq!(of("{", "a"), Err(Missing::NotAnObject));
    }

    #[test]
    fn no_number_changes_on_its_way() {
        let number = |text: &str| of(&format!("{{\"n\":{text}}}"), "n");
        for (text, value) in [
            ("7", json!(7)),
            ("7.0", json!(7)),
            ("7e0", json!(7)),
            ("-0", json!(0)),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("0.1", json!(0.1)),
            ("12.50", json!(12.5)),
        ] {
            assert_eq!(number(text), Ok(value), "{text}");
        }
        for text in ["18446744073709551616", "1e400", "12345678901234567890.10", "0.1234567890123456789"] {
            assert_eq!(number(text), Err(Missing::NotExact("n".to_owned())), "{text}");
        }
        assert_eq!(of(r#"{"s":"\ud800"}"#, "s"), Err(Missing::NotExact("s".to_owned())));
        assert_eq!(of(r#"{"o":{"n":1e400}}"#, "o"), Err(Missing::NotExact("o".to_owned())));
    }
}

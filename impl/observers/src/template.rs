//! Templates: text that is filled in from the call that is asked about.

use serde_json::Value;

use crate::given::{Given, Missing, scope_name};

/// Which placeholders have a meaning besides arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// In the name of a resource: none.
    Resource,
    /// In an observation: `{$key}` and `{$attempt}`.
    Observation,
    /// In a seal: those, and `{$scope}`.
    Seal,
}

/// Why a template can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A brace has no partner.
    #[error("has a `{0}` without its partner: write `{0}{0}` for the character itself")]
    Brace(char),
    /// There is nothing in the braces, or an empty step in the path.
    #[error("has the placeholder `{{{0}}}`, which names no argument: write `{{argument}}` or `{{argument.member}}`")]
    Empty(String),
    /// A `$` name is not known here.
    #[error("has the placeholder `{{{0}}}`, which is not known here: write {1}")]
    Unknown(String, &'static str),
}

/// One part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Argument(Vec<String>),
    Key,
    Attempt,
    Scope,
}

/// A text with `{placeholders}` that are filled in from the call that is asked about.
///
/// | placeholder | stands for |
/// | --- | --- |
/// | `{order_id}` | that argument of the call |
/// | `{customer.id}`, `{items.0.id}` | an argument inside another |
/// | `{$key}` | what was sent as the operation's key |
/// | `{$attempt}` | the number of the latest attempt |
/// | `{$scope}` | in a seal: `attempts` (up to that one) or `operation` |
/// | `{{`, `}}` | a brace |
///
/// A value that is exactly one placeholder keeps its JSON type. What is filled in is only ever data: it is percent-encoded
/// in URLs, bound as a parameter in SQL, and one argument of a command. A call that lacks an argument, or has one that can't
/// be handed on as it is, is not asked about at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// [`TemplateError`], with what is allowed instead.
    pub fn parse(text: &str, place: Where) -> Result<Template, TemplateError> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '{' if rest.next_if_eq(&'{').is_some() => plain.push('{'),
                '}' if rest.next_if_eq(&'}').is_some() => plain.push('}'),
                '}' => return Err(TemplateError::Brace('}')),
                '{' => {
                    let mut name = String::new();
                    loop {
                        match rest.next() {
                            Some('}') => break,
                            None | Some('{') => return Err(TemplateError::Brace('{')),
                            Some(c) => name.push(c),
                        }
                    }
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(piece(name, place)?);
                }
                c => plain.push(c),
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Template { pieces })
    }

    /// The text, filled in.
    ///
    /// # Errors
    /// [`Missing`], if the call has not what it needs.
    pub fn text(&self, given: &Given<'_>) -> Result<String, Missing> {
        self.filled(given, |value, text| text.push_str(value))
    }

    /// The text, with each value in it written by `put`.
    pub(crate) fn filled(&self, given: &Given<'_>, put: impl Fn(&str, &mut String)) -> Result<String, Missing> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                piece => put(&as_text(piece, value(piece, given)?)?, &mut text),
            }
        }
        Ok(text)
    }

    /// The value: with its JSON type if it is exactly one placeholder, else as text.
    ///
    /// # Errors
    /// [`Missing`], if the call has not what it needs.
    pub fn value(&self, given: &Given<'_>) -> Result<Value, Missing> {
        match &self.pieces[..] {
            [piece] => value(piece, given),
            _ => self.text(given).map(Value::from),
        }
    }

    /// Whether this placeholder (such as `$key`) is in it; of an empty name: any.
    pub fn uses(&self, name: &str) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Text(_) => false,
            _ if name.is_empty() => true,
            Piece::Argument(path) => path.join(".") == name,
            Piece::Key => name == "$key",
            Piece::Attempt => name == "$attempt",
            Piece::Scope => name == "$scope",
        })
    }

    /// The arguments that it names, each as the steps that lead to it, in their order.
    pub fn arguments(&self) -> impl Iterator<Item = &[String]> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Argument(path) => Some(path.as_slice()),
            Piece::Text(_) | Piece::Key | Piece::Attempt | Piece::Scope => None,
        })
    }

    /// The text with this in the place of every value.
    pub(crate) fn sample(&self, value: &str) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(plain) => plain.clone(),
            _ => value.to_owned(),
        };
        self.pieces.iter().map(piece).collect()
    }

    /// The plain text before the first placeholder, and whether there is one at all.
    pub(crate) fn head(&self) -> (&str, bool) {
        match &self.pieces[..] {
            [] => ("", false),
            [Piece::Text(plain)] => (plain, false),
            [Piece::Text(plain), ..] => (plain, true),
            _ => ("", true),
        }
    }
}

fn piece(name: String, place: Where) -> Result<Piece, TemplateError> {
    let allowed = match place {
        Where::Resource => "the name of an argument",
        Where::Observation => "the name of an argument, `{$key}` or `{$attempt}`",
        Where::Seal => "the name of an argument, `{$key}`, `{$attempt}` or `{$scope}`",
    };
    match (name.as_str(), place) {
        ("$key", Where::Observation | Where::Seal) => Ok(Piece::Key),
        ("$attempt", Where::Observation | Where::Seal) => Ok(Piece::Attempt),
        ("$scope", Where::Seal) => Ok(Piece::Scope),
        (other, _) if other.starts_with('$') => Err(TemplateError::Unknown(name, allowed)),
        // An argument's name may hold a space, but hardly ever begins or ends with one: this was to be something else.
        (other, _) if other.split('.').any(|step| step.is_empty() || step.trim() != step) => {
            Err(TemplateError::Empty(name))
        }
        (other, _) => Ok(Piece::Argument(other.split('.').map(str::to_owned).collect())),
    }
}

fn value(piece: &Piece, given: &Given<'_>) -> Result<Value, Missing> {
    match piece {
        Piece::Text(plain) => Ok(plain.as_str().into()),
        Piece::Argument(path) => given.argument(path),
        Piece::Key => Ok(given.key.into()),
        Piece::Attempt => Ok(given.attempt.into()),
        Piece::Scope => given.scope.map(|scope| scope_name(scope).into()).ok_or(Missing::NoScope),
    }
}

fn as_text(piece: &Piece, value: Value) -> Result<String, Missing> {
    match (value, piece) {
        (Value::String(text), _) => Ok(text),
        (Value::Number(number), _) => Ok(number.to_string()),
        (Value::Bool(truth), _) => Ok(truth.to_string()),
        (_, Piece::Argument(path)) => Err(Missing::NotText(path.join("."))),
        (other, _) => Ok(other.to_string()),
    }
}

/// A JSON value whose strings are templates.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// As it is.
    Fixed(Value),
    /// To be filled in.
    Template(Template),
    /// A list of such values.
    List(Vec<Shape>),
    /// An object of such values, in its order.
    Object(Vec<(String, Shape)>),
}

impl Shape {
    /// Whether this placeholder (such as `$key`) is in it; of an empty name: any.
    pub fn uses(&self, name: &str) -> bool {
        match self {
            Shape::Fixed(_) => false,
            Shape::Template(template) => template.uses(name),
            Shape::List(items) => items.iter().any(|item| item.uses(name)),
            Shape::Object(members) => members.iter().any(|(_, shape)| shape.uses(name)),
        }
    }

    /// Reads every string in it as a template; names of members are as they are.
    ///
    /// # Errors
    /// As [`Template::parse`].
    pub fn parse(value: Value, place: Where) -> Result<Shape, TemplateError> {
        Ok(match value {
            Value::String(text) => Shape::Template(Template::parse(&text, place)?),
            Value::Array(items) => {
                Shape::List(items.into_iter().map(|item| Shape::parse(item, place)).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => Shape::Object(
                members
                    .into_iter()
                    .map(|(name, value)| Ok((name, Shape::parse(value, place)?)))
                    .collect::<Result<_, TemplateError>>()?,
            ),
            other => Shape::Fixed(other),
        })
    }

    /// The value, filled in.
    ///
    /// # Errors
    /// [`Missing`], if the call has not what it needs.
    pub fn value(&self, given: &Given<'_>) -> Result<Value, Missing> {
        Ok(match self {
            Shape::Fixed(value) => value.clone(),
            Shape::Template(template) => template.value(given)?,
            Shape::List(items) => {
                Value::Array(items.iter().map(|item| item.value(given)).collect::<Result<_, Missing>>()?)
            }
            Shape::Object(members) => Value::Object(
                members
                    .iter()
                    .map(|(name, shape)| Ok((name.clone(), shape.value(given)?)))
                    .collect::<Result<_, Missing>>()?,
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use settled_protocol::SealScope;

    const ARGUMENTS: &str = r#"{"id":7,"name":"a b","ok":true,"customer":{"id":"c"},"none":null}"#;

    fn given() -> Given<'static> {
        Given { key: "K", attempt: 3, scope: Some(SealScope::Attempts), arguments: ARGUMENTS }
    }

    fn text(template: &str) -> Result<String, Missing> {
        Template::parse(template, Where::Seal).unwrap().text(&given())
    }

    #[test]
    fn texts_are_filled_in() {
        assert_eq!(text("{customer.id}/{id}-{name}{ok}").unwrap(), "c/7-a btrue");
        assert_eq!(text("{$key} {$attempt} {$scope}").unwrap(), "K 3 attempts");
        assert_eq!(text("{{id}} }}{{").unwrap(), "{id} }{");
        assert_eq!(text("").unwrap(), "");
        assert_eq!(text("{customer}"), Err(Missing::NotText("customer".to_owned())));
        assert_eq!(text("{none}"), Err(Missing::NotText("none".to_owned())));
        assert_eq!(text("{no}"), Err(Missing::Argument("no".to_owned())));
    }

    #[test]
    fn a_lone_placeholder_keeps_its_type() {
        let shape = json!({"a": "{id}", "b": ["{customer}", "{none}", 5, "n{id}"], "{id}": "{$attempt}"});
        let shape = Shape::parse(shape, Where::Observation).unwrap();
        let filled = json!({"a": 7, "b": [{"id": "c"}, null, 5, "n7"], "{id}": 3});
        assert_eq!(shape.value(&given()).unwrap(), filled);
    }

    #[test]
    fn what_can_not_be_meant_is_refused() {
        let wrong = |text, place| Template::parse(text, place).unwrap_err().to_string();
        for text in ["{", "{a", "{a{b}}"] {
            assert!(wrong(text, Where::Seal).contains("`{` without its partner"), "{text}");
        }
        assert!(wrong("a}", Where::Seal).contains("`}` without its partner"));
        for text in ["{}", "{a.}", "{.a}", "{ a}", "{a..b}"] {
            assert!(wrong(text, Where::Seal).contains("names no argument"), "{text}");
        }
        assert!(wrong("{$kay}", Where::Observation).contains("`{$key}` or `{$attempt}`"));
        assert!(wrong("{$scope}", Where::Observation).contains("not known here"));
        assert!(wrong("{$key}", Where::Resource).contains("the name of an argument"));
    }
}

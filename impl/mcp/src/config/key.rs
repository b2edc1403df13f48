//! What names an operation, and what has no part in it: `key`, `ephemeral`.

use serde_json::Value;
use settled_observers::{Template, Where};
use toml::Spanned;

use super::Wrong;
use super::place::Table;

/// What names a tool's operations, if that is not all of their arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyFrom {
    /// `key = ["order_id"]`: these arguments, sorted.
    Arguments(Vec<String>),
    /// `key = "{customer_id}:{item_id}"`: the arguments that the template names.
    Template(KeyTemplate),
}

/// A template for keys. Its text says what belongs together; the values are never joined by it, so that no value can pretend
/// to be two.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyTemplate {
    text: String,
    arguments: Vec<Vec<String>>,
}

/// A member somewhere in a call's arguments: the steps that lead to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentPath(Vec<String>);

impl KeyTemplate {
    /// The template as it is written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The arguments that it names, each as the steps that lead to it.
    pub fn arguments(&self) -> &[Vec<String>] {
        &self.arguments
    }
}

impl ArgumentPath {
    pub(super) fn new(steps: Vec<String>) -> ArgumentPath {
        ArgumentPath(steps)
    }

    /// The steps.
    pub fn steps(&self) -> &[String] {
        &self.0
    }
}

impl KeyFrom {
    /// The arguments that take part, each as the steps that lead to it.
    pub(super) fn paths(&self) -> Vec<Vec<String>> {
        match self {
            KeyFrom::Arguments(names) => names.iter().map(|name| vec![name.clone()]).collect(),
            KeyFrom::Template(template) => template.arguments.clone(),
        }
    }
}

/// Reads `key`.
pub(super) fn check(table: &Table, key: Spanned<Value>) -> Result<KeyFrom, Wrong> {
    let place = key.span();
    let wrong = |problem: &str| Err(table.wrong(place.clone(), "key", problem));
    match key.into_inner() {
        Value::String(text) => {
            let template = Template::parse(&text, Where::Resource)
                .map_err(|error| table.wrong(place.clone(), "key", error.to_string()))?;
            let arguments: Vec<Vec<String>> = template.arguments().map(<[String]>::to_vec).collect();
            if arguments.is_empty() {
                return wrong(
                    "names no argument, so that all calls would be one operation: write it such as `{order_id}`, or as a \
                     list of arguments",
                );
            }
            Ok(KeyFrom::Template(KeyTemplate { text, arguments }))
        }
        Value::Array(names) if names.is_empty() => {
            wrong("is empty: name at least one argument, or leave the line out to use them all")
        }
        Value::Array(names) => {
            let mut sorted = Vec::with_capacity(names.len());
            for name in names {
                match name {
                    Value::String(name) if name.is_empty() => return wrong("names an argument with an empty name"),
                    Value::String(name) => sorted.push(name),
                    _ => return wrong("must be a list of arguments' names"),
                }
            }
            // Keys must not depend on the order in which the file happens to name the arguments.
            let count = sorted.len();
            sorted.sort();
            sorted.dedup();
            if sorted.len() < count {
                return wrong("names an argument twice");
            }
            Ok(KeyFrom::Arguments(sorted))
        }
        _ => wrong(
            "must be a list of arguments, such as `[\"order_id\"]`, or a template, such as `\"{customer_id}:{order_id}\"`",
        ),
    }
}

/// Reads `ephemeral`: arguments by their names, or by JSON pointers that begin with a slash.
pub(super) fn ephemeral(
    table: &Table,
    names: Option<Spanned<Vec<String>>>,
    key: Option<&KeyFrom>,
) -> Result<Vec<ArgumentPath>, Wrong> {
    let Some(names) = names else { return Ok(Vec::new()) };
    let place = names.span();
    let wrong = |problem: String| table.wrong(place.clone(), "ephemeral", problem);
    let mut paths = Vec::new();
    for name in names.into_inner() {
        let steps: Vec<String> = match name.strip_prefix('/') {
            Some(pointer) => pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect(),
            None => vec![name.clone()],
        };
        if steps.iter().all(String::is_empty) {
            return Err(wrong("names an argument with an empty name".to_owned()));
        }
        let clashes = |path: &Vec<String>| path.starts_with(&steps) || steps.starts_with(path);
        if key.is_some_and(|key| key.paths().iter().any(clashes)) {
            return Err(wrong(format!(
                "names `{name}`, which is part of `key`: an argument can't both name the operation and have no part in it"
            )));
        }
        paths.push(ArgumentPath(steps));
    }
    Ok(paths)
}

/// Reads `pass_key_as`.
pub(super) fn passed(
    table: &Table,
    name: Option<Spanned<String>>,
    key: Option<&KeyFrom>,
) -> Result<Option<String>, Wrong> {
    let Some(at) = name.as_ref().map(Spanned::span) else { return Ok(None) };
    let name = table.text("pass_key_as", name, "an argument of the tool")?;
    let is_carrier = |path: &Vec<String>| path.first() == name.as_ref();
    if key.is_some_and(|key| key.paths().iter().any(is_carrier)) {
        let problem = "is also named in `key`: the key can't be derived from the argument that carries it";
        return Err(table.wrong(at, "pass_key_as", problem));
    }
    Ok(name)
}

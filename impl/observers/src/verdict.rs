//! How to read an answer: conditions for "applied", "not applied" and "sealed".

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::pointer::Pointer;

/// What an observer answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// The status of an HTTP answer.
    pub status: Option<u16>,
    /// A command's exit status.
    pub exit: Option<i32>,
    /// A command ended without a word of complaint on its standard error stream; an HTTP answer is no web page for people.
    pub clean: bool,
    /// The number of rows.
    pub rows: Option<u64>,
    /// The code of a JSON-RPC error.
    pub code: Option<i64>,
    /// The body: JSON, or a string of the text that it is.
    pub body: Option<Value>,
    /// It may lag behind what has happened, so that what it does not show may have happened all the same.
    pub may_lag: Option<&'static str>,
}

/// What kind of answer a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// An HTTP answer.
    Http,
    /// The rows of a query.
    Sql,
    /// The end of a command.
    Command,
    /// The result of an MCP tool.
    McpTool,
    /// The answer of the guarded MCP tool itself: a result or an error.
    Answer,
}

/// A condition as it is written: all its members must hold.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    status: Option<Value>,
    exit: Option<Value>,
    rows: Option<Value>,
    code: Option<Value>,
    at: Option<String>,
    is: Option<Value>,
    exists: Option<bool>,
    contains: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Rows {
    Count(u64),
    Some,
    None,
}

/// Why a condition can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConditionError(String);

/// A condition on an answer: all that it says must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    source: Source,
    status: Option<Vec<u16>>,
    exit: Option<Vec<i32>>,
    rows: Option<Rows>,
    code: Option<Vec<i64>>,
    body: Option<(Pointer, Body)>,
    /// Only if the answer is clean (see [`Evidence::clean`]).
    clean: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Body {
    Is(Vec<Value>),
    Exists(bool),
    Contains(String),
}

impl Condition {
    /// Reads a condition, or a list of which any must hold, for answers of this kind.
    ///
    /// # Errors
    /// [`ConditionError`], with what is allowed instead.
    pub fn parse(value: Value, source: Source) -> Result<Vec<Condition>, ConditionError> {
        let tables = match value {
            Value::Array(tables) => tables,
            one => vec![one],
        };
        if tables.is_empty() {
            return Err(ConditionError("holds no condition: write at least one".to_owned()));
        }
        let table = |value: Value| match value {
            Value::Object(_) => serde_json::from_value::<Table>(value).map_err(|error| error.to_string()),
            other => {
                Err(format!("holds {other} where a table is wanted, such as `{{ at = \"/status\", is = \"done\" }}`"))
            }
        };
        tables.into_iter().map(|value| table(value).map_err(ConditionError)?.check(source)).collect()
    }
}

impl Table {
    fn check(self, source: Source) -> Result<Condition, ConditionError> {
        let wrong = |problem: &str| Err(ConditionError(problem.to_owned()));
        let misplaced = [
            ("status", self.status.is_some(), Source::Http),
            ("exit", self.exit.is_some(), Source::Command),
            ("rows", self.rows.is_some(), Source::Sql),
            ("code", self.code.is_some(), Source::Answer),
        ];
        if let Some((name, ..)) = misplaced.into_iter().find(|(_, there, of)| *there && *of != source) {
            return Err(ConditionError(format!("uses `{name}`, which an answer of this kind does not have")));
        }
        let status = self.status.map(|value| numbers::<u16>("status", value)).transpose()?;
        // Who was not let in, or met a failure, has seen nothing.
        let proves = |status: &u16| {
            matches!(status, 200..=299 | 400..=499) && !matches!(status, 401 | 403 | 407 | 408 | 425 | 429)
        };
        if let Some(bad) = status.iter().flatten().find(|status| !proves(status)) {
            return Err(ConditionError(format!("uses the status {bad}, which says nothing of the effect")));
        }
        let exit = self.exit.map(|value| numbers::<i32>("exit", value)).transpose()?;
        if let Some(bad) = exit.iter().flatten().find(|exit| !(0..=125).contains(*exit)) {
            return Err(ConditionError(format!("uses the exit status {bad}: write one from 0 to 125")));
        }
        let rows = match &self.rows {
            None => None,
            Some(Value::String(word)) if word == "some" => Some(Rows::Some),
            Some(Value::String(word)) if word == "none" => Some(Rows::None),
            Some(count) => match count.as_u64() {
                Some(count) => Some(Rows::Count(count)),
                None => return wrong("has `rows` that are neither a number, nor `some`, nor `none`"),
            },
        };
        let code = self.code.map(|value| numbers::<i64>("code", value)).transpose()?;
        let at = self.at.as_deref().map(Pointer::parse).transpose().map_err(ConditionError)?;
        let body = match (self.is, self.exists, self.contains) {
            (None, None, None) if at.is_some() => {
                return wrong("has `at` alone: say what is there with `is`, `exists` or `contains`");
            }
            (None, None, None) => None,
            (Some(Value::Array(any)), None, None) => Some(Body::Is(any)),
            (Some(one), None, None) => Some(Body::Is(vec![one])),
            (None, Some(exists), None) => Some(Body::Exists(exists)),
            (None, None, Some(text)) if text.is_empty() => return wrong("has an empty `contains`, which always holds"),
            (None, None, Some(text)) => Some(Body::Contains(text)),
            _ => return wrong("has more than one of `is`, `exists` and `contains`: write several conditions instead"),
        };
        if matches!((&body, &at), (Some(Body::Exists(_)), None)) {
            return wrong("has `exists` without `at`: say where");
        }
        let empty = |is_empty: Option<bool>| is_empty == Some(true);
        if empty(status.as_ref().map(Vec::is_empty))
            || empty(exit.as_ref().map(Vec::is_empty))
            || empty(code.as_ref().map(Vec::is_empty))
            || matches!(&body, Some(Body::Is(any)) if any.is_empty())
        {
            return wrong("has an empty list, which never holds");
        }
        let body = body.map(|body| (at.unwrap_or_default(), body));
        if status.is_none() && exit.is_none() && rows.is_none() && code.is_none() && body.is_none() {
            return wrong("says nothing: write what must hold, such as `{ at = \"/status\", is = \"done\" }`");
        }
        Ok(Condition { source, status, exit, rows, code, body, clean: false })
    }
}

/// One number, or a list of them.
fn numbers<T: DeserializeOwned>(name: &str, value: Value) -> Result<Vec<T>, ConditionError> {
    let list = match value {
        Value::Array(list) => list,
        one => vec![one],
    };
    list.into_iter()
        .map(|value| {
            let text = value.to_string();
            let wrong = |_| ConditionError(format!("has {text} as `{name}`: write a number, or a list of numbers"));
            serde_json::from_value(value).map_err(wrong)
        })
        .collect()
}

impl Condition {
    /// Of one of these HTTP statuses.
    pub(crate) fn status(any: impl IntoIterator<Item = u16>) -> Condition {
        Condition { status: Some(any.into_iter().collect()), ..Condition::of(Source::Http) }
    }

    /// Only if the answer is [clean](Evidence::clean).
    pub(crate) fn if_clean(self) -> Condition {
        Condition { clean: true, ..self }
    }

    /// Of an exit status; `clean`: only if nothing was said on the standard error stream.
    pub(crate) fn exit(status: i32, clean: bool) -> Condition {
        Condition { exit: Some(vec![status]), clean, ..Condition::of(Source::Command) }
    }

    /// Of at least one row, or none.
    pub(crate) fn rows(some: bool) -> Condition {
        let rows = if some { Rows::Some } else { Rows::None };
        Condition { rows: Some(rows), ..Condition::of(Source::Sql) }
    }

    fn of(source: Source) -> Condition {
        Condition { source, status: None, exit: None, rows: None, code: None, body: None, clean: false }
    }

    /// Whether it holds of an answer. What it can't tell does not hold.
    pub fn holds(&self, evidence: &Evidence) -> bool {
        let status = match (&self.status, self.source) {
            (Some(any), _) => evidence.status.is_some_and(|status| any.contains(&status)),
            // The body of an error says what is wrong with the question, not what happened.
            (None, Source::Http) => evidence.status.is_some_and(|status| (200..300).contains(&status)),
            (None, _) => true,
        };
        let exit = match (&self.exit, self.source) {
            (Some(any), _) => evidence.exit.is_some_and(|exit| any.contains(&exit)),
            (None, Source::Command) => evidence.exit == Some(0),
            (None, _) => true,
        };
        let rows = self.rows.as_ref().is_none_or(|rows| {
            evidence.rows.is_some_and(|count| match rows {
                Rows::Count(wanted) => count == *wanted,
                Rows::Some => count > 0,
                Rows::None => count == 0,
            })
        });
        let code = self.code.as_ref().is_none_or(|any| evidence.code.is_some_and(|code| any.contains(&code)));
        let body = self
            .body
            .as_ref()
            .is_none_or(|(at, body)| evidence.body.as_ref().is_some_and(|value| body.holds(at, value)));
        status && exit && rows && code && body && (evidence.clean || !self.clean)
    }
}

impl Body {
    fn holds(&self, at: &Pointer, value: &Value) -> bool {
        match self {
            Body::Is(any) => at.find(value).is_some_and(|found| any.iter().any(|wanted| same(wanted, &found))),
            Body::Contains(text) => at.find(value).is_some_and(|found| match &*found {
                Value::String(whole) => whole.contains(text.as_str()),
                Value::Array(items) => items.iter().any(|item| item.as_str() == Some(text)),
                _ => false,
            }),
            Body::Exists(true) => at.find(value).is_some(),
            Body::Exists(false) => at.is_absent(value),
        }
    }
}

/// Equal as JSON: numbers by their value.
fn same(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Number(wanted), Value::Number(found)) => wanted == found || wanted.as_f64() == found.as_f64(),
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len() && wanted.iter().zip(found).all(|(wanted, found)| same(wanted, found))
        }
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.len() == found.len()
                && wanted.iter().all(|(name, value)| found.get(name).is_some_and(|found| same(value, found)))
        }
        (wanted, found) => wanted == found,
    }
}

/// How to read answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Any of these: it took effect.
    pub applied: Vec<Condition>,
    /// Any of these: no effect is to be seen.
    pub not_applied: Vec<Condition>,
    /// Any of these: there was no effect, and what was to be sealed never will have one.
    pub sealed: Vec<Condition>,
    /// What of the answer to hand on as the call's result.
    pub result: Option<Pointer>,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The effect happened; what was observed of it.
    Applied(Value),
    /// No effect is to be seen.
    NotApplied,
    /// There was none, and what was sealed never will have one.
    Sealed,
    /// Nothing can be concluded, for this reason.
    Unclear(String),
}

impl Reading {
    /// Reads an answer. One that fits nothing, or more than one thing, says nothing.
    pub fn read(&self, evidence: &Evidence) -> Verdict {
        let any = |conditions: &[Condition]| conditions.iter().any(|condition| condition.holds(evidence));
        match (any(&self.applied), any(&self.not_applied), any(&self.sealed)) {
            (true, false, false) => Verdict::Applied(self.result(evidence)),
            (false, true, false) => match evidence.may_lag {
                None => Verdict::NotApplied,
                Some(why) => Verdict::Unclear(format!("it shows no effect, but {why}")),
            },
            (false, false, true) => Verdict::Sealed,
            (false, false, false) => Verdict::Unclear(format!("its answer fits none of the conditions ({evidence})")),
            _ => Verdict::Unclear(format!("its answer fits more than one of the conditions ({evidence})")),
        }
    }

    fn result(&self, evidence: &Evidence) -> Value {
        let body = evidence.body.clone().unwrap_or(Value::Null);
        match &self.result {
            Some(at) => at.find(&body).map(std::borrow::Cow::into_owned).unwrap_or(body),
            None => body,
        }
    }
}

impl std::fmt::Display for Evidence {
    /// What kind of answer it was; nothing of its content, which may be confidential.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.status, self.exit, self.rows) {
            (Some(status), ..) => write!(f, "HTTP status {status}"),
            (_, Some(exit), _) if self.clean => write!(f, "exit status {exit}"),
            (_, Some(exit), _) => write!(f, "exit status {exit}, with words on its standard error stream"),
            (_, _, Some(rows)) => write!(f, "rows: {rows}"),
            _ => write!(f, "a result"),
        }
    }
}

#[cfg(test)]
mod tests;

//! Asking an SQLite database.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::types::{Value as Bound, ValueRef};
use rusqlite::{Connection, InterruptHandle, OpenFlags, Statement};
use serde_json::Value;
use tokio::sync::oneshot;

use super::{BYTES, ROWS, Rows};
use crate::error::AskError;

pub(super) async fn ask(
    path: PathBuf,
    statement: String,
    parameters: Vec<Value>,
    within: Duration,
) -> Result<Rows, AskError> {
    let (interrupt, handle) = oneshot::channel();
    let asking = tokio::task::spawn_blocking(move || read(path, &statement, &parameters, within, interrupt));
    let _interrupting = InterruptOnDrop(handle);
    match asking.await {
        Ok(Ok(rows)) => Ok(Rows { rows, may_lag: None }),
        Ok(Err(error)) => Err(error),
        Err(error) => Err(AskError::Failed(error.to_string())),
    }
}

/// A question that nobody waits for any more does not go on.
struct InterruptOnDrop(oneshot::Receiver<InterruptHandle>);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        if let Ok(handle) = self.0.try_recv() {
            handle.interrupt();
        }
    }
}

fn read(
    path: PathBuf,
    statement: &str,
    parameters: &[Value],
    within: Duration,
    interrupt: oneshot::Sender<InterruptHandle>,
) -> Result<Vec<Value>, AskError> {
    let failed = |error: rusqlite::Error| AskError::Failed(error.to_string());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    if interrupt.send(connection.get_interrupt_handle()).is_err() {
        return Err(AskError::TimedOut(within));
    }
    connection.busy_timeout(within).map_err(failed)?;
    let mut statement = connection.prepare(statement).map_err(failed)?;
    if !statement.readonly() {
        return Err(AskError::Failed("the statement does more than read".to_owned()));
    }
    bind(&mut statement, parameters)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut found = statement.raw_query();
    let (mut rows, mut size) = (Vec::new(), 0);
    while let Some(row) = found.next().map_err(failed)? {
        if rows.len() == ROWS {
            return Err(AskError::TooLong("1000 rows"));
        }
        let mut members = serde_json::Map::new();
        for (place, name) in names.iter().enumerate() {
            let value = json(row.get_ref(place).map_err(failed)?);
            size += value.as_str().map_or(8, str::len) + name.len();
            members.insert(name.clone(), value);
        }
        if size > BYTES {
            return Err(AskError::TooLong("1 MiB"));
        }
        rows.push(Value::Object(members));
    }
    Ok(rows)
}

/// Binds each parameter by its number. SQLite itself takes `$2` for a name and numbers names by where they first stand.
fn bind(statement: &mut Statement<'_>, parameters: &[Value]) -> Result<(), AskError> {
    let mut used = vec![false; parameters.len()];
    for place in 1..=statement.parameter_count() {
        let name = statement.parameter_name(place).map(str::to_owned);
        let number = match &name {
            None => Some(place),
            Some(name) => name.strip_prefix(['$', '?']).and_then(|digits| digits.parse().ok()),
        };
        let value = number.and_then(|number| parameters.get(number.checked_sub(1)?).map(|value| (number, value)));
        let Some((number, value)) = value else {
            let name = name.unwrap_or_else(|| "?".to_owned());
            return Err(AskError::Failed(format!(
                "the statement's parameter `{name}` has no value: name them `$1`, `$2` … and give as many `parameters`"
            )));
        };
        if let Some(used) = used.get_mut(number - 1) {
            *used = true;
        }
        let bound = match value {
            Value::Null => Bound::Null,
            Value::Bool(truth) => Bound::Integer(i64::from(*truth)),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Bound::Integer(integer),
                (None, Some(real)) if !number.is_u64() => Bound::Real(real),
                _ => return Err(AskError::Unfit(format!("{number} is more than an SQLite integer can hold"))),
            },
            Value::String(text) => Bound::Text(text.clone()),
            other => Bound::Text(other.to_string()),
        };
        statement.raw_bind_parameter(place, bound).map_err(|error| AskError::Failed(error.to_string()))?;
    }
    match used.iter().position(|used| !used) {
        Some(unused) => Err(AskError::Failed(format!("the statement does not use its parameter `${}`", unused + 1))),
        None => Ok(()),
    }
}

fn json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(integer) => integer.into(),
        ValueRef::Real(real) => serde_json::Number::from_f64(real).map_or(Value::Null, Value::Number),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
    }
}

//! A SQLite file: the rows of its tables.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{MOST_ROWS, is_ignored, row};
use crate::error::AuditError;
use crate::state::Item;

const BUSY: Duration = Duration::from_secs(5);

pub(super) fn read(path: &Path, ignore: &[String]) -> Result<Vec<(String, Item)>, AuditError> {
    // Before its first effect a server need not have made its database.
    if !path.exists() {
        return Ok(Vec::new());
    }
    tables(path, ignore)
        .map_err(|error| AuditError::Watch { what: format!("sqlite:{}", path.display()), problem: error.to_string() })
}

fn tables(path: &Path, ignore: &[String]) -> rusqlite::Result<Vec<(String, Item)>> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(BUSY)?;
    let moment = connection.unchecked_transaction()?;
    let named =
        "select name from sqlite_schema where type = 'table' and name not like 'sqlite\\_%' escape '\\' order by name";
    let names: Vec<String> = moment.prepare(named)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut items = Vec::new();
    for name in names.into_iter().filter(|name| !is_ignored(name, ignore)) {
        let mut select = moment.prepare(&format!("select * from \"{}\"", name.replace('"', "\"\"")))?;
        let columns: Vec<String> = select.column_names().map(str::to_owned).collect();
        let (mut rows, mut digest, mut count) = (Vec::new(), Sha256::new(), 0_u64);
        let mut found = select.query([])?;
        while let Some(found) = found.next()? {
            let mut values = Map::new();
            for (at, column) in columns.iter().enumerate() {
                values.insert(column.clone(), json_of(found.get_ref(at)?));
            }
            let row = row(&name, values, ignore);
            digest.update(row.as_bytes());
            count += 1;
            if rows.len() < MOST_ROWS {
                rows.push(row);
            }
        }
        let item = match rows.len() as u64 == count {
            true => Item::table(rows),
            false => Item::large_table(&format!("{:x?}", digest.finalize()), count),
        };
        items.push((format!("table {name}"), item));
    }
    Ok(items)
}

fn json_of(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => json!(number),
        ValueRef::Real(number) => json!(number),
        ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => json!(format!("{:x?}", Sha256::digest(bytes))),
    }
}

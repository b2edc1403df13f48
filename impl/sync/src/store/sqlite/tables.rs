//! The file: whether it is one of ours, and its tables.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior, params};

use super::failed;
use crate::store::{FORMAT, Shared, StoreError, newer, schema_to_store, unsigned, write};

/// What marks a SQLite file as one of ours (`PRAGMA application_id`).
const MARK: i64 = 0x5e77_5c0c;
/// How long to wait for another process that writes.
const PATIENCE: Duration = Duration::from_secs(10);

const TABLES: &str = "
    CREATE TABLE store (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        head INTEGER NOT NULL,
        latest_millis INTEGER NOT NULL,
        latest_count INTEGER NOT NULL,
        schema_version INTEGER NOT NULL,
        schema TEXT NOT NULL
    ) STRICT;
    CREATE TABLE operations (
        cursor INTEGER PRIMARY KEY,
        op_id BLOB NOT NULL UNIQUE,
        fingerprint BLOB NOT NULL,
        device TEXT NOT NULL,
        target TEXT NOT NULL,
        millis INTEGER NOT NULL,
        count INTEGER NOT NULL,
        redated INTEGER NOT NULL,
        operation TEXT NOT NULL
    ) STRICT;
    CREATE TABLE refused (
        op_id BLOB PRIMARY KEY,
        fingerprint BLOB NOT NULL,
        device TEXT NOT NULL,
        reason TEXT NOT NULL,
        message TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE targets (
        target TEXT PRIMARY KEY,
        state TEXT NOT NULL,
        cursor INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE devices (
        device TEXT PRIMARY KEY,
        last_millis INTEGER NOT NULL,
        last_count INTEGER NOT NULL,
        from_millis INTEGER,
        from_count INTEGER,
        to_millis INTEGER,
        to_count INTEGER,
        seen INTEGER NOT NULL,
        ahead INTEGER NOT NULL,
        believed INTEGER NOT NULL,
        applied INTEGER NOT NULL,
        redated INTEGER NOT NULL
    ) STRICT;
";

/// Opens the file for writing.
pub(in crate::store) fn open(path: &Path, shared: &Shared) -> Result<Connection, StoreError> {
    let foreign = || {
        StoreError::Unusable(format!(
            "{}: this file is something else than a store of settled: name another one",
            path.display()
        ))
    };
    let at = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => foreign(),
        Some(rusqlite::ErrorCode::CannotOpen) => {
            StoreError::Unusable(format!("{}: can't be opened: {error}", path.display()))
        }
        _ => failed(&error),
    };
    if matches!(path.to_str(), Some("" | ":memory:")) {
        return Err(StoreError::Unusable("a store is in a file: name one, as in `sqlite:sync.db`".to_owned()));
    }
    // The file is its owner's only.
    let made = std::fs::File::options().create(true).append(true).mode(0o600).open(path);
    made.map_err(|error| StoreError::Unusable(format!("{}: can't be opened: {error}", path.display())))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(at)?;
    connection.busy_timeout(PATIENCE).map_err(at)?;
    // Whether it is ours is found out before anything is changed in it.
    let pragma = |connection: &Connection, name: &str| {
        connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(at)
    };
    let tables = "SELECT count(*) FROM sqlite_schema";
    let (mark, format) = (pragma(&connection, "application_id")?, pragma(&connection, "user_version")?);
    let fresh = connection.query_row(tables, [], |row| row.get::<_, i64>(0)).map_err(at)? == 0;
    match (fresh, mark, format) {
        (true, 0, 0) | (false, MARK, FORMAT) => {}
        (_, MARK, format) if format > FORMAT => return Err(newer(format)),
        _ => return Err(foreign()),
    }
    connection.pragma_update(None, "journal_mode", "WAL").map_err(at)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(at)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(at)?;
    // Another process may have made them meanwhile.
    if transaction.query_row(tables, [], |row| row.get::<_, i64>(0))? == 0 {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", MARK)?;
        transaction.pragma_update(None, "user_version", FORMAT)?;
    }
    let stored: Option<(String, i64)> =
        transaction.query_row("SELECT schema, head FROM store", [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let schema = shared.schema();
    if schema_to_store(&schema, stored.as_ref().map(|(schema, _)| schema.as_str()))? {
        transaction.execute(
            "INSERT INTO store VALUES (1, 0, 0, 0, ?1, ?2) \
             ON CONFLICT (one) DO UPDATE SET schema_version = excluded.schema_version, schema = excluded.schema",
            params![schema.version, write(&*schema)?],
        )?;
    }
    transaction.commit()?;
    shared.tell(stored.map_or(0, |(_, head)| unsigned(head)));
    Ok(connection)
}

/// Opens the file for reading.
pub(in crate::store) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

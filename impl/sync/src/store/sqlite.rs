//! A store in a SQLite file: one thread writes, others read what is committed (write-ahead log).

mod rows;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use settled_protocol::merge::{Name, OpId};
use settled_protocol::record::Millis;
use tokio::sync::watch;

use super::batch::{Received, Wanted};
use super::queue::{Gathering, Queue};
use super::{PAGE_BYTES, Shared, Store, StoreError, StoreOptions, read, signed, unsigned};
use crate::schema::Schema;
use crate::wire::{Applied, Cursor, DeviceSeen, Pulled, Target, Targets, Upload, Uploaded};

/// A store in a SQLite file.
pub struct SqliteStore {
    shared: Arc<Shared>,
    queue: Queue,
    path: Arc<Path>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}

fn failed(error: &rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode::{DatabaseCorrupt, DiskFull, NotADatabase};
    match error.sqlite_error_code() {
        Some(DiskFull) => StoreError::Unavailable("the disk is full: make room, and it goes on".to_owned()),
        Some(DatabaseCorrupt | NotADatabase) => StoreError::damaged(error),
        _ => StoreError::Unavailable(format!("the database says: {error}")),
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        failed(&error)
    }
}

impl SqliteStore {
    /// Opens the store in this file; makes it if there is none.
    ///
    /// # Errors
    /// [`StoreError`] if the file is none of ours, or newer, or its schema can't be followed by this one.
    pub async fn open(path: PathBuf, options: StoreOptions) -> Result<SqliteStore, StoreError> {
        let path: Arc<Path> = path.into();
        let shared = Arc::new(Shared::new(options));
        let (queue, gathering) = Queue::new();
        let (own_path, own_shared) = (Arc::clone(&path), Arc::clone(&shared));
        let (opened, is_open) = tokio::sync::oneshot::channel();
        // A transaction waits for the disk, and must not keep others from running meanwhile.
        std::thread::Builder::new()
            .name("sync-store".to_owned())
            .spawn(move || match tables::open(&own_path, &own_shared) {
                Ok(connection) => {
                    if opened.send(Ok(())).is_ok() {
                        write(connection, &own_shared, gathering);
                    }
                }
                Err(error) => drop(opened.send(Err(error))),
            })
            .map_err(|error| StoreError::Unavailable(format!("no thread can be started: {error}")))?;
        is_open.await.map_err(|_| StoreError::Unavailable("the store's thread has ended".to_owned()))??;
        Ok(SqliteStore { shared, queue, path, idle: Arc::default() })
    }

    /// Reads, on a connection of its own.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection, &Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (path, idle, shared) = (Arc::clone(&self.path), Arc::clone(&self.idle), Arc::clone(&self.shared));
        let reading = tokio::task::spawn_blocking(move || {
            let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = match kept {
                Some(connection) => connection,
                None => tables::reader(&path)?,
            };
            let found = read(&connection, &shared)?;
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            Ok(found)
        });
        reading.await.map_err(|_| StoreError::Unavailable("reading was interrupted".to_owned()))?
    }
}

fn write(mut connection: Connection, shared: &Shared, mut gathering: Gathering) {
    while let Some(waiting) = gathering.blocking_next() {
        let uploads: Vec<&Received> = waiting.iter().map(|waiting| &waiting.received).collect();
        match transaction(&mut connection, shared, &uploads) {
            Ok((answers, head)) => {
                shared.tell(head);
                waiting.into_iter().zip(answers).for_each(|(waiting, answer)| waiting.tell(Ok(answer)));
            }
            Err(error) => {
                tracing::error!(%error, "uploads could not be stored; nothing of them is acknowledged");
                waiting.into_iter().for_each(|waiting| waiting.tell(Err(error.clone())));
            }
        }
    }
}

fn transaction(
    connection: &mut Connection,
    shared: &Shared,
    uploads: &[&Received],
) -> Result<(Vec<Uploaded>, Cursor), StoreError> {
    // Dropped without a commit, it is undone.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut batch = rows::load(&transaction, shared, &Wanted::of(uploads))?;
    let answers = uploads.iter().map(|received| batch.apply(received)).collect();
    rows::store(&transaction, &batch)?;
    transaction.commit()?;
    Ok((answers, batch.head))
}

#[async_trait]
impl Store for SqliteStore {
    async fn apply(&self, upload: Upload, now: Millis) -> Result<Uploaded, StoreError> {
        self.queue.ask(Received::new(upload, now)?).await
    }

    async fn operations(&self, after: Cursor, limit: usize) -> Result<Pulled, StoreError> {
        self.read(move |connection, shared| {
            let head = head(connection)?;
            shared.tell(head);
            if after > head {
                return Err(StoreError::Ahead { after, head });
            }
            let sql = "SELECT cursor, operation, redated FROM (\
                           SELECT *, sum(length(operation)) OVER (ORDER BY cursor) - length(operation) AS before \
                           FROM (SELECT * FROM operations WHERE cursor > ?1 ORDER BY cursor LIMIT ?2)) \
                       WHERE before < ?3 ORDER BY cursor";
            let mut statement = connection.prepare_cached(sql)?;
            let found = statement.query_map(params![signed(after), rows::count(limit), PAGE_BYTES], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, bool>(2)?))
            })?;
            let operations = found.map(|row| {
                let (cursor, operation, redated) = row?;
                Ok(Applied { cursor: unsigned(cursor), operation: read(&operation)?, redated })
            });
            let operations: Vec<Applied> = operations.collect::<Result<_, StoreError>>()?;
            let cursor = operations.last().map_or(after, |last| last.cursor);
            Ok(Pulled { operations, cursor, head: head.max(cursor) })
        })
        .await
    }

    async fn at(&self, cursor: Cursor) -> Result<Option<OpId>, StoreError> {
        self.read(move |connection, _| {
            let mut statement = connection.prepare_cached("SELECT op_id FROM operations WHERE cursor = ?1")?;
            let found = statement.query_row([signed(cursor)], |row| row.get::<_, [u8; 16]>(0));
            Ok(found.optional()?.map(OpId::from_bytes))
        })
        .await
    }

    async fn target(&self, target: &Name) -> Result<Option<Target>, StoreError> {
        let target = target.clone();
        self.read(move |connection, shared| {
            let mut statement = connection.prepare_cached("SELECT state, cursor FROM targets WHERE target = ?1")?;
            let found =
                statement.query_row([target.as_str()], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)));
            found.optional()?.map(|(state, cursor)| shared.shown(target, &state, cursor)).transpose()
        })
        .await
    }

    async fn targets(&self, prefix: &str, after: &str, limit: usize) -> Result<Targets, StoreError> {
        let (prefix, after) = (prefix.to_owned(), after.to_owned());
        self.read(move |connection, shared| {
            let sql = "SELECT target, state, cursor, there FROM (\
                           SELECT *, sum(length(state)) OVER (ORDER BY target) - length(state) AS before, count(*) OVER () AS there \
                           FROM (SELECT * FROM targets WHERE target > ?1 AND target >= ?2 ORDER BY target LIMIT ?3)) \
                       WHERE before < ?4 ORDER BY target";
            let mut statement = connection.prepare_cached(sql)?;
            let found = statement
                .query_map(params![after, prefix, rows::count(limit.saturating_add(1)), PAGE_BYTES], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                })?
                .collect::<Result<Vec<_>, _>>()?;
            shared.page(found, &prefix, limit)
        })
        .await
    }

    async fn devices(&self, after: &str, limit: usize) -> Result<Vec<DeviceSeen>, StoreError> {
        let after = after.to_owned();
        self.read(move |connection, _| {
            let sql = "SELECT device, seen, ahead, believed, applied, redated FROM devices \
                       WHERE device > ?1 ORDER BY device LIMIT ?2";
            let mut statement = connection.prepare_cached(sql)?;
            let found = statement.query_map(params![after, rows::count(limit)], |row| {
                Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
            })?;
            let devices = found.map(|row| {
                let (device, seen, ahead, believed, applied, redated) = row?;
                Ok(DeviceSeen {
                    device: Name::new(device).map_err(StoreError::damaged)?,
                    seen: unsigned(seen),
                    ahead,
                    believed,
                    applied: unsigned(applied),
                    redated: unsigned(redated),
                })
            });
            devices.collect()
        })
        .await
    }

    async fn head(&self) -> Result<Cursor, StoreError> {
        self.read(|connection, shared| head(connection).inspect(|head| shared.tell(*head))).await
    }

    fn heard(&self) -> watch::Receiver<Cursor> {
        self.shared.head.subscribe()
    }

    fn schema(&self) -> Arc<Schema> {
        self.shared.schema()
    }
}

fn head(connection: &Connection) -> Result<Cursor, StoreError> {
    Ok(unsigned(connection.prepare_cached("SELECT head FROM store")?.query_row([], |row| row.get(0))?))
}

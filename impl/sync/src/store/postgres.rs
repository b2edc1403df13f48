//! A store in a PostgreSQL database, which any number of servers may share.

mod rows;
mod tables;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use settled::LedgerError;
use settled_ledger_postgres::{Database, PostgresOptions, Session};
use settled_protocol::merge::{Name, OpId};
use settled_protocol::record::Millis;
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};

use self::tables::Tables;
use super::batch::{Received, Wanted};
use super::queue::{Gathering, Queue};
use super::{PAGE_BYTES, Shared, Store, StoreError, StoreOptions, read, signed, unsigned};
use crate::schema::Schema;
use crate::wire::{Applied, Cursor, DeviceSeen, Pulled, Target, Targets, Upload, Uploaded};

/// How long the database may take for a transaction, or for an answer.
const PATIENCE: Duration = Duration::from_secs(15);

type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    shared: Arc<Shared>,
    queue: Queue,
    tables: Arc<Tables>,
    reader: Connection,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("schema", &self.tables.schema).finish_non_exhaustive()
    }
}

fn failed(error: &Error) -> StoreError {
    match error.as_db_error() {
        Some(said) => {
            StoreError::Unavailable(format!("the database says: {} ({})", said.message(), said.code().code()))
        }
        None => StoreError::Unavailable(format!("the database can't be reached: {error}")),
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> StoreError {
        failed(&error)
    }
}

fn unreachable(error: &LedgerError) -> StoreError {
    StoreError::Unavailable(format!("the database can't be reached: {error}"))
}

fn slow() -> StoreError {
    StoreError::Unavailable(format!("the database gave no answer within {PATIENCE:?}"))
}

/// A connection that is made when it is needed, and again when it was lost.
struct Connection {
    database: Database,
    session: Mutex<Option<Arc<Session>>>,
}

impl Connection {
    fn new(database: Database) -> Connection {
        Connection { database, session: Mutex::default() }
    }

    async fn session(&self) -> Result<Arc<Session>, StoreError> {
        let mut kept = self.session.lock().await;
        match &*kept {
            Some(session) if !session.client.is_closed() => Ok(Arc::clone(session)),
            _ => {
                let session = Arc::new(self.database.connect().await.map_err(|error| unreachable(&error))?);
                Ok(Arc::clone(kept.insert(session)))
            }
        }
    }

    async fn query(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, StoreError> {
        let session = self.session().await?;
        match timeout(PATIENCE, session.client.query_typed(sql, parameters)).await {
            Ok(rows) => Ok(rows?),
            Err(_) => {
                self.session.lock().await.take_if(|kept| Arc::ptr_eq(kept, &session));
                Err(slow())
            }
        }
    }
}

impl PostgresStore {
    /// Opens the store in this database; makes its tables if there are none. The URL is that of a ledger, with the same parameters.
    ///
    /// # Errors
    /// [`StoreError`] if the database can't be reached, or its tables are newer, or its schema can't be followed by this one.
    pub async fn open(url: &str, options: StoreOptions) -> Result<PostgresStore, StoreError> {
        let unusable = |error: LedgerError| StoreError::Unusable(error.to_string());
        let database = Database::parse(url, &PostgresOptions::default()).map_err(unusable)?;
        let shared = Arc::new(Shared::new(options));
        let tables = Arc::new(Tables::new(database.schema()));
        let mut session = database.connect().await.map_err(|error| unreachable(&error))?;
        session.warn_of_promise().await.map_err(|error| unreachable(&error))?;
        timeout(PATIENCE, tables.open(&mut session.client, &shared)).await.map_err(|_| slow())??;
        let (queue, gathering) = Queue::new();
        let writer = Writer { database: database.clone(), shared: Arc::clone(&shared), tables: Arc::clone(&tables) };
        tokio::spawn(writer.run(session, gathering));
        Ok(PostgresStore { shared, queue, tables, reader: Connection::new(database) })
    }
}

/// Writes what has gathered.
struct Writer {
    database: Database,
    shared: Arc<Shared>,
    tables: Arc<Tables>,
}

impl Writer {
    async fn run(self, session: Session, mut gathering: Gathering) {
        let mut kept = Some(session);
        while let Some(waiting) = gathering.next().await {
            let uploads: Vec<&Received> = waiting.iter().map(|waiting| &waiting.received).collect();
            let mut outcome = self.attempt(&mut kept, &uploads).await;
            if outcome.is_err() {
                // Whether it was committed or not: what has been applied is found, and not applied again.
                outcome = self.attempt(&mut kept, &uploads).await;
            }
            match outcome {
                Ok((answers, head)) => {
                    self.shared.tell(head);
                    waiting.into_iter().zip(answers).for_each(|(waiting, answer)| waiting.tell(Ok(answer)));
                }
                Err(error) => {
                    tracing::error!(%error, "uploads could not be stored; nothing of them is acknowledged");
                    waiting.into_iter().for_each(|waiting| waiting.tell(Err(error.clone())));
                }
            }
        }
    }

    /// One transaction. A connection on which it failed is given up: so whatever it had begun is undone.
    async fn attempt(
        &self,
        kept: &mut Option<Session>,
        uploads: &[&Received],
    ) -> Result<(Vec<Uploaded>, Cursor), StoreError> {
        let mut session = match kept.take().filter(|session| !session.client.is_closed()) {
            Some(session) => session,
            None => self.database.connect().await.map_err(|error| unreachable(&error))?,
        };
        let done = timeout(PATIENCE, self.transaction(&mut session, uploads)).await.map_err(|_| slow())??;
        *kept = Some(session);
        Ok(done)
    }

    async fn transaction(
        &self,
        session: &mut Session,
        uploads: &[&Received],
    ) -> Result<(Vec<Uploaded>, Cursor), StoreError> {
        let transaction = session.client.transaction().await?;
        let mut batch = self.tables.load(&transaction, &self.shared, &Wanted::of(uploads)).await?;
        let answers = uploads.iter().map(|received| batch.apply(received)).collect();
        self.tables.store(&transaction, &batch).await?;
        transaction.commit().await?;
        Ok((answers, batch.head))
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn apply(&self, upload: Upload, now: Millis) -> Result<Uploaded, StoreError> {
        self.queue.ask(Received::new(upload, now)?).await
    }

    async fn operations(&self, after: Cursor, limit: usize) -> Result<Pulled, StoreError> {
        let head = self.head().await?;
        if after > head {
            return Err(StoreError::Ahead { after, head });
        }
        let sql = self.tables.sql(
            "SELECT cursor, operation, redated FROM (\
                 SELECT *, sum(octet_length(operation)) OVER (ORDER BY cursor) - octet_length(operation) AS before \
                 FROM (SELECT * FROM :operations WHERE cursor > $1 ORDER BY cursor LIMIT $2) AS page) AS sized \
             WHERE before < $3 ORDER BY cursor",
        );
        let parameters: [Parameter<'_>; 3] =
            [(&signed(after), Type::INT8), (&rows::count(limit), Type::INT8), (&PAGE_BYTES, Type::INT8)];
        let found = self.reader.query(&sql, &parameters).await?;
        let operations = found.iter().map(|row| {
            let operation = read(row.try_get(1)?)?;
            Ok(Applied { cursor: unsigned(row.try_get(0)?), operation, redated: row.try_get(2)? })
        });
        let operations: Vec<Applied> = operations.collect::<Result<_, StoreError>>()?;
        let cursor = operations.last().map_or(after, |last| last.cursor);
        Ok(Pulled { operations, cursor, head: head.max(cursor) })
    }

    async fn at(&self, cursor: Cursor) -> Result<Option<OpId>, StoreError> {
        let sql = self.tables.sql("SELECT op_id FROM :operations WHERE cursor = $1");
        let found = self.reader.query(&sql, &[(&signed(cursor), Type::INT8)]).await?;
        found.first().map(rows::op_id).transpose()
    }

    async fn target(&self, target: &Name) -> Result<Option<Target>, StoreError> {
        let sql = self.tables.sql("SELECT state, cursor FROM :targets WHERE target = $1");
        let found = self.reader.query(&sql, &[(&target.as_str(), Type::TEXT)]).await?;
        let shown = |row: &Row| self.shared.shown(target.clone(), row.try_get(0)?, row.try_get(1)?);
        found.first().map(shown).transpose()
    }

    async fn targets(&self, prefix: &str, after: &str, limit: usize) -> Result<Targets, StoreError> {
        let sql = self.tables.sql(
            "SELECT target, state, cursor, there FROM (\
                 SELECT *, sum(octet_length(state)) OVER (ORDER BY target) - octet_length(state) AS before, \
                        count(*) OVER () AS there FROM (\
                     SELECT * FROM :targets WHERE target > $1 AND target >= $2 ORDER BY target LIMIT $3) AS page) AS sized \
             WHERE before < $4 ORDER BY target",
        );
        let asked = rows::count(limit.saturating_add(1));
        let parameters: [Parameter<'_>; 4] =
            [(&after, Type::TEXT), (&prefix, Type::TEXT), (&asked, Type::INT8), (&PAGE_BYTES, Type::INT8)];
        let found = self.reader.query(&sql, &parameters).await?;
        let rows = found.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?)));
        self.shared.page(rows.collect::<Result<_, StoreError>>()?, prefix, limit)
    }

    async fn devices(&self, after: &str, limit: usize) -> Result<Vec<DeviceSeen>, StoreError> {
        let sql = self.tables.sql(
            "SELECT device, seen, ahead, believed, applied, redated FROM :devices WHERE device > $1 ORDER BY device LIMIT $2",
        );
        let found = self.reader.query(&sql, &[(&after, Type::TEXT), (&rows::count(limit), Type::INT8)]).await?;
        let devices = found.iter().map(|row| {
            Ok(DeviceSeen {
                device: Name::new(row.try_get::<_, String>(0)?).map_err(StoreError::damaged)?,
                seen: unsigned(row.try_get(1)?),
                ahead: row.try_get(2)?,
                believed: row.try_get(3)?,
                applied: unsigned(row.try_get(4)?),
                redated: unsigned(row.try_get(5)?),
            })
        });
        devices.collect()
    }

    async fn head(&self) -> Result<Cursor, StoreError> {
        let found = self.reader.query(&self.tables.sql("SELECT head FROM :store"), &[]).await?;
        let head = found.first().ok_or_else(|| StoreError::damaged("no cursor"))?.try_get(0)?;
        self.shared.tell(unsigned(head));
        Ok(unsigned(head))
    }

    fn heard(&self) -> watch::Receiver<Cursor> {
        self.shared.head.subscribe()
    }

    fn schema(&self) -> Arc<Schema> {
        self.shared.schema()
    }
}

//! What the server keeps: operations, what became of them, the states of their targets, devices.
//!
//! Uploads that arrive together are applied in one transaction: what is known of their operations is read, the batch
//! decides, and operations, answers and states are written together. So an answer is given for what is kept, and a repeat finds
//! what the first one left, whenever either side died. Cursors come from one row that the transaction locks: they have no gaps, and
//! whoever has seen one has seen all before it.

mod batch;
mod postgres;
mod queue;
mod sqlite;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use settled_protocol::merge::{Merged, Name, OpId};
use settled_protocol::record::Millis;
use tokio::sync::watch;

pub use self::batch::LARGEST_OPERATION;
pub use self::{postgres::PostgresStore, sqlite::SqliteStore};
use crate::schema::{Schema, SchemaError};
use crate::wire::{Cursor, DeviceSeen, Pulled, Target, Targets, Upload, Uploaded};

/// The version of the tables.
const FORMAT: i64 = 1;
/// A page ends when it has this many bytes of operations or states.
const PAGE_BYTES: i64 = 4 << 20;

/// By what a store goes.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Which targets there are.
    pub schema: Schema,
    /// How far a device's clock may be off, to be believed.
    pub bound: Duration,
    /// How many operations an upload may have.
    pub most: usize,
}

/// A store that can't be used, or not now.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// It can't be used as it is.
    #[error("{0}")]
    Unusable(String),
    /// Its schema can't be followed by the one that was given.
    #[error("this store has another schema: {0}")]
    Schema(#[source] Arc<SchemaError>),
    /// It can't be read or written now. Nothing of what was asked has been done, or all of it: ask again.
    #[error("{0}")]
    Unavailable(String),
    /// It has no operation with this cursor yet.
    #[error("the cursor {after} is ahead of the last operation, {head}")]
    Ahead {
        /// What was asked for.
        after: Cursor,
        /// What there is.
        head: Cursor,
    },
}

impl StoreError {
    fn damaged(what: impl std::fmt::Display) -> StoreError {
        StoreError::Unavailable(format!("the store holds what can't be read: {what}; restore a backup"))
    }
}

/// What the server keeps.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Applies an upload that came at this time. When this returns an answer, it is durable.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: the same may be sent again.
    async fn apply(&self, upload: Upload, now: Millis) -> Result<Uploaded, StoreError>;

    /// The operations after a cursor, in order, at most so many.
    ///
    /// # Errors
    /// [`StoreError::Ahead`] if there is no such cursor yet.
    async fn operations(&self, after: Cursor, limit: usize) -> Result<Pulled, StoreError>;

    /// The operation with this cursor; none if there is none.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn at(&self, cursor: Cursor) -> Result<Option<OpId>, StoreError>;

    /// A target's state; none if nothing was ever applied to it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn target(&self, target: &Name) -> Result<Option<Target>, StoreError>;

    /// Targets by name: those that begin with `prefix` and come after `after`, at most so many.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn targets(&self, prefix: &str, after: &str, limit: usize) -> Result<Targets, StoreError>;

    /// Devices by name, after this one, at most so many.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn devices(&self, after: &str, limit: usize) -> Result<Vec<DeviceSeen>, StoreError>;

    /// Looks up the last cursor.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn head(&self) -> Result<Cursor, StoreError>;

    /// The last cursor that this process has heard of, and a way to wait for the next.
    fn heard(&self) -> watch::Receiver<Cursor>;

    /// The schema that it goes by.
    fn schema(&self) -> Arc<Schema>;
}

/// Opens the store at `sqlite:FILE` or `postgres://…`; makes it if there is none.
///
/// # Errors
/// [`StoreError`] if it is none of ours, newer than this program, of another schema, or can't be reached.
pub async fn open(url: &str, options: StoreOptions) -> Result<Arc<dyn Store>, StoreError> {
    if let Some(file) = url.strip_prefix("sqlite:") {
        return Ok(Arc::new(SqliteStore::open(PathBuf::from(file), options).await?));
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(Arc::new(PostgresStore::open(url, options).await?));
    }
    Err(StoreError::Unusable("a store is named `sqlite:FILE` or `postgres://ROLE:PASSWORD@HOST/DATABASE`".to_owned()))
}

/// What all parts of an open store share.
struct Shared {
    schema: RwLock<Arc<Schema>>,
    bound: Millis,
    most: usize,
    head: watch::Sender<Cursor>,
}

impl Shared {
    fn new(options: StoreOptions) -> Shared {
        Shared {
            schema: RwLock::new(Arc::new(options.schema)),
            bound: Millis::try_from(options.bound.as_millis()).unwrap_or(Millis::MAX),
            most: options.most,
            head: watch::Sender::new(0),
        }
    }

    fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another server on the same store has brought a later version.
    fn follow(&self, schema: Schema) -> Arc<Schema> {
        let schema = Arc::new(schema);
        *self.schema.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&schema);
        schema
    }

    fn tell(&self, head: Cursor) {
        self.head.send_if_modified(|known| std::mem::replace(known, head.max(*known)) < head);
    }

    /// A state as it is shown: with the fields that came after it was stored.
    fn shown(&self, target: Name, state: &str, cursor: i64) -> Result<Target, StoreError> {
        let mut state: Merged = read(state)?;
        if let Some(rule) = self.schema().rule(&target) {
            state.widen(rule);
        }
        Ok(Target { target, view: state.view(), cursor: unsigned(cursor) })
    }

    /// A page of targets, of which one more was looked for than is wanted. Each row ends with how many were found, which can be more than
    /// there are here: these end when they are large enough.
    fn page(&self, rows: Vec<(String, String, i64, i64)>, prefix: &str, limit: usize) -> Result<Targets, StoreError> {
        let (found, there) = (rows.len(), rows.first().map_or(0, |(.., there)| unsigned(*there)));
        let fitting: Vec<_> = rows.into_iter().take_while(|(target, ..)| target.starts_with(prefix)).collect();
        let more = fitting.len() > limit || (fitting.len() == found && (found as u64) < there);
        let targets = fitting.into_iter().take(limit).map(|(target, state, cursor, _)| {
            self.shown(Name::new(target).map_err(StoreError::damaged)?, &state, cursor)
        });
        Ok(Targets { targets: targets.collect::<Result<_, _>>()?, more })
    }
}

/// Checks a schema against the one that is stored; whether it is to be stored.
fn schema_to_store(given: &Schema, stored: Option<&str>) -> Result<bool, StoreError> {
    let Some(stored) = stored else {
        return Ok(true);
    };
    let stored: Schema = read(stored)?;
    given.follows(&stored).map_err(|error| StoreError::Schema(Arc::new(error)))?;
    Ok(*given != stored)
}

fn newer(format: i64) -> StoreError {
    StoreError::Unusable(format!(
        "this store was made by a newer version of settled (format {format}; this version knows {FORMAT}): use that version, or a newer one"
    ))
}

fn write<T: serde::Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Unavailable(format!("can't be written as JSON: {error}")))
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(StoreError::damaged)
}

/// Databases have signed numbers only. Cursors, and times that were believed or corrected, are far from the end of them.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

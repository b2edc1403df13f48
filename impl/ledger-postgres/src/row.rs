//! Records, changes and entries as they are stored.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use settled::{Change, Entry, LedgerError, Resource};
use settled_protocol::{Digest, Epoch, Key, Record, Time, Version};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// The first byte of everything in the ledger's own binary format (postcard after it), and the only one that is read.
const FORMAT: u8 = 1;

/// The columns of an entry, in the order in which [`entry`] reads them.
pub(crate) const ENTRY: &str =
    "hash, key, record, asked, sent, outcome, note, resource, place, by_epoch, keep_until, tombstone";

/// The columns of a change, in the order in which [`change`] reads them.
pub(crate) const CHANGE: &str = "change, asked, sent, outcome, note, resource";

/// What a change says that isn't in a column of its own.
#[derive(Serialize, Deserialize)]
pub(crate) struct Said {
    expected: Option<Version>,
    record: Record<Digest>,
    at: Time,
    by: Epoch,
    event: String,
    keep_until: Option<Time>,
}

impl Said {
    pub fn of(change: &Change) -> Said {
        Said {
            expected: change.expected,
            record: change.record,
            at: change.at,
            by: change.by,
            event: change.event.clone(),
            keep_until: change.keep_until,
        }
    }
}

pub(crate) fn to_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, LedgerError> {
    postcard::to_extend(value, vec![FORMAT]).map_err(|e| LedgerError::TooLarge(format!("it can't be stored: {e}")))
}

pub(crate) fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, LedgerError> {
    match bytes.split_first() {
        Some((&FORMAT, rest)) => postcard::from_bytes(rest).map_err(|e| corrupt(&e)),
        Some((&other, _)) => Err(LedgerError::Unavailable(format!(
            "record format {other} is unknown to this version; use the version that wrote it, or a newer one"
        ))),
        None => Err(corrupt(&"an empty record")),
    }
}

fn corrupt(why: &dyn std::fmt::Display) -> LedgerError {
    LedgerError::Corrupt(format!("what is stored is no record of a ledger ({why})"))
}

/// Numbers of 64 bits keep their bits, whatever their sign at the server.
pub(crate) fn version(version: Version) -> i64 {
    version.0.cast_signed()
}

/// Times are compared at the server, so those beyond its range are all the same.
pub(crate) fn time(time: Time) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

pub(crate) fn from_time(millis: i64) -> Time {
    if millis == i64::MAX { Time(u64::MAX) } else { Time(u64::try_from(millis).unwrap_or(0)) }
}

pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, LedgerError> {
    row.try_get(at).map_err(|e| corrupt(&e))
}

fn body(row: &Row, at: usize) -> Result<Option<Bytes>, LedgerError> {
    Ok(column::<Option<&[u8]>>(row, at)?.map(Bytes::copy_from_slice))
}

fn note(row: &Row, at: usize) -> Result<Option<String>, LedgerError> {
    let text = column::<Option<&[u8]>>(row, at)?.map(|bytes| String::from_utf8(bytes.to_vec()));
    text.transpose().map_err(|e| corrupt(&e))
}

fn resource(row: &Row, at: usize) -> Result<Option<Resource>, LedgerError> {
    column::<Option<&[u8]>>(row, at)?.map(from_bytes).transpose()
}

/// The entry in a row of the columns [`ENTRY`].
pub(crate) fn entry(row: &Row) -> Result<Entry, LedgerError> {
    let key: &str = column(row, 1)?;
    Ok(Entry {
        key: key.parse().map_err(|e| corrupt(&e))?,
        record: from_bytes(column(row, 2)?)?,
        asked: body(row, 3)?.unwrap_or_default(),
        sent: body(row, 4)?,
        outcome: body(row, 5)?,
        note: note(row, 6)?,
        resource: resource(row, 7)?,
        place: column::<i64>(row, 8)?.cast_unsigned(),
        by: epoch(column(row, 9)?)?,
        keep_until: column::<Option<i64>>(row, 10)?.map(from_time),
        tombstone: column(row, 11)?,
    })
}

pub(crate) fn epoch(stored: i64) -> Result<Epoch, LedgerError> {
    u32::try_from(stored).map(Epoch).map_err(|e| corrupt(&e))
}

/// The change in a row of the columns [`CHANGE`].
pub(crate) fn change(key: &Key, row: &Row) -> Result<Change, LedgerError> {
    let said: Said = from_bytes(column(row, 0)?)?;
    Ok(Change {
        key: key.clone(),
        expected: said.expected,
        record: said.record,
        at: said.at,
        by: said.by,
        event: said.event,
        asked: body(row, 1)?,
        sent: body(row, 2)?,
        outcome: body(row, 3)?,
        note: note(row, 4)?,
        resource: resource(row, 5)?,
        keep_until: said.keep_until,
    })
}

//! Entries and changes, as the server keeps them.

use redis::Value;
use settled::protocol::Time;
use settled::{Change, Entry, LedgerError};

/// The most that one change may be, in bytes.
pub(crate) const MAX_CHANGE: usize = 64 << 20;

/// What the server keeps of a key: its place, whether it is a tombstone, and changes.
#[derive(Debug)]
pub(crate) struct Kept {
    place: u64,
    tombstone: bool,
    changes: Vec<Change>,
}

impl Kept {
    /// Reads what the script says of a key.
    pub(crate) fn read(value: Value) -> Result<Option<Kept>, LedgerError> {
        if matches!(value, Value::Nil) {
            return Ok(None);
        }
        let (place, tombstone, changes): (u64, u8, Vec<Vec<u8>>) =
            redis::from_redis_value(value).map_err(|error| corrupt(&error))?;
        let changes = changes.iter().map(|change| decode(change)).collect::<Result<_, _>>()?;
        Ok(Some(Kept { place, tombstone: tombstone == 1, changes }))
    }

    /// The entry that these changes lead to.
    pub(crate) fn entry(self) -> Result<Entry, LedgerError> {
        let mut entry = None;
        for change in &self.changes {
            entry = Some(change.apply(entry.as_ref(), |_| self.place));
        }
        let entry = entry.ok_or_else(|| corrupt(&"a record without changes"))?;
        Ok(Entry { tombstone: self.tombstone, ..entry })
    }

    /// The changes.
    pub(crate) fn changes(self) -> Vec<Change> {
        self.changes
    }
}

/// A change as bytes.
pub(crate) fn encode(change: &Change) -> Result<Vec<u8>, LedgerError> {
    let bytes = postcard::to_stdvec(change).map_err(|error| corrupt(&error))?;
    match bytes.len() {
        ..=MAX_CHANGE => Ok(bytes),
        size => Err(LedgerError::TooLarge(format!(
            "a change with {size} bytes of arguments, answers and notes was refused, its limit is {MAX_CHANGE} bytes; nothing was \
             stored"
        ))),
    }
}

/// The change that stands for a tombstone: it leads to nothing but the record.
pub(crate) fn tombstone(entry: &Entry, keep_until: Time) -> Change {
    Change {
        key: entry.key.clone(),
        expected: None,
        record: entry.record,
        at: keep_until,
        by: entry.by,
        event: String::new(),
        asked: None,
        sent: None,
        outcome: None,
        note: None,
        resource: entry.resource.clone(),
        keep_until: Some(keep_until),
    }
}

fn decode(bytes: &[u8]) -> Result<Change, LedgerError> {
    postcard::from_bytes(bytes).map_err(|error| corrupt(&error))
}

/// What is stored can't be read.
pub(crate) fn corrupt(what: &dyn std::fmt::Display) -> LedgerError {
    LedgerError::Corrupt(format!(
        "{what}: something else has written to its keys; restore them from a backup, or choose another prefix"
    ))
}

//! What a transaction reads first, and what it writes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use settled_protocol::Digest;
use settled_protocol::merge::{HybridTime, Moved, Times};

use crate::store::batch::{Batch, Before, DeviceRow, Kept, TargetRow, Wanted};
use crate::store::{Shared, StoreError, read, signed, unsigned, write};

/// A limit, as SQLite counts.
pub(super) fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn time(row: &Row<'_>, at: usize) -> rusqlite::Result<HybridTime> {
    Ok(HybridTime { millis: unsigned(row.get(at)?), count: row.get(at + 1)? })
}

fn digest(row: &Row<'_>, at: usize) -> rusqlite::Result<Digest> {
    row.get::<_, [u8; 32]>(at).map(Digest::from_bytes)
}

/// Reads all that is wanted.
pub(super) fn load(connection: &Connection, shared: &Shared, wanted: &Wanted<'_>) -> Result<Batch, StoreError> {
    let mut schema = shared.schema();
    let mut statement =
        connection.prepare_cached("SELECT head, latest_millis, latest_count, schema_version FROM store")?;
    let (head, latest, version) =
        statement.query_row([], |row| Ok((unsigned(row.get(0)?), time(row, 1)?, row.get::<_, u32>(3)?)))?;
    if version != schema.version {
        let text: String = connection.query_row("SELECT schema FROM store", [], |row| row.get(0))?;
        schema = shared.follow(read(&text)?);
    }
    let mut batch = Batch {
        schema: Arc::clone(&schema),
        bound: shared.bound,
        most: shared.most,
        head,
        latest,
        devices: BTreeMap::new(),
        known: HashMap::new(),
        targets: BTreeMap::new(),
        operations: Vec::new(),
        refusals: Vec::new(),
    };
    let mut applied = connection
        .prepare_cached("SELECT fingerprint, cursor, millis, count, redated FROM operations WHERE op_id = ?1")?;
    let mut refused = connection.prepare_cached("SELECT fingerprint, reason, message FROM refused WHERE op_id = ?1")?;
    for op_id in &wanted.op_ids {
        let found = applied.query_row([op_id.as_bytes()], |row| {
            let is = Kept::Applied { cursor: unsigned(row.get(1)?), time: time(row, 2)?, redated: row.get(4)? };
            Ok(Before { fingerprint: digest(row, 0)?, is })
        });
        let found = match found.optional()? {
            None => refused
                .query_row([op_id.as_bytes()], |row| {
                    let reason = serde_json::from_str(&row.get::<_, String>(1)?);
                    let reason =
                        reason.map_err(|e| rusqlite::Error::FromSqlConversionFailure(1, Type::Text, Box::new(e)))?;
                    Ok(Before { fingerprint: digest(row, 0)?, is: Kept::Refused { reason, message: row.get(2)? } })
                })
                .optional()?,
            found => found,
        };
        batch.known.extend(found.map(|known| (*op_id, known)));
    }
    let mut states = connection.prepare_cached("SELECT state, cursor FROM targets WHERE target = ?1")?;
    for target in &wanted.targets {
        let found = states.query_row([target.as_str()], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)));
        if let Some((state, cursor)) = found.optional()? {
            let kind = TargetRow { state: read(&state)?, cursor: unsigned(cursor), changed: false };
            batch.targets.insert((*target).clone(), kind);
        }
    }
    let mut devices = connection.prepare_cached("SELECT * FROM devices WHERE device = ?1")?;
    for device in &wanted.devices {
        if let Some(row) = devices.query_row([device.as_str()], self::device).optional()? {
            batch.devices.insert((*device).clone(), row);
        }
    }
    Ok(batch)
}

fn device(row: &Row<'_>) -> rusqlite::Result<DeviceRow> {
    let moved = match row.get::<_, Option<i64>>(3)? {
        Some(_) => Some(Moved { from: time(row, 3)?, to: time(row, 5)? }),
        None => None,
    };
    Ok(DeviceRow {
        times: Times { last: time(row, 1)?, moved },
        seen: unsigned(row.get(7)?),
        ahead: row.get(8)?,
        believed: row.get(9)?,
        applied: unsigned(row.get(10)?),
        redated: unsigned(row.get(11)?),
    })
}

/// Writes all that is new.
pub(super) fn store(connection: &Connection, batch: &Batch) -> Result<(), StoreError> {
    let mut operation =
        connection.prepare_cached("INSERT INTO operations VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?;
    for new in &batch.operations {
        operation.execute(params![
            signed(new.cursor),
            new.op_id.as_bytes(),
            new.fingerprint.as_bytes(),
            new.device.as_str(),
            new.target.as_str(),
            signed(new.time.millis),
            new.time.count,
            new.redated,
            new.text,
        ])?;
    }
    let mut refusal = connection.prepare_cached("INSERT INTO refused VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for new in &batch.refusals {
        let reason = write(&new.reason)?;
        refusal.execute(params![
            new.op_id.as_bytes(),
            new.fingerprint.as_bytes(),
            new.device.as_str(),
            reason,
            new.message
        ])?;
    }
    let mut state = connection.prepare_cached("INSERT OR REPLACE INTO targets VALUES (?1, ?2, ?3)")?;
    for (target, kind) in batch.targets.iter().filter(|(_, kind)| kind.changed) {
        state.execute(params![target.as_str(), write(&kind.state)?, signed(kind.cursor)])?;
    }
    let sql = "INSERT OR REPLACE INTO devices VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    let mut device = connection.prepare_cached(sql)?;
    for (name, row) in &batch.devices {
        let Times { last, moved } = row.times;
        let (from, to) = (moved.map(|moved| moved.from), moved.map(|moved| moved.to));
        device.execute(params![
            name.as_str(),
            signed(last.millis),
            last.count,
            from.map(|from| signed(from.millis)),
            from.map(|from| from.count),
            to.map(|to| signed(to.millis)),
            to.map(|to| to.count),
            signed(row.seen),
            row.ahead,
            row.believed,
            signed(row.applied),
            signed(row.redated),
        ])?;
    }
    let mut head = connection.prepare_cached("UPDATE store SET head = ?1, latest_millis = ?2, latest_count = ?3")?;
    head.execute(params![signed(batch.head), signed(batch.latest.millis), batch.latest.count])?;
    Ok(())
}

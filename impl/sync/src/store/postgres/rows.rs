//! What a transaction reads first, and what it writes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use settled_protocol::Digest;
use settled_protocol::merge::{HybridTime, Moved, Name, OpId, Times};
use tokio_postgres::types::Type;
use tokio_postgres::{Row, Transaction};

use super::Parameter;
use super::tables::Tables;
use crate::store::batch::{Batch, Before, DeviceRow, Kept, TargetRow, Wanted};
use crate::store::{Shared, StoreError, read, signed, unsigned, write};

/// What a transaction goes by, whatever the server's defaults are: it waits for the disk; it waits neither for a server that holds
/// the store and has stopped, nor keeps others waiting if it is the one that has.
const TERMS: &str = "SELECT set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('on', 'remote_apply') \
                         THEN current_setting('synchronous_commit') ELSE 'on' END, true), \
                     set_config('lock_timeout', '10s', true), set_config('idle_in_transaction_session_timeout', '5s', true)";

/// A limit, as PostgreSQL counts.
pub(super) fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn time(row: &Row, at: usize) -> Result<HybridTime, StoreError> {
    let count: i64 = row.try_get(at + 1)?;
    Ok(HybridTime { millis: unsigned(row.try_get(at)?), count: u32::try_from(count).map_err(StoreError::damaged)? })
}

fn digest(row: &Row, at: usize) -> Result<Digest, StoreError> {
    let bytes: &[u8] = row.try_get(at)?;
    bytes.try_into().map(Digest::from_bytes).map_err(StoreError::damaged)
}

pub(super) fn op_id(row: &Row) -> Result<OpId, StoreError> {
    let bytes: &[u8] = row.try_get(0)?;
    bytes.try_into().map(OpId::from_bytes).map_err(StoreError::damaged)
}

fn name(row: &Row) -> Result<Name, StoreError> {
    Name::new(row.try_get::<_, String>(0)?).map_err(StoreError::damaged)
}

fn device(row: &Row) -> Result<DeviceRow, StoreError> {
    let moved = match row.try_get::<_, Option<i64>>(3)? {
        Some(_) => Some(Moved { from: time(row, 3)?, to: time(row, 5)? }),
        None => None,
    };
    Ok(DeviceRow {
        times: Times { last: time(row, 1)?, moved },
        seen: unsigned(row.try_get(7)?),
        ahead: row.try_get(8)?,
        believed: row.try_get(9)?,
        applied: unsigned(row.try_get(10)?),
        redated: unsigned(row.try_get(11)?),
    })
}

impl Tables {
    /// Takes the store for this transaction, and reads all that is wanted.
    pub async fn load(
        &self,
        transaction: &Transaction<'_>,
        shared: &Shared,
        wanted: &Wanted<'_>,
    ) -> Result<Batch, StoreError> {
        transaction.query_typed(TERMS, &[]).await?;
        let sql = self.sql("SELECT head, latest_millis, latest_count, schema_version FROM :store FOR UPDATE");
        let row = transaction.query_typed_one(&sql, &[]).await?;
        let mut schema = shared.schema();
        if row.try_get::<_, i64>(3)? != i64::from(schema.version) {
            let row = transaction.query_typed_one(&self.sql("SELECT schema FROM :store"), &[]).await?;
            schema = shared.follow(read(row.try_get(0)?)?);
        }
        let mut batch = Batch {
            schema: Arc::clone(&schema),
            bound: shared.bound,
            most: shared.most,
            head: unsigned(row.try_get(0)?),
            latest: time(&row, 1)?,
            devices: BTreeMap::new(),
            known: HashMap::new(),
            targets: BTreeMap::new(),
            operations: Vec::new(),
            refusals: Vec::new(),
        };
        let op_ids: Vec<&[u8]> = wanted.op_ids.iter().map(|id| &id.as_bytes()[..]).collect();
        let targets: Vec<&str> = wanted.targets.iter().map(|name| name.as_str()).collect();
        let devices: Vec<&str> = wanted.devices.iter().map(|name| name.as_str()).collect();
        let (applied, refused, targets_sql, devices_sql) = (
            self.sql(
                "SELECT op_id, fingerprint, cursor, millis, count, redated FROM :operations WHERE op_id = ANY($1)",
            ),
            self.sql("SELECT op_id, fingerprint, reason, message FROM :refused WHERE op_id = ANY($1)"),
            self.sql("SELECT target, state, cursor FROM :targets WHERE target = ANY($1)"),
            self.sql("SELECT * FROM :devices WHERE device = ANY($1)"),
        );
        let ids: [Parameter<'_>; 1] = [(&op_ids, Type::BYTEA_ARRAY)];
        let target_names: [Parameter<'_>; 1] = [(&targets, Type::TEXT_ARRAY)];
        let device_names: [Parameter<'_>; 1] = [(&devices, Type::TEXT_ARRAY)];
        // One after the other on the way, but not on the way back.
        let (applied, refused, targets, devices) = tokio::try_join!(
            transaction.query_typed(&applied, &ids),
            transaction.query_typed(&refused, &ids),
            transaction.query_typed(&targets_sql, &target_names),
            transaction.query_typed(&devices_sql, &device_names),
        )?;
        for row in &applied {
            let is = Kept::Applied { cursor: unsigned(row.try_get(2)?), time: time(row, 3)?, redated: row.try_get(5)? };
            batch.known.insert(op_id(row)?, Before { fingerprint: digest(row, 1)?, is });
        }
        for row in &refused {
            let is = Kept::Refused { reason: read(row.try_get(2)?)?, message: row.try_get(3)? };
            batch.known.insert(op_id(row)?, Before { fingerprint: digest(row, 1)?, is });
        }
        for row in &targets {
            let (state, cursor) = (read(row.try_get(1)?)?, unsigned(row.try_get(2)?));
            batch.targets.insert(name(row)?, TargetRow { state, cursor, changed: false });
        }
        for row in &devices {
            batch.devices.insert(name(row)?, device(row)?);
        }
        Ok(batch)
    }

    /// Writes all that is new.
    pub async fn store(&self, transaction: &Transaction<'_>, batch: &Batch) -> Result<(), StoreError> {
        // The requests go out one behind the other, without waiting for the answers in between.
        tokio::try_join!(
            self.store_operations(transaction, batch),
            self.store_refusals(transaction, batch),
            self.store_targets(transaction, batch),
            self.store_devices(transaction, batch),
            self.store_head(transaction, batch),
        )?;
        Ok(())
    }

    async fn store_operations(&self, transaction: &Transaction<'_>, batch: &Batch) -> Result<(), StoreError> {
        let new = &batch.operations;
        if new.is_empty() {
            return Ok(());
        }
        let sql = self.sql(
            "INSERT INTO :operations (cursor, op_id, fingerprint, device, target, millis, count, redated, operation) \
             SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        );
        let cursors: Vec<i64> = new.iter().map(|new| signed(new.cursor)).collect();
        let op_ids: Vec<&[u8]> = new.iter().map(|new| &new.op_id.as_bytes()[..]).collect();
        let fingerprints: Vec<&[u8]> = new.iter().map(|new| &new.fingerprint.as_bytes()[..]).collect();
        let devices: Vec<&str> = new.iter().map(|new| new.device.as_str()).collect();
        let targets: Vec<&str> = new.iter().map(|new| new.target.as_str()).collect();
        let millis: Vec<i64> = new.iter().map(|new| signed(new.time.millis)).collect();
        let counts: Vec<i64> = new.iter().map(|new| i64::from(new.time.count)).collect();
        let redated: Vec<bool> = new.iter().map(|new| new.redated).collect();
        let texts: Vec<&str> = new.iter().map(|new| new.text.as_str()).collect();
        let parameters: [Parameter<'_>; 9] = [
            (&cursors, Type::INT8_ARRAY),
            (&op_ids, Type::BYTEA_ARRAY),
            (&fingerprints, Type::BYTEA_ARRAY),
            (&devices, Type::TEXT_ARRAY),
            (&targets, Type::TEXT_ARRAY),
            (&millis, Type::INT8_ARRAY),
            (&counts, Type::INT8_ARRAY),
            (&redated, Type::BOOL_ARRAY),
            (&texts, Type::TEXT_ARRAY),
        ];
        transaction.execute_typed(&sql, &parameters).await?;
        Ok(())
    }

    async fn store_refusals(&self, transaction: &Transaction<'_>, batch: &Batch) -> Result<(), StoreError> {
        let new = &batch.refusals;
        if new.is_empty() {
            return Ok(());
        }
        let sql = self.sql(
            "INSERT INTO :refused (op_id, fingerprint, device, reason, message) SELECT * FROM unnest($1, $2, $3, $4, $5)",
        );
        let op_ids: Vec<&[u8]> = new.iter().map(|new| &new.op_id.as_bytes()[..]).collect();
        let fingerprints: Vec<&[u8]> = new.iter().map(|new| &new.fingerprint.as_bytes()[..]).collect();
        let devices: Vec<&str> = new.iter().map(|new| new.device.as_str()).collect();
        let reasons: Vec<String> = new.iter().map(|new| write(&new.reason)).collect::<Result<_, _>>()?;
        let messages: Vec<&str> = new.iter().map(|new| new.message.as_str()).collect();
        let parameters: [Parameter<'_>; 5] = [
            (&op_ids, Type::BYTEA_ARRAY),
            (&fingerprints, Type::BYTEA_ARRAY),
            (&devices, Type::TEXT_ARRAY),
            (&reasons, Type::TEXT_ARRAY),
            (&messages, Type::TEXT_ARRAY),
        ];
        transaction.execute_typed(&sql, &parameters).await?;
        Ok(())
    }

    async fn store_targets(&self, transaction: &Transaction<'_>, batch: &Batch) -> Result<(), StoreError> {
        let changed: Vec<_> = batch.targets.iter().filter(|(_, row)| row.changed).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let sql = self.sql(
            "INSERT INTO :targets (target, state, cursor) SELECT * FROM unnest($1, $2, $3) \
             ON CONFLICT (target) DO UPDATE SET state = excluded.state, cursor = excluded.cursor",
        );
        let targets: Vec<&str> = changed.iter().map(|(name, _)| name.as_str()).collect();
        let states: Vec<String> = changed.iter().map(|(_, row)| write(&row.state)).collect::<Result<_, _>>()?;
        let cursors: Vec<i64> = changed.iter().map(|(_, row)| signed(row.cursor)).collect();
        let parameters: [Parameter<'_>; 3] =
            [(&targets, Type::TEXT_ARRAY), (&states, Type::TEXT_ARRAY), (&cursors, Type::INT8_ARRAY)];
        transaction.execute_typed(&sql, &parameters).await?;
        Ok(())
    }

    async fn store_devices(&self, transaction: &Transaction<'_>, batch: &Batch) -> Result<(), StoreError> {
        let sql = self.sql(
            "INSERT INTO :devices VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) \
             ON CONFLICT (device) DO UPDATE SET last_millis = excluded.last_millis, last_count = excluded.last_count, \
                 from_millis = excluded.from_millis, from_count = excluded.from_count, to_millis = excluded.to_millis, \
                 to_count = excluded.to_count, seen = excluded.seen, ahead = excluded.ahead, believed = excluded.believed, \
                 applied = excluded.applied, redated = excluded.redated",
        );
        for (name, row) in &batch.devices {
            let Times { last, moved } = row.times;
            let (from, to) = (moved.map(|moved| moved.from), moved.map(|moved| moved.to));
            let parameters: [Parameter<'_>; 12] = [
                (&name.as_str(), Type::TEXT),
                (&signed(last.millis), Type::INT8),
                (&i64::from(last.count), Type::INT8),
                (&from.map(|from| signed(from.millis)), Type::INT8),
                (&from.map(|from| i64::from(from.count)), Type::INT8),
                (&to.map(|to| signed(to.millis)), Type::INT8),
                (&to.map(|to| i64::from(to.count)), Type::INT8),
                (&signed(row.seen), Type::INT8),
                (&row.ahead, Type::INT8),
                (&row.believed, Type::BOOL),
                (&signed(row.applied), Type::INT8),
                (&signed(row.redated), Type::INT8),
            ];
            transaction.execute_typed(&sql, &parameters).await?;
        }
        Ok(())
    }

    async fn store_head(&self, transaction: &Transaction<'_>, batch: &Batch) -> Result<(), StoreError> {
        let sql = self.sql("UPDATE :store SET head = $1, latest_millis = $2, latest_count = $3");
        let parameters: [Parameter<'_>; 3] = [
            (&signed(batch.head), Type::INT8),
            (&signed(batch.latest.millis), Type::INT8),
            (&i64::from(batch.latest.count), Type::INT8),
        ];
        transaction.execute_typed(&sql, &parameters).await?;
        Ok(())
    }
}

//! The database's tables and functions, brought to this version.

use settled::{LedgerError, fault};
use tokio_postgres::types::Type;
use tokio_postgres::{Error, Transaction};

use crate::error::from_postgres;
use crate::lane::Live;

/// In order; the number of each is its place, from 1. One that was released is never changed.
const MIGRATIONS: &[(&str, &str)] = &[
    ("records", include_str!("../migrations/0001_records.sql")),
    ("owners", include_str!("../migrations/0002_owners.sql")),
    ("functions", include_str!("../migrations/0003_functions.sql")),
];

/// The advisory lock that those who migrate take.
const LOCK: i64 = 0x5e77_1ed0_0001;

fn known() -> i32 {
    i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX)
}

/// SQL with the schema's name in it. That is a plain name.
pub(crate) fn in_schema(sql: &str, schema: &str) -> String {
    sql.replace(":schema", schema)
}

/// Applies what is missing, in one transaction: all of it, or nothing.
pub(crate) async fn migrate(live: &mut Live, schema: &str) -> Result<(), LedgerError> {
    let step = |e: Error| match from_postgres(&e) {
        LedgerError::Unavailable(why) => LedgerError::Unavailable(format!(
            "its schema `{schema}` can't be set up: {why}. The role must be able to create it (GRANT CREATE ON DATABASE), or \
             own it if it exists"
        )),
        other => other,
    };
    let transaction = live.client.transaction().await.map_err(step)?;
    if applied(&transaction, schema).await.map_err(step)? == Some(known()) {
        return Ok(());
    }
    // Many processes may start at the same time.
    let lock = transaction.query_typed("SELECT pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]);
    lock.await.map_err(step)?;
    let now = applied(&transaction, schema).await.map_err(step)?;
    let applied = usize::try_from(now.unwrap_or(0)).unwrap_or(0);
    if applied > MIGRATIONS.len() {
        return Err(LedgerError::Unavailable(format!(
            "its schema `{schema}` was set up by a newer version of settled (step {applied}; this version knows {}): use that \
             version, or a newer one",
            MIGRATIONS.len()
        )));
    }
    let exists = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1";
    if transaction.query_typed_opt(exists, &[(&schema, Type::TEXT)]).await.map_err(step)?.is_none() {
        transaction.batch_execute(&format!("CREATE SCHEMA {schema}")).await.map_err(step)?;
    }
    if now.is_none() {
        let table = "CREATE TABLE :schema.migrations (number integer PRIMARY KEY, name text NOT NULL, \
                     applied_at timestamptz NOT NULL DEFAULT now())";
        transaction.batch_execute(&in_schema(table, schema)).await.map_err(step)?;
    }
    for (number, (name, sql)) in (1_i32..).zip(MIGRATIONS).skip(applied) {
        transaction.batch_execute(&in_schema(sql, schema)).await.map_err(step)?;
        let note = in_schema("INSERT INTO :schema.migrations (number, name) VALUES ($1, $2)", schema);
        transaction.execute_typed(&note, &[(&number, Type::INT4), (name, Type::TEXT)]).await.map_err(step)?;
        tracing::info!(schema, number, name, "the ledger's schema was brought further");
    }
    fault::point("before-migration-commit");
    transaction.commit().await.map_err(step)?;
    fault::point("after-migration-commit");
    Ok(())
}

/// The last step that was applied; none if there never was one.
async fn applied(transaction: &Transaction<'_>, schema: &str) -> Result<Option<i32>, Error> {
    // Not to_regclass: within a transaction it may remember that there was none.
    let exists = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                  WHERE n.nspname = $1 AND c.relname = 'migrations')";
    let exists = transaction.query_typed_one(exists, &[(&schema, Type::TEXT)]).await?;
    if !exists.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let last = in_schema("SELECT coalesce(max(number), 0) FROM :schema.migrations", schema);
    transaction.query_typed_one(&last, &[]).await?.try_get(0).map(Some)
}

//! The database's tables, beside those that a ledger may have in the same schema.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::store::{FORMAT, Shared, StoreError, newer, schema_to_store, unsigned, write};

/// The advisory lock that those take who set up the tables.
const LOCK: i64 = 0x5e77_1ed0_0002;

/// Names compare by their bytes, as they do everywhere else.
const TABLES: &str = r#"
    CREATE TABLE :store (
        one integer PRIMARY KEY CHECK (one = 1),
        format bigint NOT NULL,
        head bigint NOT NULL,
        latest_millis bigint NOT NULL,
        latest_count bigint NOT NULL,
        schema_version bigint NOT NULL,
        schema text NOT NULL
    );
    CREATE TABLE :operations (
        cursor bigint PRIMARY KEY,
        op_id bytea NOT NULL UNIQUE,
        fingerprint bytea NOT NULL,
        device text NOT NULL,
        target text NOT NULL,
        millis bigint NOT NULL,
        count bigint NOT NULL,
        redated boolean NOT NULL,
        operation text NOT NULL
    );
    CREATE TABLE :refused (
        op_id bytea PRIMARY KEY,
        fingerprint bytea NOT NULL,
        device text NOT NULL,
        reason text NOT NULL,
        message text NOT NULL
    );
    CREATE TABLE :targets (
        target text COLLATE "C" PRIMARY KEY,
        state text NOT NULL,
        cursor bigint NOT NULL
    );
    CREATE TABLE :devices (
        device text COLLATE "C" PRIMARY KEY,
        last_millis bigint NOT NULL,
        last_count bigint NOT NULL,
        from_millis bigint,
        from_count bigint,
        to_millis bigint,
        to_count bigint,
        seen bigint NOT NULL,
        ahead bigint NOT NULL,
        believed boolean NOT NULL,
        applied bigint NOT NULL,
        redated bigint NOT NULL
    );
"#;

/// The tables, by the schema that they are in.
pub(in crate::store) struct Tables {
    pub schema: String,
}

impl Tables {
    pub fn new(schema: &str) -> Tables {
        Tables { schema: schema.to_owned() }
    }

    /// SQL with the tables' names in it. The schema's is a plain name.
    pub fn sql(&self, sql: &str) -> String {
        ["store", "operations", "refused", "targets", "devices"].iter().fold(sql.to_owned(), |sql, table| {
            sql.replace(&format!(":{table}"), &format!("{}.sync_{table}", self.schema))
        })
    }

    /// Makes the tables if there are none, and checks them otherwise.
    pub async fn open(&self, client: &mut Client, shared: &Shared) -> Result<(), StoreError> {
        let step = |error: tokio_postgres::Error| {
            StoreError::Unavailable(format!(
                "the tables can't be set up in the schema `{}`: {}. The role must be able to create it (GRANT CREATE ON DATABASE), or \
                 own it if it exists",
                self.schema,
                super::failed(&error)
            ))
        };
        let transaction = client.transaction().await.map_err(step)?;
        // Many servers may start at the same time.
        transaction.query_typed("SELECT pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]).await.map_err(step)?;
        let exists = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1";
        if transaction.query_typed_opt(exists, &[(&self.schema, Type::TEXT)]).await.map_err(step)?.is_none() {
            transaction.batch_execute(&format!("CREATE SCHEMA {}", self.schema)).await.map_err(step)?;
        }
        let exists = "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                      WHERE n.nspname = $1 AND c.relname = 'sync_store'";
        if transaction.query_typed_opt(exists, &[(&self.schema, Type::TEXT)]).await.map_err(step)?.is_none() {
            transaction.batch_execute(&self.sql(TABLES)).await.map_err(step)?;
        }
        let found = self.sql("SELECT format FROM :store");
        if let Some(row) = transaction.query_typed_opt(&found, &[]).await.map_err(step)?
            && row.try_get::<_, i64>(0)? > FORMAT
        {
            return Err(newer(row.try_get(0)?));
        }
        let found = self.sql("SELECT schema, head FROM :store FOR UPDATE");
        let stored = transaction.query_typed_opt(&found, &[]).await.map_err(step)?;
        let schema = shared.schema();
        let text: Option<&str> = stored.as_ref().map(|row| row.try_get(0)).transpose()?;
        if schema_to_store(&schema, text)? {
            let sql = self.sql(
                "INSERT INTO :store AS kept (one, format, head, latest_millis, latest_count, schema_version, schema) \
                 VALUES (1, $1, 0, 0, 0, $2, $3) \
                 ON CONFLICT (one) DO UPDATE SET schema_version = excluded.schema_version, schema = excluded.schema",
            );
            let (version, text) = (i64::from(schema.version), write(&*schema)?);
            let parameters: [super::Parameter<'_>; 3] =
                [(&FORMAT, Type::INT8), (&version, Type::INT8), (&text, Type::TEXT)];
            transaction.execute_typed(&sql, &parameters).await.map_err(step)?;
        }
        let head = stored.as_ref().map(|row| row.try_get(1)).transpose()?.unwrap_or(0);
        transaction.commit().await.map_err(step)?;
        shared.tell(unsigned(head));
        Ok(())
    }
}

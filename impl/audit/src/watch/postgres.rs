//! A PostgreSQL database: the rows of its tables.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_postgres::{Client, IsolationLevel};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{MOST_ROWS, is_ignored, row};
use crate::error::AuditError;
use crate::state::Item;

const TABLES: &str = "select format('%I.%I', n.nspname, c.relname), \
    case when n.nspname = 'public' then c.relname::text else n.nspname || '.' || c.relname end \
    from pg_class c join pg_namespace n on n.oid = c.relnamespace \
    where c.relkind = 'r' and c.relpersistence <> 't' and n.nspname <> 'information_schema' and n.nspname not like 'pg\\_%' \
    order by 2";

/// A connection, and what it is called.
pub(super) struct Database {
    client: tokio::sync::Mutex<Client>,
    pub(super) words: String,
}

impl Database {
    pub(super) async fn open(url: &str) -> Result<Database, AuditError> {
        let words = words(url);
        let wrong = |problem: String| AuditError::Watch { what: words.clone(), problem };
        let tls = settled_http::tls::client(None).map_err(|error| wrong(error.to_string()))?;
        let opened = tokio_postgres::connect(url, MakeRustlsConnect::new(tls)).await;
        let (client, connection) = opened.map_err(|error| wrong(whole(&error)))?;
        // It ends with the client.
        tokio::spawn(connection);
        Ok(Database { client: tokio::sync::Mutex::new(client), words })
    }

    pub(super) async fn read(&self, ignore: &[String]) -> Result<Vec<(String, Item)>, AuditError> {
        let read = self.tables(ignore).await;
        read.map_err(|error| AuditError::Watch { what: self.words.clone(), problem: whole(&error) })
    }

    async fn tables(&self, ignore: &[String]) -> Result<Vec<(String, Item)>, tokio_postgres::Error> {
        let mut client = self.client.lock().await;
        let moment = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        let moment = moment.start().await?;
        let mut items = Vec::new();
        for table in moment.query(TABLES, &[]).await? {
            let (quoted, name): (String, String) = (table.try_get(0)?, table.try_get(1)?);
            if is_ignored(&name, ignore) {
                continue;
            }
            let rows =
                moment.query(&format!("select to_jsonb(t) from {quoted} t limit {}", MOST_ROWS + 1), &[]).await?;
            let item = if rows.len() > MOST_ROWS {
                let sums = format!("select count(*), sum(hashtextextended(t::text, 0))::text from {quoted} t");
                let sums = moment.query_one(&sums, &[]).await?;
                let (count, sum): (i64, Option<String>) = (sums.try_get(0)?, sums.try_get(1)?);
                Item::large_table(&sum.unwrap_or_default(), u64::try_from(count).unwrap_or_default())
            } else {
                let mut texts = Vec::new();
                for found in rows {
                    let value: Value = found.try_get(0)?;
                    texts.push(row(&name, value.as_object().cloned().unwrap_or_else(Map::new), ignore));
                }
                Item::table(texts)
            };
            items.push((format!("table {name}"), item));
        }
        moment.commit().await?;
        Ok(items)
    }
}

/// The address without user and password.
fn words(url: &str) -> String {
    let Ok(url) = url::Url::parse(url) else {
        return "postgres://…".to_owned();
    };
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("postgres://{host}{port}{}", url.path())
}

fn whole(error: &tokio_postgres::Error) -> String {
    let cause: Option<Arc<str>> = std::error::Error::source(error).map(|cause| cause.to_string().into());
    cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

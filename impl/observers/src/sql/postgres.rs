//! Asking a PostgreSQL database.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Config, IsolationLevel};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{BYTES, ROWS, Rows};
use crate::error::{AskError, Unusable};
use crate::http::chain;
use crate::tls;

/// A copy that follows another server shows what happened some time ago.
const STANDBY: &str = "the database is a standby server, which may lag behind";

/// A server, and the way to it.
#[derive(Clone)]
pub(super) struct Server {
    config: Config,
    tls: MakeRustlsConnect,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its own form hides the password.
        self.config.fmt(f)
    }
}

impl Server {
    pub(super) fn new(config: Config) -> Result<Server, Unusable> {
        Ok(Server { config, tls: MakeRustlsConnect::new(tls::client()?) })
    }

    pub(super) async fn ask(&self, statement: &str, parameters: &[Value], within: Duration) -> Result<Rows, AskError> {
        let failed = |error: tokio_postgres::Error| AskError::Failed(chain(&error));
        let (mut client, connection) = self.config.connect(self.tls.clone()).await.map_err(failed)?;
        let _connection = AbortOnDrop(tokio::spawn(async move {
            // Its errors are those of the requests.
            let _ = connection.await;
        }));
        let transaction = client
            .build_transaction()
            .read_only(true)
            .isolation_level(IsolationLevel::ReadCommitted)
            .start()
            .await
            .map_err(failed)?;
        let limit = format!("set local statement_timeout = {}", within.as_millis().clamp(1, 86_400_000));
        transaction.batch_execute(&limit).await.map_err(failed)?;
        // Types are left to the server, as for a literal. Unnamed statements also work behind a pooler.
        let bound: Vec<Text> = parameters.iter().map(Text::of).collect();
        let bound: Vec<(&(dyn ToSql + Sync), Type)> =
            bound.iter().map(|text| (text as &(dyn ToSql + Sync), Type::UNKNOWN)).collect();
        let whole = format!("select to_json(seen)::text from ({statement}\n) as seen limit {}", ROWS + 1);
        let found = transaction.query_typed(&whole, &bound).await.map_err(failed)?;
        let recovering = transaction.query_typed("select pg_is_in_recovery()", &[]).await.map_err(failed)?;
        if found.len() > ROWS {
            return Err(AskError::TooLong("1000 rows"));
        }
        let mut size = 0;
        let mut rows = Vec::with_capacity(found.len());
        for row in found {
            let text: &str = row.try_get(0).map_err(failed)?;
            size += text.len();
            if size > BYTES {
                return Err(AskError::TooLong("1 MiB"));
            }
            let value = serde_json::from_str(text);
            rows.push(value.map_err(|error| AskError::Failed(format!("a row can't be read as JSON: {error}")))?);
        }
        let standby = recovering.first().map(|row| row.try_get::<_, bool>(0)).transpose().map_err(failed)?;
        Ok(Rows { rows, may_lag: (standby != Some(false)).then_some(STANDBY) })
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A parameter in its text form, whatever type the statement gives it.
#[derive(Debug)]
struct Text(Option<String>);

impl Text {
    fn of(value: &Value) -> Text {
        Text(match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        })
    }
}

impl ToSql for Text {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match &self.0 {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

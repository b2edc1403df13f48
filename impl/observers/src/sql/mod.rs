//! Asking a database.

mod postgres;
mod sqlite;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::error::{AskError, Unusable};
use crate::given::Given;
use crate::secret::Secret;
use crate::template::{Shape, Where};
use crate::verdict::{Condition, Evidence};

/// How many rows are read.
const ROWS: usize = 1000;

/// How much of them.
const BYTES: usize = 1 << 20;

/// One SQL statement that only reads, as declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Sql {
    statement: String,
    database: Secret,
    parameters: Vec<Shape>,
}

impl Sql {
    /// This statement with these parameters (`$1`, `$2` …), each a template that is bound and never part of the statement,
    /// on this database: `postgres://…`, or `sqlite:` and a path.
    ///
    /// # Errors
    /// [`Unusable`], with what is allowed instead.
    pub fn parse(statement: &str, database: Secret, parameters: Vec<Value>) -> Result<Sql, Unusable> {
        let statement = statement.trim().trim_end_matches(';').trim_end().to_owned();
        if statement.is_empty() {
            return Err(Unusable("is empty: write one `select` statement".to_owned()));
        }
        if !database.is_indirect() {
            Database::parse(database.written())?;
        }
        let parameters = parameters
            .into_iter()
            .map(|value| Shape::parse(value, Where::Observation))
            .collect::<Result<_, _>>()
            .map_err(|error| Unusable(format!("`parameters` {error}")))?;
        Ok(Sql { statement, database, parameters })
    }

    /// Ready to ask.
    ///
    /// # Errors
    /// [`Unusable`], if the database's URL is not there or can't be used.
    pub(crate) fn open(&self) -> Result<OpenSql, Unusable> {
        let database = Database::parse(&self.database.resolve()?)?;
        Ok(OpenSql { sql: self.clone(), database })
    }

    pub(crate) fn uses(&self, name: &str) -> bool {
        self.parameters.iter().any(|shape| shape.uses(name))
    }

    /// What holds if nothing is declared: at least one row is "applied".
    pub fn applied() -> Vec<Condition> {
        vec![Condition::rows(true)]
    }

    /// What holds if nothing is declared: no row is "not applied".
    pub fn not_applied() -> Vec<Condition> {
        vec![Condition::rows(false)]
    }
}

/// Ready to ask.
#[derive(Clone, Debug)]
pub(crate) struct OpenSql {
    sql: Sql,
    database: Database,
}

#[derive(Clone, Debug)]
enum Database {
    Postgres(Box<postgres::Server>),
    Sqlite(PathBuf),
}

impl Database {
    fn parse(url: &str) -> Result<Database, Unusable> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            if path.is_empty() {
                return Err(Unusable("the database `sqlite:` names no file".to_owned()));
            }
            Ok(Database::Sqlite(PathBuf::from(path)))
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            // The URL may hold a password, and the error a part of it.
            let config =
                url.parse().map_err(|_| Unusable("the URL of the PostgreSQL database can't be read".to_owned()))?;
            Ok(Database::Postgres(Box::new(postgres::Server::new(config)?)))
        } else {
            Err(Unusable("the database must be `postgres://…`, or `sqlite:` and a path".to_owned()))
        }
    }
}

impl OpenSql {
    pub(crate) async fn ask(&self, given: &Given<'_>, within: Duration) -> Result<Evidence, AskError> {
        let parameters: Vec<Value> =
            self.sql.parameters.iter().map(|shape| shape.value(given)).collect::<Result<_, _>>()?;
        let seen = match &self.database {
            Database::Postgres(server) => server.ask(&self.sql.statement, &parameters, within).await?,
            Database::Sqlite(path) => sqlite::ask(path.clone(), self.sql.statement.clone(), parameters, within).await?,
        };
        Ok(Evidence {
            rows: Some(u64::try_from(seen.rows.len()).unwrap_or(u64::MAX)),
            body: Some(Value::Array(seen.rows)),
            may_lag: seen.may_lag,
            ..Evidence::default()
        })
    }
}

/// What a database answered.
struct Rows {
    /// Each an object of its columns.
    rows: Vec<Value>,
    may_lag: Option<&'static str>,
}

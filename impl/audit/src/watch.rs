//! Where effects show.

mod directory;
mod observed;
mod postgres;
mod sqlite;

use std::path::PathBuf;

use serde_json::{Map, Value};

use self::postgres::Database;
use crate::client::Client;
use crate::error::AuditError;
use crate::state::State;

/// More rows than these are told apart by a digest only.
const MOST_ROWS: usize = 10_000;

/// What is looked at to see an effect.
pub(crate) struct Watches {
    places: Vec<Place>,
    observer: Option<Observing>,
    ignore: Vec<String>,
}

/// A tool that is called to see an effect.
pub(crate) struct Observing {
    pub(crate) tool: String,
    arguments: Value,
}

enum Place {
    Directory(PathBuf),
    Sqlite(PathBuf),
    Postgres(Box<Database>),
}

impl Watches {
    /// Opens what is to be watched.
    pub(crate) async fn open(places: &[String], ignore: &[String]) -> Result<Watches, AuditError> {
        let mut opened = Vec::new();
        for place in places {
            opened.push(open(place).await?);
        }
        Ok(Watches { places: opened, observer: None, ignore: ignore.to_vec() })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.observer.is_none()
    }

    /// Watches through a tool as well.
    pub(crate) fn observe(&mut self, tool: String, arguments: Value) {
        self.observer = Some(Observing { tool, arguments });
    }

    pub(crate) fn observer(&self) -> Option<&Observing> {
        self.observer.as_ref()
    }

    /// The first directory that is watched, for `{directory}`.
    pub(crate) fn directory(&self) -> Option<String> {
        self.places.iter().find_map(|place| match place {
            Place::Directory(path) => Some(path.to_string_lossy().into_owned()),
            _ => None,
        })
    }

    /// What is watched, in words.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = self.places.iter().map(Place::words).collect();
        words.extend(self.observer.iter().map(|observer| format!("tool {}", observer.tool)));
        words
    }

    /// The state of what can be looked at without the server: between the call and its answer, the server is not to be disturbed.
    pub(crate) async fn outside(&self) -> Result<State, AuditError> {
        let mut state = State::default();
        for place in &self.places {
            match place {
                Place::Directory(path) => {
                    let (path, ignore) = (path.clone(), self.ignore.clone());
                    let read = tokio::task::spawn_blocking(move || directory::read(&path, &ignore));
                    let read = read
                        .await
                        .map_err(|error| AuditError::Watch { what: place.words(), problem: error.to_string() })?;
                    state.0.extend(read?);
                }
                Place::Sqlite(path) => {
                    let (path, ignore) = (path.clone(), self.ignore.clone());
                    let read = tokio::task::spawn_blocking(move || sqlite::read(&path, &ignore));
                    let read = read
                        .await
                        .map_err(|error| AuditError::Watch { what: place.words(), problem: error.to_string() })?;
                    state.0.extend(read?);
                }
                Place::Postgres(database) => state.0.extend(database.read(&self.ignore).await?),
            }
        }
        Ok(state)
    }

    /// The state of all that is watched.
    pub(crate) async fn state(&self, client: &Client) -> Result<State, AuditError> {
        let mut state = self.outside().await?;
        if let Some(observer) = &self.observer {
            state.0.extend(observed::read(client, observer, &self.ignore).await?);
        }
        Ok(state)
    }
}

impl Place {
    fn words(&self) -> String {
        match self {
            Place::Directory(path) => format!("directory {}", path.display()),
            Place::Sqlite(path) => format!("sqlite:{}", path.display()),
            Place::Postgres(database) => database.words.clone(),
        }
    }
}

async fn open(place: &str) -> Result<Place, AuditError> {
    if let Some(path) = place.strip_prefix("sqlite:") {
        let path = std::path::absolute(path).map_err(|error| unusable(place, error))?;
        return Ok(Place::Sqlite(path));
    }
    if place.starts_with("postgres://") || place.starts_with("postgresql://") {
        return Ok(Place::Postgres(Box::new(Database::open(place).await?)));
    }
    let path = std::fs::canonicalize(place).map_err(|error| unusable(place, error))?;
    match path.is_dir() {
        true => Ok(Place::Directory(path)),
        false => Err(AuditError::Input(format!(
            "--watch {place}: is a file; watch its directory, or `sqlite:{place}` if it is a database"
        ))),
    }
}

fn unusable(place: &str, error: std::io::Error) -> AuditError {
    AuditError::Input(format!("--watch {place}: {error}; a directory, `sqlite:FILE` or `postgres://…` can be watched"))
}

/// Whether a name is one of those that don't count, or in one of them.
fn is_ignored(name: &str, ignore: &[String]) -> bool {
    ignore.iter().any(|ignored| {
        name.strip_prefix(ignored.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || ignored.ends_with('/'))
    })
}

/// A row as JSON, without the columns that don't count.
fn row(table: &str, mut row: Map<String, Value>, ignore: &[String]) -> String {
    row.retain(|column, _| !is_ignored(&format!("{table}.{column}"), ignore));
    Value::Object(row).to_string()
}

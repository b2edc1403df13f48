//! What can be read.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use settled_protocol::merge::{Name, OpId};
use tokio::time::{Instant, sleep_until};

use super::problem::Problem;
use super::{LONGEST_WAIT, OPENAPI, Server, figures, now};
use crate::schema::Schema;
use crate::store::StoreError;
use crate::wire::{Cursor, Devices, Health, Pulled, Target, Targets};

/// How many targets or devices are given if nothing is said.
const PAGE: usize = 100;

type Asked<T> = Result<Query<T>, QueryRejection>;

fn understood<T>(asked: Asked<T>) -> Result<T, Problem> {
    asked
        .map(|Query(query)| query)
        .map_err(|error| Problem::malformed(format!("{}; `/v1/openapi` says what can be asked", error.body_text())))
}

impl Server {
    fn limit(&self, asked: Option<usize>, usual: usize) -> usize {
        asked.unwrap_or(usual).clamp(1, self.options.most.get())
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pull {
    #[serde(default)]
    after: Cursor,
    /// The operation that was seen at that cursor.
    last: Option<OpId>,
    limit: Option<usize>,
    #[serde(default)]
    wait: u64,
}

/// `GET /v1/operations`.
pub(super) async fn operations(State(server): State<Arc<Server>>, asked: Asked<Pull>) -> Result<Json<Pulled>, Problem> {
    let Pull { after, last, limit, wait } = understood(asked)?;
    let limit = server.limit(limit, usize::MAX);
    let until = Instant::now() + Duration::from_secs(wait).min(LONGEST_WAIT);
    let _waiting = Waiting::new(&server);
    let mut closing = server.closing.clone();
    loop {
        // Before looking, so that nothing can come in between.
        let mut heard = server.store.heard();
        let pulled = server.store.operations(after, limit).await?;
        // A store that was restored from a backup may have again as many operations as were seen, but not the same.
        if let Some(last) = last
            && server.store.at(after).await?.is_some_and(|there| there != last)
        {
            return Err(StoreError::Ahead { after, head: pulled.head }.into());
        }
        figures::head(pulled.head);
        if !pulled.operations.is_empty() || Instant::now() >= until {
            return Ok(Json(pulled));
        }
        tokio::select! {
            changed = heard.changed() => {
                if changed.is_err() {
                    return Ok(Json(pulled));
                }
            }
            _ = closing.wait_for(|closing| *closing) => return Ok(Json(pulled)),
            () = sleep_until(until) => {}
        }
    }
}

/// Counts a pull that may wait.
struct Waiting<'a>(&'a Server);

impl<'a> Waiting<'a> {
    fn new(server: &'a Server) -> Waiting<'a> {
        server.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(server)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Browse {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    after: String,
    limit: Option<usize>,
}

/// `GET /v1/targets`.
pub(super) async fn targets(State(server): State<Arc<Server>>, asked: Asked<Browse>) -> Result<Json<Targets>, Problem> {
    let Browse { prefix, after, limit } = understood(asked)?;
    Ok(Json(server.store.targets(&plain(prefix)?, &plain(after)?, server.limit(limit, PAGE)).await?))
}

/// What could not be part of a name is not looked for: PostgreSQL has no text with a NUL.
fn plain(text: String) -> Result<String, Problem> {
    if text.is_empty() {
        return Ok(text);
    }
    Name::new(text).map(String::from).map_err(|error| Problem::malformed(error.to_string()))
}

/// `GET /v1/targets/{target}`.
pub(super) async fn target(
    State(server): State<Arc<Server>>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<Target>, Problem> {
    let Path(target) = path.map_err(|error| Problem::malformed(error.body_text()))?;
    let target = Name::new(target).map_err(|error| Problem::malformed(error.to_string()))?;
    server.store.target(&target).await?.map(Json).ok_or_else(|| {
        let detail = format!("no operation was ever applied to `{target}`: `/v1/targets` lists those that there are");
        Problem::new(StatusCode::NOT_FOUND, "no-target", "There is no such target", detail)
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    #[serde(default)]
    after: String,
    limit: Option<usize>,
}

/// `GET /v1/devices`.
pub(super) async fn devices(State(server): State<Arc<Server>>, asked: Asked<Page>) -> Result<Json<Devices>, Problem> {
    let Page { after, limit } = understood(asked)?;
    let limit = server.limit(limit, PAGE);
    let mut devices = server.store.devices(&plain(after)?, limit + 1).await?;
    let more = devices.len() > limit;
    devices.truncate(limit);
    Ok(Json(Devices { devices, more }))
}

/// `GET /v1/schema`.
pub(super) async fn schema(State(server): State<Arc<Server>>) -> Json<Schema> {
    Json((*server.store.schema()).clone())
}

/// `GET /v1/health`.
pub(super) async fn health(State(server): State<Arc<Server>>) -> Result<Json<Health>, Problem> {
    let head = server.store.head().await?;
    figures::head(head);
    Ok(Json(Health { head, now: now(), schema: server.store.schema().version }))
}

/// `GET /v1/openapi`.
pub(super) async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/yaml")], OPENAPI)
}

//! `POST /v1/operations`.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use super::problem::Problem;
use super::{LARGEST_UPLOAD, Server, figures, now};
use crate::wire::{Upload, Uploaded};

/// Applies an upload.
pub(super) async fn upload(State(server): State<Arc<Server>>, request: Request) -> Result<Json<Uploaded>, Problem> {
    // Before the body is read: what is turned away costs nothing.
    let Ok(_working) = server.uploads.try_acquire() else {
        figures::turned_away("busy");
        let detail = "too many uploads are under way: send the same again after the seconds that `Retry-After` says";
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "busy", "The server is busy", detail).again(1));
    };
    let begun = Instant::now();
    let (parts, body) = request.into_parts();
    is_json(&parts.headers)?;
    let body = whole(&server, body).await?;
    let upload: Upload = serde_json::from_slice(&body).map_err(|error| {
        figures::turned_away("malformed");
        Problem::malformed(format!("the body is no upload: {error}; `/v1/openapi` says what one is"))
    })?;
    drop(body);
    if upload.operations.len() > server.options.most.get() {
        return Err(too_large(&server));
    }
    let uploaded = server.store.apply(upload, now()).await.inspect_err(|_| figures::turned_away("unavailable"))?;
    figures::uploaded(&uploaded, begun.elapsed());
    Ok(Json(uploaded))
}

/// Web pages of anybody can send other types without asking.
fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    let unpacked = headers.get(header::CONTENT_ENCODING).is_none();
    if essence.eq_ignore_ascii_case("application/json") && unpacked {
        return Ok(());
    }
    figures::turned_away("unsupported");
    let detail = "send JSON with `Content-Type: application/json`, as it is or with `Content-Encoding: gzip`";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported", "The body is of an unknown type", detail))
}

async fn whole(server: &Server, body: Body) -> Result<Bytes, Problem> {
    let Ok(collected) = timeout(server.options.patience, Limited::new(body, LARGEST_UPLOAD).collect()).await else {
        figures::turned_away("slow");
        let detail =
            format!("the upload did not arrive within {:?}: send fewer operations at once", server.options.patience);
        return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "slow", "The upload took too long", detail));
    };
    match collected {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(server)),
        Err(error) => {
            figures::turned_away("malformed");
            Err(Problem::malformed(format!("the body can't be read: {error}; send it again")))
        }
    }
}

fn too_large(server: &Server) -> Problem {
    figures::turned_away("too-large");
    let detail = format!(
        "an upload has at most {} operations and {} MiB when unpacked: send it in parts",
        server.options.most,
        LARGEST_UPLOAD >> 20
    );
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The upload is too large", detail)
}

//! GET and DELETE of revisions with sessions: to listen, to come back to a stream, to end the session.

use std::sync::Arc;

use http::request::Parts;
use http::{Response, StatusCode};

use crate::front::Front;
use crate::front::open::Leaving;
use crate::front::payload::Payload;
use crate::front::post::{session, stream};
use crate::front::receive::{Reads, check_accept};
use crate::front::reply::{NO_SESSION, Problem, empty};
use crate::front::revision::{Era, of_headers, once};
use crate::front::streams::NotThere;
use crate::front::wire::Wire;
use crate::upstream::headers::{LAST_EVENT, SESSION};

/// Answers a GET with a stream: one to listen on, or the one that an event was part of (revision 2025-11-25, "Listening
/// for Messages from the Server", "Resumability and Redelivery"). Revision 2026-07-28 has neither.
pub(crate) fn get(
    front: &Front,
    service: usize,
    parts: &Parts,
    wire: &Arc<Wire>,
) -> Result<Response<Payload>, Problem> {
    if of_headers(&parts.headers)? == Era::Stateless {
        return Err(Problem::method("POST"));
    }
    check_accept(&parts.headers, Reads::Events)?;
    let open = session(front, service, parts)?;
    let reader = match once(&parts.headers, &LAST_EVENT)?.filter(|last| !last.is_empty()) {
        None => {
            open.streams.listen().ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, NO_SESSION, "Session not found"))?
        }
        Some(last) => open.streams.resume(last).map_err(|error| match error {
            NotThere::Unknown => Problem::bad("Bad Request: Last-Event-ID is of no stream of this session"),
            NotThere::Dropped => Problem::bad("Bad Request: what came after Last-Event-ID is no longer kept"),
        })?,
    };
    let mut response = stream(Leaving::new(&open, reader), wire, Era::Sessions);
    if let Some(id) = parts.headers.get(SESSION) {
        response.headers_mut().insert(SESSION, id.clone());
    }
    Ok(response)
}

/// Ends the session, and the server behind it once the calls under way have an outcome.
pub(crate) fn delete(front: &Front, service: usize, parts: &Parts) -> Result<Response<Payload>, Problem> {
    if of_headers(&parts.headers)? == Era::Stateless {
        return Err(Problem::method("POST"));
    }
    session(front, service, parts)?.ending.raise();
    Ok(empty(StatusCode::OK))
}

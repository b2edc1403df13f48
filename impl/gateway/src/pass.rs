//! Passing on what is not guarded.

use std::sync::Arc;

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::headers;
use crate::payload::{Holding, Patient, Payload, Stalled, whole};
use crate::places::Place;
use crate::refusal;
use crate::respond::Came;
use crate::setup::Setup;
use crate::upstream::NoAnswer;

/// Passes a request on, and its answer back, both as they come.
pub(crate) async fn pass(
    setup: &Arc<Setup>,
    request: Request<Incoming>,
    came: Came,
    place: Place,
) -> Response<Payload> {
    let (mut parts, body) = request.into_parts();
    headers::to_upstream(&mut parts.headers, parts.version, came.from);
    parts.extensions.clear();
    let body = Patient::new(body, setup.limits.body_idle_timeout).boxed_unsync();
    match setup.upstream.pass(&came.target, Request::from_parts(parts, body)).await {
        Ok(response) => {
            let (mut parts, body) = response.into_parts();
            headers::to_caller(&mut parts.headers, parts.version);
            parts.extensions.clear();
            let body = Holding { body: body.map_err(Into::into), _held: place };
            Response::from_parts(parts, body.boxed_unsync())
        }
        Err(NoAnswer::NotSent(why)) => {
            tracing::warn!(why, "a request was not sent to the upstream");
            whole(refusal::unreachable())
        }
        Err(NoAnswer::Withheld) => whole(refusal::unreachable()),
        Err(NoAnswer::Lost(why)) if why.contains(&Stalled.to_string()) => whole(refusal::too_slow()),
        Err(NoAnswer::Lost(why)) => {
            tracing::warn!(why, "the upstream gave no answer to a request");
            whole(refusal::no_answer())
        }
    }
}

//! A request with a key, from its body to its answer.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, Request, Response, Version};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use settled::{Answered, EngineError, Operation, Resource, task};
use settled_http::problem::Problem;
use settled_http::{fingerprint, message};
use settled_protocol::{Digest, Key};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::answer::{self, Telling};
use crate::config::Kind;
use crate::gateway::Gateway;
use crate::headers;
use crate::live::Live;
use crate::overflow::Overflow;
use crate::payload::{Patient, Payload, Stalled, whole};
use crate::places::Place;
use crate::progress::{First, Progress};
use crate::refusal;
use crate::respond::Came;
use crate::routes::Route;
use crate::setup::Setup;
use crate::tool::{Original, UpstreamTool};

/// The last event of a stream that a caller has got.
pub(crate) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Carries a request out, once.
pub(crate) async fn guarded(
    gateway: &Arc<Gateway>,
    setup: Arc<Setup>,
    route: Arc<Route>,
    key: &str,
    request: Request<Incoming>,
    came: Came,
    place: Place,
) -> Response<Payload> {
    let (parts, body) = request.into_parts();
    let body = match read(&setup, body).await {
        Ok(body) => body,
        Err(why) => return whole(why.response(setup.limits.body_bytes)),
    };
    let mut caller_headers = parts.headers;
    headers::mark_secrets(&mut caller_headers, &setup.secret_headers);
    let scope = setup.scope_of(setup.principal(&caller_headers));
    let key = match Key::new(&*scope, &*route.name, key) {
        Ok(key) => key,
        Err(error) => return whole(Problem::KeyInvalid(&error.to_string()).response()),
    };
    let same = fingerprint::of_request(&parts.method, &parts.uri, &caller_headers, &body);
    let fingerprint = setup.kept.digest(with_headers(same, &caller_headers, &route));
    let last_event = caller_headers.remove(LAST_EVENT).and_then(|value| value.to_str().ok().map(str::to_owned));
    let mut sent = caller_headers;
    headers::to_upstream(&mut sent, parts.version, came.from);

    let kept = message::write_request(&parts.method, &came.target, &headers::recorded(&sent), &body);
    let Ok(kept) = setup.kept.keep(&key, kept) else {
        tracing::error!(
            "a request was not carried out: it can't be encrypted, because there is no randomness to be had"
        );
        return whole(Problem::Unavailable.response());
    };
    let operation = Operation {
        fingerprint,
        resource: resource(&setup, &route, parts.uri.path()),
        limits: route.limits,
        ..Operation::new(key.clone(), kept, route.policy)
    };
    let (carrier, caller) = gateway.streams.join(&key, fingerprint);
    let (progress, mut overflow) = Progress::new(carrier);
    let progress = Arc::new(progress);
    let original = Original { method: parts.method, target: came.target, headers: sent, body };
    let tool = UpstreamTool::of(setup.clone(), route.clone(), original, progress.clone());
    let told = Telling { setup: &setup, route: &route, key: &key, last_event: last_event.as_deref() };

    // In HTTP/1.0 an answer that broke off would look like a whole one.
    let can_break_off = parts.version >= Version::HTTP_11;
    if !can_break_off {
        overflow.close();
    }
    let mut answered = call(gateway, operation, tool, progress, place);
    tokio::select! {
        biased;
        live = caller.started(), if can_break_off => told.live(&live, caller.brought(&live)),
        Ok(overflow) = overflow, if can_break_off => told.overflow(overflow),
        answered = &mut answered => match answered {
            Ok((Ok(answered), first)) => told.answer(answered, first),
            Ok((Err(error), _)) => {
                tracing::error!(%error, "a request was not carried out");
                whole(Problem::Unavailable.response())
            }
            // Only a panic ends the call without an answer.
            Err(_) => told.unknown(None),
        },
    }
}

type Outcome = (Result<Answered, EngineError>, Option<First>);

/// The call runs in a task of its own: that its caller goes away changes nothing.
fn call(
    gateway: &Arc<Gateway>,
    operation: Operation,
    tool: UpstreamTool,
    progress: Arc<Progress>,
    place: Place,
) -> oneshot::Receiver<Outcome> {
    let (tell, told) = oneshot::channel();
    let engine = gateway.engine.clone();
    task::spawn(async move {
        let answered = engine.call(operation, Arc::new(tool)).await;
        let first = progress.over(&answered);
        drop(place);
        // Who has gone away needs no answer.
        let _ = tell.send((answered, first));
    });
    told
}

/// Why a body was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotTaken {
    TooLarge,
    TooSlow,
    NotWhole,
}

impl NotTaken {
    fn response(self, limit: usize) -> Response<Bytes> {
        match self {
            NotTaken::TooLarge => Problem::TooLarge(limit).response(),
            NotTaken::TooSlow => refusal::too_slow(),
            NotTaken::NotWhole => Problem::BodyIncomplete.response(),
        }
    }
}

/// The whole body, within the limits.
async fn read(setup: &Setup, body: Incoming) -> Result<Bytes, NotTaken> {
    let limits = &setup.limits;
    if body.size_hint().lower() > limits.body_bytes as u64 {
        return Err(NotTaken::TooLarge);
    }
    let mut body = Patient::new(body, limits.body_idle_timeout);
    let reading = async {
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match error.is::<Stalled>() {
                true => NotTaken::TooSlow,
                false => NotTaken::NotWhole,
            })?;
            // Trailers are not passed on.
            let Ok(chunk) = frame.into_data() else { continue };
            if whole.len() + chunk.len() > limits.body_bytes {
                return Err(NotTaken::TooLarge);
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    };
    timeout(limits.body_timeout, reading).await.unwrap_or(Err(NotTaken::TooSlow))
}

/// What must be the same in every repeat: method, path, query and body, and the headers that are declared so.
fn with_headers(same: Digest, headers: &HeaderMap, route: &Route) -> Digest {
    let names = &route.config.fingerprint_headers;
    if names.is_empty() {
        return same;
    }
    let lines = names.iter().flat_map(|name| {
        let values = headers.get_all(name).iter().map(move |value| [name.as_str().as_bytes(), value.as_bytes()]);
        values.flatten()
    });
    let parts: Vec<&[u8]> = std::iter::once(&same.as_bytes()[..]).chain(lines).collect();
    Digest::of_parts(&parts)
}

/// What a request has to itself. One that may be sent twice must not have another one on the same thing in between.
fn resource(setup: &Setup, route: &Route, path: &str) -> Option<Resource> {
    let name = match (&route.config.resource, &route.config.kind) {
        (Some(declared), _) => declared.replace("{path}", path),
        (None, Kind::Idempotent) => path.to_owned(),
        (None, _) => return None,
    };
    Some(Resource { scope: setup.scope_of(None), name })
}

impl Telling<'_> {
    /// An answer that is longer than what is kept.
    fn overflow(&self, overflow: Overflow) -> Response<Payload> {
        let mut response = Response::new(overflow.body.map_err(Into::into).boxed_unsync());
        *response.status_mut() = overflow.status;
        *response.headers_mut() = overflow.headers;
        answer::marked(&mut response, false, &self.route.config);
        response
    }

    /// A stream that is coming in.
    fn live(&self, live: &Live, own: bool) -> Response<Payload> {
        let listener = match live.listen(self.last_event) {
            Ok(listener) => listener,
            Err(error) => return whole(refusal::bad(&error.to_string())),
        };
        let mut response = Response::new(listener.map_err(Into::into).boxed_unsync());
        *response.status_mut() = live.status();
        *response.headers_mut() = live.headers().clone();
        // Another one than the upstream's own answer has no cookies of it.
        if !own {
            response.headers_mut().remove(http::header::SET_COOKIE);
        }
        if self.last_event.is_some() {
            response.headers_mut().remove(http::header::CONTENT_LENGTH);
        }
        answer::marked(&mut response, !own, &self.route.config);
        response
    }
}

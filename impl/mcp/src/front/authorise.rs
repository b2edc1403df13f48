//! Recorded answers only for whoever the server behind still lets in.
//!
//! A call, and a request about a task, can be answered from the ledger, without the server. So before any of these over HTTP, a server behind HTTP must
//! have accepted exactly this authorization within the last while; otherwise it is asked something harmless with it
//! first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use tokio::time::timeout;

use crate::behind::server::Own;
use crate::book::OwnReply;
use crate::front::Front;
use crate::front::open::Open;
use crate::front::reply::{BAD_REQUEST, Problem};
use crate::messages::context::{Context, Refused};
use crate::messages::frame::{Frame, parse_valid};
use crate::messages::splice;

/// How long the server may take to say that it lets somebody in.
const ASKED: Duration = Duration::from_secs(30);

/// Refuses calls with an authorization that the server does not accept.
pub(crate) async fn authorise(
    front: &Front,
    service: usize,
    open: &Arc<Open>,
    frame: &Frame<'_>,
    context: &Arc<Context>,
) -> Result<(), Problem> {
    let Some(call) = call(frame) else { return Ok(()) };
    let Some(http) = front.services.get(service).and_then(|service| service.http()) else { return Ok(()) };
    let authorization = context.pass.get(AUTHORIZATION);
    if http.accepted_within(authorization, front.http.reauthorise) {
        return Ok(());
    }
    // Its answer is not that of the call.
    let asked = Arc::new(Context { refused: Refused::default(), idempotency_key: None, ..Context::clone(context) });
    let meta = call.params.and_then(|params| splice::get(params, "_meta")).filter(|_| open.place.id.is_none());
    let params = match meta {
        Some(meta) => format!(r#"{{"_meta":{meta}}}"#),
        None => "{}".to_owned(),
    };
    // Revision 2026-07-28 has no `ping`.
    let method = if open.place.id.is_some() { "ping" } else { "tools/list" };
    let own = Own { method, params: &params, permit: None, context: &asked };
    let since = Instant::now();
    let reply = timeout(ASKED, open.proxy.server.send(own, || {})).await;
    if let Some(refusal) = asked.refused.take()
        && matches!(refusal.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
    {
        let problem =
            Problem::new(refusal.status, BAD_REQUEST, "nothing was sent: the server does not accept the authorization");
        let mut problem = problem.of(call.id);
        for (name, value) in refusal.headers.iter().filter(|(name, _)| *name != CONTENT_TYPE) {
            problem = problem.with(name.clone(), value.clone());
        }
        return Err(problem);
    }
    if http.accepted_within(authorization, since.elapsed()) {
        return Ok(());
    }
    let why = match reply {
        Ok(OwnReply::NotSent(why)) => why,
        Ok(OwnReply::Error(error)) => splice::get_string(&error, "message").unwrap_or(error),
        Ok(_) | Err(_) => "it does not answer".to_owned(),
    };
    let text = format!("nothing was sent: the server could not be asked whether it accepts the authorization ({why})");
    let problem = Problem::new(StatusCode::BAD_GATEWAY, BAD_REQUEST, text).of(call.id);
    Err(problem.with(http::header::RETRY_AFTER, HeaderValue::from_static("1")))
}

struct Call<'a> {
    id: &'a str,
    params: Option<&'a str>,
}

/// The first message in it that can be answered from the ledger: a call, or a request about tasks.
fn call<'a>(frame: &Frame<'a>) -> Option<Call<'a>> {
    match frame {
        Frame::Request { id, method, params } if method == "tools/call" || method.starts_with("tasks/") => {
            Some(Call { id, params: *params })
        }
        Frame::Batch(members) => members.iter().find_map(|member| call(&parse_valid(member))),
        _ => None,
    }
}

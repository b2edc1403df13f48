//! POST: one message, or a batch where the revision has them, and its answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use hyper::body::Incoming;
use settled_http::idempotency_key::{IDEMPOTENCY_KEY, Syntax, parse as idempotency_key};
use settled_http::sse;
use tokio::time::{Instant, timeout};

use crate::front::Front;
use crate::front::authorise::authorise;
use crate::front::door::principal;
use crate::front::open::{Leaving, Open};
use crate::front::payload::{Answers, Events, Payload};
use crate::front::receive::{Reads, check_accept, check_content, whole};
use crate::front::reply::{BAD_REQUEST, JSON, NO_SESSION, NOT_A_MESSAGE, NOT_JSON, Problem, empty, events, with_type};
use crate::front::revision::{BATCHES, Era, PRIMED, of_message, once};
use crate::front::sessions::{NoSession, Owner};
use crate::front::streams::{First, Next};
use crate::front::wire::Wire;
use crate::messages::context::Context;
use crate::messages::frame::{Body, Frame, IdKey, cancelled_id, parse, parse_valid};
use crate::messages::splice;
use crate::upstream::headers::{REVISION, SESSION};

/// How long an answer is waited for before a stream is begun to give it on.
const PROMPT: Duration = Duration::from_secs(1);

/// Where what came so far may decide on the status of the response, or the session's id has to be part of it.
const PATIENT: Duration = Duration::from_secs(5);

/// A server that is only just being started may take long.
const OPENING: Duration = Duration::from_secs(60);

/// How long a client is to wait before it comes back to a stream that was cut.
pub(crate) const COME_BACK: Duration = Duration::from_secs(1);

/// The headers that repeat a tool's arguments (revision 2026-07-28, "Custom Headers from Tool Parameters").
const PARAMETERS: &str = "mcp-param-";

/// Errors that mean something to clients of revision 2026-07-28 by their HTTP status too.
const BY_STATUS: std::ops::RangeInclusive<i64> = -32022..=-32020;

/// The method is not known.
const METHOD_NOT_FOUND: i64 = -32601;

/// A request whose message has been read.
struct Asked {
    service: usize,
    parts: Parts,
    line: Bytes,
    wire: Arc<Wire>,
}

/// Answers a POST.
pub(crate) async fn post(
    front: &Arc<Front>,
    service: usize,
    parts: Parts,
    body: Incoming,
    wire: &Arc<Wire>,
) -> Result<Response<Payload>, Problem> {
    check_content(&parts.headers)?;
    check_accept(&parts.headers, Reads::Both)?;
    let line = whole(&parts.headers, body, front.limits.frame_bytes).await?;
    let asked = Asked { service, parts, line: line.clone(), wire: wire.clone() };
    let frame = parse(&line);
    match &frame {
        Frame::Broken { id, .. } => {
            let problem =
                Problem::new(StatusCode::BAD_REQUEST, NOT_JSON, "Parse error: the message is not valid JSON in UTF-8");
            return Err(match id {
                Some(id) => problem.of(id),
                None => problem,
            });
        }
        Frame::Other => return Err(not_a_message("Invalid Request: the message is not one of JSON-RPC")),
        Frame::Batch(members) if members.is_empty() => {
            return Err(not_a_message("Invalid Request: the batch is empty"));
        }
        Frame::Batch(members) if members.iter().any(|member| is_no_member(&parse_valid(member))) => {
            return Err(not_a_message("Invalid Request: the batch holds something that can't be part of one"));
        }
        _ => {}
    }
    match of_message(&asked.parts.headers, &frame)? {
        Era::Sessions => in_session(front, asked, &frame).await,
        Era::Stateless => by_itself(front, asked, &frame).await,
    }
}

/// Revision 2025-03-26: "The initialize request MUST NOT be part of a JSON-RPC batch".
fn is_no_member(frame: &Frame<'_>) -> bool {
    match frame {
        Frame::Request { method, .. } => method == "initialize",
        Frame::Batch(_) | Frame::Other | Frame::Broken { .. } => true,
        _ => false,
    }
}

fn not_a_message(problem: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, NOT_A_MESSAGE, problem)
}

/// The session that a request names.
pub(crate) fn session(front: &Front, service: usize, parts: &Parts) -> Result<Arc<Open>, Problem> {
    let owner = Owner::of(principal(&parts.headers, &front.http)?);
    let Some(id) = once(&parts.headers, &SESSION)? else {
        return Err(Problem::bad("Bad Request: the Mcp-Session-Id header is required"));
    };
    let found = front.sessions.find(service, owner, id).filter(|open| !open.ending.is_raised());
    let open = found.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, NO_SESSION, "Session not found"))?;
    open.use_now();
    Ok(open)
}

async fn in_session(front: &Arc<Front>, asked: Asked, frame: &Frame<'_>) -> Result<Response<Payload>, Problem> {
    let opens = matches!(frame, Frame::Request { method, .. } if method == "initialize");
    let open = match opens && !asked.parts.headers.contains_key(SESSION) {
        true => {
            let principal = principal(&asked.parts.headers, &front.http)?;
            front.sessions.open(front, asked.service, principal).map_err(|error| unopened(&error, frame))?
        }
        false => session(front, asked.service, &asked.parts)?,
    };
    if matches!(frame, Frame::Batch(_)) && open.streams.revision().is_some_and(|revision| revision != BATCHES) {
        return Err(not_a_message("Invalid Request: the revision of this session has no batches"));
    }
    let context = Arc::new(context(front, &asked.parts, frame)?);
    if !is_asking(frame) {
        return pass(&open, &asked.line, frame, &context).await;
    }
    authorise(front, asked.service, &open, frame, &context).await?;
    let is_new = opens && !asked.parts.headers.contains_key(SESSION);
    let prompt = match (is_new, front.services.get(asked.service).and_then(|service| service.http())) {
        (true, _) => OPENING,
        (false, Some(_)) => PATIENT,
        (false, None) => PROMPT,
    };
    let response = answer(&open, &asked, frame, &context, prompt, Era::Sessions).await;
    if is_new && open.streams.revision().is_none() && !is_stream(&response) {
        // Nobody was told of it.
        open.ending.raise();
        return response;
    }
    let id = open.place.id.as_deref().and_then(|id| HeaderValue::from_str(id).ok());
    response.map(|mut response| {
        if let Some(id) = id {
            response.headers_mut().insert(SESSION, id);
        }
        response
    })
}

fn is_stream(response: &Result<Response<Payload>, Problem>) -> bool {
    matches!(response, Ok(response) if matches!(response.body(), Payload::Events(_)))
}

async fn by_itself(front: &Arc<Front>, asked: Asked, frame: &Frame<'_>) -> Result<Response<Payload>, Problem> {
    match frame {
        Frame::Request { .. } => {}
        // A stream that is closed is the cancel; ids of one client mean nothing to another.
        Frame::Notification { method, .. } if method == "notifications/cancelled" => {
            return Ok(empty(StatusCode::ACCEPTED));
        }
        Frame::Notification { .. } => {}
        _ => return Err(not_a_message("Invalid Request: this revision has requests and notifications only")),
    }
    let principal = principal(&asked.parts.headers, &front.http)?;
    let open = front.sessions.shared(front, asked.service, principal).map_err(|error| unopened(&error, frame))?;
    open.use_now();
    let context = Arc::new(context(front, &asked.parts, frame)?);
    if !is_asking(frame) {
        return pass(&open, &asked.line, frame, &context).await;
    }
    authorise(front, asked.service, &open, frame, &context).await?;
    answer(&open, &asked, frame, &context, PATIENT, Era::Stateless).await
}

fn unopened(error: &NoSession, frame: &Frame<'_>) -> Problem {
    tracing::warn!(%error, "a session could not be opened");
    let problem = match error {
        NoSession::TooMany(_) | NoSession::NoRandom(_) => Problem::busy(error.to_string()),
        NoSession::Proxy(_) => Problem::new(StatusCode::BAD_GATEWAY, BAD_REQUEST, error.to_string()),
    };
    match frame {
        Frame::Request { id, .. } => problem.of(id),
        _ => problem,
    }
}

/// Whether something in it expects an answer.
fn is_asking(frame: &Frame<'_>) -> bool {
    match frame {
        Frame::Request { .. } => true,
        Frame::Batch(members) => members.iter().any(|member| matches!(parse_valid(member), Frame::Request { .. })),
        _ => false,
    }
}

/// Passes on what expects no answer.
async fn pass(
    open: &Arc<Open>,
    line: &Bytes,
    frame: &Frame<'_>,
    context: &Arc<Context>,
) -> Result<Response<Payload>, Problem> {
    if !open.send(line.clone(), context).await {
        return Err(Problem::new(StatusCode::NOT_FOUND, NO_SESSION, "Session not found"));
    }
    let cancels = |frame: &Frame<'_>| match frame {
        Frame::Notification { method, params } if method == "notifications/cancelled" => cancelled_id(*params),
        _ => None,
    };
    let cancelled: Vec<IdKey> = match frame {
        Frame::Batch(members) => members.iter().filter_map(|member| cancels(&parse_valid(member))).collect(),
        frame => cancels(frame).into_iter().collect(),
    };
    cancelled.into_iter().for_each(|id| open.cancelled(id));
    Ok(empty(StatusCode::ACCEPTED))
}

/// What came with a message besides its text.
fn context(front: &Front, parts: &Parts, frame: &Frame<'_>) -> Result<Context, Problem> {
    let is_passed = |name: &HeaderName| {
        *name == http::header::AUTHORIZATION
            || name.as_str().starts_with(PARAMETERS)
            || front.http.pass_headers.contains(name)
    };
    let mut pass = http::HeaderMap::new();
    for (name, value) in parts.headers.iter().filter(|(name, _)| is_passed(name)) {
        pass.append(name.clone(), value.clone());
    }
    let is_call = |frame: &Frame<'_>| matches!(frame, Frame::Request { method, .. } if method == "tools/call");
    let key = match frame {
        frame if is_call(frame) => {
            let key = idempotency_key(&parts.headers, Syntax::Lenient);
            key.map_err(|error| match frame {
                Frame::Request { id, .. } => Problem::bad(error.to_string()).of(id),
                _ => Problem::bad(error.to_string()),
            })?
        }
        Frame::Batch(members)
            if parts.headers.contains_key(IDEMPOTENCY_KEY)
                && members.iter().any(|member| is_call(&parse_valid(member))) =>
        {
            return Err(Problem::bad("one Idempotency-Key can't be that of all calls in a batch: send each by itself"));
        }
        _ => None,
    };
    let revision = once(&parts.headers, &REVISION)?.map(str::to_owned);
    Ok(Context { pass, idempotency_key: key, revision, came: Some(Instant::now()), ..Context::default() })
}

/// Asks, and answers with a message if that is all there is to say, else with a stream.
async fn answer(
    open: &Arc<Open>,
    asked: &Asked,
    frame: &Frame<'_>,
    context: &Arc<Context>,
    prompt: Duration,
    era: Era,
) -> Result<Response<Payload>, Problem> {
    if open.streams.is_full() {
        return Err(Problem::busy("too many requests of this session are without an answer: nothing was sent"));
    }
    let asking = open.streams.ask(&asked.line, frame);
    let leaving = Leaving::new(open, asking.reader);
    if !open.send(asking.line, context).await {
        asking.ids.iter().for_each(|id| open.streams.forget(&IdKey::new(id)));
        return Err(Problem::new(StatusCode::NOT_FOUND, NO_SESSION, "Session not found"));
    }
    match timeout(prompt, open.streams.first(asking.reader)).await {
        Ok(First::Answers(answers)) => {
            let is_batch = matches!(frame, Frame::Batch(_));
            Ok(whole_answer(answers, is_batch, &asked.wire, leaving, context, era, frame))
        }
        // Of a request that was cancelled, the stream has no events.
        Ok(First::More | First::Nothing) | Err(_) => Ok(stream(leaving, &asked.wire, era)),
    }
}

/// The stream of events from here on.
pub(crate) fn stream(leaving: Leaving, wire: &Arc<Wire>, era: Era) -> Response<Payload> {
    let named = era == Era::Sessions;
    let is_primed = named && leaving.streams().revision().is_some_and(|revision| revision.as_str() >= PRIMED);
    let place = if is_primed { leaving.streams().place(leaving.reader()) } else { None };
    let begin = place.map(|place| sse::priming(&place, Some(COME_BACK)));
    events(Payload::Events(Box::new(Events::new(begin, named, wire.clone(), leaving))))
}

fn whole_answer(
    answers: Vec<Next>,
    is_batch: bool,
    wire: &Arc<Wire>,
    leaving: Leaving,
    context: &Arc<Context>,
    era: Era,
    frame: &Frame<'_>,
) -> Response<Payload> {
    let (mut status, mut content_type, mut more) = (StatusCode::OK, JSON, http::HeaderMap::new());
    let mut text = match &answers[..] {
        [only] if !is_batch => only.data.clone(),
        answers => {
            let texts: Vec<&[u8]> = answers.iter().map(|answer| &answer.data[..]).collect();
            [&b"["[..], &texts.join(&b","[..]), b"]"].concat().into()
        }
    };
    let error = match (text.len() <= LONGEST_ERROR).then(|| parse(&text)) {
        Some(Frame::Response { body: Body::Error(error), .. }) => Some(error.to_owned()),
        _ => None,
    };
    let code = error.as_deref().and_then(|error| splice::get(error, "code")?.parse::<i64>().ok());
    if era == Era::Stateless
        && let Some(code) = code
    {
        let discovers = matches!(frame, Frame::Request { method, .. } if method == "server/discover");
        status = match code {
            code if BY_STATUS.contains(&code) => StatusCode::BAD_REQUEST,
            // A server that can't say which revisions it speaks is of an earlier one, and clients look for that.
            _ if discovers => StatusCode::BAD_REQUEST,
            METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            _ => StatusCode::OK,
        };
    }
    if let Some(refusal) = context.refused.take().filter(|_| error.is_some()) {
        let is_own = text.windows(MARK.len()).any(|part| part == MARK);
        if !is_own || matches!(refusal.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            status = refusal.status;
            more = refusal.headers;
            if !is_own && !refusal.body.is_empty() {
                content_type = more.get(http::header::CONTENT_TYPE).cloned().unwrap_or(content_type);
                text = refusal.body;
            }
            more.remove(http::header::CONTENT_TYPE);
        }
    }
    let mut response =
        with_type(status, content_type, Payload::Answers(Box::new(Answers::new(text, answers, wire.clone(), leaving))));
    response.headers_mut().extend(more);
    response
}

/// What is longer is no error.
const LONGEST_ERROR: usize = 1 << 20;

/// An answer of the proxy's own has it.
const MARK: &[u8] = b"\"io.settled/status\"";

//! The upstream, as the engine sees it.

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use settled::{Outgoing, Question, Seen, Tool, ToolReply};
use settled_http::classify::{Class, Means};
use settled_http::idempotency_key::{self, IDEMPOTENCY_KEY};
use settled_http::message;
use settled_http::problem::Problem;
use settled_protocol::{AttemptId, Digest, ErrorClass, Key};
use tokio::time::timeout;

use crate::answer;
use crate::config::ForwardKey;
use crate::gate::Gate;
use crate::headers::{self, LEFT_OUT};
use crate::kept::NotKept;
use crate::live::{Captured, StreamLimits, Streams, capture};
use crate::observe;
use crate::overflow::Inflow;
use crate::presets::{Usage, Watcher};
use crate::progress::{First, Progress};
use crate::refusal;
use crate::routes::Route;
use crate::setup::Setup;
use crate::upstream::{NoAnswer, chain};

/// Tokens that APIs say that calls cost.
pub(crate) const TOKENS: &str = "settled_gateway_tokens_total";

/// A request as it goes to the upstream, credentials and all.
#[derive(Debug)]
pub(crate) struct Original {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Sends one request to the upstream.
#[derive(Debug)]
pub(crate) struct UpstreamTool {
    setup: Arc<Setup>,
    route: Arc<Route>,
    original: Option<Original>,
    progress: Option<Arc<Progress>>,
}

impl UpstreamTool {
    /// For the call of a request that has just come.
    pub(crate) fn of(
        setup: Arc<Setup>,
        route: Arc<Route>,
        original: Original,
        progress: Arc<Progress>,
    ) -> UpstreamTool {
        UpstreamTool { setup, route, original: Some(original), progress: Some(progress) }
    }

    /// For what was recorded of an earlier one.
    pub(crate) fn recovering(setup: Arc<Setup>, route: Arc<Route>) -> UpstreamTool {
        UpstreamTool { setup, route, original: None, progress: None }
    }
}

#[async_trait]
impl Tool for UpstreamTool {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        // The engine has given up long before; what hangs for ever would never be let go.
        let longest = self.route.config.timeout.saturating_mul(2);
        match timeout(longest, self.send(outgoing)).await {
            Ok(reply) => reply,
            Err(_) => self.lost(outgoing, "the upstream did not finish its answer"),
        }
    }

    async fn observe(&self, question: &Question) -> Seen {
        let Some(observer) = &self.route.observer else { return Seen::Unclear };
        let Some(request) = self.setup.kept.read(&question.key, &question.arguments) else { return Seen::Unclear };
        let key = match self.route.forward_key {
            ForwardKey::Digest => digest_of(&question.key, question.attempt),
            ForwardKey::AsIs | ForwardKey::No => question.key.id().to_owned(),
        };
        match observe::ask(observer, question, &key, &request).await {
            // What can't be kept now can be seen again later.
            Seen::Applied(answer) => self.setup.kept.keep(&question.key, answer).map_or(Seen::Unclear, Seen::Applied),
            other => other,
        }
    }
}

impl UpstreamTool {
    async fn send(&self, outgoing: &Outgoing) -> ToolReply {
        let (target, mut request, body) = match self.request(outgoing) {
            Ok(request) => request,
            Err(why) => {
                return ToolReply::Error(ErrorClass::NotRun, self.problem(&outgoing.key, Problem::Failed(Some(why))));
            }
        };
        self.put_key(request.headers_mut(), &outgoing.key, outgoing.attempt);
        if self.route.preset(path(&target)).is_some() {
            // A compressed answer can't be looked into.
            request.headers_mut().insert(ACCEPT_ENCODING, http::HeaderValue::from_static("identity"));
        }
        let permit = outgoing.permit();
        let (gate, watch) = Gate::new(body, move || permit.holds());
        // An empty body is not asked for.
        if !outgoing.permit().holds() {
            return self.no_answer(outgoing, NoAnswer::Withheld);
        }
        let answer = self.setup.upstream.once(&target, request.map(|()| gate), &watch).await;
        outgoing.sent();
        match answer {
            Ok(response) => self.read(outgoing, &target, response).await,
            Err(no_answer) => self.no_answer(outgoing, no_answer),
        }
    }

    /// The request: as it came, or else as it was recorded.
    fn request(&self, outgoing: &Outgoing) -> Result<(String, Request<()>, Bytes), &'static str> {
        let mut request = Request::new(());
        if let Some(original) = &self.original {
            *request.method_mut() = original.method.clone();
            *request.headers_mut() = original.headers.clone();
            return Ok((original.target.clone(), request, original.body.clone()));
        }
        let kept = self.setup.kept.read(&outgoing.key, &outgoing.arguments).ok_or("its record can't be read")?;
        let mut stored = message::read_request(&kept).map_err(|_| "no request is recorded")?;
        let left_out = stored.headers.remove(LEFT_OUT);
        if left_out.is_some_and(|names| !self.setup.upstream.brings(&names)) {
            return Err("the recorded request needs the credentials that came with it, which are not kept");
        }
        *request.method_mut() = stored.method;
        *request.headers_mut() = stored.headers;
        Ok((stored.target, request, stored.body))
    }

    fn put_key(&self, headers: &mut HeaderMap, key: &Key, attempt: AttemptId) {
        let name = &self.route.config.key_header;
        let value = match self.route.forward_key {
            ForwardKey::AsIs if *name == IDEMPOTENCY_KEY => return,
            ForwardKey::AsIs => http::HeaderValue::from_str(key.id()).ok(),
            ForwardKey::Digest => idempotency_key::value(&digest_of(key, attempt)),
            ForwardKey::No => None,
        };
        headers.remove(IDEMPOTENCY_KEY);
        if let Some(value) = value {
            headers.insert(name.clone(), value);
        }
    }

    fn no_answer(&self, outgoing: &Outgoing, no_answer: NoAnswer) -> ToolReply {
        match no_answer {
            NoAnswer::NotSent(why) => {
                tracing::warn!(key = %outgoing.key, why, "a request was not sent to the upstream");
                ToolReply::Busy { retry_after: None, body: self.keep(&outgoing.key, refusal::not_sent()) }
            }
            NoAnswer::Withheld => {
                let body = self.keep(&outgoing.key, refusal::not_sent());
                ToolReply::Error(ErrorClass::NotRun, body)
            }
            NoAnswer::Lost(why) => self.lost(outgoing, &why),
        }
    }

    fn lost(&self, outgoing: &Outgoing, why: &str) -> ToolReply {
        tracing::warn!(key = %outgoing.key, why, "a request has no whole answer");
        if let Some(progress) = &self.progress {
            progress.broke_off();
        }
        ToolReply::ConnectionLost
    }

    async fn read(&self, outgoing: &Outgoing, target: &str, response: Response<Incoming>) -> ToolReply {
        let (parts, body) = response.into_parts();
        let (status, mut headers) = (parts.status, parts.headers);
        let class = self.class(status, &headers);
        let ends_by_closing = ends_by_closing(parts.version, status, &headers);
        let is_json = settled_http::fingerprint::is_json(&headers);
        let is_events = answer::is_event_stream(&headers);
        headers::to_caller(&mut headers, parts.version);

        let is_done = class == Class::Done;
        let is_plain = headers.get(CONTENT_ENCODING).is_none_or(|encoding| encoding == "identity");
        let preset = self.route.preset(path(target)).filter(|_| is_plain);
        let came = match is_done && (is_events || self.route.config.stream) {
            true => {
                let watcher =
                    preset.filter(|_| is_events).map(|preset| Watcher::new(preset, self.setup.limits.stored_bytes));
                self.streamed(outgoing, status, &headers, body, watcher, !ends_by_closing).await
            }
            false => self.buffered(status, &headers, is_done, body).await,
        };
        let body = match came {
            Ok(body) => body,
            Err(why) => return self.lost(outgoing, &why),
        };
        if is_json && ends_by_closing && !is_whole_json(body.as_deref()) {
            return self.lost(outgoing, "the connection ended in the middle of the answer");
        }
        if let (Some(preset), Some(body), true) = (preset, &body, is_json && is_done) {
            self.count(preset.usage_of(body));
        }
        let message = match &body {
            Some(body) => message::write_response(status, &headers, body, message::is_kept),
            None => message::not_kept(is_done, status),
        };
        let message = self.kept(&outgoing.key, message);
        if let Some(progress) = &self.progress {
            let first = body.map(|body| First { status, headers, body });
            progress.replied(message.clone(), first);
        }
        class.into_reply(message, &self.route.policy)
    }

    /// An answer that is passed on while it comes in. `None`: it is longer than what is kept.
    async fn streamed(
        &self,
        outgoing: &Outgoing,
        status: StatusCode,
        headers: &HeaderMap,
        body: Incoming,
        watcher: Option<Watcher>,
        framed: bool,
    ) -> Result<Option<Bytes>, String> {
        let limits = &self.setup.limits;
        let begun = self.progress.as_ref().and_then(|progress| progress.begin(status, headers, limits.stored_bytes));
        // Where nobody can listen any more, the answer is wanted all the same.
        let (alone, _wanted) = Streams::default().join(&outgoing.key, Digest::of(b""));
        let live = begun.unwrap_or_else(|| alone.begin(status, headers.clone(), limits.stored_bytes));
        let limits = StreamLimits {
            kept: limits.stored_bytes,
            silent: limits.stream_silence,
            unheard: self.route.config.unheard.unwrap_or(self.route.config.timeout),
        };
        let (captured, usage) = capture(&live, body, watcher, framed, &limits).await;
        match captured {
            Captured::Whole(body) => {
                // Of one that broke off, the next attempt may be told the same cost again.
                self.count(usage);
                Ok(body)
            }
            Captured::Cut(why) => Err(format!("the stream broke off ({why:?})")),
            Captured::WentWrong => Err("the stream told of an error".to_owned()),
        }
    }

    /// An answer that goes out once it is whole and recorded; one that is longer than what is kept is passed on while it
    /// comes in.
    async fn buffered(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        is_done: bool,
        mut body: Incoming,
    ) -> Result<Option<Bytes>, String> {
        let limit = self.setup.limits.stored_bytes;
        let mut so_far = BytesMut::new();
        let mut too_long = false;
        let mut inflow: Option<Inflow> = None;
        while let Some(frame) = body.frame().await {
            // Trailers are not passed on.
            let Ok(chunk) = frame.map_err(|error| chain(&error))?.into_data() else { continue };
            if !too_long && so_far.len() + chunk.len() > limit {
                too_long = true;
                let progress = self.progress.as_ref().filter(|_| is_done);
                inflow = progress.and_then(|progress| progress.overflow(status, headers));
                let first = std::mem::take(&mut so_far).freeze();
                if let Some(inflow) = &inflow {
                    inflow.chunk(first).await;
                }
            }
            match &inflow {
                Some(inflow) => inflow.chunk(chunk).await,
                None if too_long => {}
                None => so_far.extend_from_slice(&chunk),
            }
        }
        Ok((!too_long).then(|| so_far.freeze()))
    }

    /// What it cost, as the API says it.
    fn count(&self, usage: Usage) {
        for (kind, tokens) in usage.kinds() {
            metrics::counter!(TOKENS, "route" => self.route.name.clone(), "kind" => kind).increment(tokens);
        }
    }

    /// An answer of the upstream itself is an answer, also if it refuses: it is kept and replayed.
    fn class(&self, status: StatusCode, headers: &HeaderMap) -> Class {
        let means = self.route.declared.means(status).unwrap_or(match status.as_u16() {
            408 => Means::Nothing,
            425 | 429 => Means::Busy,
            200..=499 => Means::Done,
            _ => Means::Rejected,
        });
        means.class(headers, SystemTime::now())
    }

    fn problem(&self, key: &Key, problem: Problem<'_>) -> Bytes {
        self.keep(key, problem.response())
    }

    fn keep(&self, key: &Key, response: Response<Bytes>) -> Bytes {
        let (parts, body) = response.into_parts();
        self.kept(key, message::write_response(parts.status, &parts.headers, &body, message::is_kept))
    }

    /// What is kept of an answer. One that can't be encrypted is not kept.
    fn kept(&self, key: &Key, answer: Bytes) -> Bytes {
        self.setup.kept.keep(key, answer).unwrap_or_else(|NotKept| message::not_kept(true, StatusCode::OK))
    }
}

/// What an upstream that serves many principals by one account is given as the key. A later operation under a key that is free
/// again is another one for it as well.
fn digest_of(key: &Key, attempt: AttemptId) -> String {
    format!("{}-{}", key.digest(), attempt.generation)
}

/// A target's path.
fn path(target: &str) -> &str {
    target.split('?').next().unwrap_or(target)
}

/// Whether only the connection's end says where the answer ends, which a lost connection says as well.
fn ends_by_closing(version: Version, status: StatusCode, headers: &HeaderMap) -> bool {
    let framed = headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING);
    version <= Version::HTTP_11 && !framed && !headers::is_bodiless(status)
}

fn is_whole_json(body: Option<&[u8]>) -> bool {
    body.is_some_and(|body| serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok())
}

//! One message and what comes of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use reqwest::{Request, Response};
use serde_json::json;
use settled::Permit;
use tokio::sync::oneshot;

use crate::behind::process::OnLine;
use crate::behind::server::TRANSPORT_ERROR;
use crate::behind::supervisor::FENCED;
use crate::book::OwnReply;
use crate::messages::context::Context;
use crate::messages::frame::IdKey;
use crate::messages::splice::quoted;
use crate::told::answer::error_line;
use crate::upstream::answers::{Ended, Reading, whole};
use crate::upstream::chain;
use crate::upstream::flights::Flight;
use crate::upstream::gate::{Gate, Sent, Watch};
use crate::upstream::headers::{self, Said};
use crate::upstream::link::Shared;
use crate::upstream::opened::Opened;
use crate::upstream::proves::{Failure, Means, Refusal, Unsuccessful, is_refused_stream};

/// How much of an unsuccessful answer is read.
const UNSUCCESSFUL: usize = 1 << 20;

/// Who waits for an answer to a message.
#[derive(Debug)]
pub(crate) enum Whose {
    /// The client, for the requests with these ids.
    Client(Vec<String>),
    /// The proxy itself.
    Own {
        /// The request's id.
        id: String,
        /// Without it, it may not be sent any more.
        permit: Option<Permit>,
    },
    /// Nobody.
    Nobody,
}

/// A message to be sent.
pub(crate) struct Job {
    pub(crate) line: Bytes,
    pub(crate) said: Said,
    pub(crate) whose: Whose,
    pub(crate) context: Arc<Context>,
    pub(crate) flight: Arc<Flight>,
    /// It opens a session.
    pub(crate) opens: bool,
    /// Told when nothing of it is kept in this process any more.
    pub(crate) left: Option<oneshot::Sender<()>>,
}

impl Job {
    /// Whether the same message may be sent once more where it certainly was not run. A guarded call's next attempt is for the
    /// engine to make, and what is no request was meant for the session that has ended.
    fn may_be_sent_again(&self) -> bool {
        match &self.whose {
            Whose::Client(_) => !self.opens,
            Whose::Own { permit, .. } => permit.is_none(),
            Whose::Nobody => false,
        }
    }

    fn wanted(&self) -> Vec<IdKey> {
        match &self.whose {
            Whose::Client(ids) => ids.iter().map(|id| IdKey::new(id)).collect(),
            Whose::Own { id, .. } => vec![IdKey::new(&quoted(id))],
            Whose::Nobody => Vec::new(),
        }
    }
}

impl Shared {
    /// Sends a message and sees to it that whoever waits for an answer gets one.
    pub(crate) async fn carry(self: &Arc<Self>, mut job: Job) {
        let mut is_second = false;
        let failure = loop {
            let session = match self.session_for(&job).await {
                Ok(session) => session,
                Err(reason) => break Failure::NotSent(reason),
            };
            match self.exchange(&mut job, session).await {
                Ok(()) => return,
                Err(Failure::SessionOver(session)) => {
                    self.current.ended(&session);
                    match self.reopen(&session).await {
                        Ok(_) if !is_second && job.may_be_sent_again() => is_second = true,
                        Ok(_) => break session_over(Some(Duration::ZERO), "another one was opened"),
                        Err(why) => break session_over(None, &format!("another one could not be opened: {why}")),
                    }
                }
                Err(failure) => break failure,
            }
        };
        self.fail(job.whose, failure).await;
    }

    /// The session that a message belongs to.
    async fn session_for(self: &Arc<Self>, job: &Job) -> Result<Option<Arc<Opened>>, String> {
        // One that opens a session has none, and neither have those whose revision knows no sessions.
        if job.opens || headers::is_stateless(job.said.revision(&job.context, None)) {
            return Ok(None);
        }
        self.session().await
    }

    /// Sends a message once. `Ok`: everything was answered, or nobody waits for the rest.
    pub(crate) async fn exchange(&self, job: &mut Job, session: Option<Arc<Opened>>) -> Result<(), Failure> {
        let stateless = headers::is_stateless(job.said.revision(&job.context, session.as_deref()));
        let (gate, watch) = self.gate(&job.line, &job.whose, &job.flight, job.left.take());
        let mut reading = Reading {
            wanted: job.wanted(),
            endless: false,
            opens: job.opens,
            lists: job.said.lists_tools(),
            flight: &job.flight,
            whose: &job.whose,
            last_event: None,
            retry: None,
        };
        let (response, context) = match self.send(job, session.as_deref(), gate).await {
            Ok(sent) => sent,
            Err(no_answer) => return Err(no_answer.means(watch.close())),
        };
        let status = response.status();
        if status.is_success() {
            return match self.read(response, &mut reading).await {
                Ended::Done => Ok(()),
                Ended::Broken(why) => Err(Failure::lost(why)),
                Ended::Cut(why) if stateless => Err(Failure::lost(why)),
                Ended::Cut(why) => self.resume(reading, session.as_deref(), &context, why).await,
            };
        }
        let headers = response.headers().clone();
        let body = tokio::select! {
            biased;
            body = whole(response, UNSUCCESSFUL) => body.unwrap_or_default(),
            () = self.give_up.raised() => Bytes::new(),
        };
        let more = reading.wanted.len() > 1;
        let unsuccessful = Unsuccessful { status, headers: &headers, body: &body };
        let means = unsuccessful.means(|id| reading.wants(id), session.as_ref(), stateless, &self.http.not_run);
        if !matches!(means, Means::Failure(Failure::SessionOver(_))) {
            job.context.refused.set(unsuccessful.refusal());
        }
        if matches!(means, Means::Mismatch(_)) {
            // What it wants repeated may have changed.
            self.tools.list_changed();
        }
        match means {
            Means::Answer => {
                self.from_server.line(body).await;
                if more {
                    Err(Failure::lost("the server answered one request of a batch, and no other"))
                } else {
                    Ok(())
                }
            }
            Means::Failure(failure) | Means::Mismatch(failure) => Err(failure),
        }
    }

    /// The message's text, which leaves at most once, and only while somebody wants it to.
    fn gate(
        &self,
        line: &Bytes,
        whose: &Whose,
        flight: &Arc<Flight>,
        left: Option<oneshot::Sender<()>>,
    ) -> (Gate, Watch) {
        let own = match whose {
            Whose::Own { id, permit } => Some((id.clone(), permit.clone())),
            Whose::Client(_) | Whose::Nobody => None,
        };
        let (book, flying) = (self.book.clone(), flight.clone());
        Gate::new(line.clone(), flight.clone(), left, move || match &own {
            // Whoever gave up counts on it that nothing is sent any more.
            Some((id, permit)) => permit.as_ref().is_none_or(Permit::holds) && book.waits_for(id),
            None => !flying.cancelled.is_raised(),
        })
    }

    /// Posts; the answer has begun when this returns. Gives back the context that counted, too.
    async fn send(
        &self,
        job: &Job,
        session: Option<&Opened>,
        gate: Gate,
    ) -> Result<(Response, Arc<Context>), NoAnswer> {
        let context = self.latest(&job.context);
        let mut headers = headers::of_message(&job.said, &context, session, &self.http.fixed);
        if let Some((tool, params)) = job.said.repeats(&job.line, &context, session) {
            self.params.add(&tool, &params, &mut headers);
        }
        let mut request = Request::new(Method::POST, self.http.url.clone());
        *request.headers_mut() = headers.clone();
        *request.body_mut() = Some(reqwest::Body::wrap(gate));
        let response = tokio::select! {
            biased;
            response = self.http.client.execute(request) => response,
            () = self.leaves(&job.flight, &job.whose) => return Err(NoAnswer::of("it was left before the answer came")),
        };
        match response {
            Ok(response) => {
                self.http.heard(&headers, response.status());
                Ok((response, context))
            }
            Err(error) => Err(NoAnswer { refused: is_refused_stream(&error), words: chain(error) }),
        }
    }

    /// Tells whoever waits for an answer that there is none, and what is certain.
    pub(crate) async fn fail(&self, whose: Whose, failure: Failure) {
        match whose {
            Whose::Nobody => tracing::warn!("the server did not take a message: {}", failure.words()),
            Whose::Own { id, .. } => {
                if let Some(reply) = self.book.take_back(&id) {
                    let _ = reply.send(failure.into_reply());
                }
            }
            Whose::Client(ids) => {
                for id in ids.into_iter().filter(|id| self.book.gives_up(&IdKey::new(id))) {
                    self.client.send(failure.line(&id)).await;
                }
            }
        }
    }
}

/// A request that was answered with nothing at all.
struct NoAnswer {
    words: String,
    /// The server said that it did not process it.
    refused: bool,
}

impl NoAnswer {
    fn of(words: &str) -> NoAnswer {
        NoAnswer { words: words.to_owned(), refused: false }
    }

    fn means(self, sent: Sent) -> Failure {
        match sent {
            Sent::Nothing => Failure::NotSent(self.words),
            Sent::Withheld => Failure::Withheld,
            Sent::Perhaps if self.refused => Failure::NotSent(self.words),
            Sent::Perhaps => Failure::lost(self.words),
        }
    }
}

/// The session that a request named has ended, and this is what came of it.
fn session_over(again: Option<Duration>, what: &str) -> Failure {
    let words = format!("the server has ended the session (HTTP status 404): {what}");
    Failure::NotRun(Refusal { words, again, data: json!({ "httpStatus": 404 }), error: None })
}

impl Failure {
    /// What happened.
    pub(crate) fn reason(&self) -> String {
        match self {
            Failure::NotSent(words) | Failure::Lost { words, .. } | Failure::NotRun(Refusal { words, .. }) => {
                words.clone()
            }
            Failure::Withheld => FENCED.to_owned(),
            Failure::SessionOver(_) => "the server has ended the session".to_owned(),
        }
    }

    /// And what follows.
    fn words(&self) -> String {
        let reason = self.reason();
        match self {
            Failure::NotSent(_) | Failure::Withheld => format!("nothing was sent: {reason}"),
            Failure::NotRun(_) | Failure::SessionOver(_) => format!("it was not run: {reason}"),
            Failure::Lost { .. } => format!("{reason}: whether it did what was asked is not known"),
        }
    }

    /// For a request of the proxy's own.
    fn into_reply(self) -> OwnReply {
        match self {
            Failure::NotSent(reason) => OwnReply::NotSent(reason),
            Failure::Withheld => OwnReply::NotSent(FENCED.to_owned()),
            Failure::NotRun(refusal) => OwnReply::Refused(refusal),
            Failure::SessionOver(_) => OwnReply::NotSent(self.reason()),
            Failure::Lost { words, .. } => {
                tracing::warn!("a request has no answer: {words}");
                OwnReply::Lost
            }
        }
    }

    /// The answer to a client's request with this id.
    fn line(&self, id: &str) -> String {
        let (error, data) = match self {
            Failure::NotRun(Refusal { error, data, .. }) => (error.as_deref(), Some(data)),
            Failure::Lost { error, .. } => (error.as_deref(), None),
            _ => (None, None),
        };
        match error {
            // The server's own words, but for the id that it left out.
            Some(error) => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#),
            None => error_line(id, TRANSPORT_ERROR, &self.words(), data),
        }
    }
}

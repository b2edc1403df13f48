//! Reading what a request was answered with: one message, or a stream of them.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use reqwest::Response;
use settled_http::sse::{Event, Parser};
use tokio::time::sleep;

use crate::behind::process::OnLine;
use crate::messages::frame::{Body, Frame, IdKey, parse, parse_valid};
use crate::messages::splice;
use crate::upstream::chain;
use crate::upstream::flights::Flight;
use crate::upstream::headers::SESSION;
use crate::upstream::link::Shared;
use crate::upstream::post::Whose;

/// How long a stream may go on once it has answered everything, or nobody waits for it.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unread {
    /// It was cut.
    #[error("the connection ended within the answer: {0}")]
    Cut(String),
    /// There is too much of it.
    #[error("its answer is longer than {0} bytes")]
    TooLong(usize),
}

/// The whole body.
pub(crate) async fn whole(mut response: Response, longest: usize) -> Result<Bytes, Unread> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Unread::Cut(chain(error)))? {
        if body.len() + chunk.len() > longest {
            return Err(Unread::TooLong(longest));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// What is read, and what for.
pub(crate) struct Reading<'a> {
    /// The ids that are still to be answered.
    pub(crate) wanted: Vec<IdKey>,
    /// It is read for what comes unasked, as long as there is any.
    pub(crate) endless: bool,
    /// Whether one of them is that of an `initialize`, which opens a session.
    pub(crate) opens: bool,
    /// Whether one of them asks for the list of tools.
    pub(crate) lists: bool,
    pub(crate) flight: &'a Flight,
    pub(crate) whose: &'a Whose,
    /// The last event of the stream that had an id.
    pub(crate) last_event: Option<String>,
    /// How long the server wants a reader to wait before it comes back.
    pub(crate) retry: Option<Duration>,
}

/// How a stream ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Everything was answered, or nobody waits for the rest.
    Done,
    /// Something was not.
    Cut(String),
    /// And it can't be read on.
    Broken(String),
}

impl Reading<'_> {
    /// Whether an answer with this id is waited for.
    pub(crate) fn wants(&self, id: &str) -> bool {
        self.wanted.contains(&IdKey::new(id))
    }
}

impl Shared {
    /// Reads a successful answer to its end.
    pub(crate) async fn read(&self, response: Response, reading: &mut Reading<'_>) -> Ended {
        let headers = response.headers().clone();
        let status = response.status();
        if let Some(encoding) = headers.get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
            return unreadable(reading, format!("its answer is compressed ({encoding:?}), which was not asked for"));
        }
        match content_type(&headers).as_deref() {
            Some("text/event-stream") => self.read_stream(response, reading).await,
            Some("application/json") => {
                let body = tokio::select! {
                    biased;
                    body = whole(response, self.longest) => body,
                    () = self.leaves(reading.flight, reading.whose) => return left(reading),
                };
                match body {
                    Ok(body) if body.is_empty() => {
                        unreadable(reading, format!("its answer (HTTP status {status}) is empty"))
                    }
                    Ok(body) => {
                        if !self.message(body, reading, headers.get(SESSION)).await {
                            return unreadable(reading, "its answer is not a message".to_owned());
                        }
                        unreadable(reading, "its answer is about something else".to_owned())
                    }
                    Err(error) => unreadable(reading, error.to_string()),
                }
            }
            _ if reading.wanted.is_empty() => Ended::Done,
            Some(other) => unreadable(reading, format!("its answer (HTTP status {status}) is of type {other}")),
            None => unreadable(reading, format!("it answered with HTTP status {status} and without a message")),
        }
    }

    /// Reads events until everything is answered, or there are no more.
    pub(crate) async fn read_stream(&self, mut response: Response, reading: &mut Reading<'_>) -> Ended {
        let session = response.headers().get(SESSION).cloned();
        let mut parser = Parser::new(self.longest);
        let mut events = Vec::new();
        loop {
            let is_over = !reading.endless && reading.wanted.is_empty();
            let chunk = tokio::select! {
                biased;
                () = self.leaves(reading.flight, reading.whose), if !is_over => return left(reading),
                chunk = response.chunk() => chunk,
                () = self.ending.raised(), if is_over => return Ended::Done,
                () = sleep(LAST_WORDS), if is_over => return Ended::Done,
            };
            let bytes = match chunk {
                Ok(Some(bytes)) => bytes,
                Ok(None) | Err(_) if reading.wanted.is_empty() => return Ended::Done,
                Ok(None) => return Ended::Cut("its stream of events ended before the answer came".to_owned()),
                Err(error) => {
                    return Ended::Cut(format!("the connection ended before the answer came: {}", chain(error)));
                }
            };
            if let Err(error) = parser.feed(&bytes, &mut events) {
                return Ended::Broken(error.to_string());
            }
            for event in events.drain(..) {
                self.event(event, reading, session.as_ref()).await;
            }
        }
    }

    /// Resolves when an answer is not waited for any more.
    pub(crate) async fn leaves(&self, flight: &Flight, whose: &Whose) {
        let unwanted = async {
            if let Whose::Own { id, .. } = whose {
                while self.book.waits_for(id) {
                    sleep(LAST_WORDS).await;
                }
                return;
            }
            flight.cancelled.raised().await;
            // Leaving is how the server learns of it (revision 2026-07-28, "Cancellation"). Before, it may have a last word, or
            // never answer.
            if !flight.stateless {
                tokio::select! {
                    () = self.ending.raised() => {}
                    () = sleep(LAST_WORDS) => {}
                }
            }
        };
        tokio::select! {
            biased;
            () = self.give_up.raised() => {}
            () = unwanted => {}
        }
    }

    async fn event(&self, event: Event, reading: &mut Reading<'_>, session: Option<&HeaderValue>) {
        if let Some(message) = event.message()
            && !self.message(message.clone(), reading, session).await
        {
            tracing::warn!("the server sent an event that is not a message: it was dropped");
        }
        if let Some(retry) = event.retry {
            reading.retry = Some(retry);
        }
        // Only now: what was not handed on is to come again.
        if let Some(id) = event.id {
            reading.last_event = Some(id).filter(|id| !id.is_empty());
        }
    }

    /// Hands a message on; `false` if it is none.
    async fn message(&self, text: Bytes, reading: &mut Reading<'_>, session: Option<&HeaderValue>) -> bool {
        match parse(&text) {
            Frame::Broken { .. } | Frame::Other => return false,
            Frame::Batch(members) => {
                members.into_iter().for_each(|member| self.answered(&parse_valid(member), reading, session));
            }
            frame => self.answered(&frame, reading, session),
        }
        self.from_server.line(text).await;
        true
    }

    /// Ticks off a request that is answered.
    fn answered(&self, frame: &Frame<'_>, reading: &mut Reading<'_>, session: Option<&HeaderValue>) {
        let Frame::Response { id, body } = frame else { return };
        let before = reading.wanted.len();
        let id = IdKey::new(id);
        reading.wanted.retain(|wanted| *wanted != id);
        let Body::Result(result) = body else { return };
        // Before its answer is handed on: the client's next message rests on it.
        if reading.wanted.len() < before && reading.opens {
            self.current.opened(session.cloned(), splice::get_string(result, "protocolVersion"));
        }
        if reading.wanted.len() < before && reading.lists {
            self.params.listed(result);
        }
    }
}

fn left(reading: &Reading<'_>) -> Ended {
    if reading.wanted.is_empty() { Ended::Done } else { Ended::Cut("it was left before the answer came".to_owned()) }
}

fn unreadable(reading: &Reading<'_>, why: String) -> Ended {
    if reading.wanted.is_empty() { Ended::Done } else { Ended::Broken(why) }
}

/// The type of a body, without its parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

//! What the server says: relayed as it is, kept when it was the proxy's own, or with what the proxy adds.

use std::sync::Arc;

use bytes::Bytes;

use crate::behind::process::OnLine;
use crate::book::{Book, Goes};
use crate::config::Config;
use crate::listed::tools::Tools;
use crate::messages::frame::{Body, Frame, parse, parse_valid};
use crate::messages::lines::ClientSink;
use crate::messages::splice;
use crate::told::offers::Adds;
use crate::told::status;
use crate::told::tasks;

/// Takes the server's messages to where they belong.
#[derive(Clone)]
pub(crate) struct FromServer {
    pub(crate) config: Arc<Config>,
    pub(crate) book: Arc<Book>,
    pub(crate) client: ClientSink,
    pub(crate) tools: Arc<Tools>,
}

/// What becomes of a message of the server.
enum Inward {
    Relay,
    Replace(Bytes),
    Keep,
}

impl OnLine for FromServer {
    async fn line(&self, line: Bytes) {
        let frame = parse(&line);
        let Frame::Batch(members) = frame else {
            match self.sort(&frame, &line) {
                Inward::Relay => self.client.send(line).await,
                Inward::Replace(line) => self.client.send(line).await,
                Inward::Keep => {}
            }
            return;
        };
        let sorted: Vec<(&str, Inward)> = members
            .into_iter()
            .map(|member| (member, self.sort(&parse_valid(member), &line.slice_ref(member.as_bytes()))))
            .collect();
        if sorted.iter().all(|(_, inward)| matches!(inward, Inward::Relay)) {
            return self.client.send(line.clone()).await;
        }
        for (member, inward) in sorted {
            match inward {
                Inward::Relay => self.client.send(line.slice_ref(member.as_bytes())).await,
                Inward::Replace(line) => self.client.send(line).await,
                Inward::Keep => {}
            }
        }
    }
}

impl FromServer {
    fn answered(&self, id: &str, body: Body<'_>, line: &Bytes) -> Goes {
        if let Some(awaited) = self.book.unwatch(id) {
            awaited.answered(line, body);
        }
        self.book.server_answers(id, body)
    }

    /// An answer with what the proxy adds to it.
    fn with(&self, adds: Adds, line: &Bytes, body: Body<'_>) -> Inward {
        let Body::Result(result) = body else { return Inward::Relay };
        // A server that has a tool of that name keeps it, on whichever page it is.
        let is_taken = adds == Adds::Tools && self.tools.known(status::TOOL).flatten().is_some();
        let added = if is_taken { None } else { self.book.offers().add(adds, result) };
        let with_tasks = (adds == Adds::Tools && self.book.session_tasks())
            .then(|| tasks::supported(&self.config, added.as_deref().unwrap_or(result)))
            .flatten();
        let added = with_tasks.or(added);
        let line = added.and_then(|result| splice::set(str::from_utf8(line).ok()?, "result", &result));
        line.map_or(Inward::Relay, |line| Inward::Replace(line.into()))
    }

    fn sort(&self, frame: &Frame<'_>, line: &Bytes) -> Inward {
        match frame {
            Frame::Response { id, body } => match self.answered(id, *body, line) {
                Goes::On => Inward::Relay,
                Goes::With(adds) => self.with(adds, line, *body),
                Goes::Nowhere => Inward::Keep,
            },
            Frame::Request { id, .. } => {
                let Some(new) = self.book.server_asks(id) else {
                    return Inward::Relay;
                };
                match str::from_utf8(line).ok().and_then(|text| splice::set(text, "id", &new)) {
                    Some(line) => Inward::Replace(line.into()),
                    None => Inward::Relay,
                }
            }
            Frame::Notification { method, params } if method == "notifications/progress" => {
                self.book.progress.heard(*params);
                Inward::Relay
            }
            Frame::Notification { method, .. } if method == "notifications/tools/list_changed" => {
                self.tools.list_changed();
                Inward::Relay
            }
            _ => Inward::Relay,
        }
    }
}

//! Where a message of the server goes.

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::{Event, Inner, Kind, SLOW, Streams, Token, WAITING, What};
use crate::messages::frame::{Body, Frame, IdKey, parse, parse_valid};
use crate::messages::lines::ToClient;
use crate::messages::splice;

/// The member of `_meta` that names the subscription which a notification belongs to (revision 2026-07-28,
/// "Subscriptions").
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

impl Streams {
    /// Takes a message of the server. What is returned is to be sent back to it.
    pub(crate) async fn take(&self, message: ToClient) -> Option<Bytes> {
        let ToClient { line, told } = message;
        self.room(line.len()).await;
        let frame = parse(&line);
        let Frame::Batch(members) = frame else {
            return self.inner().place(&frame, &line, told, self.stateless);
        };
        // Each by itself: not all of them need belong to one stream.
        let mut inner = self.inner();
        for member in members {
            inner.place(&parse_valid(member), &line.slice_ref(member.as_bytes()), None, self.stateless);
        }
        None
    }

    /// Resolves when there is room for that many bytes. A client that does not read in time loses what waits for it.
    async fn room(&self, bytes: usize) {
        loop {
            let read = self.room.notified();
            {
                let mut inner = self.inner();
                if inner.queued == 0 || inner.queued + bytes <= inner.bounds.queued {
                    return;
                }
                if inner.drop_unread() {
                    continue;
                }
            }
            if timeout(SLOW, read).await.is_err() {
                tracing::warn!("a client does not read what it is sent: its longest stream is cut");
                self.inner().cut_longest();
                // Whoever reads it gets to know before more is asked for.
                sleep(std::time::Duration::from_millis(1)).await;
            }
        }
    }
}

impl Inner {
    fn place(
        &mut self,
        frame: &Frame<'_>,
        line: &Bytes,
        told: Option<oneshot::Sender<bool>>,
        stateless: bool,
    ) -> Option<Bytes> {
        if self.over {
            return None;
        }
        match frame {
            Frame::Response { id, body } => {
                self.answer(id, *body, line, told);
                None
            }
            Frame::Notification { method, params } => {
                let meta = params.and_then(|params| splice::get(params, "_meta"));
                let of_token = (method == "notifications/progress")
                    .then(|| params.and_then(|params| splice::get(params, "progressToken")))
                    .flatten();
                let subscription = meta.and_then(|meta| splice::get(meta, SUBSCRIPTION));
                match (of_token, subscription) {
                    (Some(token), _) if self.progress(token, line) => {}
                    (_, Some(id)) if self.subscribed(id, line) => {}
                    _ if stateless => self.for_the_only_one(line),
                    _ => self.for_anybody(line.clone()),
                }
                None
            }
            Frame::Request { id, method, .. } if stateless => {
                // Revision 2026-07-28: servers ask by "input required" results only, and no client could answer.
                tracing::warn!(
                    method = &**method,
                    "the server asks something that no client of this revision can answer"
                );
                let error = r#"{"code":-32601,"message":"clients of this revision answer no requests"}"#;
                Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into())
            }
            Frame::Request { .. } => {
                self.for_anybody(line.clone());
                None
            }
            Frame::Batch(_) | Frame::Other | Frame::Broken { .. } => {
                tracing::debug!("the server wrote something that is no message: it goes to no client over HTTP");
                None
            }
        }
    }

    fn answer(&mut self, id: &str, body: Body<'_>, line: &Bytes, told: Option<oneshot::Sender<bool>>) {
        let Some(asked) = self.asked.remove(&IdKey::new(id)) else {
            tracing::debug!(id, "an answer that nobody waits for");
            return;
        };
        if let Some(token) = &asked.token
            && self.tokens.get(token).is_some_and(|token| token.stream == asked.stream)
        {
            self.tokens.remove(token);
        }
        if asked.what == What::Initialize
            && let Body::Result(result) = body
        {
            self.revision = splice::get_string(result, "protocolVersion");
        }
        let line = match asked.sent == asked.own {
            false => renamed(line, |text| splice::set(text, "id", &asked.own)),
            true => line.clone(),
        };
        self.push(asked.stream, line, true, told);
        if let Some(stream) = self.streams.get_mut(&asked.stream)
            && let Kind::Answers(open) = &mut stream.kind
        {
            *open = open.saturating_sub(1);
            if *open == 0 {
                stream.since = tokio::time::Instant::now();
            }
            stream.wake();
        }
    }

    /// `false`: it is nobody's.
    fn progress(&mut self, token: &str, line: &Bytes) -> bool {
        let Some(Token { stream, own }) = self.tokens.get(&IdKey::new(token)).cloned() else { return false };
        let line = match own {
            Some(own) => renamed(line, |text| {
                let params = splice::set(splice::get(text, "params")?, "progressToken", &own)?;
                splice::set(text, "params", &params)
            }),
            None => line.clone(),
        };
        self.push(stream, line, false, None);
        true
    }

    /// `false`: it is nobody's.
    fn subscribed(&mut self, id: &str, line: &Bytes) -> bool {
        let Some(asked) = self.asked.get(&IdKey::new(id)) else { return false };
        let stream = asked.stream;
        let line = match asked.sent == asked.own {
            false => renamed(line, |text| {
                let params = splice::get(text, "params")?;
                let meta = splice::set(splice::get(params, "_meta")?, SUBSCRIPTION, &asked.own)?;
                splice::set(text, "params", &splice::set(params, "_meta", &meta)?)
            }),
            true => line.clone(),
        };
        self.push(stream, line, false, None);
        true
    }

    /// Where many clients share a session, only what can belong to nobody else reaches one.
    fn for_the_only_one(&mut self, line: &Bytes) {
        let mut open = self.streams.iter().filter(|(_, stream)| stream.reader.is_some() && !stream.is_complete());
        match (open.next(), open.next()) {
            (Some((only, _)), None) => {
                let only = *only;
                self.push(only, line.clone(), false, None);
            }
            _ => tracing::debug!("a notification that belongs to no request was dropped"),
        }
    }

    /// The stream that the client listens on; else the latest that is open; else it waits.
    pub(super) fn for_anybody(&mut self, line: Bytes) {
        let open = |kind: fn(Kind) -> bool| {
            let mut streams = self.streams.iter().rev();
            streams.find(|(_, stream)| stream.reader.is_some() && kind(stream.kind)).map(|(number, _)| *number)
        };
        let listening = open(|kind| kind == Kind::Listening);
        match listening.or_else(|| open(|kind| matches!(kind, Kind::Answers(more) if more > 0))) {
            Some(stream) => self.push(stream, line, false, None),
            None => {
                self.waiting_bytes += line.len();
                self.waiting.push_back(line);
                while self.waiting.len() > WAITING || self.waiting_bytes > self.bounds.kept && self.waiting.len() > 1 {
                    let dropped = self.waiting.pop_front().map_or(0, |line| line.len());
                    self.waiting_bytes = self.waiting_bytes.saturating_sub(dropped);
                    tracing::warn!("a message of the server was dropped: no client has come to read it");
                }
            }
        }
    }

    /// Adds an event to a stream. If there is no such stream any more, nobody gets it.
    pub(super) fn push(&mut self, stream: u64, data: Bytes, is_answer: bool, told: Option<oneshot::Sender<bool>>) {
        let Some(stream) = self.streams.get_mut(&stream) else { return };
        let gone = stream.is_given_up();
        let mut event = Event { data, is_answer, told, handed_out: false, kept: false };
        if gone {
            event.tell(false);
        }
        self.queued += event.data.len();
        stream.events.push_back(event);
        stream.wake();
    }
}

/// The line with something put back; as it is, if that can't be done.
fn renamed(line: &Bytes, change: impl FnOnce(&str) -> Option<String>) -> Bytes {
    match str::from_utf8(line).ok().and_then(change) {
        Some(changed) => changed.into(),
        None => line.clone(),
    }
}

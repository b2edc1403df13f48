//! Reading a stream: by whoever answers a request, or takes up a stream again.

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Event, Inner, Kind, Streams};

/// Whoever reads a stream. There is one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reader {
    pub(super) stream: u64,
    pub(super) number: u64,
}

impl Reader {
    /// The id of an event: it names the stream, and where on it.
    pub(crate) fn id(&self, event: u64) -> String {
        format!("{}-{event}", self.stream)
    }
}

/// An event that is handed out. What becomes of it is to be told by [`Streams::written`].
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) number: u64,
    pub(crate) data: Bytes,
    pub(crate) told: Option<oneshot::Sender<bool>>,
}

/// What a stream begins with.
#[derive(Debug)]
pub(crate) enum First {
    /// All answers that it is there for, and nothing else.
    Answers(Vec<Next>),
    /// Something else: more is to come.
    More,
    /// Nothing, and nothing will.
    Nothing,
}

impl Streams {
    /// The next event of a stream, for its reader; `None`: there are no more.
    pub(crate) fn poll_next(&self, reader: Reader, context: &mut Context<'_>) -> Poll<Option<Next>> {
        let mut inner = self.inner();
        let (over, stateless) = (inner.over, self.stateless);
        let Some(stream) = inner.streams.get_mut(&reader.stream) else { return Poll::Ready(None) };
        if stream.reader != Some(reader.number) {
            return Poll::Ready(None);
        }
        stream.named = !stateless;
        if stream.next < stream.end() {
            let next = inner.hand_out(reader.stream);
            drop(inner);
            self.room.notify_waiters();
            return Poll::Ready(next);
        }
        if stream.is_complete() || over {
            return Poll::Ready(None);
        }
        stream.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// What a stream begins with, once that is known.
    pub(crate) async fn first(&self, reader: Reader) -> First {
        poll_fn(|context| {
            let mut inner = self.inner();
            let over = inner.over;
            let Some(stream) = inner.streams.get_mut(&reader.stream) else { return Poll::Ready(First::Nothing) };
            if stream.events.iter().any(|event| !event.is_answer) {
                return Poll::Ready(First::More);
            }
            if stream.is_complete() || over {
                if stream.events.is_empty() {
                    return Poll::Ready(First::Nothing);
                }
                let mut answers = Vec::new();
                while let Some(next) = inner.hand_out(reader.stream) {
                    answers.push(next);
                }
                drop(inner);
                self.room.notify_waiters();
                return Poll::Ready(First::Answers(answers));
            }
            stream.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Where a reader goes on: the id that a client can come back with.
    pub(crate) fn place(&self, reader: Reader) -> Option<String> {
        let mut inner = self.inner();
        let stream = inner.streams.get_mut(&reader.stream).filter(|stream| stream.reader == Some(reader.number))?;
        stream.named = true;
        Some(reader.id(stream.next - 1))
    }

    /// What became of an event that was handed out: written to a client that was there, or not.
    pub(crate) fn written(&self, reader: Reader, event: u64, there: bool, told: Option<oneshot::Sender<bool>>) {
        let mut inner = self.inner();
        let known = inner.streams.get_mut(&reader.stream);
        if there {
            if let Some(told) = told {
                let _ = told.send(true);
            }
            match known {
                Some(stream) if stream.named => inner.keep(reader.stream, event),
                Some(stream) => {
                    if let Some(event) = stream.event(event) {
                        event.data = Bytes::new();
                    }
                }
                None => {}
            }
            return;
        }
        match known.filter(|stream| stream.named && !stream.is_given_up()).and_then(|stream| stream.event(event)) {
            // Its client may come back for it.
            Some(event) if told.is_some() => event.told = told,
            _ => {
                if let Some(told) = told {
                    let _ = told.send(false);
                }
            }
        }
    }

    /// A reader is gone. The ids of requests that are cancelled by that.
    pub(crate) fn leave(&self, reader: Reader) -> Vec<String> {
        let mut inner = self.inner();
        let Some(stream) = inner.streams.get_mut(&reader.stream) else { return Vec::new() };
        if stream.reader != Some(reader.number) {
            return Vec::new();
        }
        stream.reader = None;
        stream.waker = None;
        stream.since = Instant::now();
        let (named, listening) = (stream.named, stream.kind == Kind::Listening);
        if self.stateless {
            inner.remove(reader.stream);
            let cancelled: Vec<String> = inner
                .asked
                .values()
                .filter(|asked| asked.stream == reader.stream)
                .map(|asked| asked.sent.clone())
                .collect();
            inner.asked.retain(|_, asked| asked.stream != reader.stream);
            inner.tokens.retain(|_, token| token.stream != reader.stream);
            return cancelled;
        }
        if listening || !named {
            // What nobody has seen any part of can go to another stream.
            let unread = inner.unread(reader.stream);
            if !named {
                inner.remove(reader.stream);
            }
            unread.into_iter().filter(|event| !event.is_answer).for_each(|event| inner.for_anybody(event.data));
        }
        drop(inner);
        self.room.notify_waiters();
        Vec::new()
    }
}

impl Inner {
    fn hand_out(&mut self, stream: u64) -> Option<Next> {
        let stream = self.streams.get_mut(&stream)?;
        let number = stream.next;
        let event = stream.event(number)?;
        let (data, told, before) = (event.data.clone(), event.told.take(), event.handed_out);
        event.handed_out = true;
        stream.next += 1;
        if !before {
            self.queued = self.queued.saturating_sub(data.len());
        }
        Some(Next { number, data, told })
    }

    /// Takes back what was never handed out.
    fn unread(&mut self, stream: u64) -> Vec<Event> {
        let Some(stream) = self.streams.get_mut(&stream) else { return Vec::new() };
        let from = stream.events.iter().position(|event| !event.handed_out).unwrap_or(stream.events.len());
        let unread: Vec<Event> = stream.events.drain(from..).collect();
        stream.next = stream.next.min(stream.end());
        self.queued = self.queued.saturating_sub(unread.iter().map(|event| event.data.len()).sum());
        unread
    }

    /// Keeps an event for a client that comes back, and drops the oldest ones instead.
    fn keep(&mut self, number: u64, event_number: u64) {
        let Some(event) = self.streams.get_mut(&number).and_then(|stream| stream.event(event_number)) else { return };
        if event.kept {
            return;
        }
        event.kept = true;
        self.kept_bytes += event.data.len();
        self.kept.push_back((number, event_number));
        while self.kept_bytes > self.bounds.kept
            && let Some((number, event)) = self.kept.pop_front()
        {
            let Some(stream) = self.streams.get_mut(&number) else { continue };
            let bytes = stream.event(event).map_or(0, |event| std::mem::take(&mut event.data).len());
            self.kept_bytes = self.kept_bytes.saturating_sub(bytes);
            while stream.first <= event && stream.events.pop_front().is_some() {
                stream.first += 1;
            }
        }
    }
}

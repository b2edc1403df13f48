//! What a response is made of: a text, the answers to a request, or a stream of events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use settled_http::sse;
use tokio::sync::oneshot;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::front::open::Leaving;
use crate::front::streams::Next;
use crate::front::wire::Wire;

/// How often a stream on which nothing happens shows that it still works.
const STILL_THERE: Duration = Duration::from_secs(15);

/// Events up to this size are copied into one piece.
const SMALL: usize = 16 << 10;

/// What is said to whoever has to know that an answer was delivered.
type Told = Option<oneshot::Sender<bool>>;

/// The body of a response.
pub(crate) enum Payload {
    /// A text, or nothing.
    Text(Bytes),
    /// The answers to a request.
    Answers(Box<Answers>),
    /// A stream of events.
    Events(Box<Events>),
}

/// The answers to a request, as one JSON text.
pub(crate) struct Answers {
    text: Bytes,
    of: Vec<(u64, Told)>,
    wire: Arc<Wire>,
    leaving: Leaving,
}

impl Answers {
    /// The answers, and the text that is made of them.
    pub(crate) fn new(text: Bytes, answers: Vec<Next>, wire: Arc<Wire>, leaving: Leaving) -> Answers {
        Answers { text, of: answers.into_iter().map(|next| (next.number, next.told)).collect(), wire, leaving }
    }
}

/// A stream of events.
pub(crate) struct Events {
    pieces: VecDeque<Bytes>,
    /// The event that the pieces are of.
    of: Option<(u64, Told)>,
    /// Whether its events have ids to come back with.
    named: bool,
    still_there: Interval,
    wire: Arc<Wire>,
    leaving: Leaving,
}

impl Events {
    /// The events of a stream; `begin` goes before them. `named`: they have ids.
    pub(crate) fn new(begin: Option<Bytes>, named: bool, wire: Arc<Wire>, leaving: Leaving) -> Events {
        let mut still_there = interval_at(Instant::now() + STILL_THERE, STILL_THERE);
        still_there.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Events { pieces: begin.into_iter().collect(), of: None, named, still_there, wire, leaving }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                if self.pieces.is_empty()
                    && let Some((event, told)) = self.of.take()
                {
                    let (streams, reader) = (self.leaving.streams().clone(), self.leaving.reader());
                    self.wire.when_written(move |there| streams.written(reader, event, there, told));
                }
                return Poll::Ready(Some(piece));
            }
            let reader = self.leaving.reader();
            match self.leaving.streams().poll_next(reader, context) {
                Poll::Ready(Some(next)) => {
                    let id = self.named.then(|| reader.id(next.number));
                    self.pieces = pieces(sse::message(id.as_deref(), &next.data));
                    self.of = Some((next.number, next.told));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    if self.still_there.poll_tick(context).is_pending() {
                        return Poll::Pending;
                    }
                    self.pieces.push_back(sse::STILL_THERE);
                }
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // An event of which only a part was asked for has not arrived.
        if let Some((event, told)) = self.of.take() {
            self.leaving.streams().written(self.leaving.reader(), event, false, told);
        }
    }
}

fn pieces(pieces: Vec<Bytes>) -> VecDeque<Bytes> {
    if pieces.iter().map(Bytes::len).sum::<usize>() <= SMALL {
        VecDeque::from([Bytes::from(pieces.concat())])
    } else {
        pieces.into()
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut *self {
            Payload::Text(text) if text.is_empty() => None,
            Payload::Text(text) => Some(std::mem::take(text)),
            Payload::Answers(answers) if answers.text.is_empty() => None,
            Payload::Answers(answers) => {
                let of = std::mem::take(&mut answers.of);
                let (streams, reader) = (answers.leaving.streams().clone(), answers.leaving.reader());
                answers.wire.when_written(move |there| {
                    of.into_iter().for_each(|(event, told)| streams.written(reader, event, there, told));
                });
                Some(std::mem::take(&mut answers.text))
            }
            Payload::Events(events) => match events.poll(context) {
                Poll::Ready(data) => data,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Payload::Text(text) => text.is_empty(),
            Payload::Answers(answers) => answers.text.is_empty(),
            Payload::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Payload::Text(text) => SizeHint::with_exact(text.len() as u64),
            Payload::Answers(answers) => SizeHint::with_exact(answers.text.len() as u64),
            Payload::Events(_) => SizeHint::default(),
        }
    }
}

//! What a session says to its client, by stream: which message goes where, and what is kept for a client that comes
//! back.
//!
//! An answer goes to the stream of the request that it answers; progress to that of the request that it is about;
//! everything else to the stream that the client listens on, else to any stream that is open, else it waits for one.
//! Each message goes to one stream only (revision 2025-11-25, "Multiple Connections"). A stream that was cut goes on
//! where the client says that it left off ("Resumability and Redelivery").

mod ask;
mod place;
mod read;
mod tidy;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::messages::frame::IdKey;

pub(crate) use ask::NotThere;
pub(crate) use read::{First, Next, Reader};

/// How much is held for clients, in bytes.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// What may wait to be read before the server has to wait.
    queued: usize,
    /// What is kept for a client that comes back, although it was written.
    kept: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { queued: 64 << 20, kept: 16 << 20 }
    }
}

/// How long the server waits for a client that does not read before what waits is dropped.
const SLOW: Duration = Duration::from_secs(30);

/// How many requests may be without an answer.
const ASKED: usize = 16_384;

/// How many messages wait for a stream to be opened.
const WAITING: usize = 1024;

/// How long an answer can still count as delivered on a stream that was cut, if its client comes back for it. Calls
/// with the same key wait as long.
const GRACE: Duration = Duration::from_secs(5);

/// How long a stream that is complete is kept for a client that comes back.
const KEEP: Duration = Duration::from_secs(60);

/// The streams of one session.
pub(crate) struct Streams {
    inner: Mutex<Inner>,
    /// Something was read.
    room: Notify,
    /// Requests of many clients share the session, each by itself (revision 2026-07-28).
    stateless: bool,
}

#[derive(Default)]
struct Inner {
    bounds: Bounds,
    /// Numbers streams, readers and renamed ids.
    made: u64,
    streams: BTreeMap<u64, Stream>,
    /// The requests that are not answered, under the ids that the server knows.
    asked: HashMap<IdKey, Asked>,
    /// Whose progress a token stands for, under the tokens that the server knows.
    tokens: HashMap<IdKey, Token>,
    /// For the next stream that is opened.
    waiting: VecDeque<Bytes>,
    waiting_bytes: usize,
    /// What waits to be read, in bytes.
    queued: usize,
    /// What is kept although it was written, oldest first.
    kept: VecDeque<(u64, u64)>,
    kept_bytes: usize,
    /// The negotiated revision.
    revision: Option<String>,
    /// Nothing more will be said.
    over: bool,
}

struct Asked {
    stream: u64,
    /// The id that the server knows.
    sent: String,
    /// The client's own.
    own: String,
    token: Option<IdKey>,
    what: What,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// To open the session.
    Initialize,
    /// To be told of changes from now on: its answer is the end of it.
    Subscription,
    Other,
}

#[derive(Clone)]
struct Token {
    stream: u64,
    /// The client's own, if the server knows another.
    own: Option<String>,
}

struct Stream {
    kind: Kind,
    events: VecDeque<Event>,
    /// The number of the first of them.
    first: u64,
    /// The number of the next one to be handed out.
    next: u64,
    reader: Option<u64>,
    waker: Option<Waker>,
    /// The client knows an event of it, so it can come back.
    named: bool,
    /// Since when nobody has read it.
    since: Instant,
}

/// What a stream is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// To answer this many requests yet.
    Answers(usize),
    /// To listen.
    Listening,
}

struct Event {
    /// Empty once it is no longer kept.
    data: Bytes,
    is_answer: bool,
    told: Option<oneshot::Sender<bool>>,
    handed_out: bool,
    kept: bool,
}

impl Event {
    fn tell(&mut self, delivered: bool) {
        if let Some(told) = self.told.take() {
            let _ = told.send(delivered);
        }
    }
}

impl Stream {
    fn new(kind: Kind, reader: u64) -> Stream {
        Stream {
            kind,
            events: VecDeque::new(),
            first: 1,
            next: 1,
            reader: Some(reader),
            waker: None,
            named: false,
            since: Instant::now(),
        }
    }

    /// The number of the event that comes next.
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    fn event(&mut self, number: u64) -> Option<&mut Event> {
        let at = number.checked_sub(self.first)?;
        self.events.get_mut(usize::try_from(at).ok()?)
    }

    /// Its client has been away for so long that nothing counts as delivered any more that it has not read.
    fn is_given_up(&self) -> bool {
        self.reader.is_none() && self.since.elapsed() >= GRACE
    }

    /// Nothing more is said on it.
    fn is_complete(&self) -> bool {
        self.kind == Kind::Answers(0)
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Streams {
    pub(crate) fn new(stateless: bool) -> Streams {
        Streams { inner: Mutex::default(), room: Notify::new(), stateless }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing that is done while it is held can panic half-way.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The revision that was negotiated.
    pub(crate) fn revision(&self) -> Option<String> {
        self.inner().revision.clone()
    }

    /// Whether so many requests are without an answer that no more are taken.
    pub(crate) fn is_full(&self) -> bool {
        self.inner().asked.len() >= ASKED
    }

    /// Whether a client waits for an answer.
    pub(crate) fn is_waited_for(&self) -> bool {
        let inner = self.inner();
        let is_read = |number| inner.streams.get(number).is_some_and(|stream| stream.reader.is_some());
        inner.asked.values().any(|asked| asked.what != What::Subscription && is_read(&asked.stream))
    }

    /// Whether a client reads any of them.
    pub(crate) fn is_read(&self) -> bool {
        self.inner().streams.values().any(|stream| stream.reader.is_some())
    }
}

#[cfg(test)]
mod tests;

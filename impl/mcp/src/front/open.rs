//! One session as its clients over HTTP see it, and its end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use settled::task;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::ProxyError;
use crate::flag::Flag;
use crate::front::Front;
use crate::front::sessions::Place;
use crate::front::streams::{Reader, Streams};
use crate::messages::context::{Context, Incoming};
use crate::messages::frame::IdKey;
use crate::messages::lines::{ClientSink, ToClient};
use crate::relay::Proxy;
use crate::session::Session;

/// How many messages of clients are taken ahead.
const AHEAD: usize = 64;

/// How long an answer to a request that was cancelled may still come.
const CANCELLED: Duration = Duration::from_secs(2);

/// How long what was taken before the end may wait to be looked at.
const TAKEN: Duration = Duration::from_secs(15);

/// How long what is not guarded may take to be answered at the end.
const PASSED: Duration = Duration::from_secs(10);

/// How often it is looked, at the end, whether something is still to be answered.
const STILL_OUT: Duration = Duration::from_millis(20);

/// A session that is open.
pub(crate) struct Open {
    pub(crate) place: Place,
    pub(crate) streams: Arc<Streams>,
    pub(crate) proxy: Arc<Proxy>,
    incoming: Mutex<Option<mpsc::Sender<Incoming>>>,
    used: Mutex<Instant>,
    /// It is to end.
    pub(crate) ending: Flag,
}

impl Open {
    /// Opens a session with a server.
    pub(crate) fn begin(front: &Arc<Front>, place: Place, principal: Option<&str>) -> Result<Arc<Open>, ProxyError> {
        let Some(service) = front.services.get(place.service) else { return Err(ProxyError::NoCommand) };
        let (client, messages) = ClientSink::new();
        let closing = Flag::default();
        let session = service.open(principal, client, closing.clone())?;
        let streams = Arc::new(Streams::new(place.id.is_none()));
        let (incoming, taken) = mpsc::channel(AHEAD);
        let reading = task::spawn(session.proxy.clone().read_client(taken));
        let sorting = task::spawn(sort(streams.clone(), messages, incoming.downgrade()));
        let open = Arc::new(Open {
            place,
            streams,
            proxy: session.proxy.clone(),
            incoming: Mutex::new(Some(incoming)),
            used: Mutex::new(Instant::now()),
            ending: Flag::default(),
        });
        front.opened();
        task::spawn(keep(front.clone(), open.clone(), session, closing, reading, sorting));
        Ok(open)
    }

    /// Hands a message to the server, or to whatever answers in its place. `false`: the session has ended.
    pub(crate) async fn send(&self, line: Bytes, context: &Arc<Context>) -> bool {
        let Some(incoming) = self.incoming() else { return false };
        incoming.send(Incoming::bare(line, context)).await.is_ok()
    }

    fn incoming(&self) -> Option<mpsc::Sender<Incoming>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Somebody uses it.
    pub(crate) fn use_now(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// For how long nobody has used it.
    pub(crate) fn idle(&self) -> Duration {
        if self.streams.is_read() {
            self.use_now();
        }
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// The client cancels a request: an answer may still come, but need not.
    pub(crate) fn cancelled(self: &Arc<Self>, id: IdKey) {
        let open = self.clone();
        task::spawn(async move {
            sleep(CANCELLED).await;
            open.streams.forget(&id);
        });
    }

    /// Tells the server that nobody waits for these requests any more. A guarded call goes on to its outcome all the
    /// same.
    fn cancel(&self, ids: Vec<String>) {
        let Some(incoming) = self.incoming() else { return };
        let context = Arc::new(Context::default());
        for id in ids {
            let reason = "the client closed the stream of its answer";
            let params = format!(r#"{{"requestId":{id},"reason":"{reason}"}}"#);
            let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
            let message = Incoming::bare(line.into(), &context);
            if let Err(mpsc::error::TrySendError::Full(message)) = incoming.try_send(message)
                && let Ok(runtime) = tokio::runtime::Handle::try_current()
            {
                let incoming = incoming.clone();
                runtime.spawn(async move {
                    let _ = incoming.send(message).await;
                });
            }
        }
    }
}

/// Held by whoever reads a stream; dropping it is leaving.
pub(crate) struct Leaving {
    open: Arc<Open>,
    reader: Reader,
}

impl Leaving {
    pub(crate) fn new(open: &Arc<Open>, reader: Reader) -> Leaving {
        Leaving { open: open.clone(), reader }
    }

    pub(crate) fn streams(&self) -> &Arc<Streams> {
        &self.open.streams
    }

    pub(crate) fn reader(&self) -> Reader {
        self.reader
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.open.use_now();
        let cancelled = self.open.streams.leave(self.reader);
        if !cancelled.is_empty() {
            self.open.cancel(cancelled);
        }
    }
}

/// Sorts what the server says until it says no more.
async fn sort(streams: Arc<Streams>, mut messages: mpsc::Receiver<ToClient>, back: mpsc::WeakSender<Incoming>) {
    let context = Arc::new(Context::default());
    while let Some(message) = messages.recv().await {
        if let Some(line) = streams.take(message).await
            && let Some(incoming) = back.upgrade()
        {
            let _ = incoming.send(Incoming::bare(line, &context)).await;
        }
    }
}

/// Resolves when no client waits for an answer.
async fn answered(streams: &Streams) {
    while streams.is_waited_for() {
        sleep(STILL_OUT).await;
    }
}

/// Keeps a session until it is to end, and ends it: first the calls under way, then the server.
async fn keep(
    front: Arc<Front>,
    open: Arc<Open>,
    mut session: Session,
    closing: Flag,
    mut reading: JoinHandle<()>,
    sorting: JoinHandle<()>,
) {
    tokio::select! {
        biased;
        () = session.served() => {}
        () = open.ending.raised() => {}
        () = front.draining.raised() => {}
    }
    front.sessions.remove(&open);
    closing.raise();
    // What was taken is looked at; nothing more is.
    drop(open.incoming.lock().unwrap_or_else(PoisonError::into_inner).take());
    if timeout(TAKEN, &mut reading).await.is_err() {
        reading.abort();
    }
    tokio::select! {
        biased;
        _ = timeout(PASSED, answered(&open.streams)) => {}
        () = front.give_up.raised() => {}
    }
    tokio::select! {
        biased;
        done = timeout(front.longest, session.idle()) => if done.is_err() {
            tracing::error!("a call is still under way after the longest timeout: its outcome stays unknown");
        },
        () = front.give_up.raised() => session.give_up(),
    }
    front.idle();
    if front.draining.is_raised() {
        front.may_end.raised().await;
    }
    let _ = session.end().await;
    open.streams.end();
    front.ended();
    // It ends when nothing can say anything to the client any more.
    drop(sorting);
}

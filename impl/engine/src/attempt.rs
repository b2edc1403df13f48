//! The attempts that this process has out at tools.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use bytes::Bytes;
use settled_protocol::{AttemptId, Digest, Epoch, ErrorClass, Key, Record};
use tokio::sync::{mpsc, watch};
use tracing::Instrument;

use crate::departure::Departure;
use crate::drive::{Drive, Subject};
use crate::engine::Inner;
use crate::fault;
use crate::figures;
use crate::history::{Body, Happened};
use crate::lease::FENCED;
use crate::outbox::Outbox;
use crate::sync::lock;
use crate::task;
use crate::tool::{Outgoing, Permit, ToolReply};

/// The body of the error of an attempt whose time was over before it could be sent.
const WITHDRAWN: &[u8] = b"nothing of it was sent, and nothing will be: its time was over before it could be";

/// How many operations are remembered as recorded and not sent.
const MARKS: usize = 65_536;

/// The attempts that are out, the ones that were recorded as dispatched and then given up unsent, and the keys whose
/// operation was sent and is still open.
#[derive(Default)]
pub(crate) struct Attempts {
    out: Outbox<Key, Out>,
    unsent: Mutex<HashMap<Key, Record<Digest>>>,
    open: Mutex<HashSet<Key>>,
}

/// An attempt from its send until its reply has been dealt with.
struct Out {
    outgoing: Outgoing,
    returned: AtomicBool,
    over: watch::Receiver<()>,
}

impl Out {
    /// Whether nothing of it is queued in this process any more (rule 6).
    fn has_left(&self) -> bool {
        self.returned.load(Ordering::Acquire) || self.outgoing.on_the_wire.load(Ordering::Acquire)
    }
}

/// Held until an attempt's reply has been dealt with; those who wait for the attempt are woken by its drop.
pub(crate) struct StillOut {
    inner: Arc<Inner>,
    out: Arc<Out>,
    _over: watch::Sender<()>,
}

impl Drop for StillOut {
    fn drop(&mut self) {
        self.inner.attempts.out.remove(&self.out.outgoing.key, &self.out);
    }
}

/// A tool's reply on its way to the driver.
pub(crate) struct Arrived {
    /// The attempt that it answers.
    pub(crate) of: AttemptId,
    /// The reply.
    pub(crate) reply: ToolReply,
    /// To be dropped when it has been dealt with.
    pub(crate) still_out: StillOut,
}

impl Attempts {
    /// Whether nothing of this key is queued for sending in this process.
    pub(crate) fn have_left(&self, key: &Key) -> bool {
        self.out.all_of(key, Out::has_left)
    }

    /// Whether nothing that was to be sent under this epoch is queued in this process.
    pub(crate) fn all_have_left(&self, epoch: Epoch) -> bool {
        self.out.all(|out| out.outgoing.epoch != epoch || out.has_left())
    }

    /// Whether an attempt of this key, of whatever operation, has not returned to this process yet.
    pub(crate) fn any_out(&self, key: &Key) -> bool {
        self.out.any(key)
    }

    /// Waits until this attempt's reply has been dealt with; `None` if it is not out.
    pub(crate) fn over(&self, key: &Key, of: AttemptId) -> Option<impl Future<Output = ()> + use<>> {
        let mut over = self.out.find(key, |out| (out.outgoing.attempt == of).then(|| out.over.clone()))?;
        Some(async move {
            // An error is the end: the sender is dropped and never sends.
            while over.changed().await.is_ok() {}
        })
    }

    /// This attempt's time is over: if it has not begun to leave, it never will.
    pub(crate) fn withdraw(&self, key: &Key, of: AttemptId) {
        self.out.find(key, |out| (out.outgoing.attempt == of).then(|| out.outgoing.permit.departure.withdraw()));
    }

    /// Notes that this record, if it turns out to be durable, stands for an attempt that was not sent and never will be.
    pub(crate) fn gave_up_unsent(&self, key: &Key, record: Record<Digest>) {
        let mut unsent = lock(&self.unsent);
        if unsent.len() >= MARKS {
            // Without its mark an operation counts as unknown instead of failed.
            unsent.clear();
        }
        unsent.insert(key.clone(), record);
    }

    /// Notes whether an operation was sent and is not settled, as far as this process knows: while the ledger can't be read,
    /// nobody must be told that nothing was sent.
    pub(crate) fn note_open(&self, key: &Key, open: bool) {
        let mut keys = lock(&self.open);
        if open {
            keys.insert(key.clone());
        } else if !keys.is_empty() {
            keys.remove(key);
        }
    }

    /// Whether an operation of this key may have been sent, as far as this process knows: one that is open, or that another
    /// call is sending now.
    pub(crate) fn may_have_been_sent(&self, key: &Key) -> bool {
        lock(&self.open).contains(key) || self.any_out(key)
    }

    /// Whether this record stands for an attempt that was not sent and never will be.
    pub(crate) fn is_unsent(&self, key: &Key, record: &Record<Digest>) -> bool {
        lock(&self.unsent).get(key) == Some(record)
    }
}

impl Inner {
    /// Sends an attempt in a task of its own, so that nothing that happens to its caller can cut it short. The reply goes to
    /// the driver, or if that has ended by then, to a new one.
    pub(crate) fn launch(
        self: &Arc<Self>,
        subject: &Arc<Subject>,
        of: AttemptId,
        epoch: Epoch,
        arguments: Bytes,
        because: Option<&'static str>,
        replies: mpsc::UnboundedSender<Arrived>,
    ) {
        let (end, over) = watch::channel(());
        let outgoing = Outgoing {
            key: subject.key.clone(),
            attempt: of,
            epoch,
            arguments,
            on_the_wire: AtomicBool::new(false),
            permit: Permit { of: Arc::downgrade(self), epoch, departure: Arc::new(Departure::default()) },
        };
        let out = Arc::new(Out { outgoing, returned: AtomicBool::new(false), over });
        lock(&self.attempts.unsent).remove(&subject.key);
        self.attempts.out.add(&subject.key, out.clone());
        let still_out = StillOut { inner: self.clone(), out: out.clone(), _over: end };

        let (inner, subject) = (self.clone(), subject.clone());
        let busy = self.busy.enter();
        task::spawn(async move {
            fault::point("before-dispatch");
            let (generation, attempt) = (of.generation, of.attempt.get());
            let sent = || Happened::Sent {
                generation,
                attempt,
                epoch,
                because: because.map(str::to_owned),
                arguments: Body(out.outgoing.arguments.clone()),
            };
            // Whoever reads the history shall find no send after its owner was fenced.
            let departure = &out.outgoing.permit.departure;
            let mut leaves = false;
            let held = inner.may_send(epoch).await
                && inner.ownership.while_held(epoch, || {
                    leaves = departure.leave();
                    if leaves {
                        inner.note(epoch, Some(&subject.key), sent);
                    }
                });
            let reply = if leaves {
                inner.send(&subject, &out, because).await
            } else {
                inner.tell(&subject.key, || Happened::Withheld { generation, attempt, epoch });
                let why = if held { WITHDRAWN } else { FENCED };
                ToolReply::Error(ErrorClass::NotRun, Bytes::from_static(why))
            };
            fault::point("after-reply");
            out.returned.store(true, Ordering::Release);
            inner.tell(&subject.key, || reply_line(of, &reply));
            if let Err(mpsc::error::SendError(arrived)) = replies.send(Arrived { of, reply, still_out }) {
                Drive::late(inner, subject, arrived).await;
            }
            drop(busy);
        });
    }

    async fn send(&self, subject: &Subject, out: &Out, because: Option<&'static str>) -> ToolReply {
        let (key, attempt) = (&subject.key, out.outgoing.attempt.attempt.get());
        figures::attempt(key, because);
        let span = tracing::info_span!("settled.attempt", %key, attempt);
        let reply = match caught(|| subject.tool.dispatch(&out.outgoing)).instrument(span).await {
            Ok(reply) => reply,
            Err(panic) => {
                tracing::error!(%key, attempt, panic, "the tool's transport panicked");
                ToolReply::ConnectionLost
            }
        };
        let has_result = matches!(reply, ToolReply::Result(_));
        self.health.attempt_ended(key, has_result, self.options.failing_after, &*self.options.alerts);
        reply
    }
}

fn reply_line(of: AttemptId, reply: &ToolReply) -> Happened {
    let (generation, attempt) = (of.generation, of.attempt.get());
    let (reply, body) = match reply {
        ToolReply::Result(body) => ("result", body),
        ToolReply::Error(ErrorClass::NotRun, body) => ("not run", body),
        ToolReply::Error(ErrorClass::Unproven, body) => ("error", body),
        ToolReply::Error(ErrorClass::Busy, body) | ToolReply::Busy { body, .. } => ("busy", body),
        ToolReply::ConnectionLost => {
            return Happened::Lost { generation, attempt, how: "connection lost".into() };
        }
    };
    Happened::Replied { generation, attempt, reply: reply.into(), digest: Digest::of(body) }
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs foreign code; a panic in it becomes an error with the panic's message.
pub(crate) async fn caught<'a, T>(start: impl FnOnce() -> BoxFuture<'a, T>) -> Result<T, String> {
    let mut future = catch_unwind(AssertUnwindSafe(start)).map_err(message)?;
    // After a panic the future is not polled again, so no broken state of it is ever looked at.
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Err(panic) => Poll::Ready(Err(message(panic))),
    })
    .await
}

fn message(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().map_or("a panic", |text| *text).to_owned(),
    }
}

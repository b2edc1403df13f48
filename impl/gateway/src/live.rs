//! What is being streamed now: one answer that comes in, and many who listen to it, each from the start.
//!
//! The bytes of a stream go to its listeners as they come, except for its end: that is held until the answer is recorded,
//! so that nobody has seen a whole answer that a crash could forget. All listeners read one buffer, each at its own pace.

mod buffer;
mod capture;
mod listener;
mod place;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use settled::protocol::{Digest, Key};
use tokio::sync::watch;
use tokio::time::timeout;

use self::buffer::Buffer;
pub(crate) use self::capture::{Captured, StreamLimits, capture};
pub(crate) use self::listener::Listener;
use self::listener::Wakers;
pub(crate) use self::place::{NoSuchEvent, after};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The streams that this process takes in now. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Streams(Arc<Table>);

#[derive(Default)]
struct Table {
    slots: Mutex<HashMap<Key, Weak<Slot>>>,
    callers: AtomicU64,
}

/// The stream of one key, if there is one now.
struct Slot {
    key: Key,
    table: Weak<Table>,
    now: watch::Sender<Option<Live>>,
    /// How many callers and listeners there are.
    interest: watch::Sender<usize>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(table) = self.table.upgrade() {
            let mut slots = lock(&table.slots);
            // Another may have taken its place.
            if slots.get(&self.key).is_some_and(|slot| slot.strong_count() == 0) {
                slots.remove(&self.key);
            }
        }
    }
}

impl Streams {
    /// One call under this key, for who carries it out and for who waits for its answer.
    pub(crate) fn join(&self, key: &Key, fingerprint: Digest) -> (Carrier, Caller) {
        let slot = self.slot(key);
        let id = self.0.callers.fetch_add(1, Ordering::Relaxed);
        let interest = Interest::new(&slot);
        let carrier = Carrier { slot: slot.clone(), fingerprint, id, own: Mutex::new(None) };
        (carrier, Caller { slot, fingerprint, id, _interest: interest })
    }

    fn slot(&self, key: &Key) -> Arc<Slot> {
        let mut slots = lock(&self.0.slots);
        let new = || {
            Arc::new(Slot {
                key: key.clone(),
                table: Arc::downgrade(&self.0),
                now: watch::Sender::new(None),
                interest: watch::Sender::new(0),
            })
        };
        match slots.entry(key.clone()) {
            Entry::Occupied(mut taken) => taken.get().upgrade().unwrap_or_else(|| {
                let slot = new();
                taken.insert(Arc::downgrade(&slot));
                slot
            }),
            Entry::Vacant(free) => {
                let slot = new();
                free.insert(Arc::downgrade(&slot));
                slot
            }
        }
    }

    /// How many keys there are streams or calls of.
    #[cfg(test)]
    fn len(&self) -> usize {
        lock(&self.0.slots).len()
    }
}

/// Counts as one who wants the answer, until it is dropped.
struct Interest(Arc<Slot>);

impl Interest {
    fn new(slot: &Arc<Slot>) -> Interest {
        slot.interest.send_modify(|count| *count += 1);
        Interest(slot.clone())
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.0.interest.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Carries a call out: it begins a stream for each attempt whose answer is one. Dropped, it breaks its stream off.
pub(crate) struct Carrier {
    slot: Arc<Slot>,
    fingerprint: Digest,
    id: u64,
    own: Mutex<Option<Live>>,
}

impl Carrier {
    /// Begins the stream of an attempt; what an earlier attempt streamed breaks off.
    pub(crate) fn begin(&self, status: StatusCode, headers: HeaderMap, limit: usize) -> Live {
        let live = Live(Arc::new(Shared {
            status,
            headers,
            fingerprint: self.fingerprint,
            by: self.id,
            slot: Arc::downgrade(&self.slot),
            state: Mutex::new(Taking { buffer: Buffer::new(limit), wakers: Wakers::default() }),
        }));
        let earlier = lock(&self.own).replace(live.clone());
        self.slot.now.send_replace(Some(live.clone()));
        if let Some(earlier) = earlier {
            earlier.broken();
        }
        live
    }

    /// The answer is recorded and whole: who listens to it may have its end.
    pub(crate) fn recorded(&self) {
        if let Some(live) = lock(&self.own).take() {
            live.whole();
        }
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        if let Some(live) = lock(&self.own).take() {
            live.broken();
        }
    }
}

/// Waits for the answer of a call.
pub(crate) struct Caller {
    slot: Arc<Slot>,
    fingerprint: Digest,
    id: u64,
    _interest: Interest,
}

impl Caller {
    /// Waits until there is a stream of this operation that can be listened to from its start; for ever, if none comes.
    pub(crate) async fn started(&self) -> Live {
        let mut now = self.slot.now.subscribe();
        let joins = |live: &Option<Live>| {
            live.as_ref().is_some_and(|live| live.0.fingerprint == self.fingerprint && live.is_from_the_start())
        };
        match now.wait_for(joins).await.map(|live| live.clone()) {
            Ok(Some(live)) => live,
            // The slot, and with it the sender, is held by this caller.
            _ => std::future::pending().await,
        }
    }

    /// Whether this caller's own request brought that stream, not an earlier one's.
    pub(crate) fn brought(&self, live: &Live) -> bool {
        live.0.by == self.id
    }
}

/// An answer that is coming in. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Live(Arc<Shared>);

struct Shared {
    status: StatusCode,
    headers: HeaderMap,
    fingerprint: Digest,
    by: u64,
    slot: Weak<Slot>,
    state: Mutex<Taking>,
}

struct Taking {
    buffer: Buffer,
    wakers: Wakers,
}

impl Live {
    /// Its status.
    pub(crate) fn status(&self) -> StatusCode {
        self.0.status
    }

    /// Its headers, as they came.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    /// Takes the next bytes, and keeps back that many of those that came last.
    pub(crate) fn chunk(&self, bytes: &[u8], held: usize) {
        self.change(|buffer| buffer.push(bytes, held));
    }

    /// Its end is no secret any more.
    fn whole(&self) {
        self.change(Buffer::whole);
        self.leave();
    }

    /// Nothing comes any more, and it is not whole.
    pub(crate) fn broken(&self) {
        self.change(Buffer::broken);
        self.leave();
    }

    /// All of it, unless it is longer than what is kept.
    pub(crate) fn kept(&self) -> Option<Bytes> {
        lock(&self.0.state).buffer.all()
    }

    /// Listens from the start, or from after the event that a client got last.
    ///
    /// # Errors
    /// [`NoSuchEvent`] if that event has not come.
    pub(crate) fn listen(&self, last: Option<&str>) -> Result<Listener, NoSuchEvent> {
        let at = match last {
            None => 0,
            Some(last) => after(&lock(&self.0.state).buffer.shown(), last)?,
        };
        let interest = self.0.slot.upgrade().as_ref().map(Interest::new);
        Ok(Listener::new(self.clone(), at, interest))
    }

    fn is_from_the_start(&self) -> bool {
        lock(&self.0.state).buffer.is_from_the_start()
    }

    fn change(&self, change: impl FnOnce(&mut Buffer)) {
        let waiting = {
            let mut state = lock(&self.0.state);
            change(&mut state.buffer);
            state.wakers.take()
        };
        waiting.into_iter().for_each(std::task::Waker::wake);
    }

    /// Nobody joins it any more.
    fn leave(&self) {
        if let Some(slot) = self.0.slot.upgrade() {
            let is_it = |now: &Option<Live>| now.as_ref().is_some_and(|now| Arc::ptr_eq(&now.0, &self.0));
            slot.now.send_if_modified(|now| {
                let leaves = is_it(now);
                if leaves {
                    *now = None;
                }
                leaves
            });
        }
    }

    /// Waits until nobody has wanted the answer for this long.
    async fn deserted(&self, linger: Duration) {
        let Some(mut interest) = self.0.slot.upgrade().map(|slot| slot.interest.subscribe()) else {
            return std::future::pending().await;
        };
        loop {
            if interest.wait_for(|count| *count == 0).await.is_err() {
                return std::future::pending().await;
            }
            if timeout(linger, interest.wait_for(|count| *count > 0)).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;

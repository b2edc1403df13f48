//! Group commit: many callers, one thread that commits all that has queued up as one batch.
//!
//! # The wait for stragglers
//!
//! Callers in a closed loop come back right after they were answered. Without a wait they fall into two halves: one half is
//! being synced while the other queues, for ever, which on a slow disk costs half of the throughput. So before a commit the
//! committer waits a little for as many items as were in flight when the last commit ended. The wait ends when they are there
//! or when it would cost more than it can win, which depends on how long a sync takes. A single caller finds itself the only
//! one in flight, so it never waits. Waits that bring nobody become rare.

use std::time::Duration;

use crate::sync::{Arc, Condvar, JoinHandle, Mutex, ThreadId, current, lock, spawn, wait, wait_briefly};

/// Something to commit, which carries the means to tell its submitter how that went.
pub trait Item: Send + 'static {
    /// Why a commit failed. Cloned for each item that it fails.
    type Error: Clone + Send + 'static;

    /// Answers the submitter. Called exactly once for an accepted item, on the committer's thread: it should be quick.
    fn complete(self, result: Result<(), Self::Error>);
}

/// The committer was closed. Gives the item back, which hasn't been and won't be committed.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("closed: nothing more is accepted")]
pub struct Closed<T>(pub T);

impl<T> std::fmt::Debug for Closed<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Closed").finish_non_exhaustive()
    }
}

/// Commits items in groups on a thread of its own.
///
/// The first error of the commit function *poisons* it: the items of that batch and all later ones are completed with that
/// error, and the function isn't called again. Dropping it closes it.
pub struct GroupCommit<T: Item> {
    shared: Arc<Shared<T>>,
    committer: Option<ThreadId>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Where there is no thread: what commits, and the error that has poisoned it.
    by_hand: Option<Mutex<ByHand<T>>>,
}

struct ByHand<T: Item> {
    commit: Box<Commit<T>>,
    poison: Option<T::Error>,
}

type Commit<T> = dyn FnMut(&mut [T]) -> Result<Option<Duration>, <T as Item>::Error> + Send;

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Only the committer waits on this.
    arrived: Condvar,
}

struct State<T> {
    queue: Vec<T>,
    closed: bool,
    /// The committer wants to be woken when the queue is this long.
    wake_at: usize,
}

/// A committer that is busy needn't be woken.
const BUSY: usize = usize::MAX;

impl<T: Item> GroupCommit<T> {
    /// Starts the committer's thread.
    ///
    /// `commit` gets all queued items, in the order in which they were submitted, and makes them durable as one batch. It may
    /// note in each item what `complete` needs; it returns how long its sync took, or `None` if it needed none. The items
    /// are completed after it has returned. If it panics, the items that it and the queue hold are dropped, and the
    /// committer is closed.
    pub fn start(
        name: &str,
        commit: impl FnMut(&mut [T]) -> Result<Option<Duration>, T::Error> + Send + 'static,
    ) -> std::io::Result<Self> {
        let state = State { queue: Vec::new(), closed: false, wake_at: BUSY };
        let shared = Arc::new(Shared { state: Mutex::new(state), arrived: Condvar::new() });
        let thread = spawn(name, {
            let shared = Arc::clone(&shared);
            move || {
                let guard = CloseOnPanic(&shared);
                run(&shared, commit);
                std::mem::forget(guard);
            }
        })?;
        let committer = Some(thread.thread().id());
        Ok(GroupCommit { shared, committer, thread: Mutex::new(Some(thread)), by_hand: None })
    }

    /// Without a thread: what is queued is committed when [`run_queued`](GroupCommit::run_queued) is called, and not at all
    /// otherwise.
    pub fn by_hand(commit: impl FnMut(&mut [T]) -> Result<Option<Duration>, T::Error> + Send + 'static) -> Self {
        let state = State { queue: Vec::new(), closed: false, wake_at: BUSY };
        GroupCommit {
            shared: Arc::new(Shared { state: Mutex::new(state), arrived: Condvar::new() }),
            committer: None,
            thread: Mutex::new(None),
            by_hand: Some(Mutex::new(ByHand { commit: Box::new(commit), poison: None })),
        }
    }

    /// Commits all that is queued as one batch, where there is no thread that does. Returns how many items that were.
    pub fn run_queued(&self) -> usize {
        let Some(by_hand) = &self.by_hand else { return 0 };
        let ByHand { commit, poison } = &mut *lock(by_hand);
        let mut batch = std::mem::take(&mut lock(&self.shared.state).queue);
        let count = batch.len();
        if count == 0 {
            return 0;
        }
        let result = match poison {
            Some(error) => Err(error.clone()),
            None => commit(&mut batch).map(drop),
        };
        *poison = result.as_ref().err().cloned();
        batch.into_iter().for_each(|item| item.complete(result.clone()));
        count
    }

    /// How many items are queued.
    pub fn queued(&self) -> usize {
        lock(&self.shared.state).queue.len()
    }

    /// Queues an item. An accepted item will be completed, whatever happens, unless the commit function panics.
    pub fn submit(&self, item: T) -> Result<(), Closed<T>> {
        let mut state = lock(&self.shared.state);
        if state.closed {
            return Err(Closed(item));
        }
        state.queue.push(item);
        let wake = state.queue.len() >= state.wake_at;
        if wake {
            // One notification is enough, and each costs a system call.
            state.wake_at = BUSY;
        }
        drop(state);
        if wake {
            self.shared.arrived.notify_one();
        }
        Ok(())
    }

    /// Accepts nothing more, and returns when everything accepted has been completed. From within `commit` or `complete` it
    /// returns at once.
    pub fn close(&self) {
        lock(&self.shared.state).closed = true;
        self.shared.arrived.notify_one();
        if self.by_hand.is_some() {
            // Nobody would commit them any more.
            let dropped = std::mem::take(&mut lock(&self.shared.state).queue);
            drop(dropped);
            return;
        }
        if Some(current()) == self.committer {
            return;
        }
        // The lock is held while joining, so that whoever closes returns after the last completion.
        let mut thread = lock(&self.thread);
        if let Some(thread) = thread.take() {
            // An error means that it panicked, and the panic has been reported.
            let _ = thread.join();
        }
    }
}

impl<T: Item> Drop for GroupCommit<T> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Runs only when the committer's thread unwinds.
struct CloseOnPanic<'a, T>(&'a Shared<T>);

impl<T> Drop for CloseOnPanic<'_, T> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.closed = true;
        let dropped = std::mem::take(&mut state.queue);
        drop(state);
        drop(dropped);
    }
}

fn run<T: Item>(shared: &Shared<T>, mut commit: impl FnMut(&mut [T]) -> Result<Option<Duration>, T::Error>) {
    let mut stragglers = Stragglers::default();
    let mut poison = None;
    let mut batch = Vec::new();
    loop {
        let mut state = lock(&shared.state);
        while state.queue.is_empty() {
            if state.closed {
                return;
            }
            state.wake_at = 1;
            state = wait(&shared.arrived, state);
        }
        let queued = state.queue.len();
        if poison.is_none()
            && !state.closed
            && let Some(timeout) = stragglers.wait(queued)
        {
            let target = stragglers.in_flight;
            state.wake_at = target;
            state = wait_briefly(&shared.arrived, &shared.state, state, timeout, |state| {
                let done = state.closed || state.queue.len() >= target;
                if !done {
                    state.wake_at = target;
                }
                done
            });
            stragglers.waited(state.queue.len() - queued);
        }
        state.wake_at = BUSY;
        std::mem::swap(&mut batch, &mut state.queue);
        drop(state);

        let committed = batch.len();
        let result = match &poison {
            Some(error) => Err(T::Error::clone(error)),
            None => commit(&mut batch),
        };
        match result {
            Ok(sync) => {
                let queued = lock(&shared.state).queue.len();
                stragglers.committed(committed + queued, sync);
                batch.drain(..).for_each(|item| item.complete(Ok(())));
            }
            Err(error) => {
                batch.drain(..).for_each(|item| item.complete(Err(error.clone())));
                poison = Some(error);
            }
        }
    }
}

/// How long to wait for how many.
#[derive(Debug, Default)]
struct Stragglers {
    /// Items committed and queued when the last commit ended.
    in_flight: usize,
    /// Smoothed duration of a sync.
    sync: Duration,
    /// Waits in a row that brought nobody.
    misses: u32,
    /// Commits before the next wait.
    skip: u32,
}

impl Stragglers {
    /// Measured optima: 60 µs where a sync takes 0.1 ms, 400 µs where it takes 2.35 ms; in between a line.
    fn limit(&self) -> Duration {
        (Duration::from_micros(45) + self.sync * 3 / 20).min(self.sync * 3 / 5)
    }

    /// Whether to wait now that `queued` items are there.
    fn wait(&mut self, queued: usize) -> Option<Duration> {
        // The shortest time for which putting a thread to sleep makes sense.
        const SHORTEST: Duration = Duration::from_micros(10);
        if queued >= self.in_flight || self.limit() < SHORTEST {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        Some(self.limit())
    }

    fn waited(&mut self, gained: usize) {
        self.misses = if gained > 0 { 0 } else { (self.misses + 1).min(5) };
        self.skip = (1 << self.misses) - 1;
    }

    fn committed(&mut self, in_flight: usize, sync: Option<Duration>) {
        self.in_flight = in_flight;
        if let Some(sync) = sync {
            self.sync = if self.sync.is_zero() { sync } else { (self.sync * 7 + sync) / 8 };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn one_caller_alone_never_waits() {
        let mut s = Stragglers::default();
        for _ in 0..100 {
            assert_eq!(s.wait(1), None);
            s.committed(1, Some(MS));
        }
    }

    #[test]
    fn the_wait_follows_the_sync_time() {
        let limit = |micros| Stragglers { sync: Duration::from_micros(micros), ..Stragglers::default() }.limit();
        assert_eq!(limit(100), Duration::from_micros(60));
        assert!((390..=410).contains(&limit(2350).as_micros()));
        let mut memory = Stragglers { in_flight: 9, sync: Duration::from_micros(2), ..Stragglers::default() };
        assert_eq!(memory.wait(1), None);
    }

    #[test]
    fn the_sync_time_is_smoothed() {
        let mut s = Stragglers::default();
        s.committed(1, Some(MS));
        s.committed(1, None);
        assert_eq!(s.sync, MS);
        s.committed(1, Some(9 * MS));
        assert_eq!(s.sync, 2 * MS);
    }

    #[test]
    fn useless_waits_become_rare_and_a_useful_one_ends_that() {
        let mut s = Stragglers { in_flight: 4, sync: MS, ..Stragglers::default() };
        let mut waits = 0;
        for _ in 0..320 {
            if s.wait(2).is_some() {
                waits += 1;
                s.waited(0);
            }
        }
        assert!((8..=20).contains(&waits), "{waits}");
        while s.wait(2).is_none() {}
        s.waited(1);
        assert!(s.wait(2).is_some());
        assert_eq!(s.wait(4), None, "all are there");
    }
}

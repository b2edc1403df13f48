//! Which epoch a process holds, and until when: what is sent may be sent only while it is held, and what is over never holds
//! again.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::sync::{Mutex, lock};

/// The epochs of a process. Times are by a clock that starts above zero.
pub struct Held<E> {
    state: Mutex<State<E>>,
}

struct State<E> {
    epoch: E,
    /// Zero once it is fenced.
    until: Duration,
    /// Epochs of this process that are over.
    past: BTreeSet<E>,
    /// Those of them that the ledger doesn't know to be over yet.
    unretired: BTreeSet<E>,
    /// The engine has been shut down.
    closed: bool,
}

impl<E: Copy + Ord> Held<E> {
    /// Holds this epoch until then.
    pub fn new(epoch: E, until: Duration) -> Held<E> {
        let (past, unretired) = (BTreeSet::new(), BTreeSet::new());
        Held { state: Mutex::new(State { epoch, until, past, unretired, closed: false }) }
    }

    /// The present epoch.
    pub fn epoch(&self) -> E {
        lock(&self.state).epoch
    }

    /// Whether this epoch is or was this process's.
    pub fn is_mine(&self, epoch: E) -> bool {
        let state = lock(&self.state);
        state.epoch == epoch || state.past.contains(&epoch)
    }

    /// Whether the epoch is the present one and its time is not over.
    pub fn holds(&self, epoch: E, now: impl FnOnce() -> Duration) -> bool {
        self.while_held(epoch, now, || {})
    }

    /// Does this while the epoch is held, so that it can't be fenced meanwhile; returns whether it was done.
    pub fn while_held(&self, epoch: E, now: impl FnOnce() -> Duration, then: impl FnOnce()) -> bool {
        let state = lock(&self.state);
        let holds = state.epoch == epoch && now() < state.until;
        if holds {
            then();
        }
        holds
    }

    /// It is held until then at least, unless it has been fenced.
    pub fn extend(&self, epoch: E, until: Duration) {
        let mut state = lock(&self.state);
        if state.epoch == epoch && state.until > Duration::ZERO {
            state.until = state.until.max(until);
        }
    }

    /// From here on nothing is sent under this epoch. Returns whether that is news.
    pub fn fence(&self, epoch: E) -> bool {
        let mut state = lock(&self.state);
        let news = state.epoch == epoch && state.until > Duration::ZERO;
        if news {
            state.until = Duration::ZERO;
        }
        news
    }

    /// Goes on under another epoch, held until then; unless it was closed meanwhile.
    pub fn succeed(&self, epoch: E, until: Duration) {
        let mut state = lock(&self.state);
        if state.closed {
            state.unretired.insert(epoch);
            return;
        }
        let before = std::mem::replace(&mut state.epoch, epoch);
        state.past.insert(before);
        state.unretired.insert(before);
        state.until = until;
    }

    /// Whether the present epoch is over.
    pub fn is_fenced(&self) -> bool {
        lock(&self.state).until == Duration::ZERO
    }

    /// Nothing is sent any more, and no new epoch is taken. Returns the last one.
    pub fn close(&self) -> E {
        let mut state = lock(&self.state);
        state.closed = true;
        state.until = Duration::ZERO;
        state.epoch
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// Epochs that are over, which the ledger has not been told of.
    pub fn unretired(&self) -> Vec<E> {
        lock(&self.state).unretired.iter().copied().collect()
    }

    /// The ledger has been told.
    pub fn retired(&self, epoch: E) {
        lock(&self.state).unretired.remove(&epoch);
    }
}

impl<E> std::fmt::Debug for Held<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

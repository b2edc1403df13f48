//! Whether a holder still speaks for its directory, and what it does once its log has refused a write.
//!
//! What a failed write or sync has left on the disk can only be told by opening the log anew. So the holder then gives the
//! directory up as it does when it is closed: it answers nothing more that isn't certain, ends its threads, and only then lets
//! go of the lock. Whoever takes it next, another process or this one, recovers as after a crash. Nothing that this process
//! holds a proof for is lost by that, as it was durable before; and what was refused is looked for in the log by its token.
//!
//! A log whose files were taken away is another matter. Opening what is now at the path could succeed with a part of it, so the
//! holder keeps the directory, and answers everything with that error, until somebody has put things right.

use std::sync::Mutex;

use settled::LedgerError;
use tokio::sync::Notify;

use crate::log::Log;
use crate::sync::lock;

/// How a store stands.
#[derive(Default)]
pub(crate) struct Tenure {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
enum State {
    #[default]
    Holds,
    /// It is closed, or about to be.
    Closed,
    /// A write failed: it gives the directory up.
    Failed(LedgerError),
    /// Its files were taken away.
    Displaced(LedgerError),
}

impl Tenure {
    /// Notes that the log has refused a write for this reason.
    pub fn failed(&self, log: &Log, error: &LedgerError) {
        let mut state = lock(&self.state);
        if !matches!(*state, State::Holds) {
            return;
        }
        match log.may_open_again() {
            // Another limit than the disk's: it can still be read.
            None => return,
            Some(true) => *state = State::Failed(error.clone()),
            Some(false) => *state = State::Displaced(error.clone()),
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Notes that it is about to be closed.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        if matches!(*state, State::Holds) {
            *state = State::Closed;
        }
    }

    /// Whether another process may hold the directory, or be about to: what is read here may be out of date, and an error says
    /// nothing about the ledger.
    pub fn is_over(&self) -> bool {
        matches!(*lock(&self.state), State::Closed | State::Failed(_))
    }

    /// Why it gives the directory up, if it does.
    pub fn failure(&self) -> Option<LedgerError> {
        match &*lock(&self.state) {
            State::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// # Errors
    /// If its files were taken away.
    pub fn check_place(&self) -> Result<(), LedgerError> {
        match &*lock(&self.state) {
            State::Displaced(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Waits until a write has failed, and says why. Never returns otherwise.
    pub async fn until_failed(&self) -> LedgerError {
        loop {
            let changed = self.changed.notified();
            if let Some(error) = self.failure() {
                return error;
            }
            changed.await;
        }
    }
}

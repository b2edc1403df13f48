//! The client's requests that are under way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::flag::Flag;
use crate::messages::frame::IdKey;

/// A POST under way.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// It is settled whether it leaves: whatever must come after it may be sent.
    pub(crate) begun: Flag,
    /// It did leave.
    pub(super) left: AtomicBool,
    /// Nobody waits for its answer any more.
    pub(crate) cancelled: Flag,
    /// Its revision has no sessions: leaving its stream is how the server learns that.
    pub(crate) stateless: bool,
}

impl Flight {
    /// It is settled whether it leaves.
    pub(crate) fn begins(&self, leaves: bool) {
        self.left.fetch_or(leaves, Ordering::AcqRel);
        self.begun.raise();
    }

    /// Whether it did leave.
    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }
}

/// Those that the client can cancel, by its ids.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    by_id: Mutex<HashMap<IdKey, Arc<Flight>>>,
}

impl Flights {
    /// Requests with these ids begin.
    pub(crate) fn begin(&self, ids: &[String], flight: &Arc<Flight>) {
        let mut by_id = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        by_id.extend(ids.iter().map(|id| (IdKey::new(id), flight.clone())));
    }

    /// They are over.
    pub(crate) fn end(&self, ids: &[String], flight: &Arc<Flight>) {
        let mut by_id = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        for id in ids {
            let id = IdKey::new(id);
            // Another request may have taken the id by now.
            if by_id.get(&id).is_some_and(|other| Arc::ptr_eq(other, flight)) {
                by_id.remove(&id);
            }
        }
    }

    /// The one with this id.
    pub(crate) fn get(&self, id: &IdKey) -> Option<Arc<Flight>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }
}

//! Whether an attempt may still begin to leave: its time may be over before it was sent, while the ledger was asked whether
//! the lease runs, say. From then on its operation may be settled without it, so it must never be sent.

use std::sync::atomic::{AtomicU8, Ordering};

const WAITS: u8 = 0;
const LEAVES: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Decided once, by whoever comes first: whether an attempt is handed to its transport, or withdrawn.
#[derive(Debug, Default)]
pub(crate) struct Departure(AtomicU8);

impl Departure {
    /// It is handed to its transport now; returns whether it may be.
    pub(crate) fn leave(&self) -> bool {
        self.0.compare_exchange(WAITS, LEAVES, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// It must not begin to leave any more. A transport that has it learns so when it asks for the permit.
    pub(crate) fn withdraw(&self) {
        self.0.store(WITHDRAWN, Ordering::Release);
    }

    /// Whether it was withdrawn.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.0.load(Ordering::Acquire) == WITHDRAWN
    }
}

#[cfg(test)]
mod tests {
    use super::Departure;

    #[test]
    fn it_leaves_once_and_not_after_it_was_withdrawn() {
        let departure = Departure::default();
        assert!(departure.leave());
        assert!(!departure.leave());
        assert!(!departure.is_withdrawn());
        departure.withdraw();
        assert!(departure.is_withdrawn());
        assert!(!departure.leave());

        let departure = Departure::default();
        departure.withdraw();
        assert!(!departure.leave());
    }
}

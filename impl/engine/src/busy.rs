//! How many tasks are at work, and waiting until there are none.

use crate::sync::{Arc, AtomicUsize, Notify, Ordering};

/// Counts the tasks that are at work. Clones are the same count.
#[derive(Clone, Default)]
pub struct Busy(Arc<Count>);

#[derive(Default)]
struct Count {
    tasks: AtomicUsize,
    ended: Notify,
}

/// A task at work, until it is dropped.
pub struct AtWork(Arc<Count>);

impl Busy {
    /// One more.
    pub fn enter(&self) -> AtWork {
        self.0.tasks.fetch_add(1, Ordering::AcqRel);
        AtWork(self.0.clone())
    }

    /// Resolves when there was none at work at some time since it was called.
    pub async fn idle(&self) {
        loop {
            let mut ended = std::pin::pin!(self.0.ended.notified());
            // From here on no end can be missed between the look and the wait.
            ended.as_mut().enable();
            if self.0.tasks.load(Ordering::Acquire) == 0 {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        if self.0.tasks.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ended.notify_waiters();
        }
    }
}

impl std::fmt::Debug for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Busy").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for AtWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AtWork").finish_non_exhaustive()
    }
}

//! The one place that chooses between loom's synchronisation primitives and the usual ones.

#[cfg(loom)]
mod notify;

use std::sync::PoisonError;
use std::time::Duration;

#[cfg(loom)]
pub use self::notify::Notify;
#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc, Condvar, Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc, Condvar, Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering},
};
#[cfg(not(loom))]
pub(crate) use tokio::sync::Notify;

/// Locks, also after a panic elsewhere: everything that is kept under these locks is valid between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// Waits for a notification.
pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `done` holds, but no longer than `timeout`. In a model there is no time: others get one turn.
pub(crate) fn wait_briefly<'a, T>(
    condvar: &Condvar,
    mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    timeout: Duration,
    mut done: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    #[cfg(loom)]
    {
        let _ = (condvar, timeout, done(&mut *{ guard }));
        loom::thread::yield_now();
        lock(mutex)
    }
    #[cfg(not(loom))]
    {
        let _ = mutex;
        let waited = condvar.wait_timeout_while(guard, timeout, |state| !done(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

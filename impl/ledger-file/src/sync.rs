//! Threads and locks: the standard library's, or loom's when the code is being model-checked.

#[cfg(loom)]
use loom::{sync as imp, thread};
#[cfg(not(loom))]
use std::{sync as imp, thread};

use std::sync::PoisonError;
use std::time::Duration;

pub(crate) use imp::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use thread::{JoinHandle, ThreadId};

/// Locks `mutex`. A holder that panicked leaves no broken state behind in this crate, so that is no reason to stop.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        thread::yield_now();
        lock(mutex)
    }
    #[cfg(not(loom))]
    {
        let _ = mutex;
        let waited = condvar.wait_timeout_while(guard, timeout, |state| !done(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Starts a named thread.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(body)
}

/// The calling thread.
pub(crate) fn current() -> ThreadId {
    thread::current().id()
}

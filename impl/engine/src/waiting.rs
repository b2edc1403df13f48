//! Who waits for news of what, by name: for ledgers that are told by others what has changed.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

use crate::sync::{Arc, Mutex, Notify, lock};

/// Those who wait. What nobody waits for takes no memory.
pub struct Waiting<N> {
    names: Mutex<HashMap<N, Entry>>,
}

#[derive(Default)]
struct Entry {
    changed: Arc<Notify>,
    waiters: usize,
}

/// One who waits; no longer when dropped.
pub struct Waiter<'a, N: Hash + Eq + Clone> {
    waiting: &'a Waiting<N>,
    name: N,
    /// Told of every change from when it is [enabled](tokio::sync::futures::Notified::enable): look only after that, so that
    /// no change is missed between the look and the wait.
    pub changed: Arc<Notify>,
}

impl<N: Hash + Eq + Clone> Waiting<N> {
    /// Waits for news of this name.
    pub fn on(&self, name: N) -> Waiter<'_, N> {
        let mut names = lock(&self.names);
        let entry = names.entry(name.clone()).or_default();
        // Counted here: a count of references would also count those that are just being dropped.
        entry.waiters += 1;
        Waiter { waiting: self, name, changed: Arc::clone(&entry.changed) }
    }

    /// Wakes those who wait for it.
    pub fn wake(&self, name: &N) {
        if let Some(entry) = lock(&self.names).get(name) {
            entry.changed.notify_waiters();
        }
    }

    /// Wakes everyone: something may have been missed.
    pub fn wake_all(&self) {
        lock(&self.names).values().for_each(|entry| entry.changed.notify_waiters());
    }

    /// How many names are waited for.
    pub fn names(&self) -> usize {
        lock(&self.names).len()
    }
}

impl<N> Default for Waiting<N> {
    fn default() -> Self {
        Waiting { names: Mutex::new(HashMap::new()) }
    }
}

impl<N: Hash + Eq + Clone> Drop for Waiter<'_, N> {
    fn drop(&mut self) {
        let mut names = lock(&self.waiting.names);
        if let Some(entry) = names.get_mut(&self.name) {
            entry.waiters -= 1;
            if entry.waiters == 0 {
                names.remove(&self.name);
            }
        }
    }
}

impl<N> fmt::Debug for Waiting<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}

impl<N: Hash + Eq + Clone> fmt::Debug for Waiter<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").finish_non_exhaustive()
    }
}

//! Those in this process who wait for a record to change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use settled_protocol::Digest;
use tokio::sync::{Notify, mpsc};

/// What stands for a key in a notification: 64 bits of its digest. Two keys with the same only wake each other's waiters.
pub(crate) type Name = u64;

pub(crate) fn name(hash: &Digest) -> Name {
    let [a, b, c, d, e, f, g, h, ..] = *hash.as_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Who waits for what.
pub(crate) struct Waiters {
    waiting: Mutex<HashMap<Name, Arc<Notify>>>,
    /// What other processes are to be told.
    tell: mpsc::UnboundedSender<Name>,
}

/// One who waits; no longer when dropped.
pub(crate) struct Waiter<'a> {
    waiters: &'a Waiters,
    name: Name,
    pub changed: Arc<Notify>,
}

impl Waiters {
    pub fn new(tell: mpsc::UnboundedSender<Name>) -> Waiters {
        Waiters { waiting: Mutex::default(), tell }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Name, Arc<Notify>>> {
        // Nothing panics while it holds the lock, and the map is whole between any two statements.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wait(&self, hash: &Digest) -> Waiter<'_> {
        let name = name(hash);
        let changed = Arc::clone(self.waiting().entry(name).or_default());
        Waiter { waiters: self, name, changed }
    }

    /// Wakes those who wait for this key.
    pub fn wake(&self, name: Name) {
        if let Some(changed) = self.waiting().get(&name) {
            changed.notify_waiters();
        }
    }

    /// Wakes everyone: something may have been missed.
    pub fn wake_all(&self) {
        self.waiting().values().for_each(|changed| changed.notify_waiters());
    }

    /// This process has stored these. Others are told of those that go on from an earlier version: nobody waits long for a
    /// key that doesn't exist.
    pub fn stored<'a>(&self, stored: impl Iterator<Item = (&'a Digest, bool)>) {
        for (hash, advances) in stored {
            let name = name(hash);
            self.wake(name);
            if advances {
                // If nobody sends them any more, others look by themselves.
                let _ = self.tell.send(name);
            }
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.waiters.waiting();
        // The map's and this one's own.
        if Arc::strong_count(&self.changed) <= 2 {
            waiting.remove(&self.name);
        }
    }
}

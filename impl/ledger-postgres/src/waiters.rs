//! Those in this process who wait for a record to change.

use settled::waiting::{Waiter, Waiting};
use settled_protocol::Digest;
use tokio::sync::mpsc;

/// What stands for a key in a notification: 64 bits of its digest. Two keys with the same only wake each other's waiters.
pub(crate) type Name = u64;

pub(crate) fn name(hash: &Digest) -> Name {
    let [a, b, c, d, e, f, g, h, ..] = *hash.as_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Who waits for what.
pub(crate) struct Waiters {
    waiting: Waiting<Name>,
    /// What other processes are to be told.
    tell: mpsc::UnboundedSender<Name>,
}

impl Waiters {
    pub fn new(tell: mpsc::UnboundedSender<Name>) -> Waiters {
        Waiters { waiting: Waiting::default(), tell }
    }

    pub fn wait(&self, hash: &Digest) -> Waiter<'_, Name> {
        self.waiting.on(name(hash))
    }

    /// Wakes those who wait for this key.
    pub fn wake(&self, name: Name) {
        self.waiting.wake(&name);
    }

    /// Wakes everyone: something may have been missed.
    pub fn wake_all(&self) {
        self.waiting.wake_all();
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

//! What models have in the place of tokio's `Notify`: as much of it as is used, with the same promises.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use loom::sync::Mutex;

use super::lock;

/// Tells all who wait.
#[derive(Debug, Default)]
pub struct Notify {
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// How often.
    times: usize,
    wakers: Vec<Waker>,
}

/// Waits until it is told, from when it was made.
#[derive(Debug)]
pub struct Notified<'a> {
    notify: &'a Notify,
    seen: usize,
}

impl Notify {
    /// One who waits from now on.
    pub fn notified(&self) -> Notified<'_> {
        Notified { notify: self, seen: lock(&self.told).times }
    }

    /// Tells all who wait now.
    pub fn notify_waiters(&self) {
        let mut told = lock(&self.told);
        told.times += 1;
        let wakers = std::mem::take(&mut told.wakers);
        drop(told);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Notified<'_> {
    /// It waits already.
    pub fn enable(self: Pin<&mut Self>) -> bool {
        lock(&self.notify.told).times != self.seen
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut told = lock(&self.notify.told);
        if told.times != self.seen {
            return Poll::Ready(());
        }
        told.wakers.push(context.waker().clone());
        Poll::Pending
    }
}

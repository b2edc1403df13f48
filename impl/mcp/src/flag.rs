//! A flag that is raised once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A flag that is raised once, and stays up. Its clones are the same flag. Whoever waits for it goes on in the order of waiting.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flag(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    raised: AtomicBool,
    news: Notify,
}

impl Flag {
    /// Raises it.
    pub(crate) fn raise(&self) {
        self.0.raised.store(true, Ordering::Release);
        self.0.news.notify_waiters();
    }

    /// Whether it is up.
    pub(crate) fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::Acquire)
    }

    /// Resolves once it is up.
    pub(crate) async fn raised(&self) {
        // What is raised after this line wakes it.
        let news = self.0.news.notified();
        if !self.is_raised() {
            news.await;
        }
    }
}

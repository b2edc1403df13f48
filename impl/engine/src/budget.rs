//! The retry budget that all processes on a ledger share, as this process draws on it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::Inner;
use crate::figures;
use crate::ledger::Draw;

/// Requests made since the ledger was last told of them.
#[derive(Default)]
pub(crate) struct Requests(AtomicU64);

impl Requests {
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Inner {
    /// Takes a token for a retry. A ledger that can't tell grants none.
    pub(crate) async fn may_retry(&self) -> bool {
        let granted = self.draw(true).await;
        if !granted {
            figures::budget_refused();
        }
        granted
    }

    /// Tells the ledger of the requests made, so that other processes may retry on their account.
    pub(crate) async fn tell_requests(&self) {
        if self.requests.0.load(Ordering::Relaxed) > 0 {
            self.draw(false).await;
        }
    }

    async fn draw(&self, take: bool) -> bool {
        let requests = self.requests.0.swap(0, Ordering::Relaxed);
        let budget = self.options.retry_budget;
        let draw = Draw { requests, take, per_mille: budget.per_mille, burst: budget.burst };
        match self.ledger.draw(draw).await {
            Ok(granted) => granted,
            Err(error) => {
                // They may be told twice now; that is the lesser evil.
                self.requests.0.fetch_add(requests, Ordering::Relaxed);
                tracing::warn!(%error, "the retry budget can't be drawn on");
                false
            }
        }
    }
}

//! How fast a client retries, and how often.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use settled::{Bucket, Draw, RetryBudget};

use super::ClientOptions;

/// The pace of a client, with the budget that all its calls share.
#[derive(Debug)]
pub(super) struct Pace {
    base: Duration,
    cap: Duration,
    budget: RetryBudget,
    bucket: Mutex<Bucket>,
}

impl Pace {
    pub(super) fn new(options: &ClientOptions) -> Pace {
        let (base, cap, budget) = (options.backoff, options.longest_backoff, options.budget);
        Pace { base, cap, budget, bucket: Mutex::default() }
    }

    /// A call is made.
    pub(super) fn count(&self) {
        self.draw(1, false);
    }

    /// Takes a token for a retry.
    pub(super) fn may_retry(&self) -> bool {
        self.draw(0, true)
    }

    fn draw(&self, requests: u64, take: bool) -> bool {
        let RetryBudget { per_mille, burst, .. } = self.budget;
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.draw(Draw { requests, take, per_mille, burst })
    }

    /// How long to wait after that many attempts: anything up to twice as long each time, and as long as the server asks for.
    pub(super) fn wait(&self, attempts: u32, asked: Option<Duration>) -> Duration {
        let doubled = 1_u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
        let most = self.base.saturating_mul(doubled).min(self.cap);
        most.mul_f64(fastrand::f64()).max(asked.unwrap_or_default())
    }
}

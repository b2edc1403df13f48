//! When to try again: attempt and time budgets, exponential backoff with full jitter.

use crate::record::{Attempt, Millis, Time};

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// Exponential backoff with *full jitter*: before attempt n+1, wait a uniformly random share of
/// `min(cap, base · 2^(n-1))`. (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Backoff {
    /// The longest wait before the second attempt, in milliseconds.
    pub base: Millis,
    /// The longest wait before any attempt, in milliseconds.
    pub cap: Millis,
}

impl Backoff {
    /// The wait after `failures` failed tries, in milliseconds. `draw` is a uniform random draw over all of `u32`.
    pub fn delay(&self, failures: u32, draw: u32) -> Millis {
        let doublings = failures.saturating_sub(1).min(63);
        let ceiling = self.base.saturating_mul(1 << doublings).min(self.cap);
        ((u128::from(ceiling) * u128::from(draw)) >> 32) as Millis
    }
}

/// How often, and for how long, an operation may be attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Retry {
    /// The largest number of attempts of one operation.
    pub attempts: u32,
    /// No new attempt later than this after the intent was created, in milliseconds.
    pub total: Millis,
    /// The largest number of observations of one unknown that tell nothing, before a person is asked.
    pub checks: u32,
    /// The waits between them.
    pub backoff: Backoff,
}

impl Retry {
    /// Whether another attempt may follow `last`.
    pub fn allows(&self, last: Attempt, created: Time, now: Time) -> bool {
        last.get() < self.attempts && now.since(created) <= self.total
    }
}

impl Default for Retry {
    /// 5 attempts within 5 minutes, 8 observations, waits from 100 ms up to 10 s.
    fn default() -> Self {
        Retry { attempts: 5, total: 300_000, checks: 8, backoff: Backoff { base: 100, cap: 10_000 } }
    }
}

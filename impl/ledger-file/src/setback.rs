//! How long a process leaves its directory to others after its log has refused a write.

use std::time::Duration;

use settled::LedgerError;
use tokio::time::Instant;

/// So long it waits for another process to take the directory, whose disk may be in order.
const GRACE: Duration = Duration::from_millis(250);
/// The longest rest, where one failure follows the other.
const LONGEST: Duration = Duration::from_secs(30);
/// A failure so long after the last one is a first one.
const FORGOTTEN: Duration = Duration::from_secs(120);

/// The last failure. The first rest is no longer than the grace; each that follows soon is longer, as opening a log costs.
pub(crate) struct Setback {
    error: LedgerError,
    since: Instant,
    rest: Duration,
}

/// What to do where nobody else has taken the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Now {
    /// Wait for another to take it.
    Wait,
    /// Tell callers why there is no ledger.
    Tell,
    /// Take it.
    Take,
}

impl Setback {
    /// A failure after another one, perhaps.
    pub fn after(last: Option<&Setback>, error: LedgerError, since: Instant) -> Setback {
        let rest = match last {
            Some(last) if since.duration_since(last.since) < FORGOTTEN => (last.rest * 4).min(LONGEST),
            _ => GRACE,
        };
        Setback { error, since, rest }
    }

    pub fn at(&self, now: Instant) -> Now {
        let passed = now.saturating_duration_since(self.since);
        match () {
            () if passed < GRACE => Now::Wait,
            () if passed < self.rest => Now::Tell,
            () => Now::Take,
        }
    }

    pub fn error(&self) -> LedgerError {
        self.error.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> LedgerError {
        LedgerError::Poisoned("the disk".to_owned())
    }

    #[test]
    fn it_waits_then_tells_then_tries_again_and_less_often_if_that_fails() {
        let mut now = Instant::now();
        let mut last = Setback::after(None, failed(), now);
        assert_eq!(last.at(now), Now::Wait);
        now += GRACE;
        assert_eq!(last.at(now), Now::Take);
        for rest in [1_000, 4_000, 16_000, 30_000, 30_000].map(Duration::from_millis) {
            last = Setback::after(Some(&last), failed(), now);
            assert_eq!(last.at(now), Now::Wait);
            assert_eq!(last.at(now + GRACE), Now::Tell);
            now += rest;
            assert_eq!(last.at(now), Now::Take, "{rest:?}");
        }
        last = Setback::after(Some(&last), failed(), now + FORGOTTEN);
        assert_eq!(last.at(now + FORGOTTEN + GRACE), Now::Take);
    }
}

//! The retry budget as a token bucket, for ledgers that keep it in memory.

use crate::ledger::Draw;

/// Thousandths of a token.
const TOKEN: u64 = 1_000;

/// A bucket that requests fill and retries empty. Full at first: after a start, retries are not to be refused because there
/// have been few requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bucket {
    level: Option<u64>,
}

impl Bucket {
    /// Puts in what the requests bring, and takes a token if one is wanted and there is one.
    pub fn draw(&mut self, draw: Draw) -> bool {
        let full = u64::from(draw.burst).saturating_mul(TOKEN);
        let brought = draw.requests.saturating_mul(u64::from(draw.per_mille));
        let level = self.level.unwrap_or(full).saturating_add(brought).min(full);
        let taken = draw.take && level >= TOKEN;
        self.level = Some(if taken { level - TOKEN } else { level });
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(requests: u64, take: bool) -> Draw {
        Draw { requests, take, per_mille: 100, burst: 2 }
    }

    #[test]
    fn a_tenth_of_the_requests_may_be_retried_after_the_first_burst() {
        let mut bucket = Bucket::default();
        assert!(bucket.draw(draw(0, true)) && bucket.draw(draw(0, true)));
        assert!(!bucket.draw(draw(9, true)));
        assert!(bucket.draw(draw(1, true)));
        assert!(!bucket.draw(draw(0, true)));
        assert!(!bucket.draw(draw(1_000, false)), "none was wanted");
        assert!(bucket.draw(draw(0, true)) && bucket.draw(draw(0, true)) && !bucket.draw(draw(0, true)));
    }
}

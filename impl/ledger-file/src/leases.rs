//! Whose lease runs, as the holder keeps it: in memory, by a clock that nobody sets.
//!
//! A lease that has run out never runs again, so that is made durable before anybody is told. A new holder grants each owner
//! whose process lives a fresh lease of the same length: later than promised, an owner may lapse; earlier, never.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use settled_protocol::Epoch;
use tokio::time::Instant;

use crate::sync::lock;

/// The length of a lease that isn't known.
const UNKNOWN: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lease {
    Runs {
        until: Instant,
        length: Duration,
    },
    /// It has run out or was given up. The latter counts for more.
    Over {
        retired: bool,
        durable: bool,
    },
}

/// What the leases say of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Runs,
    /// It has run out. `told`: that is durable.
    Lapsed {
        told: bool,
    },
    Retired,
    Unknown,
}

#[derive(Debug, Default)]
pub(crate) struct Leases {
    leases: Mutex<HashMap<Epoch, Lease>>,
}

impl Leases {
    /// Lets a lease run from now on, unless one does or did.
    pub fn grant(&self, epoch: Epoch, length: Option<Duration>) {
        let length = length.filter(|length| !length.is_zero()).unwrap_or(UNKNOWN);
        lock(&self.leases).entry(epoch).or_insert_with(|| runs(length));
    }

    /// Lets a running lease run for this long from now.
    pub fn renew(&self, epoch: Epoch, length: Duration) -> Standing {
        let mut leases = lock(&self.leases);
        let standing = look(&mut leases, epoch);
        if standing == Standing::Runs {
            leases.insert(epoch, runs(length));
        }
        standing
    }

    /// What is known of an owner now.
    pub fn look(&self, epoch: Epoch) -> Standing {
        look(&mut lock(&self.leases), epoch)
    }

    /// Notes that it is durable that a lease is over.
    pub fn ended(&self, epoch: Epoch, retired: bool) {
        let mut leases = lock(&self.leases);
        let was = matches!(leases.get(&epoch), Some(Lease::Over { retired: true, durable: true }));
        leases.insert(epoch, Lease::Over { retired: retired || was, durable: true });
    }

    /// The owners whose leases run, and how long those are; and those whose leases are over for good, and whether they have
    /// retired.
    pub fn list(&self) -> Listed {
        let mut listed = Listed::default();
        for (epoch, lease) in lock(&self.leases).iter() {
            match *lease {
                Lease::Runs { length, .. } => listed.running.push((*epoch, length)),
                Lease::Over { retired, durable: true } => listed.over.push((*epoch, retired)),
                Lease::Over { durable: false, .. } => {}
            }
        }
        listed
    }

    /// Forgets those of whom there is nothing to say any more.
    pub fn retain(&self, mut wanted: impl FnMut(Epoch) -> bool) {
        lock(&self.leases).retain(|epoch, _| wanted(*epoch));
    }
}

/// All leases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    pub running: Vec<(Epoch, Duration)>,
    pub over: Vec<(Epoch, bool)>,
}

fn runs(length: Duration) -> Lease {
    let now = Instant::now();
    // A length that no clock can hold is as good as for ever.
    let until = now.checked_add(length).or_else(|| now.checked_add(Duration::from_secs(u64::from(u32::MAX))));
    Lease::Runs { until: until.unwrap_or(now), length }
}

fn look(leases: &mut HashMap<Epoch, Lease>, epoch: Epoch) -> Standing {
    match leases.get_mut(&epoch) {
        None => Standing::Unknown,
        Some(Lease::Over { retired: true, durable: true }) => Standing::Retired,
        Some(Lease::Over { durable, .. }) => Standing::Lapsed { told: *durable },
        Some(Lease::Runs { until, .. }) if Instant::now() < *until => Standing::Runs,
        Some(lease) => {
            *lease = Lease::Over { retired: false, durable: false };
            Standing::Lapsed { told: false }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(100);

    #[test]
    fn a_lease_that_has_run_out_never_runs_again() {
        let leases = Leases::default();
        let epoch = Epoch(1);
        assert_eq!(leases.look(epoch), Standing::Unknown);
        leases.grant(epoch, Some(Duration::from_millis(30)));
        assert_eq!(leases.renew(epoch, Duration::from_millis(60)), Standing::Runs);
        std::thread::sleep(Duration::from_millis(40));
        assert_eq!(leases.look(epoch), Standing::Runs);
        std::thread::sleep(Duration::from_millis(40));
        assert_eq!(leases.renew(epoch, LONG), Standing::Lapsed { told: false });
        leases.grant(epoch, Some(LONG));
        assert_eq!(leases.look(epoch), Standing::Lapsed { told: false });
        leases.ended(epoch, false);
        assert_eq!(leases.renew(epoch, LONG), Standing::Lapsed { told: true });
        leases.ended(epoch, true);
        leases.ended(epoch, false);
        assert_eq!(leases.renew(epoch, LONG), Standing::Retired);
        leases.grant(Epoch(2), Some(Duration::MAX));
        assert_eq!(leases.look(Epoch(2)), Standing::Runs);
        let running = vec![(Epoch(2), Duration::MAX)];
        assert_eq!(leases.list(), Listed { running, over: vec![(epoch, true)] });
    }
}

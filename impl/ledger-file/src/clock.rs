//! The time that all processes on a ledger share: its holder's.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};
use settled_protocol::Time;

/// A clock that is set once, when it is made, and then only goes on: whoever sets the host's clock doesn't move it.
pub(crate) enum Clock {
    Host {
        /// What to add to the time since the host was started, in milliseconds.
        offset: u64,
    },
    Simulated(Simulated),
}

/// Says what time it is in a simulation.
pub(crate) type Simulated = Arc<dyn Fn() -> Time + Send + Sync>;

impl Clock {
    /// A clock that shows the host's time now.
    pub fn new() -> Clock {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock::Host { offset: millis(wall).saturating_sub(since_start()) }
    }

    pub fn now(&self) -> Time {
        match self {
            Clock::Host { offset } => Time(offset.saturating_add(since_start())),
            Clock::Simulated(now) => now(),
        }
    }
}

/// Milliseconds since the host was started, with the time that it has slept.
fn since_start() -> u64 {
    // Linux has had this clock for longer than any other thing that is needed here.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |since| millis(Duration::from(since)))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shows_the_hosts_time_and_goes_on() {
        let clock = Clock::new();
        let wall = || millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
        let before = clock.now();
        assert!(before.0.abs_diff(wall()) < 50);
        std::thread::sleep(Duration::from_millis(30));
        assert!((25..5000).contains(&clock.now().since(before)));
    }
}

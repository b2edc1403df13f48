//! Clocks: one that all processes on a ledger share, and one that goes on while a process is stopped.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use settled_protocol::{Millis, Time};

use crate::keep::Tries;
use crate::ledger::{Ledger, LedgerError};
use crate::options::Clock;

/// What the shared clocks of two processes may differ by, in milliseconds: added to every time that safety rests on.
pub(crate) const CLOCK_ERROR: Millis = 1_000;

/// A reading of the ledger's clock that took longer than this, in milliseconds, says too little.
const TOO_SLOW: u64 = CLOCK_ERROR / 2;

/// How long the host has been up, including the time that it slept. Setting the host's clock does not change it.
pub(crate) fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    if let Ok(time) = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME) {
        return Duration::from(time);
    }
    static BEGUN: OnceLock<std::time::Instant> = OnceLock::new();
    // Never zero, which stands for "over" elsewhere.
    Duration::from_secs(1) + BEGUN.get_or_init(std::time::Instant::now).elapsed()
}

/// The wall clock as it was when this process first asked, and what has gone by since: it never jumps.
pub(crate) fn steady_wall_clock() -> Time {
    static ANCHOR: OnceLock<(Duration, Duration)> = OnceLock::new();
    let (wall, boot) =
        ANCHOR.get_or_init(|| (SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(), since_boot()));
    let now = wall.saturating_add(since_boot().saturating_sub(*boot));
    Time(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

/// The clock of all processes on one ledger: the ledger's own, if it has one, so that hosts' clocks don't matter.
#[derive(Default)]
pub(crate) struct SharedClock {
    /// The ledger's time minus this process's, in milliseconds.
    offset: AtomicI64,
    last: AtomicU64,
}

impl SharedClock {
    /// Now; never earlier than before.
    pub(crate) fn now(&self, own: &dyn Clock) -> Time {
        let now = own.now().0.saturating_add_signed(self.offset.load(Ordering::Acquire));
        Time(self.last.fetch_max(now, Ordering::AcqRel).max(now))
    }

    /// Reads the ledger's clock. Returns whether it has one.
    ///
    /// # Errors
    /// If it can't be read, or only so slowly that the reading says too little.
    pub(crate) async fn synchronise(&self, ledger: &dyn Ledger, own: &dyn Clock) -> Result<bool, LedgerError> {
        let before = own.running();
        let Some(time) = ledger.time().await? else {
            return Ok(false);
        };
        let now = own.now();
        let took = own.running().saturating_sub(before);
        if took.as_millis() > u128::from(TOO_SLOW) {
            return Err(LedgerError::Unavailable(format!("its clock took {} ms to be read", took.as_millis())));
        }
        let offset = i64::try_from(i128::from(time.0) - i128::from(now.0)).unwrap_or(0);
        self.offset.store(offset, Ordering::Release);
        Ok(true)
    }

    /// As [`synchronise`](SharedClock::synchronise), with patience: nothing may be dated before.
    pub(crate) async fn begin(
        &self,
        ledger: &dyn Ledger,
        own: &dyn Clock,
        patience: Duration,
    ) -> Result<bool, LedgerError> {
        let mut tries = Tries::new(patience);
        loop {
            match self.synchronise(ledger, own).await {
                Ok(has_one) => return Ok(has_one),
                Err(error) => tries.again_after(error).await?,
            }
        }
    }
}

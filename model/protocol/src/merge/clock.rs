//! Event times: a hybrid logical clock, which is close to wall clocks and never before what it has heard of.
//!
//! Kulkarni, Demirbas, Madappa, Avva and Leone, "Logical Physical Clocks" (OPODIS 2014). The `uhlc` crate implements the same,
//! but reads the wall clock itself and keeps its state behind a lock; here a clock is a value, so that it can be a part of an
//! explored state.

use core::fmt;

use crate::record::Millis;

/// An event time: milliseconds since 1970 and, among events of one millisecond, a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HybridTime {
    /// Milliseconds since 1970-01-01T00:00:00Z by the maker's wall clock, or by that of somebody it had heard of.
    pub millis: Millis,
    /// How many events before this one had the same milliseconds.
    pub count: u32,
}

impl HybridTime {
    /// The first event time after this one.
    pub(super) fn next(self) -> HybridTime {
        match self.count.checked_add(1) {
            Some(count) => HybridTime { count, ..self },
            None => HybridTime { millis: self.millis.saturating_add(1), count: 0 },
        }
    }
}

impl HybridTime {
    /// The event time that an operation gets instead of this one if its maker's clock is not believed: it keeps its age by the maker's
    /// clock (`theirs` is that clock's time now, `ours` the time of a clock that is believed), is not in the future, and is after
    /// `after`, all that the maker knew of. So causes stay before their effects, whatever a clock says.
    pub fn redated(self, theirs: Millis, ours: Millis, after: HybridTime) -> HybridTime {
        let age = theirs.saturating_sub(self.millis);
        HybridTime { millis: ours.saturating_sub(age), ..self }.max(after.next())
    }
}

impl fmt::Display for HybridTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.millis, self.count)
    }
}

/// A hybrid logical clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HybridClock {
    last: HybridTime,
    ahead: Millis,
}

/// An event time that is further ahead of the wall clock than is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the event time {heard} is {by} ms ahead of this clock, more than the {allowed} ms that are believed: set the maker's clock"
)]
pub struct TooFarAhead {
    /// The event time.
    pub heard: HybridTime,
    /// By how much it is ahead.
    pub by: Millis,
    /// How much is believed.
    pub allowed: Millis,
}

impl HybridClock {
    /// A clock that goes on behind `last`, and believes event times that are no more than `ahead` milliseconds ahead of the wall
    /// clock.
    pub const fn new(last: HybridTime, ahead: Millis) -> HybridClock {
        HybridClock { last, ahead }
    }

    /// The last event time that it gave or heard of: what has to be kept for it to go on after a restart.
    pub const fn last(&self) -> HybridTime {
        self.last
    }

    /// The event time of what happens now: after everything that this clock gave or heard of, also if the wall clock was set back.
    pub fn tick(&mut self, wall: Millis) -> HybridTime {
        let now = HybridTime { millis: wall, count: 0 };
        self.last = if now > self.last { now } else { self.last.next() };
        self.last
    }

    /// Takes note of an event time that came with an operation of somebody else.
    ///
    /// # Errors
    /// If it is too far ahead: one clock that is days off must not take all others with it. Nothing is noted then.
    pub fn hear(&mut self, heard: HybridTime, wall: Millis) -> Result<(), TooFarAhead> {
        let by = heard.millis.saturating_sub(wall);
        if by > self.ahead {
            return Err(TooFarAhead { heard, by, allowed: self.ahead });
        }
        self.last = self.last.max(heard);
        Ok(())
    }
}

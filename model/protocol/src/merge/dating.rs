//! The event time that the server gives an operation: the device's own, as long as that can be believed.

use super::clock::HybridTime;
use crate::record::Millis;

/// What a redated operation of a device says about the next ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Moved {
    /// The time that it came with.
    pub from: HybridTime,
    /// The time that it got.
    pub to: HybridTime,
}

/// What is known of a device's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Times {
    /// The latest time of its operations.
    pub last: HybridTime,
    /// The redated operation of the latest time.
    pub moved: Option<Moved>,
}

/// The clocks, when an upload came.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The device's.
    pub theirs: Millis,
    /// The server's.
    pub ours: Millis,
    /// How far the device's may be off.
    pub bound: Millis,
}

impl Clocks {
    /// How many milliseconds the device's clock is ahead; negative if behind.
    pub fn ahead(&self) -> i64 {
        let off = i64::try_from(self.theirs.abs_diff(self.ours)).unwrap_or(i64::MAX);
        if self.theirs < self.ours { -off } else { off }
    }

    /// Whether the device's clock is believed: it is not off by more than the bound.
    pub const fn believed(&self) -> bool {
        self.theirs.abs_diff(self.ours) <= self.bound
    }

    /// The time that an operation gets if it can't keep its own. `after` is what its device had heard of by its own account, `latest` the
    /// latest time that the server has given to anything.
    pub fn redate(
        &self,
        time: HybridTime,
        after: HybridTime,
        device: &Times,
        latest: HybridTime,
    ) -> Option<HybridTime> {
        let horizon = self.ours.saturating_add(self.bound);
        // Nobody can have heard of more than there is. A store that was restored from a backup has less than there was, which is no
        // further ahead than this.
        let after = if after.millis > horizon { after.min(latest) } else { after };
        // What its device made before it, and was redated, is before it.
        let cause = after.max(device.before(time));
        if !self.believed() || time.millis > horizon {
            return Some(time.redated(self.theirs, self.ours, cause.max(device.last)));
        }
        let early = cause != HybridTime::default() && time <= cause;
        early.then(|| time.redated(self.ours, self.ours, cause))
    }
}

impl Times {
    /// What the device made before an operation of this time, and was redated, had this time in the end. The least of all times, if there
    /// is no such operation.
    fn before(&self, time: HybridTime) -> HybridTime {
        self.moved.filter(|moved| time > moved.from).map(|moved| moved.to).unwrap_or_default()
    }

    /// The time by which a device shows an operation of its own that the server has not dated yet, if this is what it has heard of its
    /// operations: it stays after what the device made before, though the server has moved that.
    pub fn shown(&self, time: HybridTime) -> HybridTime {
        let before = self.before(time);
        if before == HybridTime::default() { time } else { time.max(before.next()) }
    }

    /// Takes note of an operation's time.
    pub fn note(&mut self, sent: HybridTime, given: HybridTime) {
        self.last = self.last.max(given);
        if sent != given && self.moved.is_none_or(|moved| moved.to < given) {
            self.moved = Some(Moved { from: sent, to: given });
        }
    }
}

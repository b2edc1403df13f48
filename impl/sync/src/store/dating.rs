//! The event time that an operation gets: its own, as long as that can be believed.

use settled_protocol::merge::HybridTime;
use settled_protocol::record::Millis;

use crate::wire::ClockCheck;

/// What a redated operation of a device says about the next ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    /// The time that it came with.
    pub from: HybridTime,
    /// The time that it got.
    pub to: HybridTime,
}

/// What is known of a device's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// The latest time of its operations.
    pub last: HybridTime,
    /// The redated operation of the latest time.
    pub moved: Option<Moved>,
}

/// The clocks, when an upload came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    /// The device's.
    pub theirs: Millis,
    /// The server's.
    pub ours: Millis,
    /// How far the device's may be off.
    pub bound: Millis,
}

impl Clocks {
    pub fn check(&self) -> ClockCheck {
        let off = i64::try_from(self.theirs.abs_diff(self.ours)).unwrap_or(i64::MAX);
        ClockCheck {
            ahead: if self.theirs < self.ours { -off } else { off },
            believed: self.theirs.abs_diff(self.ours) <= self.bound,
            bound: self.bound,
        }
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
        let own = device.moved.filter(|moved| time > moved.from).map(|moved| moved.to).unwrap_or_default();
        let cause = after.max(own);
        if !self.check().believed || time.millis > horizon {
            return Some(time.redated(self.theirs, self.ours, cause.max(device.last)));
        }
        let early = cause != HybridTime::default() && time <= cause;
        early.then(|| time.redated(self.ours, self.ours, cause))
    }
}

impl Times {
    /// Takes note of an operation's time.
    pub fn note(&mut self, sent: HybridTime, given: HybridTime) {
        self.last = self.last.max(given);
        if sent != given && self.moved.is_none_or(|moved| moved.to < given) {
            self.moved = Some(Moved { from: sent, to: given });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: Millis = 86_400_000;
    const NOW: Millis = 1_000 * DAY;
    const BOUND: Millis = 600_000;

    fn at(millis: Millis) -> HybridTime {
        HybridTime { millis, count: 0 }
    }

    fn clocks(theirs: Millis) -> Clocks {
        Clocks { theirs, ours: NOW, bound: BOUND }
    }

    #[test]
    fn a_clock_that_is_a_little_off_is_believed() {
        for theirs in [NOW - BOUND, NOW, NOW + BOUND] {
            assert!(clocks(theirs).check().believed);
            assert_eq!(clocks(theirs).redate(at(theirs), at(0), &Times::default(), at(0)), None);
            // However long ago it was made.
            assert_eq!(clocks(theirs).redate(at(NOW - 90 * DAY), at(0), &Times::default(), at(NOW)), None);
        }
        assert_eq!(clocks(NOW - 5).check().ahead, -5);
        assert!(!clocks(NOW + BOUND + 1).check().believed);
        assert!(!clocks(NOW - BOUND - 1).check().believed);
        assert_eq!(clocks(Millis::MAX).check().ahead, i64::MAX);
    }

    #[test]
    fn what_is_days_off_keeps_its_age() {
        for theirs in [NOW - 3 * DAY, NOW + 3 * DAY] {
            let given = clocks(theirs).redate(at(theirs - 1_000), at(0), &Times::default(), at(0));
            assert_eq!(given, Some(at(NOW - 1_000)));
        }
        // Only the operation is ahead: it lands at now.
        assert_eq!(clocks(NOW).redate(at(NOW + DAY), at(0), &Times::default(), at(0)), Some(at(NOW)));
    }

    #[test]
    fn what_is_heard_of_from_nobody_takes_nobody_along() {
        let far = at(NOW + 30 * DAY);
        let given = clocks(NOW).redate(at(NOW + 31 * DAY), far, &Times::default(), at(NOW - DAY));
        assert_eq!(given, Some(at(NOW)));
        assert_eq!(clocks(NOW).redate(at(NOW), far, &Times::default(), at(NOW - DAY)), None);
    }

    #[test]
    fn an_operation_from_before_its_clock_was_set_is_after_what_it_followed() {
        // Made by a clock three days behind; sent after the clock was set.
        let early = at(NOW - 3 * DAY);
        let heard = HybridTime { millis: NOW - 1_000, count: 4 };
        let given = clocks(NOW).redate(early, heard, &Times::default(), heard);
        assert_eq!(given, Some(HybridTime { millis: NOW - 1_000, count: 5 }));
        // The same, after an operation of its own.
        let mut device = Times::default();
        device.note(at(NOW - 3 * DAY - 5), at(NOW - 7));
        let given = clocks(NOW).redate(early, at(0), &device, at(NOW - 7));
        assert_eq!(given, Some(HybridTime { millis: NOW - 7, count: 1 }));
        // What was made before is not moved.
        assert_eq!(clocks(NOW).redate(at(NOW - 3 * DAY - 6), at(0), &device, at(NOW - 7)), None);
    }

    proptest! {
        /// Whatever a device's clock does between its operations, and whenever these are uploaded: they keep their order, come after what
        /// they had heard of, and none is further ahead than the bound.
        #[test]
        fn causes_come_first(
            made in prop::collection::vec((0u64..10, any::<prop::sample::Index>(), 0u64..10, any::<bool>()), 1..20)
        ) {
            const STEP: Millis = BOUND / 3;
            let (mut clock, mut device) = (HybridTime::default(), Times::default());
            let mut given: Vec<HybridTime> = Vec::new();
            for (reads, heard, uploads, hears) in made {
                let wall = NOW - 5 * STEP + reads * STEP;
                let after = if hears && !given.is_empty() { given[heard.index(given.len())] } else { HybridTime::default() };
                // The device's clock never runs backwards for itself.
                clock = if at(wall) > clock { at(wall) } else { HybridTime { millis: clock.millis, count: clock.count + 1 } };
                let latest = given.iter().max().copied().unwrap_or_default();
                let clocks = clocks(NOW - 5 * STEP + uploads * STEP);
                let time = clocks.redate(clock, after, &device, latest);
                device.note(clock, time.unwrap_or(clock));
                let time = time.unwrap_or(clock);
                prop_assert!(time > after);
                prop_assert!(given.iter().all(|before| *before < time), "{given:?} then {time}");
                prop_assert!(time.millis <= NOW + BOUND);
                given.push(time);
            }
        }
    }
}

//! Event times are corrected where a clock can't be believed, and causes stay before their effects.

use proptest::prelude::*;
use settled_protocol::merge::{Clocks, HybridTime, Times};
use settled_protocol::record::Millis;

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
        assert!(clocks(theirs).believed());
        assert_eq!(clocks(theirs).redate(at(theirs), at(0), &Times::default(), at(0)), None);
        // However long ago it was made.
        assert_eq!(clocks(theirs).redate(at(NOW - 90 * DAY), at(0), &Times::default(), at(NOW)), None);
    }
    assert_eq!(clocks(NOW - 5).ahead(), -5);
    assert!(!clocks(NOW + BOUND + 1).believed());
    assert!(!clocks(NOW - BOUND - 1).believed());
    assert_eq!(clocks(Millis::MAX).ahead(), i64::MAX);
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

#[test]
fn what_the_server_moves_does_not_hide_what_its_device_did_next() {
    let mut heard = Times::default();
    assert_eq!(heard.shown(at(NOW - 3 * DAY)), at(NOW - 3 * DAY));
    heard.note(at(NOW - 3 * DAY), at(NOW));
    let next = HybridTime { millis: NOW, count: 1 };
    assert_eq!(heard.shown(at(NOW - 3 * DAY + 1)), next);
    // One that waits as well stays behind that.
    heard.note(at(NOW - 3 * DAY + 1), next);
    assert_eq!(heard.shown(at(NOW - 3 * DAY + 2)), HybridTime { millis: NOW, count: 2 });
    // What is later anyway keeps its time, and so does what was done before, or with a clock that was set back.
    for time in [at(NOW + 1), at(NOW - 3 * DAY), at(NOW - 4 * DAY)] {
        assert_eq!(heard.shown(time), time);
    }
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

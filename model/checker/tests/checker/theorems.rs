//! Three theorems about tool calls, each decided for a grid of worlds.
//!
//! * **Keys.** Where no key comes from the caller, a wish is suppressed or an effect is repeated, whatever the repeat rule
//!   and its window. With a caller's key and a window that covers its retries, neither happens.
//! * **Absence.** "Not found" is no licence to send again while a send may be pending. Waiting until none can be, or a seal,
//!   is what makes it one.
//! * **Retention.** What remembers a key must remember it for longer than the last repetition can take to arrive: a shorter
//!   memory repeats an effect, a longer one never does. The inequalities, in units of the model's time, stand at the tests.

use crate::support::{assert_holds, found, trace, violated, violates};
use settled_model::PropertyName::{self, *};
use settled_model::Report;

const REPEAT_RULES: [&str; 2] = ["replay", "new-after-delivery"];

fn two_wishes(key: &str, repeat: &str, window: u8) -> Report {
    found(&format!(
        "caller.operations = 2; caller.calls = 1; caller.same-arguments = true; caller.horizon = 1
        caller.key = '{key}'; guard.repeat = '{repeat}'; guard.window = {window}"
    ))
}

/// One wish, whose call is made again: because its step was run again, or because its answer was lost.
fn one_wish(key: &str, again: &str, horizon: u8, repeat: &str, window: u8) -> Report {
    found(&format!(
        "caller.key = '{key}'; caller.horizon = {horizon}; guard.repeat = '{repeat}'; guard.window = {window}
        faults.{again} = 1"
    ))
}

const AGAIN: [&str; 2] = ["reruns", "caller-partitions"];

#[test]
fn without_a_callers_key_a_wish_is_suppressed_or_an_effect_repeated() {
    for repeat in REPEAT_RULES {
        for window in 0..=4 {
            let wishes = two_wishes("arguments", repeat, window);
            assert!(violates(&wishes, NoSuppression), "{repeat}, window {window}: {:?}", violated(&wishes));
            let run = trace(&wishes, NoSuppression);
            assert_eq!(run.effects.iter().sum::<usize>(), 1, "two callers were told of one effect:\n{}", run.text());
        }
    }
    // Freeing the key once its answer was delivered makes room for a second wish, and repeats the first one's effect.
    for window in 0..=4 {
        for again in AGAIN {
            let retried = one_wish("arguments", again, 1, "new-after-delivery", window);
            assert!(violates(&retried, AtMostOnce), "{again}, window {window}: {:?}", violated(&retried));
        }
    }
    // So does freeing it after a while.
    for (window, horizon) in [(1, 2), (1, 3), (2, 3), (3, 4)] {
        for again in AGAIN {
            let retried = one_wish("arguments", again, horizon, "replay", window);
            assert!(violates(&retried, AtMostOnce), "{again}, window {window}: {:?}", violated(&retried));
        }
    }
}

#[test]
fn with_a_callers_key_neither_happens() {
    for window in 0..=4 {
        assert_eq!(violated(&two_wishes("caller", "replay", window)), [], "window {window}");
        for again in AGAIN {
            assert_eq!(violated(&one_wish("caller", again, 1, "replay", window)), [], "{again}, window {window}");
        }
    }
}

/// A caller's key that its guard frees on delivery is as good as none.
#[test]
fn a_callers_key_that_is_freed_repeats_effects_too() {
    for again in AGAIN {
        assert!(violates(&one_wish("caller", again, 1, "new-after-delivery", 0), AtMostOnce), "{again}");
    }
}

/// Every way in which a send can be pending when the tool says "not found".
const PENDING: [(&str, &str); 5] = [
    ("a timeout, and the question overtakes", "faults.timeouts = 1; faults.reorderings = 1"),
    ("the connection ended under it", "faults.tool-partitions = 1"),
    ("its sender died after it", "faults.guard-crashes = 1"),
    ("its owner is alive and has yet to send", "guard.processes = 2; faults.takeovers = 1"),
    ("its owner pauses", "guard.processes = 2; faults.takeovers = 1; faults.pauses = 1"),
];

#[test]
fn not_found_is_no_licence_to_send_again_while_a_send_may_be_pending() {
    for (way, faults) in PENDING {
        let asked = format!("tool.kind = 'observable'; {faults}");
        let rash = found(&format!("{asked}; guard.rules.wait-for-quiet = false"));
        assert!(violates(&rash, AtMostOnce), "{way}: {:?}", violated(&rash));
        assert!(violates(&rash, UnknownBlocks), "{way}: {:?}", violated(&rash));
        // The second attempt is under way before its effect is made.
        assert!(trace(&rash, UnknownBlocks).steps.len() < trace(&rash, AtMostOnce).steps.len(), "{way}");
        assert_holds(&format!("{asked}; guard.rules.wait-for-quiet = true"));
    }
}

#[test]
fn a_seal_is_a_licence_at_any_time() {
    for (_, faults) in PENDING {
        // Nothing in it depends on time, so that no pause can matter.
        let faults = faults.replace("; faults.pauses = 1", "");
        for quiet in [true, false] {
            assert_holds(&format!("tool.kind = 'sealable'; guard.rules.wait-for-quiet = {quiet}; {faults}"));
        }
    }
}

/// Where every send has surely arrived, "not found" is true: nobody needs to wait.
#[test]
fn not_found_may_be_believed_where_nothing_can_be_pending() {
    for faults in ["faults.timeouts = 1", "faults.lost-requests = 1; faults.lost-replies = 1"] {
        assert_holds(&format!("tool.kind = 'observable'; guard.rules.wait-for-quiet = false; {faults}"));
    }
}

/// Compares the verdict with an inequality all over a grid; both answers must occur.
struct Grid {
    repeated: usize,
    once: usize,
}

impl Grid {
    fn new() -> Grid {
        Grid { repeated: 0, once: 0 }
    }

    /// Effects are repeated if and only if this is `too_short`.
    fn decide(&mut self, lines: &str, too_short: bool) {
        let report = found(lines);
        let expected: &[PropertyName] = if too_short { &[AtMostOnce] } else { &[] };
        let mine: Vec<_> = violated(&report).into_iter().filter(|property| *property == AtMostOnce).collect();
        assert_eq!(mine, expected, "{lines}");
        if too_short {
            self.repeated += 1;
        } else {
            assert_eq!(violated(&report), [], "{lines}");
            self.once += 1;
        }
    }

    fn done(self) {
        assert!(self.repeated >= 10 && self.once >= 10, "{} repeated, {} once", self.repeated, self.once);
    }
}

fn faults(bounds: &[(&str, u8)]) -> String {
    bounds.iter().filter(|(_, bound)| *bound > 0).map(|(name, bound)| format!("; faults.{name} = {bound}")).collect()
}

/// A tool that remembers a key for `remembers`, called directly: it repeats an effect if and only if
/// `remembers ≤ horizon + delays`.
#[test]
fn a_tools_memory_must_outlast_the_last_call() {
    let mut grid = Grid::new();
    for remembers in 1..=5 {
        for horizon in 1..=3 {
            for delays in 0..=2 {
                let lines = format!(
                    "guard.processes = 0; tool.kind = 'deduplicates'; tool.remembers = {remembers}
                    caller.horizon = {horizon}; faults.reruns = 1{}",
                    faults(&[("delays", delays)])
                );
                grid.decide(&lines, remembers <= horizon + delays);
            }
        }
    }
    grid.done();
}

/// A guard that sends again while it believes that the tool still remembers the key repeats an effect if and only if
/// `margin < min(pauses + delays, remembers) + jumps`: one whose margin is as long as the tool's memory never sends again,
/// unless its clock goes back.
#[test]
fn a_guards_margin_must_cover_pauses_delays_and_clocks() {
    let mut grid = Grid::new();
    for remembers in 2..=4 {
        for margin in 0..=3 {
            for (pauses, delays, jumps) in
                [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1), (1, 1, 1), (2, 1, 0)]
            {
                let lines = format!(
                    "tool.kind = 'deduplicates'; tool.remembers = {remembers}; guard.margin = {margin}
                    faults.timeouts = 1{}",
                    faults(&[("pauses", pauses), ("delays", delays), ("clock-jumps", jumps)])
                );
                grid.decide(&lines, margin < remembers.min(pauses + delays) + jumps);
            }
        }
    }
    grid.done();
}

/// Of two guards one takes up what the other has left, by its own clock: the same with `skews` for `jumps`.
#[test]
fn a_guards_margin_must_cover_the_skew_between_two() {
    for margin in 0..=2 {
        for skews in 0..=2 {
            let lines = format!(
                "guard.processes = 2; tool.kind = 'deduplicates'; tool.remembers = 3; guard.margin = {margin}
                faults.guard-crashes = 1{}",
                faults(&[("clock-skews", skews)])
            );
            assert_eq!(violates(&found(&lines), AtMostOnce), margin < skews, "{lines}");
        }
    }
}

/// A guard that keeps a settled record for `window` repeats an effect if and only if
/// `window < horizon + delays + jumps + skews`; skews count where the guard that settled is not the one that is asked.
#[test]
fn a_record_must_outlast_the_last_call() {
    let mut grid = Grid::new();
    for window in 1..=5 {
        for horizon in 1..=2 {
            for (delays, jumps, skews) in
                [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (2, 0, 0), (0, 2, 0), (0, 0, 1), (0, 0, 2), (1, 0, 1)]
            {
                let processes = if skews > 0 { 2 } else { 1 };
                let lines = format!(
                    "guard.window = {window}; guard.processes = {processes}; caller.horizon = {horizon}
                    faults.reruns = 1{}",
                    faults(&[("delays", delays), ("clock-jumps", jumps), ("clock-skews", skews)])
                );
                grid.decide(&lines, window < horizon + delays + jumps + skews);
            }
        }
    }
    grid.done();
}

/// A record that is kept for ever, or until the caller surely calls no more, is never missed.
#[test]
fn what_is_kept_for_ever_is_never_missed() {
    for again in AGAIN {
        assert_holds(&format!(
            "caller.horizon = 3; faults.{again} = 2; faults.delays = 2; tool.kind = 'observable'
            tool.settling = 3"
        ));
    }
}

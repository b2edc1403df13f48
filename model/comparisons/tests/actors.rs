//! What the actor framework finds about at-most-once calls.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use settled_comparisons::actors::{Setting, model};
use settled_comparisons::engines::{Limits, Search, stateright};

fn violated(setting: Setting) -> Vec<String> {
    let breadth = stateright(model(setting), Search::Breadth, &Limits::default());
    let depth = stateright(model(setting), Search::Depth, &Limits::default());
    assert!(breadth.exhaustive && depth.exhaustive);
    assert_eq!(breadth.unique_states, depth.unique_states, "{setting:?}");
    assert!(breadth.unique_states > 20, "{breadth:?}");
    assert_eq!(breadth.violated, depth.violated);
    breadth.violated
}

#[test]
fn a_direct_caller_that_calls_again_makes_two_effects() {
    assert_eq!(violated(Setting::DIRECT), ["at-most-once"]);
}

#[test]
fn a_direct_caller_is_safe_if_the_tool_deduplicates_or_it_calls_once() {
    assert!(violated(Setting { deduplicates: true, ..Setting::DIRECT }).is_empty());
    assert!(violated(Setting { calls: 1, duplicates: false, crashes: 1, ..Setting::DIRECT }).is_empty());
}

#[test]
fn a_guard_makes_it_safe_unless_the_network_below_it_duplicates() {
    assert!(violated(Setting::GUARDED).is_empty());
    // (Without loss, which a duplicating network makes expensive: its messages never go away.)
    let duplicated = Setting { duplicates: true, loses: false, ..Setting::GUARDED };
    assert_eq!(violated(duplicated), ["at-most-once"]);
    assert!(violated(Setting { deduplicates: true, ..duplicated }).is_empty());
}

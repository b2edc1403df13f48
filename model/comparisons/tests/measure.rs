//! Runs are measured in a process of their own, and shown.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

use settled_comparisons::engines::{Limits, Search, stateright};
use settled_comparisons::measure::{Counted, MeasureError, in_child, report};
use settled_comparisons::{Row, TwoPhaseCommit, table};

/// Only ever run by the others, as the process that is measured.
#[test]
#[ignore = "part of another test"]
fn child() {
    let model = TwoPhaseCommit { managers: std::env::var("MANAGERS").unwrap().parse().unwrap() };
    report(|| stateright(model, Search::Breadth, &Limits::default())).unwrap();
}

fn this(managers: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture"]).env("MANAGERS", managers);
    command
}

#[test]
fn a_run_in_a_process_of_its_own_is_measured() {
    let its = in_child(&mut this("6")).unwrap();
    assert_eq!(its.counted.unique_states, 50_816);
    assert!(its.seconds > 0.0);
    if cfg!(target_os = "linux") {
        // At the very least the fingerprints; and nothing near what this machine has.
        let bytes = its.peak_bytes.unwrap();
        assert!((8 * 50_816..200_000_000).contains(&bytes), "{bytes}");
    }
    let shown = table(&[Row::measured("two-phase commit", "stateright", &its)]);
    assert!(shown.contains("50,816") && shown.contains("all hold"), "{shown}");
}

#[test]
fn a_run_that_fails_is_no_measurement() {
    let error = in_child(&mut this("many")).unwrap_err();
    assert!(matches!(error, MeasureError::Ended { .. }), "{error}");
    assert!(error.to_string().contains("ParseIntError"), "{error}");
}

#[test]
fn few_states_say_nothing_of_memory_and_half_a_run_nothing_of_the_rest() {
    let counted =
        Counted { unique_states: 288, transitions: 1_145, violated: vec!["settles".into()], exhaustive: false };
    let its = settled_comparisons::measure::here(|| counted);
    let row = Row::measured("m", "e", &its);
    assert_eq!(row.bytes_per_state, None);
    assert_eq!(row.verdict, "violated: settles (not finished)");
}

//! What is measured can be handed to another process, and what came out is judged honestly.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use settled_comparisons::aims::{Aim, aims, lines};
use settled_comparisons::growth::{Over, Point, svg};
use settled_comparisons::measure::here;
use settled_comparisons::suite::{Group, How, Outcome, Who, items, run, slowest_unsafe};
use settled_comparisons::{By, Row, Work, table};

fn outcome(group: Group, who: Who, what: &str, seconds: f64, finished: bool) -> Outcome {
    let row = Row {
        what: what.into(),
        engine: "breadth first, 1 thread".into(),
        unique_states: 200_000,
        seconds,
        states_per_second: 200_000.0 / seconds,
        bytes_per_state: Some(65.0),
        verdict: "violated: settles".into(),
    };
    Outcome { group, row, finished, who }
}

fn met(aims: &[Aim], part: &str) -> Option<bool> {
    let its: Vec<_> = aims.iter().filter(|its| its.aim.contains(part)).collect();
    assert_eq!(its.len(), 1, "{part}: {aims:?}");
    its[0].met
}

#[test]
fn an_aim_is_met_only_if_what_was_measured_says_so() {
    let ours = outcome(Group::Shipped, Who::Settled, "world", 1.0, true);
    let theirs = |seconds, finished| outcome(Group::Shipped, Who::Stateright, "world", seconds, finished);
    for (seconds, finished, is) in [
        (5.0, true, Some(true)),
        (4.9, true, Some(false)),
        (5.0, false, Some(true)),
        // Stopped too early to tell.
        (4.9, false, None),
    ] {
        let all = aims(&[ours.clone(), theirs(seconds, finished)]);
        assert_eq!(met(&all, "plain stateright: world"), is, "{seconds} {finished}");
    }
    // The faster of two counts.
    let all = aims(&[ours.clone(), theirs(50.0, true), theirs(2.0, true)]);
    assert_eq!(met(&all, "plain stateright: world"), Some(false));
    assert_eq!(met(&all, "64 bytes"), Some(false));
    let small = Outcome { row: Row { unique_states: 99_000, ..ours.row.clone() }, ..ours.clone() };
    assert_eq!(met(&aims(&[small]), "64 bytes"), None);
    for (seconds, finished, is) in [(9.9, true, true), (10.1, true, false), (1.0, false, false)] {
        let all = aims(&[outcome(Group::TwoOfEach, Who::Settled, "world", seconds, finished)]);
        assert_eq!(met(&all, "two faults of each kind"), Some(is), "{seconds} {finished}");
    }
    let spin = |seconds| aims(&[ours.clone(), outcome(Group::Shipped, Who::Spin, "world", seconds, true)]);
    assert_eq!((met(&spin(1.1), "Spin"), met(&spin(0.9), "Spin")), (Some(true), Some(false)));
    assert!(lines(&spin(0.9)).contains("✗ ahead of Spin"));
}

#[test]
fn of_what_is_not_safe_the_slowest_stays() {
    let mut all: Vec<_> = [0.2, 0.9, 0.4]
        .map(|seconds| outcome(Group::Unsafe, Who::Settled, &format!("world {seconds}"), seconds, true))
        .into();
    all.push(outcome(Group::Shipped, Who::Settled, "other", 2.0, true));
    let mut safe = outcome(Group::Unsafe, Who::Settled, "safe after all", 5.0, true);
    safe.row.verdict = "all hold".into();
    all.push(safe);
    assert_eq!(slowest_unsafe(&mut all), 3);
    let left: Vec<_> = all.iter().map(|its| its.row.what.as_str()).collect();
    assert_eq!(left, ["other", "slowest of 3 that are not safe: world 0.9"]);
    assert_eq!(met(&aims(&all), "within 1 s"), Some(true));
}

#[test]
fn every_work_survives_the_way_to_another_process() {
    for quick in [false, true] {
        let items = items(quick).unwrap();
        for work in items.iter().filter_map(|item| if let How::Here(work) = &item.how { Some(work) } else { None }) {
            let text = serde_json::to_string(work).unwrap();
            assert_eq!(serde_json::from_str::<Work>(&text).unwrap(), *work);
        }
        for group in [Group::TwoPhaseCommit, Group::Actors, Group::Shipped, Group::SpinFaults, Group::TwoOfEach] {
            assert!(items.iter().any(|item| item.group == group), "{group:?}");
        }
    }
}

#[test]
fn small_ones_are_run_and_shown() {
    let items = items(true).unwrap();
    let small = items.iter().filter(|item| item.group == Group::Actors && matches!(item.how, How::Here(_)));
    let mut measure = |work: &Work| Ok(here(|| work.run().unwrap()));
    let outcomes: Vec<_> = small.map(|item| run(item, &mut measure).unwrap()).collect();
    let found: Vec<_> = outcomes.iter().map(|its| (its.who, its.finished, its.row.verdict.as_str())).collect();
    assert_eq!(
        found,
        [
            (Who::Stateright, true, "violated: at-most-once"),
            (Who::Settled, true, "violated: at-most-once, unknown blocks"),
            (Who::Stateright, true, "all hold"),
            (Who::Settled, true, "all hold"),
        ]
    );
    assert!(table(&[Row::missing("m", "Spin")]).contains("apt-get install spin gcc"));
}

#[test]
fn what_was_stopped_is_drawn_hollow() {
    let point = |bound, finished| Point {
        protocol: "settled-opaque",
        over: Over::Faults,
        bound,
        by: By::Settled,
        states: 1_000,
        seconds: 0.1,
        finished,
    };
    let circles = |points: &[Point]| {
        let text = svg(points).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        let of = |fill: &str| text.lines().filter(|its| its.starts_with("<circle") && its.contains(fill)).count();
        (of("fill=\"#0072B2\""), of("fill=\"none\""))
    };
    let (filled, hollow) = circles(&[]);
    // Each is drawn twice: states and seconds.
    assert_eq!(circles(&[point(0, true), point(1, true), point(2, false)]), (filled + 4, hollow + 2));
}

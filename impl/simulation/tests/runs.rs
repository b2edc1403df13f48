//! Runs are well, and take the same course every time.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

use settled_simulation::{Plan, Profile, Runs, Summary, reachable};

const PRINTS: &str = "PRINTS_DIGESTS";

fn digests() -> Vec<String> {
    let run = |seed| {
        let outcome = Plan::draw(seed, Profile::Stormy, None).run(false).unwrap();
        format!("{seed}: {:016x} {}", outcome.digest, outcome.events)
    };
    (0..200).map(run).collect()
}

#[test]
fn a_seed_takes_the_same_course_every_time_in_every_process() {
    if std::env::var_os(PRINTS).is_some() {
        digests().iter().for_each(|digest| println!("{digest}"));
        return;
    }
    let here = digests();
    assert_eq!(here, digests());
    let elsewhere = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "a_seed_takes_the_same_course_every_time_in_every_process"])
        .env(PRINTS, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8(elsewhere.stdout).unwrap();
    let there: Vec<&str> = printed.lines().filter(|line| line.contains(": ") && !line.starts_with("test ")).collect();
    assert_eq!(here, there);
    assert_ne!(here[0].split_once(' ').unwrap().1, here[1].split_once(' ').unwrap().1);
}

fn runs(profile: Profile, from: u64) -> Summary {
    let runs = Runs { from, count: 1_000, profile, plant: None, jobs: 2, enough: 10 };
    let summary = runs.run(&|_| {}).unwrap();
    assert!(summary.failed.is_empty(), "{:#?}", summary.failed);
    assert_eq!(summary.runs, 1_000);
    summary
}

#[test]
fn stormy_runs_are_well_and_come_through_nearly_everything() {
    let summary = runs(Profile::Stormy, 0);
    let coverage = &summary.coverage;
    let unexpected: Vec<String> =
        coverage.transitions.keys().filter(|seen| !reachable().contains(seen)).map(ToString::to_string).collect();
    assert!(unexpected.is_empty(), "the core is not known to do this: {unexpected:?}");
    assert_eq!(coverage.missed_faults(), Vec::<&str>::new());
    assert_eq!(coverage.missed_states(), Vec::<&str>::new());
    let missed = coverage.missed_transitions().len();
    assert!(missed * 5 < reachable().len(), "{missed} of {} transitions are missed", reachable().len());
}

#[test]
fn calm_runs_are_well() {
    let summary = runs(Profile::Calm, 1_000_000);
    assert!(summary.effects > 1_000);
}

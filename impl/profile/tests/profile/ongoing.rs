//! Reports that are gone on with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use settled_profile::matrix::{Plan, expected};
use settled_profile::report::{Ongoing, OngoingError, read};
use settled_profile::run::Programs;
use settled_profile::{Cell, Outcome};
use tokio::sync::Semaphore;

use crate::sample::{adapter, profile, report, result, run};

fn measured(variant: &str, repeat: usize) -> settled_profile::Profile {
    let runs = vec![run(Outcome::Once, &[1, 1, 1]); repeat];
    profile("toy", "1", variant, None, vec![result(Cell::NoFault, runs)])
}

#[test]
fn what_has_been_measured_is_in_the_file_at_once_and_only_once() {
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("report.json");
    let mut ongoing = Ongoing::go_on(report(Vec::new()), &file).unwrap();
    ongoing.add(measured("x", 1)).unwrap();
    assert_eq!(read(&file).unwrap().profiles.len(), 1);
    drop(ongoing);

    let later = settled_profile::Report { seed: 8, made: "later".to_owned(), ..report(Vec::new()) };
    let mut ongoing = Ongoing::go_on(later, &file).unwrap();
    assert_eq!((ongoing.report().seed, ongoing.report().made.as_str()), (7, "2026-11-30T17:00:00Z"));
    ongoing.add(measured("y", 1)).unwrap();
    ongoing.add(measured("x", 3)).unwrap();
    let both = read(&file).unwrap().profiles;
    let runs: Vec<_> = both.iter().map(|profile| (profile.variant.as_str(), profile.cells[0].runs.len())).collect();
    assert_eq!(runs, [("y", 1), ("x", 3)]);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn runs_that_there_are_count_when_there_are_to_be_more() {
    let directory = tempfile::TempDir::new().unwrap();
    let (adapter, variant) = adapter("workflow-journal", directory.path());
    let once = |times| vec![run(Outcome::Once, &[1, 1, 1]); times];
    let cells = vec![
        result(Cell::NoFault, once(5)),
        result(Cell::KillAfterEffect, once(3)),
        result(Cell::KillAtWrites, once(9)),
        result(Cell::KillAtRandom, once(2)),
    ];
    let measured = profile("toy", "1", "x", None, cells);
    let mut ongoing = Ongoing::new(report(Vec::new()), None);
    ongoing.add(measured).unwrap();
    let cells = vec![Cell::NoFault, Cell::KillAfterEffect, Cell::KillAtWrites, Cell::KillAtRandom, Cell::AnswerLost];
    let mut plan = Plan {
        programs: Programs { settled: "settled".into(), tool: Vec::new() },
        cells,
        repeat: 5,
        made: BTreeMap::new(),
        seed: 1,
        behind: None,
        deadline: Duration::from_secs(60),
        keep: None,
        jobs: Arc::new(Semaphore::new(1)),
        postgres: None,
    };
    let lacks = ongoing.lacks(&plan, &adapter, &variant);
    assert_eq!(lacks, [Cell::KillAfterEffect, Cell::KillAtRandom, Cell::AnswerLost]);
    plan.made = ongoing.made(&plan, &adapter, &variant, &lacks);
    plan.cells = lacks;
    let made: Vec<_> = plan.made.iter().map(|(cell, runs)| (*cell, runs.len())).collect();
    assert_eq!(made, [(Cell::KillAfterEffect, 3), (Cell::KillAtRandom, 2)]);
    assert_eq!(expected(&plan, &adapter, &variant), 2 + 3 + 5);
    // Which writes are struck depends on how many of them are.
    assert!(ongoing.made(&plan, &adapter, &variant, &[Cell::KillAtWrites]).is_empty());
}

#[test]
fn what_was_measured_elsewhere_is_not_gone_on_with() {
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("report.json");
    Ongoing::new(report(Vec::new()), Some(file.clone())).add(measured("x", 1)).unwrap();
    let before = std::fs::read_to_string(&file).unwrap();
    let mut other = report(Vec::new());
    other.machine.cores += 1;
    let refused = Ongoing::go_on(other, &file).unwrap_err();
    assert!(matches!(refused, OngoingError::Elsewhere { what: "on another machine", .. }), "{refused}");
    let other = settled_profile::Report { settled: "9".to_owned(), ..report(Vec::new()) };
    assert!(Ongoing::go_on(other, &file).unwrap_err().to_string().contains("another version of settled"));
    std::fs::write(&file, "{").unwrap();
    assert!(matches!(Ongoing::go_on(report(Vec::new()), &file), Err(OngoingError::Read(_))));
    std::fs::write(&file, &before).unwrap();

    let nowhere = Some(directory.path().join("no/report.json"));
    assert!(
        Ongoing::new(report(Vec::new()), nowhere)
            .add(measured("x", 1))
            .unwrap_err()
            .to_string()
            .contains("no/report.json")
    );
}

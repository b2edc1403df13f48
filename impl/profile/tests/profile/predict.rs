//! What the model predicts, held against its own lists and against what is known of its protocols.

use settled_model::{Description, Fault, PropertyName, library};
use settled_profile::predict::{annotate, fault, possible, property};
use settled_profile::{Cell, Outcome, Run};

use crate::sample::{adapter, missed, profile, result, run};

fn shipped(name: &str) -> Description {
    library::load(name).unwrap()
}

fn described(text: &str) -> Description {
    toml::from_str(&format!("name = \"x\"\nabout = \"y\"\n{text}")).unwrap()
}

fn kinds(protocol: &Description, behind: bool, cell: Cell) -> Vec<&'static str> {
    possible(protocol, behind, cell).unwrap_or_else(|| panic!("{cell}")).into_iter().collect()
}

#[test]
fn faults_and_properties_are_the_models() {
    for cell in Cell::ALL {
        assert!(fault(*cell).is_none_or(|fault| Fault::ALL.contains(&fault)), "{cell}");
        assert!(property(*cell).is_none_or(|property| PropertyName::ALL.contains(&property)), "{cell}");
    }
}

#[test]
fn a_journal_repeats_the_step_under_way_and_no_other() {
    let journal = shipped("workflow-journal");
    for (cell, wanted) in [
        (Cell::NoFault, &["once"][..]),
        (Cell::KillBeforeEffect, &["once"]),
        (Cell::KillAfterEffect, &["duplicate"]),
        (Cell::KillAfterAnswer, &["duplicate"]),
        (Cell::KillAfterRecord, &["once"]),
        (Cell::KillAtRandom, &["duplicate", "once"]),
        (Cell::AnswerLost, &["duplicate"]),
        (Cell::AnswersLost, &["duplicate"]),
        (Cell::LateEffect, &["duplicate"]),
        // The signal may end the process, or cancel the run for good.
        (Cell::Cancelled, &["duplicate", "error", "lost"]),
        (Cell::ToolRestarted, &["duplicate"]),
        (Cell::DeliveredTwice, &["duplicate"]),
        (Cell::ClockJumped, &["duplicate"]),
        (Cell::ResumedTwice, &["once"]),
        (Cell::ApprovedThenKilled, &["duplicate"]),
    ] {
        assert_eq!(kinds(&journal, false, cell), wanted, "{cell}");
    }
}

#[test]
fn checkpoints_make_the_difference_that_they_are_known_for() {
    let of = |name, cell| kinds(&shipped(name), false, cell);
    // Whether b's checkpoint was written when c is called is a matter of luck.
    assert_eq!(of("langgraph-checkpoint-sync", Cell::KillAfterRecord), ["once"]);
    assert_eq!(of("langgraph-checkpoint-async", Cell::KillAfterRecord), ["duplicate", "once"]);
    assert_eq!(of("langgraph-checkpoint-exit", Cell::KillAfterRecord), ["duplicate"]);
    // Started again from its input, a is done again.
    assert_eq!(of("langgraph-checkpoint-sync", Cell::KillBeforeEffect), ["once"]);
    assert_eq!(of("langgraph-checkpoint-exit", Cell::KillBeforeEffect), ["duplicate"]);
}

#[test]
fn a_run_that_nobody_goes_on_with_is_lost() {
    let lost = described(
        "[caller]\nsequential = true\ncheckpoint = \"at-end\"\nafter-crash = \"stop\"\n[guard]\nprocesses = 0\n",
    );
    // Whether it says so, or says that it knows no such run, is not in the model.
    assert_eq!(kinds(&lost, false, Cell::KillAfterEffect), ["error", "lost"]);
    // The process that came to the approval ended well, and left something to go on with.
    assert_eq!(kinds(&lost, false, Cell::ApprovedThenKilled), ["duplicate"]);
    // Between the answer to b and its record c has not begun: there is no luck in it.
    let no_resume = described("[caller]\nsequential = true\nafter-crash = \"stop\"\n[guard]\nprocesses = 0\n");
    assert_eq!(kinds(&no_resume, false, Cell::KillAfterAnswer), ["error", "lost"]);
    assert_eq!(kinds(&no_resume, false, Cell::KillAtRandom), ["error", "lost", "once"]);
    // The input starts it again.
    assert_eq!(kinds(&lost, false, Cell::ResumedWithInput), ["duplicate"]);
}

#[test]
fn what_follows_a_failed_step_is_the_protocols_choice() {
    let after =
        |what| described(&format!("[caller]\nsequential = true\nafter-silence = \"{what}\"\n[guard]\nprocesses = 0\n"));
    for cell in [Cell::AnswerLost, Cell::AnswersLost, Cell::LateEffect, Cell::ToolRestarted] {
        assert_eq!(kinds(&after("retry"), false, cell), ["duplicate"], "{cell}");
        assert_eq!(kinds(&after("stop"), false, cell), ["error", "lost"], "{cell}");
    }
    let again = described("[caller]\nsequential = true\nafter-cancel = \"retry\"\n[guard]\nprocesses = 0\n");
    assert_eq!(kinds(&again, false, Cell::Cancelled), ["duplicate"]);
    // A signal may leave more than a kill.
    let mut exits_well = again.clone();
    exits_well.caller.after_crash = settled_model::description::Again::Stop;
    assert_eq!(kinds(&exits_well, false, Cell::Cancelled), ["duplicate"]);
    assert_eq!(kinds(&exits_well, false, Cell::KillAfterEffect), ["error", "lost"]);
    // Who gives up on its guard while that waits for a slow tool is not in the model.
    assert_eq!(possible(&after("stop"), true, Cell::LateEffect), None);
    assert_eq!(kinds(&after("retry"), true, Cell::LateEffect), ["once"]);
    // A kill is no failure of the step.
    assert_eq!(kinds(&after("stop"), false, Cell::KillAfterEffect), ["duplicate"]);
}

#[test]
fn behind_settled_nothing_is_repeated() {
    for name in ["workflow-journal", "langgraph-checkpoint-async", "langgraph-checkpoint-exit"] {
        for cell in Cell::ALL {
            let found = possible(&shipped(name), true, *cell);
            // What a person is asked about is unfinished.
            let harmless = |kind: &&str| matches!(*kind, "once" | "error" | "lost");
            assert!(found.is_none_or(|found| found.iter().all(harmless)), "{name} {cell}");
        }
        for cell in [
            Cell::KillAfterEffect,
            Cell::AnswersLost,
            Cell::LateEffect,
            Cell::DeliveredTwice,
            Cell::ApprovedAtOnce,
            Cell::ClockJumped,
        ] {
            assert_eq!(kinds(&shipped(name), true, cell), ["once"], "{name} {cell}");
        }
    }
}

#[test]
fn what_the_model_cannot_say_is_not_predicted() {
    let journal = shipped("workflow-journal");
    for cell in [Cell::DiskFull, Cell::DiskReadOnly, Cell::TornWrite, Cell::ParallelApproved, Cell::ResumedAtOnce] {
        assert_eq!(possible(&journal, false, cell), None, "{cell}");
    }
    assert_eq!(possible(&shipped("devices-sound"), false, Cell::NoFault), None);
}

/// What is predicted of a moment is a part of what the model's own exploration finds when the fault may strike at any.
#[test]
fn a_prediction_is_a_part_of_all_endings() {
    for name in ["workflow-journal", "langgraph-checkpoint-sync", "langgraph-checkpoint-async"] {
        let mut protocol = shipped(name);
        protocol.caller.operations = 3;
        protocol.budget = Default::default();
        let all = settled_model::endings(&protocol, 1_000_000, std::time::Duration::from_secs(60)).unwrap();
        assert!(all.exhaustive);
        let twice = all.all.iter().any(|ending| ending.calls.iter().any(|call| call.effects > 1));
        let once = all.all.iter().any(|ending| ending.calls.iter().all(|call| call.effects == 1));
        assert!(twice && once, "{name}");
        assert_eq!(kinds(&protocol, false, Cell::KillAtRandom), ["duplicate", "once"], "{name}");
    }
}

#[test]
fn a_profile_is_annotated() {
    let directory = tempfile::tempdir().unwrap();
    let (adapter, variant) = adapter("workflow-journal", directory.path());
    let twice = run(Outcome::Duplicate(2), &[1, 2, 1]);
    let once = run(Outcome::Once, &[1, 1, 1]);
    let cells = vec![
        result(Cell::KillAfterEffect, vec![twice.clone(), twice.clone()]),
        // A missed run is no disagreement; one that was struck is, however many agree.
        result(Cell::KillBeforeEffect, vec![once.clone(), Run { outcome: Outcome::Lost, ..missed("it had ended") }]),
        result(Cell::KillAfterRecord, vec![once.clone(), twice]),
        result(Cell::TornWrite, vec![once]),
        // Killed before its first call, which is before the model begins; and later.
        result(Cell::KillAtWrites, vec![run(Outcome::Lost, &[0, 0, 0])]),
        result(Cell::KillAtWrites, vec![run(Outcome::Lost, &[1, 0, 0])]),
    ];
    let mut measured = profile("toy", "1", "x", None, cells);
    annotate(&mut measured, &adapter, &variant).unwrap();
    let agrees = |at: usize| measured.cells[at].predicted.as_ref().map(|predicted| predicted.agrees);
    assert_eq!([agrees(0), agrees(1), agrees(2), agrees(3)], [Some(true), Some(true), Some(false), None]);
    assert_eq!([agrees(4), agrees(5)], [Some(true), Some(false)]);
    assert_eq!(measured.cells[0].property.as_deref(), Some("at-most-once"));
    assert_eq!(measured.cells[3].fault.as_deref(), Some("torn-writes"));
    assert_eq!(measured.cells[0].predicted.as_ref().unwrap().possible, ["duplicate"]);
}

#[test]
fn a_protocol_of_ones_own_is_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let (adapter, variant) = adapter("mine.toml", directory.path());
    let mut measured =
        profile("toy", "1", "x", None, vec![result(Cell::NoFault, vec![run(Outcome::Once, &[1, 1, 1])])]);
    let error = annotate(&mut measured, &adapter, &variant).unwrap_err().to_string();
    assert!(error.starts_with("the adapter toy: `protocol`: ") && error.contains("mine.toml"), "{error}");
    let text = "name = \"mine\"\nabout = \"y\"\n[guard]\nprocesses = 0\n";
    std::fs::write(directory.path().join("mine.toml"), text).unwrap();
    annotate(&mut measured, &adapter, &variant).unwrap();
    assert_eq!(measured.cells[0].predicted.as_ref().unwrap().protocol, "mine");
}

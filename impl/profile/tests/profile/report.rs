//! Reports in a terminal, and read from files.

use settled_profile::report::{ReadError, compare_in, read, table_in};
use settled_profile::{Cell, Outcome};

use crate::sample::{HOSTILE, full, profile, report, result, run};

fn line<'a>(text: &'a str, begins: &str) -> &'a str {
    text.lines().find(|line| line.trim_start().starts_with(begins)).unwrap_or_else(|| panic!("{begins}: {text}"))
}

/// The words of a line, without what it is called.
fn fields<'a>(text: &'a str, begins: &str) -> Vec<&'a str> {
    line(text, begins).trim_start().strip_prefix(begins).unwrap().split_whitespace().collect()
}

#[test]
fn a_table_shows_counts_and_never_one_lucky_run() {
    let text = table_in(&full(), 120);
    assert_eq!(fields(&text, "kill-after-effect"), ["2×", "5/5", "✓", "5/5", "✓", "5/5", "≠", "2×", "5/5"]);
    assert_eq!(fields(&text, "kill-at-random"), ["2×", "3/5", "✓", "5/5", "2×", "3/5"]);
    assert_eq!(fields(&text, "torn-write"), ["missed", "5", "missed", "5", "missed", "5"]);
    assert_eq!(fields(&text, "resumed-at-once"), ["…", "4/4", "…", "4/4", "…", "4/4"]);
    assert!(text.contains("missed 1"), "{text}");
    assert_eq!(fields(&text, "approved-twice"), ["·", "✓", "4/5"]);
    assert!(text.contains("once, and “workflow-journal” predicts duplicate"), "{text}");
    assert!(text.contains("no write was cut"), "{text}");
    assert!(text.contains("EmptyInputError: nothing to resume"), "{text}");
    let summary = line(&text, "4 profiles, ");
    assert_eq!(
        summary,
        "4 profiles, 26 cells, by the worst that came of them: 9 once, 5 duplicate, 3 lost, 3 stuck, 3 error, \
         3 never struck. The model agrees in 8 of 9."
    );
}

#[test]
fn khans_properties_are_below() {
    let text = table_in(&full(), 120);
    assert_eq!(fields(&text, "effect exactly-once"), ["✗", "2", "✓", "✗", "1", "✗", "1"]);
    assert_eq!(fields(&text, "consume-once"), ["–", "–", "–", "✗", "1"]);
}

#[test]
fn a_table_fits_its_width() {
    for width in [44, 60, 80, 200] {
        let text = table_in(&full(), width);
        let table: Vec<_> = text.lines().take_while(|line| !line.starts_with("✓ once")).collect();
        assert!(table.len() > 20);
        assert!(table.iter().all(|line| line.chars().count() <= width), "{width}: {text}");
        // Each profile once, in whichever part.
        assert_eq!(text.matches("0.9.1").count(), 1, "{width}: {text}");
    }
}

#[test]
fn few_cells_are_columns() {
    let runs = || vec![run(Outcome::Once, &[1, 1, 1]); 2];
    let cells = || vec![result(Cell::NoFault, runs()), result(Cell::KillAfterEffect, runs())];
    let profiles = vec![profile("one", "1", "x", None, cells()), profile("two", "1", "x", Some("settled"), cells())];
    let text = table_in(&report(profiles), 80);
    assert_eq!(fields(&text, "one@1/x"), ["✓", "2/2", "✓", "2/2"]);
    assert_eq!(fields(&text, "two@1/x, behind settled"), ["✓", "2/2", "✓", "2/2"]);
}

#[test]
fn differing_cells_are_compared() {
    let text = compare_in(&[full()], 120);
    assert_eq!(fields(&text, "kill-after-effect"), ["2×", "5/5", "✓", "5/5", "✓", "5/5", "≠"]);
    assert!(!text.contains("disk-full"), "{text}");
    assert!(text.contains("2 cells differ, 7 alike."), "{text}");
    assert!(text.contains("Measured only once: other/default."), "{text}");
    // The missed ones were not tried: 7 of 8 cells. The version that was not run behind it is not in it.
    assert!(
        text.contains(
            "Of 7 cells tried before and behind settled: 2 duplicate before, 0 behind settled; \
             0 newly duplicate, 0 newly lost, 0 newly stuck, 0 newly given up."
        ),
        "{text}"
    );
}

#[test]
fn what_is_worse_behind_a_guard_is_named() {
    let cell = |outcome, effects| vec![result(Cell::KillAfterEffect, vec![run(outcome, effects)])];
    let before = profile("toy", "1", "x", None, cell(Outcome::Once, &[1, 1, 1]));
    let after = profile("toy", "1", "x", Some("settled"), cell(Outcome::Lost, &[1, 0, 0]));
    let text = compare_in(&[report(vec![before]), report(vec![after])], 80);
    assert!(text.contains("1 newly lost") && text.contains("newly lost:\n  toy/x: kill-after-effect"), "{text}");
    assert!(text.contains("1 cell differs, 0 alike."), "{text}");
}

#[test]
fn what_stays_duplicate_behind_a_guard_is_named() {
    let cell = |times| vec![result(Cell::KillAfterEffect, vec![run(Outcome::Duplicate(times), &[1, times, 1])])];
    let before = profile("toy", "1", "x", None, cell(3));
    let after = profile("toy", "1", "x", Some("settled"), cell(2));
    let text = compare_in(&[report(vec![before, after])], 80);
    assert!(text.contains("None of 1 cell differs."), "{text}");
    assert!(text.contains("1 duplicate before, 1 behind settled; 0 newly duplicate"), "{text}");
    assert!(text.ends_with("still duplicate:\n  toy/x: kill-after-effect"), "{text}");
}

#[test]
fn only_so_many_notes_are_shown() {
    let runs = (0..20).map(|number| run(Outcome::Error(format!("Error {number:02}")), &[1, 1, 0])).collect();
    let text = table_in(&report(vec![profile("toy", "1", "x", None, vec![result(Cell::NoFault, runs)])]), 80);
    assert!(text.contains("Error 11") && !text.contains("Error 12"), "{text}");
    assert!(text.contains("and 8 more: see the page that `--html FILE` writes"), "{text}");
}

#[test]
fn nothing_to_compare_is_said() {
    let alone = report(vec![full().profiles.remove(3)]);
    assert!(compare_in(&[alone], 80).starts_with("No variant was measured more than once"));
}

#[test]
fn a_terminal_gets_text_and_nothing_else() {
    let runs = vec![run(Outcome::Error(HOSTILE.to_owned()), &[1])];
    let hostile = || profile(HOSTILE, HOSTILE, HOSTILE, Some(HOSTILE), vec![result(Cell::NoFault, runs.clone())]);
    let reports = [report(vec![hostile(), hostile()])];
    for text in [table_in(&reports[0], 200), compare_in(&reports, 200)] {
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
    }
}

#[test]
fn a_report_is_read_as_it_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("report.json");
    let text = serde_json::to_string_pretty(&full()).unwrap();
    std::fs::write(&file, &text).unwrap();
    assert_eq!(serde_json::to_string_pretty(&read(&file).unwrap()).unwrap(), text);
}

#[test]
fn what_is_no_report_is_refused_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("report.json");
    let refused = |text: &str| {
        std::fs::write(&file, text).unwrap();
        read(&file).unwrap_err()
    };
    let text = serde_json::to_string(&full()).unwrap();
    // Another format may have other members: what is said is its format.
    let other = text.replace("settled-profile/1", "settled-profile/2").replace("\"seed\"", "\"seeds\"");
    let error = refused(&other);
    assert!(matches!(error, ReadError::OtherFormat { .. }), "{error}");
    assert!(error.to_string().contains("its format is “settled-profile/2”"), "{error}");
    let error = refused(&text.replace("\"seed\"", "\"seeds\""));
    assert!(error.to_string().contains("unknown field `seeds`"), "{error}");
    assert!(refused("[]").to_string().contains("settled profile run"));
    assert!(matches!(refused("{"), ReadError::Malformed { .. }));
    assert!(matches!(read(&directory.path().join("none")).unwrap_err(), ReadError::Unreadable { .. }));
}

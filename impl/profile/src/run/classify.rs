//! What became of a run, and whether its fault struck, from the counted effects and from how the processes ended.

use std::collections::BTreeMap;

use super::process::End;
use crate::cell::Cell;
use crate::outcome::{Bite, Outcome};

/// How often each step must have happened at the moment of the fault.
fn promise(cell: Cell) -> &'static [(&'static str, u32)] {
    match cell {
        Cell::KillBeforeEffect => &[("a", 1), ("b", 0), ("c", 0)],
        Cell::KillAfterEffect | Cell::ClockJumped | Cell::ResumedWithInput => &[("a", 1), ("b", 1), ("c", 0)],
        // Some write nothing until they have called for the next step.
        Cell::KillAfterAnswer => &[("a", 1), ("b", 1)],
        Cell::KillAfterRecord | Cell::ResumedTwice | Cell::ResumedAtOnce => &[("a", 1), ("b", 1), ("c", 0)],
        Cell::TornWrite => &[("c", 0)],
        Cell::ApprovedThenKilled => &[("a", 1), ("b", 1)],
        _ => &[],
    }
}

/// Whether what was counted at the moment of the fault is what the cell promises.
pub fn promised(cell: Cell, counted: &BTreeMap<String, u32>) -> Bite {
    let wrong = promise(cell).iter().find_map(|(step, times)| {
        let counted = counted.get(*step).copied().unwrap_or_default();
        (counted != *times).then(|| format!("`{step}` had happened {counted} times at that moment, and not {times}"))
    });
    wrong.map_or(Bite::Struck, Bite::Missed)
}

/// Whether a run counts whose fault was never noted.
pub fn without_strike(cell: Cell, ends: &[(End, String)]) -> Bite {
    if cell == Cell::NoFault {
        return Bite::Struck;
    }
    let how = ends.first().map_or_else(String::new, |(end, words)| match words.as_str() {
        "" => format!(" ({end})"),
        words => format!(" ({end}: {words})"),
    });
    Bite::Missed(format!("the run ended before the fault{how}"))
}

/// What became of the run.
pub fn outcome(cell: Cell, effects: &BTreeMap<String, u32>, ends: &[(End, String)]) -> Outcome {
    let wanted: BTreeMap<&str, u32> = cell.wanted().collect();
    let too_often = effects.iter().filter(|(step, times)| **times > wanted.get(step.as_str()).copied().unwrap_or(0));
    if let Some(most) = too_often.map(|(_, times)| *times).max() {
        return Outcome::Duplicate(most);
    }
    let complete = wanted.iter().all(|(step, times)| effects.get(*step).copied().unwrap_or(0) == *times);
    let says = |what: fn(End) -> bool| ends.iter().any(|(end, _)| what(*end));
    if says(End::is_over) || says(End::knows_none) {
        return if complete { Outcome::Once } else { Outcome::Lost };
    }
    let gave_up = ends.iter().rev().find(|(end, _)| !end.waits() && *end != End::Overdue);
    match gave_up {
        Some((End::Exit(code), words)) if words.is_empty() => Outcome::Error(format!("exit {code}")),
        Some((End::Exit(_), words)) => Outcome::Error(words.clone()),
        Some((end, _)) => Outcome::Error(end.to_string()),
        None => Outcome::Stuck,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(steps: &[(&str, u32)]) -> BTreeMap<String, u32> {
        steps.iter().map(|(step, times)| ((*step).to_owned(), *times)).collect()
    }

    fn ended(end: End) -> Vec<(End, String)> {
        vec![(end, "Error: why".to_owned())]
    }

    #[test]
    fn outcomes() {
        let (all, two, one) = (
            counted(&[("a", 1), ("b", 1), ("c", 1)]),
            counted(&[("a", 1), ("b", 2), ("c", 0)]),
            counted(&[("a", 1), ("b", 0), ("c", 0)]),
        );
        let cell = Cell::KillAfterEffect;
        assert_eq!(outcome(cell, &all, &ended(End::Exit(0))), Outcome::Once);
        assert_eq!(outcome(cell, &all, &ended(End::Exit(69))), Outcome::Once);
        assert_eq!(outcome(cell, &two, &ended(End::Overdue)), Outcome::Duplicate(2));
        assert_eq!(outcome(cell, &one, &ended(End::Exit(0))), Outcome::Lost);
        assert_eq!(outcome(cell, &one, &ended(End::Exit(69))), Outcome::Lost);
        assert_eq!(outcome(cell, &one, &ended(End::Overdue)), Outcome::Stuck);
        assert_eq!(outcome(cell, &one, &ended(End::Exit(75))), Outcome::Stuck);
        assert_eq!(outcome(cell, &all, &ended(End::Exit(1))), Outcome::Error("Error: why".to_owned()));
        assert_eq!(outcome(cell, &all, &ended(End::Signal(11))), Outcome::Error("ended by signal 11".to_owned()));
    }

    #[test]
    fn a_denied_step_that_happens_is_one_too_many() {
        let cell = Cell::DeniedThenApproved;
        assert_eq!(outcome(cell, &counted(&[("a", 1), ("b", 1)]), &ended(End::Exit(0))), Outcome::Duplicate(1));
        assert_eq!(outcome(cell, &counted(&[("a", 1), ("b", 0)]), &ended(End::Exit(0))), Outcome::Once);
    }

    #[test]
    fn of_several_ends_the_good_one_counts() {
        let all = counted(&[("a", 1), ("b", 1), ("c", 1)]);
        let ends = [(End::Exit(1), "locked".to_owned()), (End::Exit(0), String::new())];
        assert_eq!(outcome(Cell::ResumedAtOnce, &all, &ends), Outcome::Once);
    }

    #[test]
    fn promises() {
        assert_eq!(promised(Cell::KillBeforeEffect, &counted(&[("a", 1), ("b", 0), ("c", 0)])), Bite::Struck);
        assert!(matches!(promised(Cell::KillBeforeEffect, &counted(&[("a", 1), ("b", 1)])), Bite::Missed(_)));
        assert!(matches!(promised(Cell::KillAfterRecord, &counted(&[("a", 1), ("b", 1), ("c", 1)])), Bite::Missed(_)));
    }
}

//! What is shown of one cell: a symbol for each kind of outcome, and counts.

use crate::cell::Cell;
use crate::profile::{CellResult, Profile};

/// A kind of outcome. The order is that of the harm done, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Duplicate,
    Lost,
    Stuck,
    Error,
    Once,
}

impl Kind {
    pub(super) const ALL: [Self; 5] = [Self::Duplicate, Self::Lost, Self::Stuck, Self::Error, Self::Once];

    /// As in [`crate::Outcome::kind`].
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Lost => "lost",
            Self::Stuck => "stuck",
            Self::Error => "error",
            Self::Once => "once",
        }
    }

    /// Its sign; of duplicates, with the highest number of effects.
    pub(super) fn sign(self, most: u32) -> String {
        match self {
            Self::Duplicate => format!("{}×", most.max(1)),
            Self::Lost => "∅".to_owned(),
            Self::Stuck => "…".to_owned(),
            Self::Error => "!".to_owned(),
            Self::Once => "✓".to_owned(),
        }
    }

    /// What its sign means.
    pub(super) const fn says(self) -> &'static str {
        match self {
            Self::Duplicate => "a step took effect so many times",
            Self::Lost => "it says it is over, or knows no such run, and a step never happened",
            Self::Stuck => "it still waited (for an approval, or for nothing), or its time was over",
            Self::Error => "the framework gave up on the run",
            Self::Once => "every step took effect once",
        }
    }
}

/// What is shown of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// How many runs ended so, most of them first.
    pub(super) counts: Vec<(Kind, u32)>,
    /// How many runs its fault struck.
    pub(super) struck: u32,
    /// How many runs its fault did not strike.
    pub(super) missed: u32,
    /// The highest number of effects of one step.
    pub(super) most: u32,
    /// Whether a run ended as the model does not predict.
    pub(super) disagrees: bool,
}

impl Mark {
    pub(super) fn of(result: &CellResult) -> Self {
        let number = |kind: &Kind| result.counts.outcomes.get(kind.name()).copied().unwrap_or(0);
        let mut counts: Vec<_> = Kind::ALL.iter().map(|kind| (*kind, number(kind))).filter(|(_, n)| *n > 0).collect();
        counts.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
        Self {
            struck: counts.iter().map(|(_, number)| number).sum(),
            counts,
            missed: result.counts.missed,
            most: result.counts.most,
            disagrees: result.predicted.as_ref().is_some_and(|predicted| !predicted.agrees),
        }
    }

    /// The worst that came of it; `None`: its fault never struck.
    pub(super) fn worst(&self) -> Option<Kind> {
        self.counts.iter().map(|(kind, _)| *kind).min()
    }

    /// Each kind with its count: `2× 3/5`, `✓ 2/5`; and the missed: `missed 1`.
    pub(super) fn parts(&self) -> Vec<String> {
        let part = |(kind, number): &(Kind, u32)| format!("{} {number}/{}", kind.sign(self.most), self.struck);
        let mut parts: Vec<_> = self.counts.iter().map(part).collect();
        if self.missed > 0 {
            parts.push(format!("missed {}", self.missed));
        }
        if self.disagrees {
            parts.push("≠".to_owned());
        }
        parts
    }
}

/// A name, and which cells belong to it.
type Group = (&'static str, fn(Cell) -> bool);

/// Cells that belong together, in the order of [`Cell::ALL`].
pub(super) const GROUPS: [Group; 6] = [
    ("no fault", |cell| matches!(cell, Cell::NoFault)),
    ("killed", |cell| cell.name().starts_with("kill-")),
    ("its call of the tool", |cell| {
        matches!(
            cell,
            Cell::AnswerLost
                | Cell::AnswersLost
                | Cell::LateEffect
                | Cell::Cancelled
                | Cell::ToolRestarted
                | Cell::DeliveredTwice
        )
    }),
    ("disk and clock", |cell| {
        matches!(
            cell,
            Cell::DiskFull | Cell::DiskReadOnly | Cell::TornWrite | Cell::StoppedAndWoken | Cell::ClockJumped
        )
    }),
    ("resumed otherwise", |cell| matches!(cell, Cell::ResumedWithInput | Cell::ResumedTwice | Cell::ResumedAtOnce)),
    ("approval", |cell| !matches!(cell.workload(), crate::cell::Workload::Steps)),
];

/// The cells that any of these profiles has tried or left out, grouped.
pub(super) fn groups<'a>(
    profiles: impl Iterator<Item = &'a Profile> + Clone,
) -> impl Iterator<Item = (&'static str, Vec<Cell>)> {
    let has = move |cell: Cell| {
        let mut each = profiles.clone();
        each.any(|profile| result(profile, cell).is_some() || profile.left_out.contains_key(cell.name()))
    };
    GROUPS.into_iter().filter_map(move |(name, belongs)| {
        let cells: Vec<_> = Cell::ALL.iter().copied().filter(|cell| belongs(*cell) && has(*cell)).collect();
        (!cells.is_empty()).then_some((name, cells))
    })
}

/// What came of this cell, if it was tried.
pub(super) fn result(profile: &Profile, cell: Cell) -> Option<&CellResult> {
    profile.cells.iter().find(|result| result.cell == cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_in_one_group() {
        let order = GROUPS.iter().flat_map(|(_, belongs)| Cell::ALL.iter().copied().filter(move |cell| belongs(*cell)));
        let mut all: Vec<_> = order.collect();
        assert_eq!(all.len(), Cell::ALL.len());
        all.sort();
        assert_eq!(all, Cell::ALL);
    }
}

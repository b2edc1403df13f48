//! Khan's resume contract (“Resume Means Resume”, arXiv:2608.03836) as a view on a profile: six properties, each decided from
//! the cells that try it.

use serde::Serialize;

use crate::cell::{Cell, Workload};
use crate::outcome::{Bite, Outcome};
use crate::profile::{Profile, Run};

/// A property of the resume contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Property {
    /// A resumed run doesn't do again what it had done before the step under way.
    PrefixContinuation,
    /// No step takes effect twice.
    EffectExactlyOnce,
    /// The answer that a run is resumed with decides: what was approved happens, what was denied doesn't.
    ForkDeterminism,
    /// What is found after a kill or a full disk can be resumed to its end.
    CheckpointValidity,
    /// What waits for an approval takes effect at most once, however often it is approved.
    ConsumeOnce,
    /// Runs that were struck at the same moment end alike.
    RecoveryDeterminism,
}

/// What was found out about a property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// No run contradicts it.
    Holds {
        /// How many runs tried it.
        runs: u32,
    },
    /// Runs contradict it.
    Violated {
        /// In which cells.
        by: Vec<Witness>,
    },
    /// No cell that would tell was tried, or its fault never struck.
    NotTried,
}

/// A cell that shows a violation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Witness {
    /// The cell.
    pub cell: Cell,
    /// In how many of its runs.
    pub times: u32,
    /// How many runs its fault struck.
    pub of: u32,
}

impl Property {
    /// All six, in the paper's order.
    pub const ALL: [Self; 6] = [
        Self::PrefixContinuation,
        Self::EffectExactlyOnce,
        Self::ForkDeterminism,
        Self::CheckpointValidity,
        Self::ConsumeOnce,
        Self::RecoveryDeterminism,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PrefixContinuation => "prefix continuation",
            Self::EffectExactlyOnce => "effect exactly-once",
            Self::ForkDeterminism => "fork determinism",
            Self::CheckpointValidity => "checkpoint validity",
            Self::ConsumeOnce => "consume-once",
            Self::RecoveryDeterminism => "recovery determinism",
        }
    }

    /// What it says here.
    #[must_use]
    pub const fn says(self) -> &'static str {
        match self {
            Self::PrefixContinuation => {
                "a resumed run does not do again what it had done before the step that was under way"
            }
            Self::EffectExactlyOnce => "no step takes effect twice",
            Self::ForkDeterminism => {
                "the answer that a run is resumed with decides: what was approved happens, what was denied never does"
            }
            Self::CheckpointValidity => "what is found after a kill or a full disk can be resumed to its end",
            Self::ConsumeOnce => "what waits for an approval takes effect at most once, however often it is approved",
            Self::RecoveryDeterminism => "runs that were struck at the same moment end alike",
        }
    }

    /// Whether a cell tells anything about it.
    #[must_use]
    pub fn is_tried_by(self, cell: Cell) -> bool {
        let kills = cell.name().starts_with("kill-");
        match self {
            Self::PrefixContinuation => !prefix(cell).is_empty(),
            Self::EffectExactlyOnce => cell.workload() == Workload::Steps,
            Self::ForkDeterminism => cell.workload() != Workload::Steps,
            Self::CheckpointValidity => {
                kills
                    || matches!(
                        cell,
                        Cell::TornWrite
                            | Cell::DiskFull
                            | Cell::DiskReadOnly
                            | Cell::ClockJumped
                            | Cell::ApprovedThenKilled
                    )
            }
            Self::ConsumeOnce => cell.workload() != Workload::Steps && cell != Cell::DeniedThenApproved,
            // Elsewhere the moment, or what overtakes what, differs from run to run.
            Self::RecoveryDeterminism => !matches!(
                cell,
                Cell::NoFault
                    | Cell::KillAtWrites
                    | Cell::KillAtRandom
                    | Cell::StoppedAndWoken
                    | Cell::ResumedAtOnce
                    | Cell::ApprovedAtOnce
            ),
        }
    }

    /// How many of these runs contradict it.
    fn contradicted(self, cell: Cell, runs: &[&Run]) -> u32 {
        let effects = |run: &Run, step: &str| run.effects.get(step).copied().unwrap_or(0);
        let count = |contradicts: &dyn Fn(&Run) -> bool| runs.iter().filter(|run| contradicts(run)).count();
        let times = match self {
            Self::PrefixContinuation => count(&|run| prefix(cell).iter().any(|step| effects(run, step) > 1)),
            Self::EffectExactlyOnce => count(&|run| run.effects.values().any(|times| *times > 1)),
            Self::ForkDeterminism => count(&|run| {
                let wanted = cell.wanted().filter(|(step, _)| *step != "a");
                wanted.into_iter().any(|(step, times)| (effects(run, step) > 0) != (times > 0))
            }),
            Self::CheckpointValidity => {
                count(&|run| matches!(run.outcome, Outcome::Lost | Outcome::Stuck | Outcome::Error(_)))
            }
            Self::ConsumeOnce => {
                let gated = if cell.workload() == Workload::Parallel { "c" } else { "b" };
                count(&|run| effects(run, gated) > 1)
            }
            Self::RecoveryDeterminism => {
                let ends = |run: &Run| (run.outcome.kind(), run.effects.clone());
                // Those that ended otherwise than most.
                let alike = |run: &&&Run| runs.iter().filter(|other| ends(other) == ends(run)).count();
                runs.len() - runs.iter().map(|run| alike(&run)).max().unwrap_or(0)
            }
        };
        u32::try_from(times).unwrap_or(u32::MAX)
    }

    /// What a profile says about it.
    #[must_use]
    pub fn of(self, profile: &Profile) -> Finding {
        let (mut runs, mut by) = (0, Vec::new());
        for result in profile.cells.iter().filter(|result| self.is_tried_by(result.cell)) {
            let struck: Vec<_> = result.runs.iter().filter(|run| run.bite == Bite::Struck).collect();
            let of = u32::try_from(struck.len()).unwrap_or(u32::MAX);
            if self == Self::RecoveryDeterminism && of < 2 {
                continue;
            }
            runs += of;
            let times = self.contradicted(result.cell, &struck);
            if times > 0 {
                by.push(Witness { cell: result.cell, times, of });
            }
        }
        match (runs, by.is_empty()) {
            (_, false) => Finding::Violated { by },
            (0, true) => Finding::NotTried,
            (_, true) => Finding::Holds { runs },
        }
    }
}

/// The steps that had ended before the one that a cell's fault falls into.
fn prefix(cell: Cell) -> &'static [&'static str] {
    match cell {
        Cell::NoFault | Cell::KillAtWrites | Cell::KillAtRandom | Cell::ParallelApproved => &[],
        Cell::KillAfterRecord | Cell::ResumedTwice | Cell::ResumedAtOnce => &["a", "b"],
        _ => &["a"],
    }
}

/// What a profile says about each property.
#[must_use]
pub fn view(profile: &Profile) -> Vec<(Property, Finding)> {
    Property::ALL.iter().map(|property| (*property, property.of(profile))).collect()
}

//! One thing to measure, as it is handed to a process of its own.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use settled_model::{Description, PropertyName, Reductions, Report, Rules, Unbuildable};

use crate::actors::{self, Setting};
use crate::engines::{self, Engine, Limits, Search};
use crate::measure::Counted;
use crate::two_phase_commit::TwoPhaseCommit;

/// A model, the engine to put it to, and how far to go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// The model.
    pub model: Model,
    /// The engine.
    pub by: By,
    /// Threads.
    pub threads: usize,
    /// Stop after this many seconds, and say so.
    pub seconds: u64,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Model {
    /// Two-phase commit among this many resource managers.
    TwoPhaseCommit(usize),
    /// Actors of stateright's framework.
    Actors(Setting),
    /// A protocol.
    Protocol(Box<Description>),
}

/// An engine, and how it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum By {
    /// This checker, with all reductions.
    Settled,
    /// This checker with all but one: faults are counted (`any_number` is off).
    SettledCounting,
    /// This checker without any.
    SettledUnreduced,
    /// Plain stateright, breadth first.
    Breadth,
    /// Plain stateright, depth first.
    Depth,
    /// Plain stateright with the symmetry that its example has (of two-phase commit).
    Symmetry,
}

impl By {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            By::Settled => "settled",
            By::SettledCounting => "settled, faults counted",
            By::SettledUnreduced => "settled, no reductions",
            By::Breadth => "stateright, breadth first",
            By::Depth => "stateright, depth first",
            By::Symmetry => "stateright, symmetry",
        }
    }

    /// Whether it is stateright.
    pub fn is_stateright(self) -> bool {
        matches!(self, By::Breadth | By::Depth | By::Symmetry)
    }
}

impl Work {
    /// Does it.
    ///
    /// # Errors
    /// [`Unbuildable`] if no world can be built of a protocol.
    pub fn run(&self) -> Result<Counted, Unbuildable> {
        let time = Duration::from_secs(self.seconds);
        let limits = Limits { time, threads: self.threads, ..Limits::default() };
        let search = if self.by == By::Breadth { Search::Breadth } else { Search::Depth };
        Ok(match &self.model {
            Model::TwoPhaseCommit(managers) => {
                let model = TwoPhaseCommit { managers: *managers };
                match self.by {
                    By::Settled | By::SettledCounting => engines::run(model, Engine::Explorer, &limits),
                    By::SettledUnreduced => engines::run(model, Engine::ExplorerUnreduced, &limits),
                    By::Breadth | By::Depth => engines::stateright(model, search, &limits),
                    By::Symmetry => engines::stateright_with_symmetry(model, &limits),
                }
            }
            Model::Actors(setting) => engines::stateright(actors::model(*setting), search, &limits),
            Model::Protocol(description) => match self.by {
                By::Settled => checked(description, Reductions::ALL, &limits)?,
                By::SettledCounting => {
                    checked(description, Reductions { any_number: false, ..Reductions::ALL }, &limits)?
                }
                By::SettledUnreduced => checked(description, Reductions::NONE, &limits)?,
                By::Breadth | By::Depth | By::Symmetry => {
                    description.validate()?;
                    let rules = Rules::new(description.as_ref().clone());
                    let engine =
                        if self.by == By::Breadth { Engine::StaterightBreadth } else { Engine::StaterightDepth };
                    engines::run(rules, engine, &limits)
                }
            },
        })
    }
}

fn checked(description: &Description, reductions: Reductions, limits: &Limits) -> Result<Counted, Unbuildable> {
    let limits = settled_model::Limits { time: limits.time, threads: limits.threads, reductions, ..Default::default() };
    Ok(counted(&settled_model::check(description, limits, |_| {})?))
}

/// A report, as it is compared with those of other engines.
pub fn counted(report: &Report) -> Counted {
    let name = |(property, _): (PropertyName, _)| property.name().to_owned();
    let mut violated: Vec<String> = report.violations().map(name).collect();
    violated.sort();
    Counted {
        unique_states: report.unique_states,
        transitions: report.transitions,
        violated,
        exhaustive: report.exhaustive,
    }
}

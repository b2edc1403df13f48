//! Checking a protocol: every reachable state of its world, and a verdict for each property.

use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use crate::description::{Description, Unbuildable};
use crate::model::ProtocolModel;
use crate::moves::Rules;
use crate::properties::PropertyName;
use crate::search::shortest_runs;
use crate::trace::Trace;

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Stop after about this many visited states, and say so.
    pub states: usize,
    /// Stop after this time, and say so.
    pub time: Duration,
    /// Threads to explore with.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Limits { states: 200_000_000, time: Duration::from_secs(600), threads }
    }
}

/// What was found out about one property.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It holds in every state within the bounds.
    Holds,
    /// It does not; a shortest run that shows it.
    Violated(Box<Trace>),
    /// No violation so far, but a limit was reached before everything was explored.
    NotFinished,
    /// It says nothing about this protocol.
    NotApplicable,
}

/// The result of checking one protocol.
#[derive(Clone, Debug)]
pub struct Report {
    /// The protocol, with the bounds that were explored.
    pub description: Description,
    /// The verdict for each property, in the design's order.
    pub verdicts: Vec<(PropertyName, Verdict)>,
    /// Distinct states, up to the symmetry of guard processes.
    pub unique_states: usize,
    /// The longest run.
    pub depth: usize,
    /// How long it took.
    pub elapsed: Duration,
    /// Whether everything within the bounds was explored.
    pub exhaustive: bool,
}

impl Report {
    /// The properties that are violated, with their traces.
    pub fn violations(&self) -> impl Iterator<Item = (PropertyName, &Trace)> {
        self.verdicts.iter().filter_map(|(property, verdict)| match verdict {
            Verdict::Violated(trace) => Some((*property, trace.as_ref())),
            _ => None,
        })
    }

    /// Whether every property that applies holds.
    pub fn all_hold(&self) -> bool {
        self.verdicts.iter().all(|(_, verdict)| matches!(verdict, Verdict::Holds | Verdict::NotApplicable))
    }

    /// The verdict of one property.
    pub fn verdict(&self, property: PropertyName) -> &Verdict {
        self.verdicts.iter().find(|(its, _)| *its == property).map_or(&Verdict::NotFinished, |(_, verdict)| verdict)
    }
}

/// How an exploration is coming along.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// States visited, doubles included.
    pub states: usize,
    /// Distinct states.
    pub unique_states: usize,
    /// The longest run so far.
    pub depth: usize,
}

/// Explores every state of a protocol's world within its bounds, and decides every property.
///
/// # Errors
/// [`Unbuildable`] if the description has a bound out of range or contradicts itself.
pub fn check(
    description: &Description,
    limits: Limits,
    mut progress: impl FnMut(Progress),
) -> Result<Report, Unbuildable> {
    description.validate()?;
    let begun = Instant::now();
    let rules = Rules::new(description.clone());
    let properties: Vec<_> = PropertyName::ALL.into_iter().filter(|property| property.applies(&rules)).collect();
    let model = ProtocolModel { rules, properties: properties.clone() };
    let checker = model
        .clone()
        .checker()
        .threads(limits.threads.max(1))
        .symmetry()
        .target_state_count(limits.states)
        .timeout(limits.time)
        // Violated properties must not end the exploration while others are undecided.
        .finish_when(HasDiscoveries::All)
        .spawn_dfs();
    let mut pause = Duration::from_millis(1);
    while !checker.is_done() {
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
        progress(Progress {
            states: checker.state_count(),
            unique_states: checker.unique_state_count(),
            depth: checker.max_depth(),
        });
    }
    let violated: Vec<_> =
        properties.iter().copied().filter(|property| checker.discovery(property.name()).is_some()).collect();
    let cut_short = checker.state_count() >= limits.states || begun.elapsed() >= limits.time;
    let mut traces =
        if violated.is_empty() { Default::default() } else { shortest_runs(&model, &violated, limits.states) };
    let verdicts = PropertyName::ALL
        .into_iter()
        .map(|property| {
            let verdict = if !properties.contains(&property) {
                Verdict::NotApplicable
            } else if let Some(run) = traces.remove(&property) {
                Verdict::Violated(Box::new(Trace::of(&model.rules, property, &run)))
            } else if violated.contains(&property) {
                // The checker's own run is longer than the shortest, which lies beyond the search's limit.
                let run = checker.discovery(property.name()).map(|path| path.into_actions()).unwrap_or_default();
                Verdict::Violated(Box::new(Trace::of(&model.rules, property, &run)))
            } else if cut_short {
                Verdict::NotFinished
            } else {
                Verdict::Holds
            };
            (property, verdict)
        })
        .collect();
    Ok(Report {
        description: description.clone(),
        verdicts,
        unique_states: checker.unique_state_count(),
        depth: checker.max_depth(),
        elapsed: begun.elapsed(),
        exhaustive: !cut_short && violated.len() < properties.len(),
    })
}

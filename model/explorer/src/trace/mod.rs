//! A counterexample: the moves that lead to a violation, readable by people and by programs.

mod changes;
mod html;
mod lanes;
mod mermaid;
mod svg;
mod text;
mod words;

pub use words::{call_name, escape, plain};

use serde::{Deserialize, Serialize};

use crate::faults::{Fault, Faults};
use crate::properties::PropertyName;
use crate::readable::{Readable, Snapshot};

/// The version of the machine-readable form. A reader refuses versions that it doesn't know.
pub const FORMAT: u32 = 2;

/// A run of a protocol that violates a property.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The form's version: [`FORMAT`].
    pub format: u32,
    /// The protocol's name.
    pub protocol: String,
    /// The protocol's description, with the bounds that it was explored with.
    pub description: serde_json::Value,
    /// The property that it violates.
    pub property: PropertyName,
    /// The steps, first to last. The violation is to be seen after the last.
    pub steps: Vec<Step>,
    /// If the run goes round for ever: the number of steps before the round, which is all steps after those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<usize>,
    /// The faults that it needs, and how many of each.
    pub faults: Faults,
    /// The effects on each logical call's behalf, after the last step.
    pub effects: Vec<usize>,
    /// The state before the first step.
    pub beginning: Snapshot,
}

/// One step of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Who acts.
    pub from: String,
    /// On whom, if on another.
    pub to: Option<String>,
    /// What kind of step it is: a stable name for programs.
    pub kind: String,
    /// What happens, in words.
    pub text: String,
    /// The fault that it is, by its name, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// How many effects there are after it.
    pub effects: usize,
    /// The records in the ledger after it that it changed, in words.
    pub ledger: Vec<String>,
    /// What callers were told by it.
    pub told: Vec<String>,
    /// The whole state after it.
    pub state: Snapshot,
}

impl Trace {
    /// The trace of a run from the beginning. Moves that change nothing end it.
    pub fn of<S: Readable>(
        system: &S,
        property: PropertyName,
        run: &[(S::Move, Option<Fault>)],
        round: Option<usize>,
    ) -> Trace {
        let mut state = system.initial();
        let beginning = system.snapshot(&state);
        let mut before = beginning.clone();
        let mut faults = Faults::default();
        let mut steps = Vec::new();
        for (what, fault) in run {
            let Some(after) = system.apply(&state, *what) else {
                break;
            };
            let said = system.say(&state, *what, &after);
            let snapshot = system.snapshot(&after);
            if let Some(fault) = fault {
                *faults.of(*fault) += 1;
            }
            let new = |now: &[String], then: &[String]| -> Vec<String> {
                now.iter().filter(|line| !then.contains(line)).cloned().collect()
            };
            steps.push(Step {
                from: said.from,
                to: said.to,
                kind: said.kind.to_owned(),
                text: said.text,
                fault: fault.map(|fault| fault.name().to_owned()),
                effects: system.effects(&after).iter().sum(),
                ledger: new(&snapshot.ledger, &before.ledger),
                told: new(&snapshot.callers, &before.callers)
                    .into_iter()
                    .filter(|line| line.contains(" was told ") || line.contains(" is told "))
                    .collect(),
                state: snapshot.clone(),
            });
            before = snapshot;
            state = after;
        }
        Trace {
            format: FORMAT,
            protocol: system.name(),
            description: system.description(),
            property,
            steps,
            round,
            faults,
            effects: system.effects(&state),
            beginning,
        }
    }
}

//! The properties, decided on what was really seen.

use std::collections::{HashMap, HashSet};

use settled_model::description::KeySource;
use settled_model::{Description, PropertyName};

use crate::part::Line;
use crate::wire::Told;

/// What a caller was told, and what there was then.
#[derive(Clone, Debug)]
pub struct ToldThen {
    /// The logical call.
    pub call: u8,
    /// Its caller's how-manyeth call.
    pub number: u32,
    /// Under which key.
    pub key: u8,
    /// Which operation under it.
    pub generation: u32,
    /// What it was told.
    pub told: Told,
    /// The logical call that each effect was made for, as far as there were effects then.
    pub effects: Vec<u8>,
}

/// What was seen of a run.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The tool's own file.
    pub lines: Vec<Line>,
    /// What callers were told, in order.
    pub told: Vec<ToldThen>,
    /// The logical call of each request that was put on the wire.
    pub sends: Vec<u8>,
    /// Attempts that a durable record told of when they were sent.
    pub recorded: HashSet<(u8, u32, u32)>,
    /// The key of each call.
    pub keys: HashMap<(u8, u32), u8>,
    /// Keys whose record was forgotten.
    pub forgotten: HashSet<u8>,
    /// An effect had no durable record from before its send.
    pub unrecorded: bool,
    /// An effect was made for a call whose record had been forgotten.
    pub slipped_in: bool,
    /// Two effects on one resource were under way at once.
    pub overlapped: bool,
    /// Two attempts of one operation had taken effect, or still could.
    pub two_live: bool,
    /// Whether an operation was left neither settled nor escalated. `None`: nobody has looked.
    pub left_open: Option<bool>,
    /// Whether a record was left after its time. `None`: nobody has looked.
    pub record_left: Option<bool>,
}

impl Evidence {
    /// How many effects there are for a logical call.
    pub fn effects_of(&self, call: u8) -> usize {
        self.made_for().iter().filter(|of| **of == call).count()
    }

    /// The logical call of each effect, in order.
    pub fn made_for(&self) -> Vec<u8> {
        let call = |line: &Line| match line {
            Line::Effect { call, .. } => Some(*call),
            _ => None,
        };
        self.lines.iter().filter_map(call).collect()
    }

    /// Whether the property is violated in what was seen; `None` if that can't be told from it.
    pub fn violates(&self, property: PropertyName, description: &Description) -> Option<bool> {
        let calls = description.caller.operations;
        Some(match property {
            PropertyName::AtMostOnce => (0..calls).any(|call| self.effects_of(call) > 1),
            PropertyName::NoPhantomSuccess => self.told.iter().any(|told| match told.told {
                Told::Done(0) => !told.effects.contains(&told.call),
                Told::Done(effect) => effect as usize > told.effects.len(),
                _ => false,
            }),
            PropertyName::NoFalseFailure => self.told.iter().any(|told| self.failed_falsely(told, description)),
            PropertyName::FaithfulReplay => self.unfaithful(description),
            PropertyName::NoSuppression => self.told.iter().any(|told| match told.told {
                Told::Done(effect) if effect > 0 => {
                    told.effects.get(effect as usize - 1).is_some_and(|of| *of != told.call)
                }
                _ => false,
            }),
            PropertyName::IntentFirst => self.unrecorded,
            PropertyName::UnknownBlocks => self.two_live,
            PropertyName::NoOverlap => self.overlapped,
            PropertyName::Settles | PropertyName::CanSettle => self.left_open?,
            PropertyName::BoundedRetries => {
                let budget = &description.budget;
                let of = |call: u8| self.sends.iter().filter(|sent| **sent == call).count();
                let too_many = |call| of(call) > usize::from(budget.operation);
                budget.operation > 0 && (0..calls).any(too_many)
                    || budget.fleet > 0 && self.sends.len() > usize::from(budget.fleet)
            }
            PropertyName::BoundedMemory => self.slipped_in || self.record_left?,
            PropertyName::Convergence | PropertyName::CausalRespect => return None,
        })
    }

    fn failed_falsely(&self, told: &ToldThen, description: &Description) -> bool {
        let its = |line: &Line| match line {
            Line::Effect { which, .. } if description.is_direct() => {
                which.key == told.call && which.attempt == told.number
            }
            Line::Effect { which, .. } => which.key == told.key && which.generation == told.generation,
            _ => false,
        };
        told.told == Told::Failed && self.lines.iter().any(its)
    }

    fn unfaithful(&self, description: &Description) -> bool {
        let by_arguments = description.caller.key == KeySource::Arguments && !description.is_direct();
        let mut first: HashMap<u8, Told> = HashMap::new();
        self.told.iter().any(|told| {
            let definite = matches!(told.told, Told::Done(_) | Told::Failed);
            let differs = definite && !by_arguments && *first.entry(told.key).or_insert(told.told) != told.told;
            let others = match told.told {
                Told::Done(effect) if effect > 0 && !description.caller.same_arguments => {
                    told.effects.get(effect as usize - 1).is_some_and(|of| *of != told.call)
                }
                _ => false,
            };
            differs || others
        })
    }
}

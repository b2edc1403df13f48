//! What a device knows: the state that the server has confirmed, and above it what it did itself and is on its way.

use std::collections::{BTreeMap, HashMap};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use settled_protocol::merge::{HybridClock, HybridTime, Merged, Name, OpId, Operation, Times};
use settled_protocol::record::Millis;

use super::entry::Entry;
use crate::schema::Schema;
use crate::wire::{Answer, Applied, Became, Cursor, Refusal, Sent};

/// An operation that the server has refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The operation.
    pub operation: Operation,
    /// Why.
    pub reason: Refusal,
    /// Why, in words.
    pub message: String,
}

/// A device's state.
///
/// Operations that the server has applied are in `states`, with the event times that the server gave them. What is pending is not:
/// its event time may still change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Replica {
    pub(crate) name: Name,
    pub(crate) schema: Schema,
    /// In the order in which they were made.
    #[serde(with = "in_order")]
    pub(crate) pending: IndexMap<OpId, Sent>,
    pub(crate) states: BTreeMap<Name, Merged>,
    /// What a later schema than this device's allows.
    pub(crate) beyond: Vec<Applied>,
    pub(crate) refused: Vec<Refused>,
    pub(crate) cursor: Cursor,
    /// The operation that stood at the cursor.
    pub(crate) last: Option<OpId>,
    /// The latest event time of all that the server has confirmed.
    pub(crate) confirmed: HybridTime,
    /// What the server has made of the times of this device's operations, as far as it has heard.
    #[serde(default)]
    pub(crate) times: Times,
}

impl Replica {
    /// Takes the next entry of a log into account. What stands before the first that makes sense of itself was replaced by it.
    pub(crate) fn fold(replica: &mut Option<Replica>, entry: Entry) {
        match (replica, entry) {
            (replica, Entry::Begun { name, schema }) => {
                *replica = Some(Replica {
                    name,
                    schema,
                    pending: IndexMap::new(),
                    states: BTreeMap::new(),
                    beyond: Vec::new(),
                    refused: Vec::new(),
                    cursor: 0,
                    last: None,
                    confirmed: HybridTime::default(),
                    times: Times::default(),
                });
            }
            (replica, Entry::Whole(whole)) => *replica = Some(*whole),
            (Some(replica), entry) => replica.apply(entry),
            (None, _) => {}
        }
    }

    /// Takes an entry into account.
    pub(crate) fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Begun { .. } => {}
            Entry::Whole(whole) => *self = *whole,
            Entry::Schema(schema) => {
                for (target, state) in &mut self.states {
                    schema.rule(target).into_iter().for_each(|rule| state.widen(rule));
                }
                self.schema = schema;
                for applied in std::mem::take(&mut self.beyond) {
                    self.confirm(applied);
                }
            }
            Entry::Made(made) => self.pending.extend(made.into_iter().map(|sent| (sent.operation.op_id, sent))),
            Entry::Uploaded(answers) => self.uploaded(answers),
            Entry::Pulled { operations, cursor } => {
                let times = &mut self.times;
                self.pending.retain(|id, sent| {
                    let applied = operations.iter().find(|applied| applied.operation.op_id == *id);
                    applied.into_iter().for_each(|applied| times.note(sent.operation.time, applied.operation.time));
                    applied.is_none()
                });
                if let Some(last) = operations.last() {
                    self.last = Some(last.operation.op_id);
                }
                operations.into_iter().for_each(|applied| self.confirm(applied));
                self.cursor = cursor;
            }
            Entry::StartedOver => {
                // The clock goes on behind all that it has heard of.
                self.states.clear();
                self.beyond.clear();
                (self.cursor, self.last) = (0, None);
            }
            Entry::RefusedSeen => self.refused.clear(),
        }
    }

    fn uploaded(&mut self, answers: Vec<Answer>) {
        let mut answers: HashMap<OpId, Became> = answers.into_iter().map(|answer| (answer.op_id, answer.is)).collect();
        let mut over = Vec::new();
        self.pending.retain(|id, sent| match answers.remove(id) {
            None | Some(Became::Held { .. }) => true,
            Some(became) => {
                over.push((sent.operation.clone(), became));
                false
            }
        });
        for (operation, became) in over {
            match became {
                Became::Applied { cursor, time, redated, .. } => {
                    self.times.note(operation.time, time);
                    self.confirm(Applied { cursor, operation: Operation { time, ..operation }, redated });
                }
                Became::Refused { reason, message } => self.refused.push(Refused { operation, reason, message }),
                Became::Held { .. } => {}
            }
        }
    }

    /// Joins what the server has applied.
    fn confirm(&mut self, applied: Applied) {
        self.confirmed = self.confirmed.max(applied.operation.time);
        let target = &applied.operation.target;
        let joined = match self.states.get_mut(target) {
            Some(state) => state.apply(&applied.operation).is_ok(),
            None => match self.schema.nothing(target) {
                Some(mut state) => {
                    let joined = state.apply(&applied.operation).is_ok();
                    if joined {
                        self.states.insert(target.clone(), state);
                    }
                    joined
                }
                None => false,
            },
        };
        if !joined {
            self.beyond.push(applied);
        }
    }

    /// The clock for what is done next: behind all that is known.
    pub(crate) fn clock(&self) -> HybridClock {
        let last = self.pending.last().map_or(HybridTime::default(), |(_, sent)| sent.operation.time);
        HybridClock::new(self.confirmed.max(last), Millis::MAX)
    }

    /// The states of these targets, with what is pending.
    pub(crate) fn overlaid(&self, schema: &Schema, which: impl Fn(&Name) -> bool) -> BTreeMap<Name, Merged> {
        let mut states: BTreeMap<Name, Merged> = self
            .states
            .iter()
            .filter(|(name, _)| which(name))
            .map(|(name, state)| (name.clone(), state.clone()))
            .collect();
        let mut times = self.times;
        for Sent { operation, .. } in self.pending.values() {
            // What the server has moved of this device's must not hide what was done after it.
            let time = times.shown(operation.time);
            times.note(operation.time, time);
            if !which(&operation.target) {
                continue;
            }
            let Some(nothing) = schema.nothing(&operation.target) else { continue };
            let moved = (time != operation.time).then(|| Operation { time, ..operation.clone() });
            // It was checked against this schema, or an earlier one, when it was made.
            let _ =
                states.entry(operation.target.clone()).or_insert(nothing).apply(moved.as_ref().unwrap_or(operation));
        }
        states
    }
}

/// Operations as a list.
mod in_order {
    use super::{IndexMap, OpId, Sent};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(pending: &IndexMap<OpId, Sent>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(pending.values())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<IndexMap<OpId, Sent>, D::Error> {
        let pending = Vec::<Sent>::deserialize(from)?;
        Ok(pending.into_iter().map(|sent| (sent.operation.op_id, sent)).collect())
    }
}

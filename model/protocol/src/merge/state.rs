//! The state of a target: a join over the set of its operations.
//!
//! Every state is an element of a join semilattice, and [`join`](Merged::join) is its least upper bound: associative, commutative
//! and idempotent. So replicas that have the same operations have equal states, in whatever order and how often they came
//! (state-based CRDTs: Shapiro, Preguiça, Baquero and Zawirski, "Conflict-free Replicated Data Types", SSS 2011).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

use super::operation::{Change, Name, OpId, Operation, Stamp, Value};

/// How a target's operations are merged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Rule {
    /// A register: the value set last counts.
    Latest,
    /// A register: the value set first counts (the earliest finish wins).
    Earliest,
    /// A register: the greatest value counts.
    Max,
    /// A register: the least value counts.
    Min,
    /// A set that only grows.
    Union,
    /// A set: an addition wins over a removal that has not seen it (observed-remove set).
    AddWins,
    /// A counter: the sum of what was counted.
    Counter,
    /// A map: each field by a rule of its own.
    Map(BTreeMap<Name, Rule>),
}

/// A value that was set, and by which operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Written {
    /// The value.
    pub value: Value,
    /// The operation that set it.
    pub by: Stamp,
}

/// A target's state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Merged {
    /// [`Rule::Latest`].
    Latest(Option<Written>),
    /// [`Rule::Earliest`].
    Earliest(Option<Written>),
    /// [`Rule::Max`].
    Max(Option<Written>),
    /// [`Rule::Min`].
    Min(Option<Written>),
    /// [`Rule::Union`].
    Union(BTreeSet<Value>),
    /// [`Rule::AddWins`].
    AddWins {
        /// The operations that added each element.
        #[cfg_attr(feature = "serde", serde(with = "pairs"))]
        added: BTreeMap<Value, BTreeSet<OpId>>,
        /// Those of them that a removal has seen.
        removed: BTreeSet<OpId>,
    },
    /// [`Rule::Counter`]: what each operation counted.
    Counter(BTreeMap<OpId, i64>),
    /// [`Rule::Map`].
    Map(BTreeMap<Name, Merged>),
}

/// A change, or a state, that does not fit the target's rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The change is of another kind.
    #[error(
        "this change does not fit the target's rule: registers are set, sets are added to (and removed from, if additions win), counters are counted"
    )]
    Change,
    /// The map has no such field.
    #[error("the target has no such field")]
    Field,
    /// The states are of different kinds.
    #[error("these states follow different rules, and can't be joined")]
    States,
}

impl Rule {
    /// The state of a target without operations.
    pub fn nothing(&self) -> Merged {
        match self {
            Rule::Latest => Merged::Latest(None),
            Rule::Earliest => Merged::Earliest(None),
            Rule::Max => Merged::Max(None),
            Rule::Min => Merged::Min(None),
            Rule::Union => Merged::Union(BTreeSet::new()),
            Rule::AddWins => Merged::AddWins { added: BTreeMap::new(), removed: BTreeSet::new() },
            Rule::Counter => Merged::Counter(BTreeMap::new()),
            Rule::Map(fields) => {
                Merged::Map(fields.iter().map(|(name, rule)| (name.clone(), rule.nothing())).collect())
            }
        }
    }
}

impl Merged {
    /// Joins an operation. One that it has joined before changes nothing.
    ///
    /// # Errors
    /// If the change does not fit; nothing is changed then.
    pub fn apply(&mut self, operation: &Operation) -> Result<(), Misfit> {
        self.change(&operation.change, &operation.stamp())
    }

    fn change(&mut self, change: &Change, by: &Stamp) -> Result<(), Misfit> {
        let write = |value: &Value| Some(Written { value: value.clone(), by: by.clone() });
        match (&mut *self, change) {
            (Merged::Latest(_), Change::Set(value)) => self.join(Merged::Latest(write(value))),
            (Merged::Earliest(_), Change::Set(value)) => self.join(Merged::Earliest(write(value))),
            (Merged::Max(_), Change::Set(value)) => self.join(Merged::Max(write(value))),
            (Merged::Min(_), Change::Set(value)) => self.join(Merged::Min(write(value))),
            (Merged::Union(elements), Change::Add(value)) => {
                elements.insert(value.clone());
                Ok(())
            }
            (Merged::AddWins { added, .. }, Change::Add(value)) => {
                added.entry(value.clone()).or_default().insert(by.op_id);
                Ok(())
            }
            (Merged::AddWins { removed, .. }, Change::Remove { observed, .. }) => {
                removed.extend(observed);
                Ok(())
            }
            (Merged::Counter(counted), Change::Count(by_how_much)) => {
                count(counted, by.op_id, *by_how_much);
                Ok(())
            }
            (Merged::Map(fields), Change::Field(name, change)) => {
                fields.get_mut(name).ok_or(Misfit::Field)?.change(change, by)
            }
            _ => Err(Misfit::Change),
        }
    }

    /// Joins another replica's state.
    ///
    /// # Errors
    /// If the other follows another rule; what was joined before that was found stays joined.
    pub fn join(&mut self, other: Merged) -> Result<(), Misfit> {
        match (self, other) {
            (Merged::Latest(own), Merged::Latest(other)) => {
                keep(own, other, |new, old| (&new.by, &new.value) > (&old.by, &old.value))
            }
            (Merged::Earliest(own), Merged::Earliest(other)) => {
                keep(own, other, |new, old| (&new.by, &new.value) < (&old.by, &old.value))
            }
            (Merged::Max(own), Merged::Max(other)) => {
                keep(own, other, |new, old| (&new.value, &new.by) > (&old.value, &old.by));
            }
            (Merged::Min(own), Merged::Min(other)) => {
                keep(own, other, |new, old| (&new.value, &new.by) < (&old.value, &old.by));
            }
            (Merged::Union(own), Merged::Union(other)) => own.extend(other),
            (Merged::AddWins { added, removed }, Merged::AddWins { added: more, removed: gone }) => {
                for (value, by) in more {
                    added.entry(value).or_default().extend(by);
                }
                removed.extend(gone);
            }
            (Merged::Counter(own), Merged::Counter(other)) => {
                other.into_iter().for_each(|(op, by_how_much)| count(own, op, by_how_much));
            }
            (Merged::Map(own), Merged::Map(other)) => {
                for (name, theirs) in other {
                    own.get_mut(&name).ok_or(Misfit::States)?.join(theirs)?;
                }
            }
            _ => return Err(Misfit::States),
        }
        Ok(())
    }

    /// Gives it the fields that a later version of its rule has and it lacks.
    pub fn widen(&mut self, rule: &Rule) {
        if let (Merged::Map(fields), Rule::Map(rules)) = (self, rule) {
            for (name, rule) in rules {
                fields.entry(name.clone()).and_modify(|state| state.widen(rule)).or_insert_with(|| rule.nothing());
            }
        }
    }

    /// What is shown of it.
    pub fn view(&self) -> View {
        match self {
            Merged::Latest(written) | Merged::Earliest(written) | Merged::Max(written) | Merged::Min(written) => {
                View::Value(written.as_ref().map_or(Value::Null, |written| written.value.clone()))
            }
            Merged::Union(elements) => View::Set(elements.clone()),
            Merged::AddWins { added, removed } => {
                let there = added.iter().filter(|(_, by)| !by.is_subset(removed));
                View::Set(there.map(|(value, _)| value.clone()).collect())
            }
            Merged::Counter(counted) => View::Count(counted.values().map(|by| i128::from(*by)).sum()),
            Merged::Map(fields) => {
                View::Map(fields.iter().map(|(name, state)| (name.clone(), Box::new(state.view()))).collect())
            }
        }
    }

    /// The operations that have added this element of an add-wins set, as far as it is there: what a removal has to name.
    pub fn additions(&self, value: &Value) -> BTreeSet<OpId> {
        match self {
            Merged::AddWins { added, removed } => {
                added.get(value).map(|by| by.difference(removed).copied().collect()).unwrap_or_default()
            }
            _ => BTreeSet::new(),
        }
    }
}

fn keep(own: &mut Option<Written>, other: Option<Written>, wins: impl Fn(&Written, &Written) -> bool) {
    if let Some(other) = other
        && own.as_ref().is_none_or(|own| wins(&other, own))
    {
        *own = Some(other);
    }
}

/// Two operations of one name are one; should they differ all the same, every replica takes the same one.
fn count(counted: &mut BTreeMap<OpId, i64>, op: OpId, by_how_much: i64) {
    counted.entry(op).and_modify(|known| *known = by_how_much.max(*known)).or_insert(by_how_much);
}

/// A map as a list of pairs, since its keys are not texts.
#[cfg(feature = "serde")]
mod pairs {
    use alloc::collections::{BTreeMap, BTreeSet};
    use alloc::vec::Vec;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::{OpId, Value};

    type Added = BTreeMap<Value, BTreeSet<OpId>>;

    pub(super) fn serialize<S: Serializer>(added: &Added, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(added)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Added, D::Error> {
        Ok(Vec::deserialize(from)?.into_iter().collect())
    }
}

/// What is shown of a target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(untagged))]
pub enum View {
    /// A register's value; null if it was never set.
    Value(Value),
    /// A set's elements, in order.
    Set(BTreeSet<Value>),
    /// A counter's sum.
    Count(i128),
    /// A map's fields.
    Map(BTreeMap<Name, Box<View>>),
}

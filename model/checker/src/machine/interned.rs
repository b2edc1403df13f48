//! Records as small numbers: a world holds these, so that its states are small whatever a guard keeps.

use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

use ahash::RandomState;
use indexmap::IndexMap;
use settled_protocol::{Epoch, Event};

use super::{Act, Guard, View, Write};

/// A record, by number. Numbers are given in the order of first use, so they differ from run to run; which are equal does
/// not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(std::num::NonZeroU16);

impl Id {
    pub(crate) fn number(self) -> u16 {
        self.0.get()
    }

    pub(crate) fn numbered(number: u16) -> Option<Id> {
        std::num::NonZeroU16::new(number).map(Id)
    }

    fn index(self) -> usize {
        usize::from(self.0.get()) - 1
    }
}

/// A guard's step in terms of numbers.
pub(crate) struct Stepped {
    pub write: Write<Id>,
    pub acts: Vec<Act>,
}

/// A guard of whatever record type.
pub(crate) trait GuardMachine: Send + Sync {
    fn step(&self, record: Option<Id>, event: &Event<u8>) -> Stepped;
    fn view(&self, record: Id) -> View;
    fn with_owner(&self, record: Id, name: &dyn Fn(Epoch) -> Epoch) -> Id;
    fn say(&self, record: Id) -> String;
    /// Whether there are more records than numbers for them, so that something was left out.
    fn is_full(&self) -> bool;
}

/// A guard and the records that it has made so far.
pub(crate) struct Interned<G: Guard> {
    guard: G,
    table: RwLock<IndexMap<G::Record, View, RandomState>>,
}

impl<G: Guard> Interned<G> {
    pub fn new(guard: G) -> Self {
        Interned { guard, table: RwLock::new(IndexMap::with_hasher(RandomState::with_seeds(1, 2, 3, 4))) }
    }

    fn get(&self, id: Id) -> Option<(G::Record, View)> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.get_index(id.index()).map(|(record, view)| (*record, *view))
    }

    fn id(&self, record: G::Record) -> Option<Id>
    where
        G::Record: Hash,
    {
        let known = self.table.read().unwrap_or_else(PoisonError::into_inner).get_index_of(&record);
        let at = known.unwrap_or_else(|| {
            let view = self.guard.view(&record);
            self.table.write().unwrap_or_else(PoisonError::into_inner).insert_full(record, view).0
        });
        u16::try_from(at + 1).ok().and_then(std::num::NonZeroU16::new).map(Id)
    }
}

impl<G: Guard> GuardMachine for Interned<G> {
    fn step(&self, record: Option<Id>, event: &Event<u8>) -> Stepped {
        let record = record.and_then(|id| self.get(id)).map(|(record, _)| record);
        let step = self.guard.step(record.as_ref(), event);
        let write = match step.write {
            Write::Nothing => Write::Nothing,
            Write::Forget => Write::Forget,
            Write::Put(record) => match self.id(record) {
                Some(id) => Write::Put(id),
                // More than 65,535 different records: a guard whose records count without end. The write is dropped, so
                // that nothing overflows; the number of records tells (see `check`).
                None => return Stepped { write: Write::Nothing, acts: Vec::new() },
            },
        };
        Stepped { write, acts: step.acts }
    }

    fn view(&self, record: Id) -> View {
        match self.get(record) {
            Some((_, view)) => view,
            // Ids come from this table only.
            None => View {
                stage: super::Stage::Created,
                attempt: None,
                generation: 1,
                arguments: 0,
                over: false,
                until: None,
            },
        }
    }

    fn with_owner(&self, record: Id, name: &dyn Fn(Epoch) -> Epoch) -> Id {
        let renamed = self.get(record).map(|(record, _)| self.guard.with_owner(&record, name));
        renamed.and_then(|renamed| self.id(renamed)).unwrap_or(record)
    }

    fn is_full(&self) -> bool {
        self.table.read().unwrap_or_else(PoisonError::into_inner).len() > usize::from(u16::MAX)
    }

    fn say(&self, record: Id) -> String {
        self.get(record).map_or_else(String::new, |(record, _)| self.guard.say(&record))
    }
}

//! Runs, rebuilt from the nodes' parents.

use crate::explore::search::Search;
use crate::explore::store::NONE;
use crate::faults::Fault;
use crate::system::System;

/// The moves of a run.
type Moves<M> = Vec<(M, Option<Fault>)>;

impl<S: System> Search<'_, S> {
    /// The moves that lead to a node.
    pub fn moves_to(&self, node: u32) -> Moves<S::Move> {
        self.way_to(node).0
    }

    /// The moves that lead to a node, and the state that they lead to.
    ///
    /// Each state on the way is known by its fingerprint only. The first move that leads to one with that fingerprint (and
    /// budget) is taken: since the search does the same, the states are the very ones that it saw, also where states that
    /// are alike have one fingerprint.
    pub fn way_to(&self, node: u32) -> (Moves<S::Move>, S::State) {
        let mut way = Vec::new();
        let mut id = node;
        while id != NONE {
            let (local, shard) = self.ids.local(id);
            let store = &self.parts[shard].shard;
            way.push((store.fingerprint(local), store.budget(local)));
            id = store.parent(local);
        }
        way.reverse();
        let mut state = self.system.initial();
        let mut left = self.system.bounds();
        let mut run = Vec::with_capacity(way.len());
        let mut moves = Vec::new();
        for (fingerprint, budget) in way.into_iter().skip(1) {
            moves.clear();
            self.system.moves(&state, left, &mut moves);
            let step = moves.iter().find_map(|(what, fault)| {
                let after = match fault {
                    None => left,
                    Some(fault) => left.spend(*fault)?,
                };
                let next = if after == budget { self.system.apply(&state, *what) } else { None };
                let next =
                    next.filter(|next| self.fingerprints.of(self.system, next).0 == fingerprint && *next != state);
                Some(((*what, *fault), next?))
            });
            // Only a system that breaks the contract has none: the same moves lead to other states the second time.
            let Some((step, next)) = step else {
                break;
            };
            run.push(step);
            (state, left) = (next, budget);
        }
        (run, state)
    }

    /// The best node of a state, by its first node: of those in the layer in which it was first seen, the one with the
    /// fewest faults. Smaller values are better; all but the last, the node's id, are the same for any number of threads.
    pub fn best(&self, first: u32) -> (usize, u32, u64, u32) {
        let whole = self.system.bounds().total();
        let (local, shard) = self.ids.local(first);
        let store = &self.parts[shard].shard;
        let layer = store.layer(local);
        let fingerprint = store.fingerprint(local);
        store
            .of_state(local)
            .filter(|id| store.layer(*id) == layer && !store.is_dead(*id))
            .map(|id| (layer, whole.saturating_sub(store.budget(id).total()), fingerprint, self.ids.global(id, shard)))
            .min()
            .unwrap_or((layer, u32::MAX, fingerprint, first))
    }
}

//! The second half of a batch: each shard takes in the successors that fall to it, in the order in which one thread alone
//! would have found them. So nothing depends on the number of threads.

use crate::explore::edges::Edges;
use crate::explore::expand::{Entry, Layer, Successor};
use crate::explore::found::{self, Found};
use crate::explore::store::{Inserted, NONE, Shard};
use crate::explore::waiting::Waiting;
use crate::properties::PropertySet;
use crate::system::System;

/// A shard, and its part of the next layer.
pub struct Part<T> {
    pub shard: Shard,
    pub next: Vec<Entry>,
    /// Its states.
    pub waiting: Waiting<T>,
    pub edges: Edges,
    /// The first nodes of the states of the next layer that violate something.
    violating: Vec<(u32, PropertySet)>,
    /// Whether it has no more ids.
    pub full: bool,
    scratch: Vec<u8>,
}

impl<T: Clone> Part<T> {
    /// An empty one.
    pub fn new(shard: Shard) -> Self {
        Part {
            shard,
            next: Vec::new(),
            waiting: Waiting::new(),
            edges: Edges::default(),
            violating: Vec::new(),
            full: false,
            scratch: Vec::new(),
        }
    }

    /// Takes in a state. Its properties are looked at if it has not been seen before.
    pub fn insert<S: System<State = T>>(&mut self, layer: &Layer<'_, S>, index: usize, successor: Successor<T>) {
        let Successor { state, fingerprint, budget, order, parent, source } = successor;
        let (node, first) = match self.shard.insert(fingerprint, budget, parent) {
            Inserted::Full => {
                self.full = true;
                return;
            }
            Inserted::Covered(first) => (NONE, first),
            Inserted::Added(node, first) => (node, first),
            Inserted::New(node) => {
                let Some(state) = &state else {
                    self.full = true;
                    return;
                };
                if layer.graph && layer.system.ended(state) {
                    self.shard.set_ended(node);
                }
                if !layer.open.is_empty() {
                    let violated = layer.system.violated(state).and(layer.open);
                    if !violated.is_empty() {
                        self.violating.push((node, violated));
                    }
                }
                (node, node)
            }
        };
        if source != NONE {
            self.edges.add(source, layer.ids.global(first, index), self.shard.has_ended(first));
        }
        // (What is on its way without its state is always covered.)
        if let Some(state) = state.filter(|_| node != NONE) {
            let place = self.waiting.add(layer.system, state, &mut self.scratch);
            self.next.push(Entry {
                place,
                order,
                node: layer.ids.global(node, index),
                first: layer.ids.global(first, index),
                edges: false,
                fresh: first >= self.shard.layer_start(),
            });
        }
    }

    /// The violations in the next layer: of the nodes of a violating state, the living one with the fewest faults.
    pub fn violations<S: System<State = T>>(&mut self, layer: &Layer<'_, S>, index: usize, found: &mut Found) {
        let start = self.shard.layer_start();
        for (first, violated) in self.violating.drain(..) {
            for node in self.shard.of_state(first).filter(|node| *node >= start && !self.shard.is_dead(*node)) {
                let spent = layer.whole.total().saturating_sub(self.shard.budget(node).total());
                let order = self.next[(node - start) as usize].order;
                found.offer(violated, found::Place { spent, order, node: layer.ids.global(node, index) });
            }
        }
    }

    /// How much memory it uses.
    pub fn bytes(&self) -> usize {
        self.shard.bytes()
            + self.edges.bytes()
            + self.next.capacity() * size_of::<Entry>()
            + self.waiting.bytes()
            + self.violating.capacity() * size_of::<(u32, PropertySet)>()
    }
}

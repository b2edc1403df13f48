//! The search, layer by layer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use crate::explore::expand::{Entry, Layer, Successor, Worker};
use crate::explore::fingerprint::Fingerprints;
use crate::explore::found::Found;
use crate::explore::ids::Ids;
use crate::explore::insert::Part;
use crate::explore::store::{NONE, Shard};
use crate::explore::waiting::Waiting;
use crate::explore::{Options, Progress, Run};
use crate::properties::{PropertyName, PropertySet};
use crate::system::System;

/// How many states of the frontier are expanded before their successors are inserted: it bounds the memory of those, which are
/// a handful each, to a few MiB.
const fn batch_size<T>() -> usize {
    let states = (1 << 18) / size_of::<Successor<T>>();
    if states < WORTH_THREADS {
        WORTH_THREADS
    } else if states > 2048 {
        2048
    } else {
        states
    }
}
/// How many of them a thread takes at a time.
const CHUNK: usize = 64;
/// Below this, starting threads takes longer than the work.
const WORTH_THREADS: usize = 512;

/// A search under way, or done.
pub struct Search<'a, S: System> {
    pub system: &'a S,
    pub options: &'a Options,
    pub deadline: Option<Instant>,
    pub fingerprints: Fingerprints,
    pub ids: Ids,
    pub parts: Vec<Part<S::State>>,
    pub workers: Vec<Worker<S>>,
    /// The properties that are looked for.
    pub active: PropertySet,
    /// Those that no violation was found of.
    pub open: PropertySet,
    pub violations: Vec<(PropertyName, Run<S::Move>)>,
    /// A state that stops before it has ended.
    pub stuck: Option<u32>,
    pub exhaustive: bool,
    pub depth: usize,
    pub peak_bytes: usize,
    frontier: Vec<Vec<Entry>>,
    /// Its states.
    waiting: Vec<Waiting<S::State>>,
    emptied: Vec<Vec<Successor<S::State>>>,
}

impl<'a, S: System> Search<'a, S> {
    /// A search that has not begun.
    pub fn new(system: &'a S, options: &'a Options, begun: Instant) -> Self {
        let threads = options.threads.clamp(1, 64);
        let active = system.properties().and(options.wanted);
        Search {
            system,
            options,
            deadline: begun.checked_add(options.time),
            fingerprints: Fingerprints::new(options.reductions.symmetry),
            ids: Ids::new(threads),
            parts: (0..threads).map(|_| Part::new(Shard::new(threads, options.reductions.budgets))).collect(),
            workers: (0..threads).map(|_| Worker::new()).collect(),
            active,
            open: active,
            violations: Vec::new(),
            stuck: None,
            exhaustive: false,
            depth: 0,
            peak_bytes: 0,
            frontier: (0..threads).map(|_| Vec::new()).collect(),
            waiting: (0..threads).map(|_| Waiting::new()).collect(),
            emptied: Vec::new(),
        }
    }

    /// Searches until everything has been seen, a limit is reached, or nothing is left to be found.
    pub fn run(&mut self, progress: &mut dyn FnMut(Progress)) {
        self.begin();
        loop {
            if self.options.stop_when_found && !self.active.is_empty() && self.open.is_empty() {
                return;
            }
            if self.options.stop_when_any && self.open != self.active {
                return;
            }
            for (shard, part) in self.parts.iter_mut().enumerate() {
                self.frontier[shard].clear();
                std::mem::swap(&mut self.frontier[shard], &mut part.next);
                self.waiting[shard] = std::mem::replace(&mut part.waiting, Waiting::new());
            }
            let ranks = self.ranks();
            if ranks.is_empty() {
                self.exhaustive = true;
                return;
            }
            for part in &mut self.parts {
                part.shard.begin_layer();
            }
            let graph = self.needs_graph();
            let mut whole = true;
            let size = batch_size::<S::State>();
            for (number, batch) in ranks.chunks(size).enumerate() {
                whole = self.batch(batch, number * size, graph);
                let unique_states = self.unique_states();
                self.peak_bytes = self.peak_bytes.max(self.bytes() + ranks.capacity() * size_of::<u32>());
                progress(Progress {
                    transitions: self.transitions(),
                    unique_states,
                    depth: self.depth,
                    frontier: ranks.len(),
                });
                if !whole {
                    break;
                }
            }
            self.take_found(graph);
            if !whole {
                return;
            }
            if self.parts.iter().any(|part| !part.next.is_empty()) {
                self.depth += 1;
            }
        }
    }

    fn begin(&mut self) {
        for part in &mut self.parts {
            part.shard.begin_layer();
        }
        let state = self.system.initial();
        let (fingerprint, renamed) = self.fingerprints.of(self.system, &state);
        self.workers[0].renamed |= renamed;
        let budget = self.system.bounds();
        let root = Successor { state: Some(state), fingerprint, budget, order: 0, parent: NONE, source: NONE };
        let shard = self.ids.shard_of(fingerprint);
        let graph = self.needs_graph();
        let layer = layer(self.system, &self.fingerprints, self.ids, self.open, graph);
        self.parts[shard].insert(&layer, shard, root);
        self.take_found(graph);
    }

    /// The living states of the frontier, in the order in which one thread alone would have found them.
    fn ranks(&mut self) -> Vec<u32> {
        let mut ranks = Vec::with_capacity(self.frontier.iter().map(Vec::len).sum());
        let mut heads = vec![0; self.frontier.len()];
        loop {
            let next = (0..heads.len())
                .filter_map(|shard| self.frontier[shard].get(heads[shard]).map(|entry| (entry.order, shard)))
                .min();
            let Some((_, shard)) = next else {
                return ranks;
            };
            let index = heads[shard];
            heads[shard] += 1;
            let entry = &mut self.frontier[shard][index];
            let store = &mut self.parts[shard].shard;
            let (node, _) = self.ids.local(entry.node);
            if store.is_dead(node) {
                continue;
            }
            let (first, _) = self.ids.local(entry.first);
            entry.edges = entry.fresh && store.take_edges(node, first) && !store.has_ended(first);
            ranks.push(self.ids.global(index as u32, shard));
        }
    }

    /// Expands some states of the frontier and inserts what follows. False if a limit was reached.
    fn batch(&mut self, batch: &[u32], rank: usize, graph: bool) -> bool {
        let out_of_time = AtomicBool::new(false);
        if self.parts.len() > 1 && batch.len() >= WORTH_THREADS {
            self.batch_together(batch, rank, graph, &out_of_time);
        } else {
            self.batch_alone(batch, rank, graph, &out_of_time);
        }
        !out_of_time.into_inner()
            && self.transitions() < self.options.states
            && self.parts.iter().all(|part| !part.full)
            && self.workers.iter().all(|worker| !worker.unreadable)
    }

    /// By one thread: what follows a state is inserted before the next is expanded, so that it is at hand.
    fn batch_alone(&mut self, batch: &[u32], rank: usize, graph: bool, out_of_time: &AtomicBool) {
        let layer = layer(self.system, &self.fingerprints, self.ids, self.open, graph);
        let mut buckets: Vec<_> = self.parts.iter().map(|_| self.emptied.pop().unwrap_or_default()).collect();
        for (index, id) in batch.iter().enumerate() {
            if index % CHUNK == 0 && self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                out_of_time.store(true, Ordering::Relaxed);
                break;
            }
            let (local, shard) = self.ids.local(*id);
            let (entry, waiting) = (&self.frontier[shard][local as usize], &self.waiting[shard]);
            self.workers[0].expand(&layer, &self.parts, waiting, entry, rank + index, &mut buckets);
            for (shard, (part, bucket)) in self.parts.iter_mut().zip(&mut buckets).enumerate() {
                for successor in bucket.drain(..) {
                    part.insert(&layer, shard, successor);
                }
            }
        }
        self.emptied.extend(buckets);
    }

    /// By all threads.
    fn batch_together(&mut self, batch: &[u32], rank: usize, graph: bool, out_of_time: &AtomicBool) {
        let next_chunk = AtomicUsize::new(0);
        let layer = layer(self.system, &self.fingerprints, self.ids, self.open, graph);
        let shards = self.parts.len();
        let (parts, frontier, waiting, ids, deadline) =
            (&self.parts, &self.frontier, &self.waiting, self.ids, self.deadline);
        let mut spare = std::mem::take(&mut self.emptied);
        let share = spare.len() / shards;
        let expand = |worker: &mut Worker<S>, mut spare: Vec<Vec<Successor<S::State>>>| {
            loop {
                if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    out_of_time.store(true, Ordering::Relaxed);
                }
                let chunk = next_chunk.fetch_add(1, Ordering::Relaxed);
                let Some(taken) = batch.chunks(CHUNK).nth(chunk) else {
                    return spare;
                };
                if out_of_time.load(Ordering::Relaxed) {
                    return spare;
                }
                let mut buckets: Vec<_> = (0..shards).map(|_| spare.pop().unwrap_or_default()).collect();
                worker.recent.begin();
                for (index, id) in taken.iter().enumerate() {
                    let (local, shard) = ids.local(*id);
                    let entry = &frontier[shard][local as usize];
                    worker.expand(&layer, parts, &waiting[shard], entry, rank + chunk * CHUNK + index, &mut buckets);
                }
                worker.output.push((chunk, buckets));
            }
        };
        let Some((mine, others)) = self.workers.split_first_mut() else {
            return;
        };
        let mut spare = std::thread::scope(|scope| {
            let handles: Vec<_> = others
                .iter_mut()
                .map(|worker| {
                    let spare = spare.split_off(spare.len() - share);
                    let expand = &expand;
                    scope.spawn(move || expand(worker, spare))
                })
                .collect();
            let mut left = expand(mine, spare);
            for handle in handles {
                left.extend(handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            left
        });

        let mut output: Vec<_> = self.workers.iter_mut().flat_map(|worker| worker.output.drain(..)).collect();
        output.sort_unstable_by_key(|(chunk, _)| *chunk);
        let mut buckets: Vec<Vec<_>> = (0..shards).map(|_| Vec::with_capacity(output.len())).collect();
        for (_, chunk) in output {
            for (shard, bucket) in chunk.into_iter().enumerate() {
                buckets[shard].push(bucket);
            }
        }
        let queued: usize = buckets.iter().flatten().chain(&spare).map(Vec::capacity).sum();
        self.peak_bytes = self.peak_bytes.max(self.bytes() + queued * size_of::<Successor<S::State>>());

        let insert = |part: &mut Part<S::State>, shard: usize, buckets: &mut Vec<Vec<Successor<S::State>>>| {
            for successor in buckets.iter_mut().flat_map(|bucket| bucket.drain(..)) {
                part.insert(&layer, shard, successor);
            }
        };
        let mut work = self.parts.iter_mut().zip(&mut buckets).enumerate();
        std::thread::scope(|scope| {
            let mine = work.next();
            for (shard, (part, buckets)) in work {
                let insert = &insert;
                scope.spawn(move || insert(part, shard, buckets));
            }
            if let Some((shard, (part, buckets))) = mine {
                insert(part, shard, buckets);
            }
        });
        spare.extend(buckets.into_iter().flatten());
        self.emptied = spare;
    }

    /// Takes over the violations found: first those of this layer (in states at rest), then those of the next.
    fn take_found(&mut self, graph: bool) {
        let mut found = Found::default();
        for worker in &mut self.workers {
            found.merge(&mut worker.found);
        }
        self.close(&mut found);
        let layer = layer(self.system, &self.fingerprints, self.ids, self.open, graph);
        for (shard, part) in self.parts.iter_mut().enumerate() {
            part.violations(&layer, shard, &mut found);
        }
        self.close(&mut found);
    }

    fn close(&mut self, found: &mut Found) {
        for (property, place) in found.drain() {
            if property == PropertyName::CanSettle {
                self.stuck.get_or_insert(place.node);
            } else if self.open.has(property) {
                self.open = self.open.without(PropertySet::NONE.with(property, true));
                let run = Run { moves: self.moves_to(place.node), round: None };
                self.violations.push((property, run));
            }
        }
    }

    /// Whether a property is open that is decided on the graph.
    fn needs_graph(&mut self) -> bool {
        let needs = self.open.has(PropertyName::Settles) || self.open.has(PropertyName::CanSettle);
        if !needs {
            let workers = self.workers.iter_mut().map(|worker| &mut worker.edges);
            for edges in workers.chain(self.parts.iter_mut().map(|part| &mut part.edges)) {
                *edges = Default::default();
            }
        }
        needs
    }

    /// How many moves were made.
    pub fn transitions(&self) -> usize {
        self.workers.iter().map(|worker| worker.transitions).sum()
    }

    /// How many nodes live.
    pub fn unique_states(&self) -> usize {
        self.parts.iter().map(|part| part.shard.living()).sum()
    }

    /// Nothing will be explored any more, only looked at.
    pub fn finish(&mut self) {
        self.frontier = Vec::new();
        self.waiting = Vec::new();
        self.emptied = Vec::new();
        for part in &mut self.parts {
            part.next = Vec::new();
            part.waiting = Waiting::new();
            part.shard.drop_table();
        }
    }

    /// How much memory it uses.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(Part::bytes).sum::<usize>()
            + self.workers.iter().map(|worker| worker.edges.bytes()).sum::<usize>()
            + self.frontier.iter().map(Vec::capacity).sum::<usize>() * size_of::<Entry>()
            + self.waiting.iter().map(Waiting::bytes).sum::<usize>()
            + self.emptied.iter().map(Vec::capacity).sum::<usize>() * size_of::<Successor<S::State>>()
    }
}

fn layer<'a, S: System>(
    system: &'a S,
    fingerprints: &'a Fingerprints,
    ids: Ids,
    open: PropertySet,
    graph: bool,
) -> Layer<'a, S> {
    Layer { system, fingerprints, ids, whole: system.bounds(), open, graph }
}

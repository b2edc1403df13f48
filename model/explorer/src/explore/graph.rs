//! The graph of all states with the moves between them that are no faults, without budgets.
//!
//! A move that is no fault is offered whatever is left: so the edges of a state are the same in all its nodes, and what can
//! happen once faults have stopped is to be read off this graph.

use crate::explore::search::Search;
use crate::system::System;

/// The edges among states that have not ended, backwards, in compressed rows.
pub struct Graph {
    starts: Vec<u32>,
    sources: Vec<u32>,
    /// The edges again, from and to, in pieces.
    pairs: Vec<Vec<(u32, u32)>>,
    ending: Vec<u32>,
    ids: usize,
}

/// A set of ids.
pub struct IdSet(Vec<u64>);

impl IdSet {
    fn new(ids: usize) -> Self {
        IdSet(vec![0; ids.div_ceil(64)])
    }

    /// Whether it holds this one.
    pub fn has(&self, id: u32) -> bool {
        self.0[id as usize / 64] & 1 << (id % 64) != 0
    }

    /// False if it held this one already.
    fn insert(&mut self, id: u32) -> bool {
        let word = &mut self.0[id as usize / 64];
        let new = *word & 1 << (id % 64) == 0;
        *word |= 1 << (id % 64);
        new
    }
}

impl Graph {
    /// Takes over the edges that the search has recorded. `None` if there are more than can be counted.
    pub fn of<S: System>(search: &mut Search<'_, S>) -> Option<Graph> {
        let ids = search.parts.iter().map(|part| part.shard.len()).max().unwrap_or(0) * search.parts.len();
        let workers = search.workers.iter_mut().map(|worker| &mut worker.edges);
        let (pairs, ending): (Vec<Vec<Vec<_>>>, Vec<_>) = workers
            .chain(search.parts.iter_mut().map(|part| &mut part.edges))
            .map(std::mem::take)
            .map(|edges| (edges.pairs, edges.ending))
            .unzip();
        let pairs: Vec<Vec<_>> = pairs.into_iter().flatten().collect();
        let count: usize = pairs.iter().map(Vec::len).sum();
        u32::try_from(count).ok()?;
        let mut starts = vec![0_u32; ids + 1];
        for (_, target) in pairs.iter().flatten() {
            starts[*target as usize] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut sources = vec![0; count];
        for (source, target) in pairs.iter().flatten() {
            let place = &mut starts[*target as usize];
            *place -= 1;
            sources[*place as usize] = *source;
        }
        Some(Graph { starts, sources, pairs, ending: ending.into_iter().flatten().collect(), ids })
    }

    fn sources(&self, target: u32) -> &[u32] {
        &self.sources[self.starts[target as usize] as usize..self.starts[target as usize + 1] as usize]
    }

    /// The states that have not ended and from which one that has can be reached.
    pub fn can_settle(&self) -> IdSet {
        let mut able = IdSet::new(self.ids);
        let mut queue: Vec<u32> = self.ending.iter().copied().filter(|source| able.insert(*source)).collect();
        while let Some(id) = queue.pop() {
            queue.extend(self.sources(id).iter().copied().filter(|source| able.insert(*source)));
        }
        able
    }

    /// The edges among states from which a round can be reached, and those on one. None if there are no rounds.
    pub fn rounds(&self) -> Vec<(u32, u32)> {
        let mut outgoing = vec![0_u32; self.ids];
        for (source, _) in self.pairs.iter().flatten() {
            outgoing[*source as usize] += 1;
        }
        // States without successors are on no round; nor are those that only these follow; and so on.
        let mut queue: Vec<u32> = (0..self.ids as u32).filter(|id| outgoing[*id as usize] == 0).collect();
        let mut off = IdSet::new(self.ids);
        while let Some(id) = queue.pop() {
            off.insert(id);
            for source in self.sources(id) {
                outgoing[*source as usize] -= 1;
                if outgoing[*source as usize] == 0 {
                    queue.push(*source);
                }
            }
        }
        self.pairs.iter().flatten().copied().filter(|(source, target)| !off.has(*source) && !off.has(*target)).collect()
    }

    /// How much memory it uses at most, with what its methods need.
    pub fn bytes(&self) -> usize {
        self.starts.capacity() * 4
            + (self.sources.capacity() + self.ending.capacity()) * 4
            + self.pairs.iter().map(Vec::capacity).sum::<usize>() * 8
            + self.ids * 8
    }
}

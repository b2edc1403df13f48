//! All nodes seen so far, in 20 bytes each and a table of 4-byte ids.
//!
//! A node is a state and the budget left in it. A state is known by its first node; its other nodes follow in a list.

use ahash::RandomState;
use hashbrown::{HashMap, HashTable};

use crate::faults::Budget;

/// No node.
pub const NONE: u32 = u32::MAX;

const DEAD: u32 = 1 << 31;
const ENDED: u32 = 1 << 30;
const EXPANDED: u32 = 1 << 29;
const FIRST: u32 = 1 << 28;
const BUDGET: u32 = FIRST - 1;

/// The fingerprint is in halves so that a node needs no padding.
#[derive(Clone, Copy)]
struct Node {
    fingerprint: [u32; 2],
    parent: u32,
    next: u32,
    /// The budget's index, and the flags above.
    budget: u32,
}

impl Node {
    fn fingerprint(&self) -> u64 {
        u64::from(self.fingerprint[0]) | u64::from(self.fingerprint[1]) << 32
    }
}

/// The nodes whose fingerprints fall to one thread. Ids are local to it, except parents, which are global.
pub struct Shard {
    nodes: Vec<Node>,
    table: HashTable<u32>,
    budgets: Vec<Budget>,
    budget_ids: HashMap<Budget, u32, RandomState>,
    /// The first id of each layer.
    layers: Vec<u32>,
    /// Nodes that were replaced within their layer by one with a larger budget.
    dead: usize,
    most: u32,
    reduce: bool,
}

/// What is known of a node before it is inserted.
pub enum Seen {
    /// It adds nothing. The first node of its state.
    Covered(u32),
    /// It is to be inserted.
    No,
}

/// What inserting a node did.
pub enum Inserted {
    /// It adds nothing to what is there. The first node of its state.
    Covered(u32),
    /// It is a node of a state that has been seen. Its own id, and that of the first node of its state.
    Added(u32, u32),
    /// It is the first node of its state.
    New(u32),
    /// There are no more ids.
    Full,
}

impl Shard {
    /// With `reduce`, nodes whose budget is covered add nothing; without, only equal ones.
    pub fn new(shards: usize, reduce: bool) -> Self {
        Shard {
            nodes: Vec::new(),
            table: HashTable::new(),
            budgets: Vec::new(),
            budget_ids: HashMap::with_hasher(RandomState::with_seeds(1, 2, 3, 4)),
            layers: Vec::new(),
            dead: 0,
            most: u32::MAX / u32::try_from(shards).unwrap_or(u32::MAX).max(1) - 1,
            reduce,
        }
    }

    /// From here on, nodes belong to a new layer.
    pub fn begin_layer(&mut self) {
        self.layers.push(self.nodes.len() as u32);
    }

    /// The first id of the newest layer.
    pub fn layer_start(&self) -> u32 {
        self.layers.last().copied().unwrap_or(0)
    }

    /// The layer that a node is in.
    pub fn layer(&self, id: u32) -> usize {
        self.layers.partition_point(|start| *start <= id) - 1
    }

    fn find(&self, fingerprint: u64) -> Option<u32> {
        self.table.find(fingerprint, |id| self.nodes[*id as usize].fingerprint() == fingerprint).copied()
    }

    fn makes_needless(&self, budget: Budget, other: Budget) -> bool {
        if self.reduce { budget.covers(other) } else { budget == other }
    }

    /// Whether a node would add anything.
    #[inline]
    pub fn look_up(&self, fingerprint: u64, budget: Budget) -> Seen {
        let Some(first) = self.find(fingerprint) else {
            return Seen::No;
        };
        if self.of_state(first).any(|id| self.makes_needless(self.budget(id), budget)) {
            Seen::Covered(first)
        } else {
            Seen::No
        }
    }

    /// The nodes of a state, by its first.
    pub fn of_state(&self, first: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(first), |id| Some(self.nodes[*id as usize].next).filter(|next| *next != NONE))
    }

    /// Adds a node, unless there is one of its state that makes it needless. Those of the same layer that it makes
    /// needless die: so which nodes of a layer live doesn't depend on the order in which they were inserted.
    pub fn insert(&mut self, fingerprint: u64, budget: Budget, parent: u32) -> Inserted {
        let id = self.nodes.len() as u32;
        if id >= self.most {
            return Inserted::Full;
        }
        let Some(first) = self.find(fingerprint) else {
            let Some(budget) = self.intern(budget) else {
                return Inserted::Full;
            };
            self.push(Node { fingerprint: halves(fingerprint), parent, next: NONE, budget: budget | FIRST });
            let nodes = &self.nodes;
            self.table.insert_unique(fingerprint, id, |id| nodes[*id as usize].fingerprint());
            return Inserted::New(id);
        };
        let mut before = first;
        let mut current = first;
        while current != NONE {
            let (its, next) = (self.budget(current), self.nodes[current as usize].next);
            if self.makes_needless(its, budget) {
                return Inserted::Covered(first);
            }
            if self.reduce && budget.covers(its) {
                if current >= self.layer_start() && !self.is_dead(current) {
                    self.nodes[current as usize].budget |= DEAD;
                    self.dead += 1;
                }
                // The first stays, because the state is known by it; and so do those of its layer that live, because
                // the run with the fewest faults among the shortest may end in one of them.
                let keep = current == first || !self.is_dead(current) && self.layer(current) == self.layer(first);
                if !keep {
                    self.nodes[before as usize].next = next;
                    current = next;
                    continue;
                }
            }
            before = current;
            current = next;
        }
        let Some(budget) = self.intern(budget) else {
            return Inserted::Full;
        };
        self.push(Node { fingerprint: halves(fingerprint), parent, next: self.nodes[first as usize].next, budget });
        self.nodes[first as usize].next = id;
        Inserted::Added(id, first)
    }

    /// Grows by a quarter, not by doubling: nodes are most of the memory.
    fn push(&mut self, node: Node) {
        if self.nodes.len() == self.nodes.capacity() {
            self.nodes.reserve_exact((self.nodes.len() / 4).max(1024));
        }
        self.nodes.push(node);
    }

    fn intern(&mut self, budget: Budget) -> Option<u32> {
        if let Some(id) = self.budget_ids.get(&budget) {
            return Some(*id);
        }
        let id = self.budgets.len() as u32;
        if id > BUDGET {
            return None;
        }
        self.budgets.push(budget);
        self.budget_ids.insert(budget, id);
        Some(id)
    }

    /// The budget of a node.
    pub fn budget(&self, id: u32) -> Budget {
        self.budgets[(self.nodes[id as usize].budget & BUDGET) as usize]
    }

    /// The fingerprint of a node's state.
    pub fn fingerprint(&self, id: u32) -> u64 {
        self.nodes[id as usize].fingerprint()
    }

    /// The node that it was first reached from, by global id.
    pub fn parent(&self, id: u32) -> u32 {
        self.nodes[id as usize].parent
    }

    /// Whether another of its layer replaced it.
    pub fn is_dead(&self, id: u32) -> bool {
        self.nodes[id as usize].budget & DEAD != 0
    }

    /// Whether it is the node that its state is known by.
    pub fn is_first(&self, id: u32) -> bool {
        self.nodes[id as usize].budget & FIRST != 0
    }

    /// Whether its state has ended. Known of first nodes.
    pub fn has_ended(&self, first: u32) -> bool {
        self.nodes[first as usize].budget & ENDED != 0
    }

    /// Notes that a state has ended.
    pub fn set_ended(&mut self, first: u32) {
        self.nodes[first as usize].budget |= ENDED;
    }

    /// Whether this node is to record the edges of its state: true for one node of each state, which lives.
    pub fn take_edges(&mut self, id: u32, first: u32) -> bool {
        if id == first {
            return true;
        }
        let node = &mut self.nodes[first as usize];
        let take = node.budget & DEAD != 0 && node.budget & EXPANDED == 0;
        if take {
            node.budget |= EXPANDED;
        }
        take
    }

    /// How many nodes there are, the dead included.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// How many nodes there are that live.
    pub fn living(&self) -> usize {
        self.nodes.len() - self.dead
    }

    /// How many states there are.
    pub fn states(&self) -> usize {
        self.nodes.iter().filter(|node| node.budget & FIRST != 0).count()
    }

    /// Nothing will be looked up any more.
    pub fn drop_table(&mut self) {
        self.table = HashTable::new();
    }

    /// How much memory it uses.
    pub fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + self.table.allocation_size()
            + self.budgets.capacity() * size_of::<Budget>()
            + self.budget_ids.allocation_size()
            + self.layers.capacity() * size_of::<u32>()
    }
}

fn halves(fingerprint: u64) -> [u32; 2] {
    [fingerprint as u32, (fingerprint >> 32) as u32]
}

//! A plain breadth-first search that decides every property of a small world: written apart from the explorer, for a second
//! opinion.
#![allow(dead_code, reason = "each test uses its part")]

use std::collections::HashMap;

use settled_devices_model::{DeviceWorld, Move, State};
use settled_explorer::{Budget, Fault, PropertyName, PropertySet, Readable, System, Trace};

/// What a search found.
pub struct Found {
    /// A shortest run to each violation.
    pub traces: Vec<Trace>,
    pub states: usize,
    /// The faults that happened in some run.
    pub faults: Vec<Fault>,
    /// The kinds of steps that were taken.
    pub kinds: Vec<&'static str>,
}

impl Found {
    pub fn violated(&self) -> PropertySet {
        self.traces.iter().map(|trace| trace.property).collect()
    }
}

struct Node {
    state: State,
    left: Budget,
    parent: usize,
    by: Option<(Move, Option<Fault>)>,
}

/// Explores the whole world. A state that was seen with a larger budget is not explored again with a smaller one.
pub fn search(world: &DeviceWorld) -> Found {
    let said = world.properties();
    let mut nodes = vec![Node { state: world.initial(), left: world.bounds(), parent: 0, by: None }];
    let mut seen: HashMap<State, (usize, Vec<Budget>)> = HashMap::from([(world.initial(), (0, vec![world.bounds()]))]);
    let mut edges: Vec<Vec<usize>> = vec![Vec::new()];
    let mut firsts: Vec<usize> = vec![0];
    let (mut faults, mut kinds) = (Vec::new(), Vec::new());
    let mut violations: Vec<(PropertyName, usize)> = Vec::new();
    let mut moves = Vec::new();
    let mut at = 0;
    while at < nodes.len() {
        let (state, left) = (nodes[at].state, nodes[at].left);
        let broken = world.violated(&state);
        assert!(broken.without(said).is_empty(), "only what is said can be violated");
        for property in broken.iter() {
            note(&mut violations, property, at);
        }
        let id = seen[&state].0;
        let first = firsts[id] == at;
        moves.clear();
        world.moves(&state, left, &mut moves);
        let mut stops = true;
        for (what, fault) in &moves {
            let pulls = matches!(what, Move::Pull { .. });
            assert!(!pulls || !world.ended(&state), "an operation has ended that not every device has");
            let Some(next) = world.apply(&state, *what) else {
                panic!("{what:?} is offered in {state:?} and changes nothing");
            };
            if let Some(fault) = fault.filter(|fault| !faults.contains(fault)) {
                faults.push(fault);
            }
            if first {
                let said = world.say(&state, *what, &next);
                assert!(!said.text.is_empty() && !said.from.is_empty());
                if !kinds.contains(&said.kind) {
                    kinds.push(said.kind);
                }
            }
            let left = fault.map_or(left, |fault| left.spend(fault).unwrap());
            let new = seen.len();
            let (to, budgets) = seen.entry(next).or_insert((new, Vec::new()));
            let to = *to;
            if fault.is_none() {
                stops = false;
                if first {
                    edges[id].push(to);
                }
            }
            if budgets.iter().any(|budget| budget.covers(left)) {
                continue;
            }
            if budgets.is_empty() {
                firsts.push(nodes.len());
                edges.push(Vec::new());
            }
            budgets.retain(|budget| !left.covers(*budget));
            budgets.push(left);
            nodes.push(Node { state: next, left, parent: at, by: Some((*what, *fault)) });
        }
        if stops && world.ended(&state) && !broken.has(PropertyName::Convergence) {
            let snapshot = world.snapshot(&state);
            let mut shown =
                snapshot.callers.iter().chain(&snapshot.guards).map(|line| line.split_once(": ").unwrap().1);
            let first = shown.next().unwrap();
            assert!(shown.all(|other| other == first), "at the end replicas differ: {snapshot:?}");
        }
        if stops {
            for property in world.violated_at_rest(&state).with(PropertyName::Settles, !world.ended(&state)).iter() {
                note(&mut violations, property, at);
            }
        }
        at += 1;
    }
    if let Some(stuck) = stuck(world, &nodes, &firsts, &edges) {
        note(&mut violations, PropertyName::CanSettle, stuck);
    }
    let traces = violations.iter().map(|(property, at)| trace(world, *property, &nodes, *at)).collect();
    Found { traces, states: firsts.len(), faults, kinds }
}

fn note(violations: &mut Vec<(PropertyName, usize)>, property: PropertyName, at: usize) {
    if !violations.iter().any(|(known, _)| *known == property) {
        violations.push((property, at));
    }
}

/// The first node from which no ended state can be reached without a fault. Checks on the way that the graph without faults has
/// no cycle: then a run without faults always stops, and the stops alone decide `settles`.
fn stuck(world: &DeviceWorld, nodes: &[Node], firsts: &[usize], edges: &[Vec<usize>]) -> Option<usize> {
    let mut before = vec![Vec::new(); edges.len()];
    let mut open: Vec<usize> = edges.iter().map(Vec::len).collect();
    for (from, to) in edges.iter().enumerate().flat_map(|(from, all)| all.iter().map(move |to| (from, *to))) {
        before[to].push(from);
    }
    let mut can: Vec<bool> = firsts.iter().map(|at| world.ended(&nodes[*at].state)).collect();
    let mut done: Vec<usize> = (0..edges.len()).filter(|id| open[*id] == 0).collect();
    let mut next = 0;
    while next < done.len() {
        let id = done[next];
        for from in &before[id] {
            can[*from] |= can[id];
            open[*from] -= 1;
            if open[*from] == 0 {
                done.push(*from);
            }
        }
        next += 1;
    }
    assert_eq!(done.len(), edges.len(), "a run without faults goes round");
    can.iter().position(|can| !can).map(|id| firsts[id])
}

fn trace(world: &DeviceWorld, property: PropertyName, nodes: &[Node], mut at: usize) -> Trace {
    let mut run = Vec::new();
    while let Some(by) = nodes[at].by {
        run.push(by);
        at = nodes[at].parent;
    }
    run.reverse();
    Trace::of(world, property, &run, None)
}

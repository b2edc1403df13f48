//! A sample in which every two properties meet that meet anywhere.

use std::collections::BTreeSet;

use crate::cell::{Cell, Direct, direct};

/// The properties of a cell, two by two.
pub fn pairs(cell: &Cell) -> Vec<(String, String)> {
    let its =
        [format!("{:?}", cell.client), format!("{}", cell.way), cell.revision.to_owned(), format!("{:?}", cell.fault)];
    let mut pairs = Vec::new();
    for (place, one) in its.iter().enumerate() {
        pairs.extend(its.iter().skip(place + 1).map(|other| (one.clone(), other.clone())));
    }
    pairs
}

/// Takes, again and again, a cell with most pairs that are not there yet.
pub fn covering(all: &[Cell]) -> Vec<Cell> {
    let mut missing: BTreeSet<_> = all.iter().flat_map(pairs).collect();
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let gain = |cell: &&Cell| pairs(cell).iter().filter(|pair| missing.contains(pair)).count();
        let Some(best) = all.iter().rev().max_by_key(gain) else { break };
        for pair in pairs(best) {
            missing.remove(&pair);
        }
        chosen.push(best.clone());
    }
    chosen
}

/// For each fault on each transport, one of these without a proxy, so that it is known to do harm.
pub fn one_for_each_fault(cells: &[Cell]) -> Vec<Direct> {
    let mut seen = BTreeSet::new();
    let mut all = direct(cells);
    all.sort_by_key(Direct::may_be_harmless);
    all.retain(|cell| seen.insert((cell.fault, cell.link)));
    all
}

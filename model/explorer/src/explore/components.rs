//! The strongly connected components of a graph.

use std::collections::HashMap;

/// The components in which there is a round: those of several nodes, and nodes that lead to themselves. Tarjan's algorithm,
/// without recursion.
pub fn with_rounds(mut edges: Vec<(u32, u32)>) -> Vec<Vec<u32>> {
    edges.sort_unstable();
    edges.dedup();
    let mut names: Vec<u32> = edges.iter().map(|(source, _)| *source).collect();
    names.dedup();
    let index: HashMap<u32, usize> = names.iter().enumerate().map(|(index, name)| (*name, index)).collect();
    // Nodes without outgoing edges are on no round.
    let row = |node: usize| {
        let start = edges.partition_point(|(source, _)| *source < names[node]);
        let end = start + edges[start..].partition_point(|(source, _)| *source == names[node]);
        (start, end)
    };

    const UNSEEN: usize = usize::MAX;
    let mut number = vec![UNSEEN; names.len()];
    let mut low = vec![0; names.len()];
    let mut on_stack = vec![false; names.len()];
    let mut stack = Vec::new();
    let mut next_number = 0;
    let mut components = Vec::new();
    for root in 0..names.len() {
        if number[root] != UNSEEN {
            continue;
        }
        // Each node on the way, and which of its edges are still to be followed.
        let mut way: Vec<(usize, usize, usize)> = Vec::new();
        let mut entered = Some(root);
        loop {
            if let Some(node) = entered.take() {
                number[node] = next_number;
                low[node] = next_number;
                next_number += 1;
                stack.push(node);
                on_stack[node] = true;
                let (start, end) = row(node);
                way.push((node, start, end));
            }
            let Some((node, next, end)) = way.last_mut() else {
                break;
            };
            let node = *node;
            if *next < *end {
                let target = index.get(&edges[*next].1).copied();
                *next += 1;
                match target {
                    Some(target) if number[target] == UNSEEN => entered = Some(target),
                    Some(target) if on_stack[target] => low[node] = low[node].min(number[target]),
                    _ => {}
                }
                continue;
            }
            way.pop();
            if let Some((above, ..)) = way.last() {
                low[*above] = low[*above].min(low[node]);
            }
            if low[node] == number[node] {
                let at = stack.iter().rposition(|its| *its == node).unwrap_or(0);
                let members = stack.split_off(at);
                for member in &members {
                    on_stack[*member] = false;
                }
                let name = names[node];
                if members.len() > 1 || edges.binary_search(&(name, name)).is_ok() {
                    components.push(members.into_iter().map(|member| names[member]).collect());
                }
            }
        }
    }
    components
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_with_rounds() {
        let edges = vec![(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (5, 6), (6, 6), (5, 7), (7, 8), (8, 7), (9, 1)];
        let mut found = with_rounds(edges);
        found.iter_mut().for_each(|members| members.sort_unstable());
        found.sort();
        assert_eq!(found, [vec![1, 2, 3], vec![6], vec![7, 8]]);
    }
}

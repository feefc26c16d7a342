//! Shortest ways to a set of nodes over one-way edges (Dijkstra 1959, with a binary heap).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// A one-way edge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Its length, not negative.
    pub(super) steps: f32,
    /// The fewest rows a recorded trajectory takes along it.
    pub(super) rows: u32,
    /// Whether it is so much longer than those rows that a way without it is taken where there is one.
    pub(super) doubted: bool,
}

/// What a doubted edge costs beside its length: more than any way without one.
pub(super) const DOUBTED: f32 = 1e6;

/// Edges between nodes, sorted by where they lead.
pub(super) struct Edges {
    pub(super) list: Vec<Edge>,
    /// The edges that lead to node n end here in the list.
    ends: Vec<usize>,
}

/// From each node the least steps to the goals, those of doubted edges raised by [`DOUBTED`], infinity where none leads there, and the first edge
/// of that way; none at a goal.
pub(super) struct Ways {
    pub(super) steps: Vec<f32>,
    pub(super) first_edges: Vec<Option<u32>>,
}

impl Edge {
    fn cost(&self) -> f32 {
        if self.doubted { self.steps + DOUBTED } else { self.steps }
    }
}

impl Edges {
    /// `list` must be sorted by where the edges lead.
    pub(super) fn new(nodes: usize, list: Vec<Edge>) -> Self {
        let end = |node| list.partition_point(|edge| edge.to as usize <= node);
        let ends = (0..nodes).map(end).collect();
        Self { list, ends }
    }

    fn nodes(&self) -> usize {
        self.ends.len()
    }

    fn leading_to(&self, node: usize) -> Range<usize> {
        let begin = if node == 0 { 0 } else { self.ends[node - 1] };
        begin..self.ends[node]
    }

    /// The ways to `goals`, each given with the steps that remain from it.
    pub(super) fn ways_to(&self, goals: &[(usize, f32)]) -> Ways {
        let mut steps = vec![f32::INFINITY; self.nodes()];
        let mut first_edges = vec![None; self.nodes()];
        let mut queue = BinaryHeap::new();
        // The bits of numbers that are not negative are ordered as the numbers are.
        let entry = |steps: f32, node: usize| Reverse((steps.to_bits(), node));
        for &(goal, rest) in goals {
            if rest < steps[goal] {
                steps[goal] = rest;
                queue.push(entry(rest, goal));
            }
        }
        while let Some(Reverse((bits, node))) = queue.pop() {
            let done = f32::from_bits(bits);
            if done > steps[node] {
                continue;
            }
            for index in self.leading_to(node) {
                let edge = self.list[index];
                let (before, total) = (edge.from as usize, edge.cost() + done);
                if total < steps[before] {
                    steps[before] = total;
                    first_edges[before] = Some(index as u32);
                    queue.push(entry(total, before));
                }
            }
        }
        Ways { steps, first_edges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Stream};
    use crate::tabular::{DecisionProcess, Matrix, Transition, steps};

    fn random_edges(nodes: u32, count: usize, seed: u64, weight: impl Fn(u32) -> f32) -> Vec<Edge> {
        let mut draws = Stream::new(seed, Purpose(0)).draws(0, 0);
        let mut edge = |_| {
            let (from, to) = (draws.below(nodes), draws.below(nodes));
            Edge { from, to, steps: weight(draws.below(9)), rows: 1, doubted: false }
        };
        let mut edges: Vec<Edge> = (0..count).map(&mut edge).collect();
        edges.sort_by_key(|edge| edge.to);
        edges
    }

    #[test]
    fn weighted_ways_are_the_closure_of_the_edges() {
        let nodes = 30;
        for seed in 0..20 {
            let list = random_edges(nodes, 60, seed, |word| word as f32);
            let count = nodes as usize;
            let mut direct = vec![f64::INFINITY; count * count];
            (0..count).for_each(|node| direct[node * (count + 1)] = 0.0);
            for edge in &list {
                let place = &mut direct[edge.from as usize * count + edge.to as usize];
                *place = place.min(f64::from(edge.steps));
            }
            let exact = Matrix::new(count, direct).unwrap().closure();
            let edges = Edges::new(count, list);
            for goal in 0..count {
                let ways = edges.ways_to(&[(goal, 0.0)]);
                for from in 0..count {
                    assert_eq!(f64::from(ways.steps[from]), exact.between(from, goal));
                    // Following the first edges adds up to the same.
                    let (mut here, mut total) = (from, 0.0);
                    while let Some(edge) = ways.first_edges[here] {
                        let edge = edges.list[edge as usize];
                        assert_eq!(edge.from as usize, here);
                        (here, total) = (edge.to as usize, total + edge.steps);
                    }
                    assert!(ways.steps[from].is_infinite() || total == ways.steps[from]);
                }
            }
        }
    }

    #[test]
    fn unit_ways_are_the_exact_distances_of_the_deterministic_process() {
        let nodes = 40;
        let list = random_edges(nodes, 70, 5, |_| 1.0);
        // One action for every edge of a node; an action without an edge stays.
        let mut transitions = Vec::new();
        let mut used = vec![0usize; nodes as usize];
        for edge in &list {
            let (from, to) = (edge.from as usize, edge.to as usize);
            transitions.push(Transition { from, action: used[from], to, probability: 1.0 });
            used[from] += 1;
        }
        let actions = used.iter().max().unwrap() + 1;
        for (from, &first) in used.iter().enumerate() {
            transitions.extend((first..actions).map(|action| Transition {
                from,
                action,
                to: from,
                probability: 1.0,
            }));
        }
        let process =
            DecisionProcess::from_transitions(nodes as usize, actions, 0.9, &transitions).unwrap();
        let edges = Edges::new(nodes as usize, list);
        for goals in [vec![3], vec![7, 20]] {
            let sources: Vec<(usize, f32)> = goals.iter().map(|&goal| (goal, 0.0)).collect();
            let ways = edges.ways_to(&sources);
            for (found, nats) in ways.steps.iter().zip(process.distances_to(&goals)) {
                let exact = steps(nats, 0.9);
                let equal = (f64::from(*found) - exact).abs() < 1e-9;
                assert!(equal || (found.is_infinite() && exact.is_infinite()), "{found} {exact}");
            }
        }
    }
}

//! The edges of a graph planner: which nodes recorded trajectories join, and which of these edges count.

use serde::{Deserialize, Serialize};

use super::cover::Cover;
use super::shortest::{Edge, Edges};
use crate::data::Dataset;

/// The learned distance above which an edge is dropped although the data support it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Longest {
    /// In learned steps.
    Steps(f32),
    /// The share of supported edges that are kept, shortest first. A learned distance may read as
    /// steps plus a constant, and a share does not mind.
    Share(f32),
}

/// Nodes, and the edges between them with what supports each.
pub(super) struct RoadMap {
    pub(super) cover: Cover,
    pub(super) edges: Edges,
    /// The trajectories that support each edge, rising; those of edge n end at `support_ends[n]`.
    pub(super) supports: Vec<RecordedWay>,
    pub(super) support_ends: Vec<usize>,
    /// The learned steps above which an edge was dropped.
    pub(super) threshold: f32,
}

impl RoadMap {
    /// The edges that `found` supports and that are not too long; `steps_of` tells the learned steps
    /// of pairs of nodes.
    pub(super) fn new(
        cover: Cover,
        found: &[RecordedWay],
        steps_of: impl FnOnce(&[(usize, usize)]) -> Vec<f32>,
        longest: Longest,
    ) -> Self {
        let nodes = cover.rows.len();
        let groups: Vec<&[RecordedWay]> =
            found.chunk_by(|one, other| (one.to, one.from) == (other.to, other.from)).collect();
        let ends = |group: &&[RecordedWay]| (group[0].from as usize, group[0].to as usize);
        let steps = steps_of(&groups.iter().map(ends).collect::<Vec<_>>());
        let threshold = match longest {
            Longest::Steps(steps) => steps,
            Longest::Share(share) => quantile(steps.clone(), share),
        };
        let mut list = Vec::new();
        let (mut supports, mut support_ends) = (Vec::new(), Vec::new());
        let short = groups.into_iter().zip(steps).filter(|(_, steps)| *steps <= threshold);
        for (group, steps) in short {
            let RecordedWay { from, to, rows, .. } = group[0];
            let rows = group.iter().fold(rows, |fewest, support| fewest.min(support.rows));
            // A distance that is no quasimetric may be negative; a path never gains by an edge.
            list.push(Edge { from, to, steps: steps.max(0.0), rows });
            supports.extend_from_slice(group);
            support_ends.push(supports.len());
        }
        let edges = Edges::new(nodes, list);
        Self { cover, edges, supports, support_ends, threshold }
    }

    /// The trajectories that support an edge.
    pub(super) fn supports_of(&self, edge: usize) -> &[RecordedWay] {
        let begin = if edge == 0 { 0 } else { self.support_ends[edge - 1] };
        &self.supports[begin..self.support_ends[edge]]
    }
}

/// A trajectory that goes from one node to another; sorts by where it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordedWay {
    pub(super) to: u32,
    pub(super) from: u32,
    pub(super) trajectory: u32,
    pub(super) rows: u32,
    /// Its last row at the one node, and its first at the other.
    pub(super) leaves: u32,
    pub(super) arrives: u32,
}

/// A stay of a trajectory at one node: its first and last row.
struct Stay {
    node: u32,
    first: usize,
    last: usize,
}

/// Every pair of nodes that a trajectory joins within `ahead` rows, sorted, each trajectory once
/// with its fewest rows, which are counted from the middle of one stay to the middle of the other.
pub(super) fn supports(dataset: &Dataset, owners: &[u32], ahead: usize) -> Vec<RecordedWay> {
    let mut found: Vec<RecordedWay> = Vec::new();
    for trajectory in 0..dataset.trajectories() {
        let rows = dataset.trajectory(trajectory);
        let mut first = rows.start;
        let stays = owners[rows].chunk_by(|one, other| one == other).map(|stay| {
            first += stay.len();
            Stay { node: stay[0], first: first - stay.len(), last: first - 1 }
        });
        let stays: Vec<Stay> = stays.collect();
        for (index, here) in stays.iter().enumerate() {
            let near = stays[index + 1..].iter().take_while(|next| next.first <= here.last + ahead);
            for next in near.filter(|next| next.node != here.node) {
                found.push(RecordedWay {
                    to: next.node,
                    from: here.node,
                    trajectory: trajectory as u32,
                    rows: ((next.first + next.last - here.first - here.last) / 2) as u32,
                    leaves: here.last as u32,
                    arrives: next.first as u32,
                });
            }
        }
    }
    found.sort_unstable();
    found.dedup_by_key(|support| (support.to, support.from, support.trajectory));
    found
}

/// The number that a share of `numbers` does not exceed; numbers that are not finite come last.
fn quantile(mut numbers: Vec<f32>, share: f32) -> f32 {
    numbers.sort_by(f32::total_cmp);
    let place = (numbers.len() as f32 * share).ceil() as usize;
    numbers.get(place.max(1) - 1).copied().unwrap_or(0.0)
}

//! The edges of a graph planner: which nodes recorded trajectories join, and which of these edges count.

use serde::{Deserialize, Serialize};

use super::cover::Cover;
use super::shortest::{Edge, Edges};
use crate::data::{Dataset, check_room};
use crate::error::Result;

/// The learned distance above which an edge is dropped, or taken only where no other way is left,
/// although the data support it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Longest {
    /// In learned steps; longer edges are dropped.
    Steps(f32),
    /// The share of supported edges that are trusted, shortest first; others too if they are not far
    /// above the rows that were recorded. The rest are taken only where no other way is left: either the
    /// recording leapt, or the learned distance is wrong there. A learned distance may read as steps
    /// plus a constant, and a share does not mind.
    Share(f32),
}

/// Learned steps are far above recorded rows beyond this factor and this many steps.
const FACTOR: f32 = 2.0;
const SLACK: f32 = 10.0;

/// Nodes, and the edges between them with what supports each.
pub(super) struct RoadMap {
    pub(super) cover: Cover,
    pub(super) edges: Edges,
    /// The trajectories that support each edge, rising; those of edge n end at `support_ends[n]`.
    pub(super) supports: Vec<RecordedWay>,
    pub(super) support_ends: Vec<usize>,
    /// The learned steps above which an edge may have been dropped or doubted.
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
        let groups: Vec<&[RecordedWay]> = found.chunk_by(RecordedWay::has_ends_of).collect();
        let ends = |group: &&[RecordedWay]| (group[0].from as usize, group[0].to as usize);
        let steps = steps_of(&groups.iter().map(ends).collect::<Vec<_>>());
        let threshold = match longest {
            Longest::Steps(steps) => steps,
            Longest::Share(share) => quantile(steps.clone(), share),
        };
        let mut list = Vec::with_capacity(groups.len());
        let mut supports = Vec::with_capacity(found.len());
        let mut support_ends = Vec::with_capacity(groups.len());
        for (group, steps) in groups.into_iter().zip(steps) {
            let RecordedWay { from, to, rows, .. } = group[0];
            let rows = group.iter().fold(rows, |fewest, support| fewest.min(support.rows));
            let doubted = match longest {
                Longest::Steps(_) if steps > threshold => continue,
                Longest::Steps(_) => false,
                Longest::Share(_) => steps > threshold.max(FACTOR * rows as f32 + SLACK),
            };
            // A distance that is no quasimetric may be negative; a path never gains by an edge.
            list.push(Edge { from, to, steps: steps.max(0.0), rows, doubted });
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

impl RecordedWay {
    /// Whether both lead from and to the same nodes.
    fn has_ends_of(&self, other: &Self) -> bool {
        (self.to, self.from) == (other.to, other.from)
    }
}

/// A stay of a trajectory at one node: its first and last row.
struct Stay {
    node: u32,
    first: usize,
    last: usize,
}

/// Every pair of nodes that a trajectory joins within `ahead` rows, sorted, each trajectory once
/// with its fewest rows, which are counted from the middle of one stay to the middle of the other.
///
/// # Errors
/// They, or the graph that is built from them, do not fit into memory.
pub(super) fn supports(
    dataset: &Dataset,
    owners: &[u32],
    ahead: usize,
) -> Result<Vec<RecordedWay>> {
    let mut count = 0;
    each_way(dataset, owners, ahead, |_| count += 1);
    check_ways(count, 0)?;
    let mut found = Vec::with_capacity(count);
    each_way(dataset, owners, ahead, |way| found.push(way));
    found.sort_unstable();
    found.dedup_by_key(|support| (support.to, support.from, support.trajectory));
    check_ways(found.len(), found.chunk_by(RecordedWay::has_ends_of).count())?;
    Ok(found)
}

/// Refuses what the memory has no room for: so many ways, and what so many edges take while
/// [`RoadMap::new`] chooses among them.
fn check_ways(ways: usize, edges: usize) -> Result<()> {
    // Its support, its ends, its steps twice, the edge, and where its supports end.
    const EDGE: usize = size_of::<&[RecordedWay]>()
        + size_of::<(usize, usize)>()
        + 2 * size_of::<f32>()
        + size_of::<Edge>()
        + size_of::<usize>();
    let bytes = ways * size_of::<RecordedWay>() + edges * EDGE;
    let hint = "ask for fewer nodes: `--nodes`, or `evaluation.nodes` of a config";
    check_room(&format!("{ways} recorded ways between nodes"), bytes as u64, hint)
}

/// Hands every way from one stay of a trajectory to another within `ahead` rows to `take`.
fn each_way(dataset: &Dataset, owners: &[u32], ahead: usize, mut take: impl FnMut(RecordedWay)) {
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
                take(RecordedWay {
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
}

/// The number that a share of `numbers` does not exceed; numbers that are not finite come last.
fn quantile(mut numbers: Vec<f32>, share: f32) -> f32 {
    numbers.sort_by(f32::total_cmp);
    let place = (numbers.len() as f32 * share).ceil() as usize;
    numbers.get(place.max(1) - 1).copied().unwrap_or(0.0)
}

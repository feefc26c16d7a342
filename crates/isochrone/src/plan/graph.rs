//! Graph planning: shortest paths over data states, along steps that the data have taken.
//!
//! Nodes are a cover of the dataset, in the coordinates that policies see of a goal; every row belongs
//! to the node nearest to it. An edge (u, v) is drawn where some trajectory has a row of u and, at most
//! `ahead` rows later, a row of v; its length is d(u, v), and one far above both a threshold and the rows
//! is taken only where no other way is left. A wall thinner than the radius of the cover is not seen.
//! Start and goal are tied to the nodes within that radius, at least to the nearest.

use std::sync::{Arc, OnceLock};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::cover::Cover;
use super::kept;
use super::roadmap::{Longest, RecordedWay, RoadMap, supports};
use super::shortest::{DOUBTED, Ways};
use super::{Distance, Hop, Novelty, Path, PathEnding, check_state};
use crate::data::{Dataset, check_room};
use crate::error::{Error, Result};

/// With fewer rows per node than this, fewer nodes may join trajectories that share none.
const FEW_ROWS: usize = 8;

/// How a graph is built and followed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GraphSettings {
    /// Nodes at most.
    pub nodes: usize,
    /// Rows at most between the two ends of an edge on one trajectory.
    pub ahead: usize,
    /// The longest edge.
    pub longest: Longest,
    /// Recorded steps at least from a state to the waypoint it is sent to.
    pub waypoint: usize,
    /// A start or goal farther than this from the data, in typical spacings, has no path.
    pub far: f32,
    /// Draws the first node, and the rows considered in a long dataset.
    pub seed: u64,
}

impl Default for GraphSettings {
    /// Nodes nearer together than a step of the 2-D worlds; edges and waypoints that served a
    /// learned policy best there.
    fn default() -> Self {
        Self {
            nodes: 1_500,
            ahead: 2,
            longest: Longest::Share(0.95),
            waypoint: 3,
            far: 2.0,
            seed: 0,
        }
    }
}

/// Data states joined by recorded steps, with learned lengths.
pub struct Graph<'d, D: Distance> {
    distance: &'d D,
    settings: GraphSettings,
    map: Arc<RoadMap>,
    /// Rows of the data that the nodes stand for.
    rows: usize,
    states: Vec<f32>,
    embedded: D::Embedded,
}

/// Room for what a graph was built from, to build it again at once.
#[derive(Default)]
pub(crate) struct KeptMap(OnceLock<Arc<RoadMap>>);

/// The shortest ways from every node to one goal: solved once, followed from many starts.
pub struct Tree {
    goal: Vec<f32>,
    /// The nodes the goal is tied to.
    ends: Vec<usize>,
    ways: Ways,
}

impl Tree {
    /// The goal.
    pub fn goal(&self) -> &[f32] {
        &self.goal
    }
}

impl<'d, D: Distance> Graph<'d, D> {
    /// Builds the graph of `dataset`, or where it stays in a file of a sample that fits into memory.
    ///
    /// # Errors
    /// Settings without extent, or states of another size than the distance's.
    pub fn new(distance: &'d D, dataset: &Dataset, settings: GraphSettings) -> Result<Self> {
        Self::with_map(distance, dataset, settings, |_, _| Ok(None))
    }

    /// As [`Graph::new`], with what was built kept in the file `path` and read from there if it is of
    /// these data, this distance and these settings. `key` names data and distance. A file that is
    /// damaged or of something else is replaced; one that cannot be written is done without.
    ///
    /// # Errors
    /// As [`Graph::new`].
    pub(crate) fn kept(
        distance: &'d D,
        dataset: &Dataset,
        settings: GraphSettings,
        (path, key): (&std::path::Path, &str),
    ) -> Result<Self> {
        let key = format!("{key} {settings:?} {:?}", distance.places());
        let mut found = false;
        let graph = Self::with_map(distance, dataset, settings, |dataset, axes| {
            let map = kept::read(path, &key, dataset, axes)?.map(Arc::new);
            found = map.is_some();
            Ok(map)
        })?;
        if !found {
            kept::write(path, &key, &graph.map).ok();
        }
        Ok(graph)
    }

    /// As [`Graph::new`], with what was built kept in `room` and taken from there the next time, which
    /// must be with the same distance, data and settings.
    ///
    /// # Errors
    /// As [`Graph::new`].
    pub(crate) fn remembered(
        distance: &'d D,
        dataset: &Dataset,
        settings: GraphSettings,
        room: &KeptMap,
    ) -> Result<Self> {
        let graph = Self::with_map(distance, dataset, settings, |_, _| Ok(room.0.get().cloned()))?;
        room.0.get_or_init(|| graph.map.clone());
        Ok(graph)
    }

    /// The graph of a map that is already there, or of a new one.
    fn with_map(
        distance: &'d D,
        dataset: &Dataset,
        settings: GraphSettings,
        known: impl FnOnce(&Dataset, &[usize]) -> Result<Option<Arc<RoadMap>>>,
    ) -> Result<Self> {
        distance.check()?;
        check(&settings, distance.state_size(), dataset.state_size())?;
        let dataset = &*dataset.in_memory()?;
        let (axes, count) = (distance.places(), dataset.rows());
        let states_of = |rows: &[usize]| -> Vec<f32> {
            rows.iter().flat_map(|&row| dataset.state(row).iter().copied()).collect()
        };
        if let Some(map) = known(dataset, &axes)? {
            check_nodes(distance, map.cover.rows.len())?;
            let states = states_of(&map.cover.rows);
            let embedded = distance.embed(&states);
            return Ok(Self { distance, settings, map, rows: count, states, embedded });
        }
        check_nodes(distance, settings.nodes.min(dataset.rows()))?;
        let (cover, owners) = Cover::new(dataset, &axes, settings.nodes, settings.seed)?;
        let states = states_of(&cover.rows);
        let embedded = distance.embed(&states);
        let supports = supports(dataset, &owners, settings.ahead)?;
        let steps_of = |pairs: &[(usize, usize)]| distance.of_pairs(&embedded, pairs);
        let map = Arc::new(RoadMap::new(cover, &supports, steps_of, settings.longest));
        Ok(Self { distance, settings, map, rows: count, states, embedded })
    }

    /// How many nodes.
    pub fn nodes(&self) -> usize {
        self.map.cover.rows.len()
    }

    /// How many edges.
    pub fn edges(&self) -> usize {
        self.map.edges.list.len()
    }

    /// The learned steps above which an edge may have been dropped or doubted; see [`Longest`].
    pub fn threshold(&self) -> f32 {
        self.map.threshold
    }

    /// The states of the nodes, row after row.
    pub fn states(&self) -> &[f32] {
        &self.states
    }

    fn state(&self, node: usize) -> &[f32] {
        let size = self.distance.state_size();
        &self.states[node * size..][..size]
    }

    /// Solves the shortest ways from every node to `goal`.
    ///
    /// # Errors
    /// A goal of another size than the distance's states, or not finite.
    pub fn tree(&self, goal: &[f32]) -> Result<Tree> {
        Ok(self.trees(&[goal])?.remove(0))
    }

    /// Solves the shortest ways to many goals; takes less time than one after the other.
    ///
    /// # Errors
    /// A goal of another size than the distance's states, or not finite.
    pub fn trees(&self, goals: &[&[f32]]) -> Result<Vec<Tree>> {
        goals.iter().try_for_each(|goal| check_state("goal", goal, self.distance.state_size()))?;
        let count = goals.len();
        let to_goals =
            self.distance.pairwise(&self.embedded, &self.distance.embed(&goals.concat()));
        let tree = |(index, goal): (usize, &&[f32])| {
            let ends = self.map.cover.near(goal);
            let rest = |&node: &usize| (node, to_goals[node * count + index]);
            let rests: Vec<(usize, f32)> = ends.iter().map(rest).collect();
            Tree { goal: goal.to_vec(), ends, ways: self.map.edges.ways_to(&rests) }
        };
        Ok(goals.par_iter().enumerate().map(tree).collect())
    }

    /// The shortest path from `start` to `goal`.
    ///
    /// # Errors
    /// A start or a goal of another size than the distance's states, or not finite.
    pub fn path(&self, start: &[f32], goal: &[f32]) -> Result<Path> {
        self.path_along(&self.tree(goal)?, start)
    }

    /// The shortest path from `start` to the goal of `tree`.
    ///
    /// # Errors
    /// A start of another size than the distance's states, or not finite.
    pub fn path_along(&self, tree: &Tree, start: &[f32]) -> Result<Path> {
        check_state("start", start, self.distance.state_size())?;
        let novelty = Novelty::of(self.distance, start, &tree.goal);
        let embedded = self.distance.embed(start);
        let direct = self.distance.pairwise(&embedded, &self.distance.embed(&tree.goal))[0];
        let near = self.map.cover.near(start);
        let mut path = Path {
            states: vec![start.to_vec()],
            steps: f32::INFINITY,
            direct,
            recorded: None,
            hops: Vec::new(),
            doubted: 0,
            radius: self.map.cover.squared_radius.sqrt(),
            trajectories: Vec::new(),
            ending: PathEnding::Arrived,
            novelty,
        };
        let to_nodes = self.distance.pairwise(&embedded, &self.embedded);
        let through = |node: &usize| to_nodes[*node] + tree.ways.steps[*node];
        let first = near.iter().copied().min_by(|a, b| through(a).total_cmp(&through(b)));
        if let Some(why) = self.obstacle(&novelty, tree, &near) {
            path.ending = PathEnding::NoPath { why };
        } else if near.iter().any(|node| tree.ends.contains(node)) {
            path.states.push(tree.goal.clone());
            (path.steps, path.recorded) = (direct, Some(0));
        } else if let Some(first) = first {
            self.follow(tree, first, &mut path);
            path.steps = through(&first) - DOUBTED * path.doubted as f32;
        }
        Ok(path)
    }

    /// Why there is no path from the nodes `near` a start, in words.
    fn obstacle(&self, novelty: &Novelty, tree: &Tree, near: &[usize]) -> Option<String> {
        let far = self.settings.far;
        for (name, found) in [("start", novelty.start), ("goal", novelty.goal)] {
            if found > far {
                return Some(format!(
                    "the {name} lies {found:.1} typical spacings from the data, where no recorded \
                     step begins or ends; at most {far} are bridged"
                ));
            }
        }
        let leads = |node: &usize| tree.ways.steps[*node].is_finite();
        if near.iter().any(leads) {
            return None;
        }
        let reach = (0..self.nodes()).filter(leads).count();
        let fewer = match self.rows < FEW_ROWS * self.nodes() {
            true => "; trajectories may share more nodes if there are fewer (`--nodes`)",
            false => "",
        };
        Some(format!(
            "no chain of recorded steps leads from the start to the goal: the goal is reached from \
             {reach} of {} nodes, and the start lies at none of them{fewer}",
            self.nodes()
        ))
    }

    fn follow(&self, tree: &Tree, first: usize, path: &mut Path) {
        let (mut here, mut used) = (first, Vec::new());
        path.states.push(self.state(here).to_vec());
        while let Some(index) = tree.ways.first_edges[here] {
            let edge = self.map.edges.list[index as usize];
            here = edge.to as usize;
            path.doubted += usize::from(edge.doubted);
            used.push(index as usize);
            path.states.push(self.state(here).to_vec());
        }
        path.states.push(tree.goal.clone());
        path.hops = self.hops(&used);
        path.recorded = Some(path.hops.iter().map(|hop| hop.recorded).sum());
        let mut trajectories: Vec<usize> = path.hops.iter().map(|hop| hop.trajectory).collect();
        trajectories.dedup();
        path.trajectories = trajectories;
    }

    /// Recorded moves along `edges`, one after the other, by the fewest trajectories: each is kept
    /// as long as it supports the next edge.
    fn hops(&self, edges: &[usize]) -> Vec<Hop> {
        let support = |edge: usize| self.map.supports_of(edge);
        let of = |edge: usize, trajectory: u32| {
            let found = support(edge).binary_search_by_key(&trajectory, |one| one.trajectory);
            found.ok().map(|at| Hop::of(&support(edge)[at]))
        };
        let mut hops = Vec::new();
        let mut rest = edges;
        while let Some(&first) = rest.first() {
            let kept = |one: &RecordedWay| {
                rest.iter().take_while(|&&edge| of(edge, one.trajectory).is_some()).count()
            };
            // Of those that last equally long the first.
            let longest = support(first).iter().rev().max_by_key(|one| kept(one));
            let Some(longest) = longest else { break };
            let count = kept(longest);
            hops.extend(rest[..count].iter().filter_map(|&edge| of(edge, longest.trajectory)));
            rest = &rest[count..];
        }
        hops
    }

    /// Where to head for from `state` on the way to the tree's goal: the first state of the path
    /// that is `settings.waypoint` recorded steps ahead, or the goal where fewer remain; `None` if
    /// no path begins here.
    pub fn waypoint<'s>(&'s self, state: &[f32], tree: &'s Tree) -> Option<&'s [f32]> {
        let steps = &tree.ways.steps;
        let near = self.map.cover.near(state);
        let first = near.into_iter().min_by(|&a, &b| steps[a].total_cmp(&steps[b]))?;
        if steps[first].is_infinite() {
            return None;
        }
        let (mut here, mut recorded) = (first, 0);
        while recorded < self.settings.waypoint {
            let Some(index) = tree.ways.first_edges[here] else { return Some(&tree.goal) };
            let edge = self.map.edges.list[index as usize];
            (here, recorded) = (edge.to as usize, recorded + edge.rows as usize);
        }
        Some(self.state(here))
    }
}

impl Hop {
    /// The move that a support stands for.
    fn of(support: &RecordedWay) -> Self {
        Self {
            trajectory: support.trajectory as usize,
            recorded: support.rows as usize,
            leaves: support.leaves as usize,
            arrives: support.arrives as usize,
        }
    }
}

/// Refuses nodes that the memory has no room for.
fn check_nodes(distance: &impl Distance, nodes: usize) -> Result<()> {
    let state = (size_of::<f32>() * distance.state_size()) as u64;
    let bytes = (nodes as u64).saturating_mul(state + distance.bytes_per_state());
    let hint = "ask for fewer: `--nodes`, or `evaluation.nodes` of a config";
    check_room(&format!("{nodes} nodes"), bytes, hint)
}

fn check(settings: &GraphSettings, distance_size: usize, data_size: usize) -> Result<()> {
    let whole = [("nodes", settings.nodes), ("ahead", settings.ahead)];
    if let Some((key, _)) = whole.iter().find(|(_, value)| *value == 0) {
        return Err(Error::input(format!("`{key}` is `0`, expected 1 or more")));
    }
    let (key, value, fits) = match settings.longest {
        Longest::Steps(steps) => ("longest.steps", steps, steps > 0.0),
        Longest::Share(share) => ("longest.share", share, share > 0.0 && share <= 1.0),
    };
    if !fits {
        return Err(Error::input(format!(
            "`{key}` is `{value}`, expected steps above 0 or a share in (0, 1]"
        )));
    }
    if distance_size == data_size {
        return Ok(());
    }
    Err(Error::input(format!(
        "states of the data have `{data_size}` values, those of the model `{distance_size}`"
    ))
    .hint("plan with the data the model was trained on"))
}

#[cfg(test)]
mod tests {
    use super::super::toy::{Toy, euclid};
    use super::*;

    const EVERY: GraphSettings = GraphSettings {
        nodes: 1_000,
        ahead: 1,
        longest: Longest::Share(1.0),
        waypoint: 3,
        far: 2.0,
        seed: 0,
    };

    fn dataset(trajectories: &[Vec<[f32; 2]>]) -> Dataset {
        let lengths: Vec<usize> = trajectories.iter().map(Vec::len).collect();
        let states = trajectories.iter().flatten().flatten().copied().collect();
        Dataset::new(states, 2, None, &lengths).unwrap()
    }

    /// Two corridors, y = 0 and y = 1, walked to the right; only at x = 9 does one lead up.
    fn corridors(joined: bool) -> Dataset {
        let lower = (0..10).map(|x| [x as f32, 0.0]).collect();
        let upper = (0..10).map(|x| [9.0 - x as f32, 1.0]).collect();
        let mut trajectories: Vec<Vec<[f32; 2]>> = vec![lower, upper];
        if joined {
            trajectories.push(vec![[8.0, 0.0], [9.0, 0.0], [9.0, 1.0], [8.0, 1.0]]);
        }
        dataset(&trajectories)
    }

    #[test]
    fn a_short_way_through_a_wall_is_refused_and_the_recorded_way_round_is_taken() {
        let straight = Toy { size: 2, steps: euclid };
        let data = corridors(true);
        let graph = Graph::new(&straight, &data, EVERY).unwrap();
        assert_eq!((graph.nodes(), graph.edges()), (20, 19));
        let path = graph.path(&[0.0, 0.0], &[0.0, 1.0]).unwrap();
        assert_eq!(path.ending, PathEnding::Arrived);
        assert_eq!((path.steps, path.direct, path.recorded), (19.0, 1.0, Some(19)));
        assert!(path.states.contains(&vec![9.0, 0.0]) && path.states.contains(&vec![9.0, 1.0]));
        assert_eq!(path.trajectories, [0, 2, 1]);
    }

    #[test]
    fn a_path_borrows_from_the_fewest_trajectories() {
        let straight = Toy { size: 2, steps: euclid };
        let walk = |range: std::ops::Range<i32>| range.map(|x| [x as f32, 0.0]).collect::<Vec<_>>();
        // 0–3 by two trajectories, of which only the second continues to 6.
        let data = dataset(&[walk(0..4), walk(0..7), walk(5..10)]);
        let graph = Graph::new(&straight, &data, EVERY).unwrap();
        let path = graph.path(&[0.0, 0.0], &[9.0, 0.0]).unwrap();
        assert_eq!(path.trajectories, [1, 2]);
        let short = graph.path(&[0.0, 0.0], &[2.0, 0.0]).unwrap();
        assert_eq!(short.trajectories, [0]);
    }

    #[test]
    fn without_a_path_the_reason_is_told() {
        let straight = Toy { size: 2, steps: euclid };
        let data = corridors(false);
        let graph = Graph::new(&straight, &data, EVERY).unwrap();
        let why = |start: [f32; 2], goal: [f32; 2]| {
            let path = graph.path(&start, &goal).unwrap();
            assert_eq!((path.states, path.steps), (vec![start.to_vec()], f32::INFINITY));
            match path.ending {
                PathEnding::NoPath { why } => why,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            why([0.0, 0.0], [0.0, 1.0]),
            "no chain of recorded steps leads from the start to the goal: the goal is reached from \
             10 of 20 nodes, and the start lies at none of them; trajectories may share more nodes \
             if there are fewer (`--nodes`)"
        );
        // Steps have a direction.
        assert!(why([5.0, 0.0], [2.0, 0.0]).contains("from 3 of 20 nodes"));
        assert!(why([13.0, 0.0], [0.0, 1.0]).starts_with("the start lies 3.0 typical spacings"));
        assert!(why([0.0, 0.0], [0.0, 14.5]).starts_with("the goal lies 4.5 typical spacings"));
    }

    #[test]
    fn a_recorded_step_with_a_long_learned_distance_is_avoided_or_dropped() {
        let quarters = Toy { size: 2, steps: |from: &[f32], to: &[f32]| 4.0 * euclid(from, to) };
        let place = |step: u8| [0.25 * f32::from(step), 0.0];
        let walk = (0..40).map(place).collect();
        // The last trajectories jump, once over 37 steps and once over 7.
        let data = dataset(&[walk, vec![place(2), place(39)], vec![place(2), place(9)]]);
        let settings = |longest| GraphSettings { longest, ..EVERY };
        let all = Graph::new(&quarters, &data, EVERY).unwrap();
        let most = Graph::new(&quarters, &data, settings(Longest::Share(0.9))).unwrap();
        let short = Graph::new(&quarters, &data, settings(Longest::Steps(1.5))).unwrap();
        assert_eq!((all.edges(), most.edges(), short.edges()), (41, 41, 39));
        let recorded =
            |graph: &Graph<'_, _>| graph.path(&place(0), &place(39)).unwrap().recorded.unwrap();
        assert_eq!(recorded(&short), 39);
        // Seven steps where one row was recorded are no reason to distrust it.
        assert_eq!(recorded(&most), 33);
        // Where jumping is short for the distance too, it is taken.
        let hops = Toy { size: 2, steps: |from, to| f32::from(u8::from(from != to)) };
        let hopping = Graph::new(&hops, &data, EVERY).unwrap();
        assert_eq!(hopping.path(&place(0), &place(39)).unwrap().recorded, Some(3));
    }

    #[test]
    fn a_doubted_move_is_taken_where_no_other_way_is_left_and_is_told() {
        let quarters = Toy { size: 2, steps: |from: &[f32], to: &[f32]| 4.0 * euclid(from, to) };
        let place = |step: u8| [0.25 * f32::from(step), 0.0];
        let walk = |steps: std::ops::Range<u8>| steps.map(place).collect::<Vec<_>>();
        let data = dataset(&[walk(0..11), vec![place(10), place(39)], walk(39..48)]);
        let settings = |longest| GraphSettings { longest, ..EVERY };
        let trusting = Graph::new(&quarters, &data, settings(Longest::Share(0.9))).unwrap();
        let path = trusting.path(&place(0), &place(45)).unwrap();
        assert_eq!((path.doubted, path.recorded), (1, Some(17)));
        assert!((path.steps - 45.0).abs() < 0.2, "{}", path.steps);
        assert_eq!(trusting.path(&place(0), &place(9)).unwrap().doubted, 0);
        let strict = Graph::new(&quarters, &data, settings(Longest::Steps(1.5))).unwrap();
        let none = strict.path(&place(0), &place(45)).unwrap();
        assert!(matches!(none.ending, PathEnding::NoPath { .. }) && none.doubted == 0);
    }

    #[test]
    fn waypoints_are_some_recorded_steps_ahead_and_end_at_the_goal() {
        let straight = Toy { size: 2, steps: euclid };
        let data = corridors(true);
        let graph = Graph::new(&straight, &data, EVERY).unwrap();
        let tree = graph.tree(&[0.0, 1.0]).unwrap();
        assert_eq!(graph.waypoint(&[2.1, 0.1], &tree), Some(&[5.0, 0.0][..]));
        assert_eq!(graph.waypoint(&[8.0, 0.0], &tree), Some(&[8.0, 1.0][..]));
        assert_eq!(graph.waypoint(&[2.0, 1.0], &tree), Some(tree.goal()));
        let back = graph.tree(&[3.0, 0.0]).unwrap();
        assert_eq!(graph.waypoint(&[7.0, 1.0], &back), None);
    }

    #[test]
    fn a_remembered_map_is_built_once() {
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let counted = |from: &[f32], to: &[f32]| {
            asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            euclid(from, to)
        };
        let (toy, data, room) =
            (Toy { size: 2, steps: counted }, corridors(true), KeptMap::default());
        let plan = || {
            asked.store(0, std::sync::atomic::Ordering::Relaxed);
            let graph = Graph::remembered(&toy, &data, EVERY, &room).unwrap();
            let built = asked.load(std::sync::atomic::Ordering::Relaxed);
            (built, graph.edges(), graph.path(&[0.0; 2], &[0.0, 1.0]).unwrap())
        };
        let (first, again) = (plan(), plan());
        assert!(first.0 >= first.1 && first.1 > 0, "{} pairs for {} edges", first.0, first.1);
        assert_eq!(again, (0, first.1, first.2));
    }

    /// A body at x in some posture.
    struct Body;

    impl Distance for Body {
        type Embedded = Vec<f32>;

        fn state_size(&self) -> usize {
            2
        }

        fn places(&self) -> Vec<usize> {
            vec![0]
        }

        fn embed(&self, states: &[f32]) -> Vec<f32> {
            states.chunks_exact(2).map(|state| state[0]).collect()
        }

        fn pairwise(&self, from: &Vec<f32>, to: &Vec<f32>) -> Vec<f32> {
            from.iter().flat_map(|x| to.iter().map(move |y| (x - y).abs())).collect()
        }

        fn of_pairs(&self, states: &Vec<f32>, pairs: &[(usize, usize)]) -> Vec<f32> {
            pairs.iter().map(|&(from, to)| (states[from] - states[to]).abs()).collect()
        }

        fn novelty(&self, states: &[f32]) -> Vec<f32> {
            vec![0.0; states.len() / 2]
        }
    }

    #[test]
    fn nodes_cover_places_whatever_the_posture() {
        let walk = |from: usize, to: usize| -> Vec<[f32; 2]> {
            (from..to).map(|x| [x as f32, (50 * (x % 2) + 20 * from) as f32]).collect()
        };
        // The second walk begins where the first ends, in a posture that the first never had.
        let data = dataset(&[walk(0, 6), walk(5, 10)]);
        let graph = Graph::new(&Body, &data, EVERY).unwrap();
        assert_eq!(graph.nodes(), 10);
        let path = graph.path(&[0.0, 7.0], &[9.0, -40.0]).unwrap();
        assert_eq!((path.ending, path.steps, path.recorded), (PathEnding::Arrived, 9.0, Some(9)));
        let tree = graph.tree(&[9.0, 0.0]).unwrap();
        assert_eq!(graph.waypoint(&[2.1, 33.0], &tree).unwrap()[0], 5.0);
        // In whole states nothing joins the two.
        let whole = Toy { size: 2, steps: euclid };
        let graph = Graph::new(&whole, &data, EVERY).unwrap();
        assert_eq!(graph.nodes(), 11);
        let path = graph.path(&[0.0, 0.0], &[9.0, 55.0]).unwrap();
        assert!(matches!(path.ending, PathEnding::NoPath { .. }));
    }

    #[test]
    fn settings_without_extent_and_foreign_data_are_refused() {
        let straight = Toy { size: 2, steps: euclid };
        let data = corridors(true);
        let message = |settings| Graph::new(&straight, &data, settings).err().unwrap().to_string();
        assert_eq!(
            message(GraphSettings { nodes: 0, ..EVERY }),
            "`nodes` is `0`, expected 1 or more"
        );
        let share = GraphSettings { longest: Longest::Share(1.5), ..EVERY };
        assert!(message(share).starts_with("`longest.share` is `1.5`"));
        let other = Toy { size: 3, steps: euclid };
        assert!(Graph::new(&other, &data, EVERY).is_err());
    }
}

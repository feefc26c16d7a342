//! The supported distance of Roads, on the world's own 20,000 states.
//!
//! A goal is the set of states within 2.0 of it, where an episode succeeds. An action matters only by
//! the successor s* nearest to s + a, and a step only by the bearing of δ = s* − s + N(0, I): it ends
//! in the neighbour nearest to s + 1.5 δ/‖δ‖. The bearing θ of a normal with mean m has the density
//! e^{−r²/2} / 2π · (1 + √(2π) z e^{z²/2} Φ(z)), r = ‖m‖, z = r cos(θ − θ_m), here on 128 sectors
//! (Mardia and Jupp, "Directional statistics", 2000, section 3.5.6).
//!
//! Of 16 headings those are supported in a state that at least 2 % of the actions recorded within 0.5
//! of it have, by what was observed; where none was recorded, staying. A recorded step moves 0.4 and
//! an observation errs by 0.2 on each axis, so a smaller neighbourhood would not be the same place any
//! more exactly. States are looked up as the nearest to what was observed.
//!
//! Solved from below by sweeps outward from the goal: one over all moves, then some with the best move
//! of each state alone, until no value of E γ^H changes by a millionth. A value can then be too small
//! by a millionth for each step to the goal, which is less than 0.01 steps in all.

use rayon::prelude::*;

use super::super::Environment;
use super::super::buckets::Buckets;
use super::super::maze::Place;
use super::super::pinwheel::point;
use super::super::roads::{Roads, STRIDE};
use super::support::{HEADINGS, Support, direction, recorded};
use crate::data::Dataset;
use crate::error::Result;
use crate::tabular::DecisionProcess;

/// Actions recorded this near to a state, by what was observed, count as recorded there.
pub const NEARBY: f64 = 0.5;
/// The change of a value, as a share of it, that is none.
const SETTLED: f64 = 1e-6;
/// Sweeps at most with the best moves alone before all are looked at again.
const SWEEPS: usize = 40;
/// The recorded step that counts as an action of length 1 where no actions were recorded.
const STEP: f64 = 0.4;
/// Sectors that the bearing of a step is integrated over.
const SECTORS: usize = 128;

/// The supported moves of Roads.
pub struct RoadMoves {
    world: Roads,
    process: DecisionProcess,
    /// For each state those with a move that may lead to it.
    before: Vec<Vec<u32>>,
}

impl RoadMoves {
    /// Prepares the moves that `data` support.
    ///
    /// # Errors
    /// A discount outside (0, 1).
    pub fn new(world: Roads, data: &Dataset, discount: f64) -> Result<Self> {
        let support = support(&world, &*data.in_memory()?);
        let bearings = Bearings::new();
        let rows: Vec<Vec<Vec<(usize, f64)>>> = (0..world.states())
            .into_par_iter()
            .map(|state| moves(&world, &support, &bearings, state))
            .collect();
        let process = DecisionProcess::from_rows(
            world.states(),
            HEADINGS,
            discount,
            |state, action, next| {
                next.extend(rows[state].get(action).into_iter().flatten());
            },
        )?;
        let mut before = vec![Vec::new(); world.states()];
        for (state, moves) in rows.iter().enumerate() {
            for &(to, _) in moves.iter().flatten() {
                if before[to].last() != Some(&(state as u32)) {
                    before[to].push(state as u32);
                }
            }
        }
        Ok(Self { world, process, before })
    }

    /// The state that is nearest to what was observed.
    pub fn of(&self, observed: &[f32]) -> usize {
        self.world.nearest(point(observed))
    }

    /// The distance in nats from every state to `goal`.
    pub fn distances_to(&self, goal: &[f32]) -> Vec<f64> {
        let reached = |&state: &usize| self.world.reached(&self.world.state(state), goal);
        let goals: Vec<usize> = (0..self.world.states()).filter(reached).collect();
        self.values(&goals).into_iter().map(|value| -value.ln()).collect()
    }

    /// E γ^H under the best policy, H the first time in `goals`.
    fn values(&self, goals: &[usize]) -> Vec<f64> {
        let mut values = vec![0.0; self.process.states()];
        goals.iter().for_each(|&goal| values[goal] = 1.0);
        let order = self.outward(goals);
        let mut best = vec![0; values.len()];
        loop {
            let mut change = 0.0f64;
            for &state in &order {
                let moves =
                    (0..HEADINGS).map(|action| (self.after(state, action, &values), action));
                let found =
                    moves.fold(
                        (0.0, best[state]),
                        |one, other| {
                            if other.0 > one.0 { other } else { one }
                        },
                    );
                change = change.max(1.0 - values[state] / found.0);
                (values[state], best[state]) = found;
            }
            if change < SETTLED {
                return values;
            }
            for _ in 0..SWEEPS {
                let mut change = 0.0f64;
                for &state in &order {
                    let value = self.after(state, best[state], &values);
                    change = change.max(1.0 - values[state] / value);
                    values[state] = value;
                }
                if change < SETTLED {
                    break;
                }
            }
        }
    }

    /// γ Σ P(s′|s, a) V(s′), with staying solved in closed form; 0 for a move that is not there.
    fn after(&self, state: usize, action: usize, values: &[f64]) -> f64 {
        let (mut stays, mut sum) = (0.0, 0.0);
        for (to, chance) in self.process.next(state, action) {
            if to == state {
                stays = chance;
            } else {
                sum += chance * values[to];
            }
        }
        let discount = self.process.discount();
        discount * sum / (1.0 - discount * stays)
    }

    /// The states outside `goals` that can reach them, nearest first.
    fn outward(&self, goals: &[usize]) -> Vec<usize> {
        let mut met = vec![false; self.before.len()];
        goals.iter().for_each(|&goal| met[goal] = true);
        let mut order = goals.to_vec();
        let mut next = 0;
        while next < order.len() {
            for &state in &self.before[order[next]] {
                if !std::mem::replace(&mut met[state as usize], true) {
                    order.push(state as usize);
                }
            }
            next += 1;
        }
        order.split_off(goals.len())
    }
}

/// The headings recorded near each state.
fn support(world: &Roads, data: &Dataset) -> Support {
    let states: Vec<Place> = (0..world.states()).map(|state| world.state(state)).collect();
    let states = Buckets::new(states, NEARBY);
    let taken = recorded(data, STEP).flat_map(|(place, action)| {
        let near = states.nearest_within(place, world.states(), NEARBY);
        near.into_iter().map(move |state| (state as usize, action))
    });
    Support::of(world.states(), taken)
}

/// Where each supported move of `state` leads. Headings with the same successor are one move.
fn moves(
    world: &Roads,
    support: &Support,
    bearings: &Bearings,
    state: usize,
) -> Vec<Vec<(usize, f64)>> {
    if !support.any(state) {
        return vec![vec![(state, 1.0)]];
    }
    let here = world.state(state);
    let ahead = |way: Place, stride: f64| [here[0] + stride * way[0], here[1] + stride * way[1]];
    let headings = (0..HEADINGS).filter(|&heading| support.has(state, heading));
    let mut aims: Vec<usize> = headings
        .map(|heading| world.nearest_of(world.successors(state), ahead(direction(heading), 1.0)))
        .collect();
    aims.sort_unstable();
    aims.dedup();
    let landings: Vec<usize> = (0..SECTORS)
        .map(|sector| {
            world.nearest_of(world.neighbours(state), ahead(Bearings::way(sector), STRIDE))
        })
        .collect();
    let moved = |aim: usize| {
        let there = world.state(aim);
        let chances = bearings.chances([there[0] - here[0], there[1] - here[1]]);
        let mut next: Vec<(usize, f64)> = landings.iter().copied().zip(chances).collect();
        next.sort_unstable_by_key(|&(to, _)| to);
        next.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            kept.1 += if same { later.1 } else { 0.0 };
            same
        });
        next
    };
    aims.into_iter().map(moved).collect()
}

/// How likely a displaced aim lies in each sector.
struct Bearings {
    /// 1 + √(2π) z e^{z²/2} Φ(z) at z from −EXTENT to EXTENT.
    densities: Vec<f64>,
}

impl Bearings {
    /// No aim is farther away than this.
    const EXTENT: f64 = 10.0;
    /// Entries of the table per unit.
    const FINENESS: f64 = 512.0;

    fn new() -> Self {
        let count = (2.0 * Self::EXTENT * Self::FINENESS) as usize;
        let at = |index: usize| index as f64 / Self::FINENESS - Self::EXTENT;
        // √(2π) Φ(z) by the trapezoidal rule.
        let mut below = 0.0;
        let mut before = 0.0;
        let density = |index: usize| {
            let z = at(index);
            let height = (-0.5 * z * z).exp();
            below += 0.5 * (before + height) / Self::FINENESS;
            before = height;
            1.0 + z * below / height
        };
        Self { densities: (0..=count).map(density).collect() }
    }

    /// The middle of a sector, as a unit vector.
    fn way(sector: usize) -> Place {
        let turns = (sector as f64 + 0.5) / SECTORS as f64;
        let (sine, cosine) = (std::f64::consts::TAU * turns).sin_cos();
        [cosine, sine]
    }

    /// The chance that `mean` + N(0, I) lies in each sector.
    fn chances(&self, mean: Place) -> Vec<f64> {
        let weight = |sector: usize| {
            let [across, up] = Self::way(sector);
            let z = mean[0] * across + mean[1] * up;
            let place = ((z + Self::EXTENT) * Self::FINENESS).round() as usize;
            self.densities[place.min(self.densities.len() - 1)].max(f64::MIN_POSITIVE)
        };
        let weights: Vec<f64> = (0..SECTORS).map(weight).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / total).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::super::super::roads::SEED;
    use super::*;
    use crate::random::{Purpose, Stream};
    use crate::tabular::steps;

    const DISCOUNT: f64 = 0.8;

    static DATA: LazyLock<Dataset> =
        LazyLock::new(|| Roads::new(SEED).generate(0).unwrap().dataset);
    static MOVES: LazyLock<RoadMoves> =
        LazyLock::new(|| RoadMoves::new(Roads::new(SEED), &DATA, DISCOUNT).unwrap());

    #[test]
    fn bearings_are_those_of_a_displaced_normal() {
        let bearings = Bearings::new();
        let mut draws = Stream::new(0, Purpose(0)).draws(0, 0);
        for mean in [[0.0, 0.0], [0.9, -0.4], [-1.0, 2.0]] {
            let chances = bearings.chances(mean);
            assert!((chances.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            let mut counts = [0.0; 8];
            for _ in 0..40_000 {
                let [x, y] = mean.map(|value| value + draws.normal());
                let turns = (y.atan2(x) / std::f64::consts::TAU).rem_euclid(1.0);
                counts[(turns * 8.0) as usize % 8] += 1.0 / 40_000.0;
            }
            for (count, sectors) in counts.iter().zip(chances.chunks_exact(SECTORS / 8)) {
                let chance: f64 = sectors.iter().sum();
                assert!((count - chance).abs() < 0.01, "{mean:?}: {count} {chance}");
            }
        }
    }

    #[test]
    fn states_move_as_the_world_does() {
        let world = Roads::new(SEED);
        let support = support(&world, &DATA);
        let bearings = Bearings::new();
        let stream = Stream::new(1, Purpose(0));
        for state in [100, 5_000, 12_345, 19_000] {
            let rows = moves(&world, &support, &bearings, state);
            let heading = (0..HEADINGS).find(|&heading| support.has(state, heading)).unwrap();
            let action = direction(heading).map(|value| value as f32);
            let mut counts = vec![0.0; world.states()];
            for index in 0..20_000 {
                let mut place = world.state(state);
                world.step(&mut place, &action, &mut stream.draws(state as u64, index));
                counts[world.nearest(place)] += 1.0 / 20_000.0;
            }
            let gap = |row: &Vec<(usize, f64)>| {
                let met: f64 = row.iter().map(|&(to, chance)| (counts[to] - chance).abs()).sum();
                let missed = 1.0 - row.iter().map(|&(to, _)| counts[to]).sum::<f64>();
                0.5 * (met + missed)
            };
            let least = rows.iter().map(gap).fold(f64::INFINITY, f64::min);
            assert!(least < 0.03, "state {state}: {least}");
        }
    }

    #[test]
    fn the_distance_is_zero_at_the_goal_and_solves_the_best_step_elsewhere() {
        let goal = DATA.state(1_000);
        let nats = MOVES.distances_to(goal);
        assert_eq!(nats[MOVES.of(goal)], 0.0);
        for state in (0..nats.len()).step_by(500).filter(|&state| nats[state] > 0.0) {
            let best = (0..HEADINGS)
                .map(|action| MOVES.process.action_distance(state, action, &nats))
                .fold(f64::INFINITY, f64::min);
            assert!(best == nats[state] || (best - nats[state]).abs() < 1e-5);
        }
        // The motion of this world leads everywhere, in the end: along curves of several hundred steps.
        let most = nats.iter().fold(0.0f64, |most, &nats| most.max(steps(nats, DISCOUNT)));
        assert!(most > 100.0 && most < 2_000.0, "{most} steps");
    }
}

//! Greedy planning: from here to the candidate near by with the least distance to the goal.
//!
//! next = argmin d(candidate, goal) over candidates with ‖candidate − here‖₂ ≤ radius, in the raw
//! coordinates of the states, as long as that is less than d(here, goal). Candidates are data
//! states, since a learned distance means little elsewhere. A small ball sits in local minima, a
//! large one looks through walls; [`Graph`](super::Graph) has neither fault.

use serde::{Deserialize, Serialize};

use super::{Distance, Novelty, Path, PathEnding, check_state, squared_gap};
use crate::error::{Error, Result};

/// How far greedy planning looks; lengths are in the raw coordinates of the states.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ball {
    /// The reach of one move.
    pub radius: f32,
    /// Within this length of the goal the path has arrived.
    pub arrived: f32,
    /// Moves after which the path ends.
    pub most_moves: usize,
}

/// A planner that moves from candidate to candidate.
pub struct Greedy<'d, D: Distance> {
    distance: &'d D,
    candidates: Vec<f32>,
    embedded: D::Embedded,
    ball: Ball,
}

impl<'d, D: Distance> Greedy<'d, D> {
    /// A planner over `candidates`, states row after row.
    ///
    /// # Errors
    /// Candidates that are not whole rows, none at all, or a ball without extent.
    pub fn new(distance: &'d D, candidates: &[f32], ball: Ball) -> Result<Self> {
        let size = distance.state_size();
        distance.check()?;
        if candidates.is_empty() || !candidates.len().is_multiple_of(size) {
            return Err(Error::input(format!(
                "the candidates have `{}` values, expected rows of `{size}`",
                candidates.len()
            )));
        }
        if !(ball.radius > 0.0 && ball.arrived >= 0.0) {
            return Err(Error::input(format!(
                "a ball of radius `{}` that arrives within `{}`, expected above 0 and from 0",
                ball.radius, ball.arrived
            )));
        }
        let embedded = distance.embed(candidates);
        Ok(Self { distance, candidates: candidates.to_vec(), embedded, ball })
    }

    /// The steps from every candidate to every goal, goals row after row: one list for each goal.
    pub fn fields(&self, goals: &[f32]) -> Vec<Vec<f32>> {
        let count = goals.len() / self.distance.state_size();
        let steps = self.distance.pairwise(&self.embedded, &self.distance.embed(goals));
        (0..count).map(|goal| steps.iter().skip(goal).step_by(count).copied().collect()).collect()
    }

    /// The candidate within the ball around `state` with the least steps in `field`.
    pub fn best(&self, state: &[f32], field: &[f32]) -> Option<usize> {
        let reach = self.ball.radius * self.ball.radius;
        let near = self.candidates.chunks_exact(state.len()).map(|other| squared_gap(other, state));
        near.zip(field)
            .enumerate()
            .filter(|(_, (gap, _))| *gap <= reach)
            .min_by(|(_, (_, one)), (_, (_, other))| one.total_cmp(other))
            .map(|(index, _)| index)
    }

    /// Where to head for from `state`: the goal where it lies in the ball, else the best candidate;
    /// none where the ball is empty.
    pub fn waypoint<'s>(
        &'s self,
        state: &[f32],
        goal: &'s [f32],
        field: &[f32],
    ) -> Option<&'s [f32]> {
        if squared_gap(state, goal) <= self.ball.radius * self.ball.radius {
            return Some(goal);
        }
        self.best(state, field).map(|index| self.candidate(index))
    }

    fn candidate(&self, index: usize) -> &[f32] {
        let size = self.distance.state_size();
        &self.candidates[index * size..][..size]
    }

    /// The path from `start` toward `goal`.
    ///
    /// # Errors
    /// A start or a goal of another size than the distance's states, or not finite.
    pub fn path(&self, start: &[f32], goal: &[f32]) -> Result<Path> {
        let size = self.distance.state_size();
        check_state("start", start, size)?;
        check_state("goal", goal, size)?;
        let field = self.fields(goal).remove(0);
        let direct =
            self.distance.pairwise(&self.distance.embed(start), &self.distance.embed(goal))[0];
        let mut states = vec![start.to_vec()];
        let ending = self.descend(&mut states, goal, &field, direct);
        let embedded = self.distance.embed(&states.concat());
        let between = self.distance.pairwise(&embedded, &embedded);
        let moved = (1..states.len()).map(|at| between[(at - 1) * states.len() + at]);
        // The sum of no numbers would be −0.
        let steps = moved.fold(0.0, |sum, steps| sum + steps);
        let novelty = Novelty::of(self.distance, start, goal);
        Ok(Path {
            states,
            steps,
            direct,
            recorded: None,
            hops: Vec::new(),
            doubted: 0,
            radius: 0.0,
            trajectories: Vec::new(),
            ending,
            novelty,
        })
    }

    /// Moves on from the last of `states`, `left` steps from the goal, and says why it ended.
    fn descend(
        &self,
        states: &mut Vec<Vec<f32>>,
        goal: &[f32],
        field: &[f32],
        mut left: f32,
    ) -> PathEnding {
        loop {
            let here = &states[states.len() - 1];
            if squared_gap(here, goal) <= self.ball.arrived * self.ball.arrived {
                return PathEnding::Arrived;
            }
            let moves = states.len() - 1;
            if moves == self.ball.most_moves {
                let why = format!("{moves} moves were made and the goal is {left} steps away");
                return PathEnding::OutOfMoves { why };
            }
            match self.best(here, field) {
                Some(next) if field[next] < left => {
                    left = field[next];
                    states.push(self.candidate(next).to_vec());
                }
                Some(_) => {
                    let radius = (1e3 * self.ball.radius).round() / 1e3;
                    let why = format!(
                        "after {moves} moves no candidate within {radius} is nearer to the goal, \
                         {left:.1} steps away; a larger ball or the graph may find a way"
                    );
                    return PathEnding::LocalMinimum { why };
                }
                None => {
                    let radius = (1e3 * self.ball.radius).round() / 1e3;
                    let why = format!("after {moves} moves no candidate lies within {radius}");
                    return PathEnding::LocalMinimum { why };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::toy::{Toy, euclid};
    use super::*;

    /// The way along a U: down one arm, across, up the other. Arms at x = 0 and x = 4, 0 ≤ y ≤ 5.
    fn along(state: &[f32]) -> f32 {
        match state {
            [0.0, y] => 5.0 - y,
            [4.0, y] => 9.0 + y,
            [x, _] => 5.0 + x,
            _ => f32::NAN,
        }
    }

    fn u_shape() -> Vec<f32> {
        let down = (0..=5).map(|y| [0.0, y as f32]);
        let across = (1..4).map(|x| [x as f32, 0.0]);
        let up = (0..=5).map(|y| [4.0, y as f32]);
        down.chain(across).chain(up).flatten().collect()
    }

    const BALL: Ball = Ball { radius: 1.1, arrived: 0.1, most_moves: 50 };

    #[test]
    fn with_the_exact_distance_greedy_walks_round_the_obstacle() {
        let exact = Toy { size: 2, steps: |from, to| (along(to) - along(from)).abs() };
        let planner = Greedy::new(&exact, &u_shape(), BALL).unwrap();
        let path = planner.path(&[0.0, 5.0], &[4.0, 5.0]).unwrap();
        assert_eq!(path.ending, PathEnding::Arrived);
        assert_eq!((path.steps, path.direct, path.states.len()), (14.0, 14.0, 15));
        assert_eq!(path.novelty, Novelty { start: 0.0, goal: 0.0 });
        assert!(path.states.windows(2).all(|pair| euclid(&pair[0], &pair[1]) <= 1.1));
    }

    #[test]
    fn with_the_straight_distance_greedy_says_that_it_sits_in_a_local_minimum() {
        let straight = Toy { size: 2, steps: euclid };
        let planner = Greedy::new(&straight, &u_shape(), BALL).unwrap();
        let path = planner.path(&[0.0, 3.0], &[4.0, 5.0]).unwrap();
        assert_eq!(path.states.last().unwrap(), &[0.0, 5.0]);
        let PathEnding::LocalMinimum { why } = path.ending else { panic!("{:?}", path.ending) };
        assert!(why.starts_with("after 2 moves no candidate within 1.1 is nearer"), "{why}");
        let alone = planner.path(&[2.0, 9.0], &[4.0, 5.0]).unwrap();
        let PathEnding::LocalMinimum { why } = alone.ending else { panic!("{:?}", alone.ending) };
        assert_eq!(why, "after 0 moves no candidate lies within 1.1");
    }

    #[test]
    fn moves_are_counted_and_wrong_input_is_refused() {
        let exact = Toy { size: 2, steps: |from, to| (along(to) - along(from)).abs() };
        let planner = Greedy::new(&exact, &u_shape(), Ball { most_moves: 3, ..BALL }).unwrap();
        let path = planner.path(&[0.0, 5.0], &[4.0, 5.0]).unwrap();
        assert_eq!(path.states.len(), 4);
        assert!(matches!(path.ending, PathEnding::OutOfMoves { .. }));
        let error = planner.path(&[0.0], &[4.0, 5.0]).unwrap_err().to_string();
        assert_eq!(error, "the start has `1` values, expected `2`");
        let error = planner.path(&[0.0, 0.0], &[f32::NAN, 5.0]).unwrap_err().to_string();
        assert_eq!(error, "the goal's number 0 is `NaN`, expected a finite number");
        assert!(Greedy::new(&exact, &[1.0], BALL).is_err());
        assert!(Greedy::new(&exact, &u_shape(), Ball { radius: 0.0, ..BALL }).is_err());
    }
}

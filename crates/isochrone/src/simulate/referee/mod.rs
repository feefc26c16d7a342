//! Exact distances of worlds to act in, and which of them answers which question.
//!
//! Supported, in every world with a referee: how many steps does the best use of recorded moves take,
//! with chance priced? d(s, G) = −ln max E γ^H over policies that take only supported actions, H the
//! first time in the goal set G; steps are d / ln(1/γ). This is what a learned distance is asked for,
//! and what its accuracy is measured against. With noise everything has some chance, however small:
//! more steps than an episode of the world has count as no way at all.
//! - The pinwheel and its shortcut variant: headings recorded in a cell ([`pinwheel`]);
//! - Roads: headings recorded near a state ([`roads`]);
//! - point mazes: every action was recorded almost everywhere, so the fewest steps of the true motion
//!   ([`pointmaze`]).
//!
//! In a tabular world every action of the table is supported, and the answer is
//! [`crate::tabular::DecisionProcess::distances_to`].
//!
//! On the pinwheel alone, for other questions: the data's own occupancy distance (what does a
//! contrastive loss estimate?), its triangle closure (what can stitching alone give?) and the optimum
//! over all moves, recorded or not (how fast is the world?). See [`pinwheel::Columns`].

pub mod pinwheel;
pub mod pointmaze;
pub mod roads;
pub mod support;

pub use pinwheel::Columns;

use self::pointmaze::MazeWays;
use self::roads::RoadMoves;
use super::{Body, Environment, PointMaze, Roads, World};
use crate::data::Dataset;
use crate::error::Result;
use crate::tabular::steps;

/// Exact steps from a state to a fixed goal.
pub type StepsFrom<'a> = Box<dyn Fn(&[f32]) -> f64 + 'a>;

/// Knows the supported distance of a world.
pub struct Referee {
    discount: f64,
    /// Steps of an episode.
    horizon: f64,
    judge: Judge,
}

enum Judge {
    Pinwheel(Columns),
    Roads(RoadMoves),
    PointMaze(MazeWays),
}

impl Referee {
    /// Prepares the answers for `data` recorded in `world`; `None` if the world has no referee.
    ///
    /// # Errors
    /// A discount outside (0, 1), data of another size than the world's.
    pub fn of(world: World, data: &Dataset, discount: f64) -> Result<Option<Self>> {
        let (horizon, judge) = match world {
            World::Pinwheel | World::PinwheelShortcut => {
                let Some(world) = world.pinwheel() else { return Ok(None) };
                let columns = Columns::new(&world, data, discount)?;
                (world.horizon(), Judge::Pinwheel(columns))
            }
            World::Roads => {
                let world = Roads::new(super::roads::SEED);
                (world.horizon(), Judge::Roads(RoadMoves::new(world, data, discount)?))
            }
            World::Maze(course) if course.body == Body::Point => {
                let world = PointMaze::new(course);
                (world.horizon(), Judge::PointMaze(MazeWays::new(world.maze(), discount)))
            }
            World::Maze(_) => return Ok(None),
        };
        Ok(Some(Self { discount, horizon: horizon as f64, judge }))
    }

    /// The columns of the pinwheel, where the world is one.
    pub fn columns(&self) -> Option<&Columns> {
        match &self.judge {
            Judge::Pinwheel(columns) => Some(columns),
            Judge::Roads(_) | Judge::PointMaze(_) => None,
        }
    }

    /// How many steps the best use of recorded moves takes from a state to `goal`: 0 at the goal,
    /// infinite where no such moves lead there within an episode.
    pub fn steps_to(&self, goal: &[f32]) -> StepsFrom<'_> {
        let counted = |nats: f64| {
            let steps = steps(nats, self.discount);
            if steps > self.horizon { f64::INFINITY } else { steps }
        };
        match &self.judge {
            Judge::Pinwheel(columns) => {
                let field = columns.supported(goal);
                Box::new(move |from| counted(field.at(from)))
            }
            Judge::Roads(moves) => {
                let nats = moves.distances_to(goal);
                Box::new(move |from| counted(nats[moves.of(from)]))
            }
            Judge::PointMaze(ways) => {
                let field = ways.to(goal);
                Box::new(move |from| counted(field.at(from)))
            }
        }
    }

    /// What the steps of `world` are counted to and of, for a caption; none without a referee.
    pub fn meaning(world: World) -> Option<&'static str> {
        match world {
            World::Pinwheel | World::PinwheelShortcut => Some(
                "the best use of moves recorded in each cell of 0.02, to within 0.05 of the goal",
            ),
            World::Roads => Some(
                "the best use of moves recorded within 0.5 of each state, to within 2 of the goal",
            ),
            World::Maze(course) if course.body == Body::Point => {
                Some("the fewest steps of the true motion to the goal's place, right to one step")
            }
            World::Maze(_) => None,
        }
    }
}

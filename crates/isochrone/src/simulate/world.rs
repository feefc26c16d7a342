//! The worlds by name.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::course::{Body, Course};
use super::maze::{CELL_SIDE, Cell, Maze, Place, distance};
use super::{AntMaze, Environment, Pinwheel, PointMaze, Roads, pinwheel, roads};
use crate::error::{Error, Result};
use crate::spelling::changes;

/// The worlds that can be asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum World {
    /// A ring of four corridors with four dead-end spurs; see [`pinwheel`].
    Pinwheel,
    /// The same with rare jumps out of the dead ends.
    PinwheelShortcut,
    /// Eight noisy directed curves; see [`roads`].
    Roads,
    /// A body in a maze; see [`course`](super::course).
    Maze(Course),
}

impl World {
    /// All worlds.
    pub const ALL: [Self; 3 + Course::COUNT] = {
        let mut all = [Self::Pinwheel; 3 + Course::COUNT];
        all[1] = Self::PinwheelShortcut;
        all[2] = Self::Roads;
        let mut index = 0;
        while index < Course::COUNT {
            all[3 + index] = Self::Maze(Course::ALL[index].1);
            index += 1;
        }
        all
    };

    /// The name a config or a command uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pinwheel => "pinwheel",
            Self::PinwheelShortcut => "pinwheel-shortcut",
            Self::Roads => "roads",
            Self::Maze(course) => course.name(),
        }
    }

    /// Builds the world.
    pub fn open(self) -> Box<dyn Environment> {
        match self {
            Self::Pinwheel => Box::new(Pinwheel::new(pinwheel::Tips::Closed)),
            Self::PinwheelShortcut => Box::new(Pinwheel::new(pinwheel::Tips::Shortcut)),
            Self::Roads => Box::new(Roads::new(roads::SEED)),
            Self::Maze(course) => match course.body {
                Body::Point => Box::new(PointMaze::new(course)),
                Body::Ant => Box::new(AntMaze::new(course)),
            },
        }
    }

    /// The walls of a maze as rectangles: least x, least y, greatest x, greatest y. Empty elsewhere.
    pub fn walls(self) -> Vec<[f64; 4]> {
        let Self::Maze(course) = self else { return Vec::new() };
        let half = 0.5 * CELL_SIDE;
        let wall = |cell| {
            let [x, y] = Maze::centre(cell);
            [x - half, y - half, x + half, y + half]
        };
        Maze::new(course.map).walls().map(wall).collect()
    }

    /// Whether a body can stand at `place`: outside the walls of a maze, inside the corridors of a
    /// pinwheel.
    pub fn is_free(self, place: Place) -> bool {
        match self {
            Self::Pinwheel | Self::PinwheelShortcut => pinwheel::inside(place),
            Self::Roads => true,
            Self::Maze(course) => {
                let maze = Maze::new(course.map);
                let half = 0.5 * CELL_SIDE;
                let holds = |centre: Place| (0..2).all(|at| (place[at] - centre[at]).abs() <= half);
                maze.free().into_iter().map(Maze::centre).any(holds)
            }
        }
    }

    /// Whether a step from one state to another may be a jump: through a portal of a maze, or out of a
    /// dead end of the pinwheel with shortcuts.
    pub fn may_jump(self, from: &[f32], to: &[f32]) -> bool {
        let place = |state: &[f32]| Some([*state.first()?, *state.get(1)?].map(f64::from));
        let (Some(from), Some(to)) = (place(from), place(to)) else { return false };
        let near = |cell: &Cell, place: Place| distance(Maze::centre(*cell), place) <= CELL_SIDE;
        match self {
            Self::Pinwheel | Self::Roads => false,
            Self::PinwheelShortcut => Pinwheel::new(pinwheel::Tips::Shortcut).may_jump(from),
            Self::Maze(course) => {
                let (ways_in, ways_out) = course.map.portals();
                ways_in.iter().any(|way| near(way, from))
                    && ways_out.iter().any(|way| near(way, to))
            }
        }
    }

    /// The world as a pinwheel, which has an exact referee; `None` if it is another.
    pub fn pinwheel(self) -> Option<Pinwheel> {
        match self {
            Self::Pinwheel => Some(Pinwheel::new(pinwheel::Tips::Closed)),
            Self::PinwheelShortcut => Some(Pinwheel::new(pinwheel::Tips::Shortcut)),
            Self::Roads | Self::Maze(_) => None,
        }
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<World> for String {
    fn from(world: World) -> Self {
        world.name().to_owned()
    }
}

impl TryFrom<String> for World {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

impl FromStr for World {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        if let Some(world) = Self::ALL.into_iter().find(|world| world.name() == name) {
            return Ok(world);
        }
        let mut known = Self::ALL.map(Self::name);
        // The rest of a long name makes it no more like any world.
        let start: String = name.chars().take(100).collect();
        let shared = |candidate: &str| {
            candidate.split('-').filter(|word| start.split('-').any(|own| own == *word)).count()
        };
        known.sort_by_key(|candidate| (Reverse(shared(candidate)), changes(&start, candidate)));
        let nearest: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
        Err(Error::input(format!("unknown world `{name}`"))
            .hint(format!("known worlds, nearest first: {}", nearest.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::Error;
    use crate::simulate::{Paths, rollout, rollout_told};

    fn toward(states: &[f32], goals: &[f32], actions: &mut [f32]) {
        for (action, (goal, state)) in actions.iter_mut().zip(goals.iter().zip(states)) {
            *action = ((goal - state) / 0.04).clamp(-1.0, 1.0);
        }
    }

    #[test]
    fn every_world_is_found_by_its_name_in_text_and_in_configs() {
        for world in World::ALL {
            assert_eq!(world.name().parse::<World>().unwrap(), world);
            assert_eq!(serde_json::to_string(&world).unwrap(), format!("\"{world}\""));
        }
    }

    #[test]
    fn a_body_stands_outside_walls_and_inside_corridors() {
        let maze: World = "pointmaze-medium-navigate".parse().unwrap();
        let walls = maze.walls();
        assert!(
            maze.is_free([0.0, 0.0]) && !maze.is_free([-4.0, 0.0]) && !maze.is_free([-99.0, 0.0])
        );
        assert!(walls.contains(&[-6.0, -2.0, -2.0, 2.0]), "{walls:?}");
        assert!(World::Pinwheel.is_free([0.2, 0.1]) && !World::Pinwheel.is_free([0.5, 0.5]));
        assert!(World::Roads.is_free([1e9, 0.0]) && World::Roads.walls().is_empty());
    }

    #[test]
    fn an_unknown_world_is_answered_with_the_known_ones_nearest_first() {
        let error = "pinwheel-shortct".parse::<World>().unwrap_err();
        let text = error.to_string();
        let expected = "unknown world `pinwheel-shortct`; hint: known worlds, nearest first: \
             `pinwheel-shortcut`, `pinwheel`, ";
        assert!(text.starts_with(expected), "{text}");
        assert!(World::ALL.iter().all(|world| text.contains(&format!("`{world}`"))));
        let text = "pointmaze-huge".parse::<World>().unwrap_err().to_string();
        assert!(text.contains("nearest first: `pointmaze-large-stitch`, `pointmaze-"), "{text}");
        assert_eq!(changes("roads", "road"), 1);
        assert_eq!(changes("", "roads"), 5);
    }

    #[test]
    fn an_outcome_depends_on_its_place_and_not_on_the_rest_of_the_batch() {
        let world = World::Pinwheel.open();
        let data = world.generate(0).unwrap().dataset;
        let mut tasks = world.tasks(0, 40, &data).unwrap();
        tasks[world.together()] = tasks[0].clone();
        let all = rollout(&*world, &tasks, 3, Paths::Keep, &toward);
        let few = rollout(&*world, &tasks[..7], 3, Paths::Keep, &toward);
        assert_eq!(all[..7], few);
        assert_ne!(all[0], all[world.together()]);
        assert!(all.iter().any(|outcome| outcome.reached));
        assert!(all.iter().any(|outcome| !outcome.reached && outcome.steps == 150));
        for (outcome, task) in all.iter().zip(&tasks) {
            assert_eq!(outcome.path.len(), outcome.steps as usize + 1);
            let last: Vec<f64> =
                outcome.path.last().unwrap().iter().map(|&x| f64::from(x)).collect();
            assert_eq!(world.reached(&last, &task.goal), outcome.reached);
        }
        let forgotten = rollout(&*world, &tasks, 3, Paths::Forget, &toward);
        assert!(forgotten.iter().all(|outcome| outcome.path.is_empty()));
        assert_ne!(all, rollout(&*world, &tasks, 4, Paths::Keep, &toward));
    }

    #[test]
    fn ended_episodes_leave_the_batch() {
        let world = World::Pinwheel.open();
        let data = world.generate(0).unwrap().dataset;
        let tasks = world.tasks(0, 40, &data).unwrap();
        let asked = AtomicUsize::new(0);
        let outcomes = rollout(&*world, &tasks, 0, Paths::Forget, &|states, goals, actions| {
            asked.fetch_add(states.len() / 2, Ordering::Relaxed);
            toward(states, goals, actions);
        });
        let steps: usize = outcomes.iter().map(|outcome| outcome.steps as usize).sum();
        assert_eq!(asked.into_inner(), steps);
        assert!(steps < 40 * 150);
    }

    #[test]
    fn episodes_are_told_as_they_end_and_end_at_a_signal() {
        let world = World::Pinwheel.open();
        let data = world.generate(0).unwrap().dataset;
        let groups = 4;
        let count = groups * world.together();
        let tasks = world.tasks(0, count, &data).unwrap();
        let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let told = |last: usize| {
            let heard = std::sync::Mutex::new(Vec::new());
            let tell = |ended, of| {
                heard.lock().unwrap().push((ended, of));
                (ended >= last * world.together()).then_some(15)
            };
            let act = || rollout_told(&*world, &tasks, 0, Paths::Forget, &toward, &tell);
            (alone.install(act), heard.into_inner().unwrap())
        };
        let (all, heard) = told(groups + 1);
        assert_eq!(all.unwrap(), rollout(&*world, &tasks, 0, Paths::Forget, &toward));
        let each = |groups: usize| -> Vec<(usize, usize)> {
            (1..=groups).map(|ended| (ended * world.together(), count)).collect()
        };
        assert_eq!(heard, each(groups));
        let (stopped, heard) = told(2);
        assert!(matches!(stopped, Err(Error::Interrupted(15))));
        assert_eq!(heard, each(2));
    }
}

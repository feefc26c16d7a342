//! A maze, a body in it and how data are recorded there: what one name of a benchmark stands for.
//!
//! The names are the benchmarks' own. What is recorded here is in their style and not their files.

use super::maze::Map;

/// Who moves through a maze.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Body {
    /// A ball that actions displace; see [`super::point`].
    Point,
    /// A four-legged robot simulated by MuJoCo; see [`super::antmaze`].
    Ant,
}

/// How episodes are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// OGBench: from goal to goal, drawn anew whenever one is reached.
    Navigate,
    /// OGBench: to a goal four cells away, and staying there.
    Stitch,
    /// OGBench: a new random direction every ten steps.
    Explore,
    /// D4RL: from the origin to the one goal of the U.
    Fixed,
    /// D4RL: from anywhere to chosen cells.
    Play,
    /// D4RL: from anywhere to anywhere.
    Diverse,
}

/// Whose rules hold for starts, goals and success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Five tasks to a maze, noise on both sides, 1,000 steps, success looked for after each step.
    Ogbench,
    /// From the origin to one cell, noise to one side, a goal drawn anew for every episode.
    D4rl,
}

/// What a name of a benchmark's dataset stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Course {
    /// Who moves.
    pub body: Body,
    /// Where.
    pub map: Map,
    /// How data are recorded.
    pub kind: Kind,
}

const fn course(body: Body, map: Map, kind: Kind) -> Course {
    Course { body, map, kind }
}

const POINTS: [(&str, Course); 8] = [
    ("pointmaze-medium-navigate", course(Body::Point, Map::Medium, Kind::Navigate)),
    ("pointmaze-medium-stitch", course(Body::Point, Map::Medium, Kind::Stitch)),
    ("pointmaze-large-navigate", course(Body::Point, Map::Large, Kind::Navigate)),
    ("pointmaze-large-stitch", course(Body::Point, Map::Large, Kind::Stitch)),
    ("pointmaze-giant-navigate", course(Body::Point, Map::Giant, Kind::Navigate)),
    ("pointmaze-giant-stitch", course(Body::Point, Map::Giant, Kind::Stitch)),
    ("pointmaze-teleport-navigate", course(Body::Point, Map::Teleport, Kind::Navigate)),
    ("pointmaze-teleport-stitch", course(Body::Point, Map::Teleport, Kind::Stitch)),
];

const ANTS: [(&str, Course); 18] = [
    ("antmaze-medium-navigate", course(Body::Ant, Map::Medium, Kind::Navigate)),
    ("antmaze-medium-stitch", course(Body::Ant, Map::Medium, Kind::Stitch)),
    ("antmaze-medium-explore", course(Body::Ant, Map::Medium, Kind::Explore)),
    ("antmaze-large-navigate", course(Body::Ant, Map::Large, Kind::Navigate)),
    ("antmaze-large-stitch", course(Body::Ant, Map::Large, Kind::Stitch)),
    ("antmaze-large-explore", course(Body::Ant, Map::Large, Kind::Explore)),
    ("antmaze-giant-navigate", course(Body::Ant, Map::Giant, Kind::Navigate)),
    ("antmaze-giant-stitch", course(Body::Ant, Map::Giant, Kind::Stitch)),
    ("antmaze-giant-explore", course(Body::Ant, Map::Giant, Kind::Explore)),
    ("antmaze-teleport-navigate", course(Body::Ant, Map::Teleport, Kind::Navigate)),
    ("antmaze-teleport-stitch", course(Body::Ant, Map::Teleport, Kind::Stitch)),
    ("antmaze-teleport-explore", course(Body::Ant, Map::Teleport, Kind::Explore)),
    ("antmaze-umaze", course(Body::Ant, Map::Umaze, Kind::Fixed)),
    ("antmaze-umaze-diverse", course(Body::Ant, Map::Umaze, Kind::Diverse)),
    ("antmaze-medium-play", course(Body::Ant, Map::Medium, Kind::Play)),
    ("antmaze-medium-diverse", course(Body::Ant, Map::Medium, Kind::Diverse)),
    ("antmaze-large-play", course(Body::Ant, Map::Large, Kind::Play)),
    ("antmaze-large-diverse", course(Body::Ant, Map::Large, Kind::Diverse)),
];

impl Course {
    /// How many courses there are.
    pub const COUNT: usize = POINTS.len() + ANTS.len();

    /// All courses with their names.
    pub const ALL: [(&'static str, Self); Self::COUNT] = {
        let mut all = [POINTS[0]; Self::COUNT];
        let mut index = 0;
        while index < Self::COUNT {
            let ant = index >= POINTS.len();
            all[index] = if ant { ANTS[index - POINTS.len()] } else { POINTS[index] };
            index += 1;
        }
        all
    };

    /// The benchmark's name of the course.
    pub fn name(self) -> &'static str {
        let listed = Self::ALL.iter().find(|(_, course)| *course == self);
        listed.map_or("unlisted", |(name, _)| name)
    }

    /// Whose rules hold.
    pub fn protocol(self) -> Protocol {
        match self.kind {
            Kind::Navigate | Kind::Stitch | Kind::Explore => Protocol::Ogbench,
            Kind::Fixed | Kind::Play | Kind::Diverse => Protocol::D4rl,
        }
    }

    /// Episodes in the benchmark's dataset; D4RL's cut off after a million rows.
    pub fn episodes(self) -> u32 {
        match (self.kind, self.map) {
            (Kind::Navigate, Map::Giant) => 500,
            (Kind::Navigate, _) => 1_000,
            (Kind::Stitch, _) => 5_000,
            (Kind::Explore, _) => 10_000,
            (Kind::Fixed | Kind::Play | Kind::Diverse, _) => 1_000_000 / self.rows() as u32,
        }
    }

    /// Rows of a recorded episode.
    pub fn rows(self) -> usize {
        match (self.kind, self.map) {
            (Kind::Navigate, Map::Giant) => 2_001,
            (Kind::Navigate | Kind::Play | Kind::Diverse, _) => 1_001,
            (Kind::Stitch, _) => 201,
            (Kind::Explore, _) => 501,
            (Kind::Fixed, _) => 701,
        }
    }

    /// The standard deviation of the noise on recorded actions.
    pub fn noise(self) -> f64 {
        match (self.kind, self.body) {
            (Kind::Explore, _) => 1.0,
            (_, Body::Point) => 0.5,
            (_, Body::Ant) => 0.2,
        }
    }

    /// Steps after which an episode of an evaluation counts as failed.
    pub fn horizon(self) -> usize {
        match (self.protocol(), self.map) {
            (Protocol::D4rl, Map::Umaze) => 700,
            _ => 1_000,
        }
    }

    /// The distance from the goal within which an episode has succeeded, in metres.
    pub fn radius(self) -> f64 {
        match self.body {
            Body::Point => 1.0,
            Body::Ant => 0.5,
        }
    }

    /// γ as the benchmarks' baselines have it: farther ahead in the giant maze.
    pub fn discount(self) -> f64 {
        if self.map == Map::Giant { 0.995 } else { 0.99 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_body_map_and_kind() {
        for (name, course) in Course::ALL {
            assert_eq!(course.name(), name);
            assert_eq!(name.starts_with("point"), course.body == Body::Point, "{name}");
            assert_eq!(name.split('-').nth(1), Some(course.map.name()), "{name}");
            let kind = format!("{:?}", course.kind).to_lowercase();
            assert!(name.ends_with(&kind) || course.kind == Kind::Fixed, "{name}");
            assert_eq!(
                course.protocol() == Protocol::D4rl,
                course.map.errands().is_empty() || {
                    matches!(course.kind, Kind::Play | Kind::Diverse)
                }
            );
        }
    }

    #[test]
    fn a_benchmarks_dataset_has_about_a_million_rows_or_five() {
        for (name, course) in Course::ALL {
            let rows = course.episodes() as usize * course.rows();
            let expected = if course.kind == Kind::Explore { 5_010_000 } else { 1_000_500 };
            assert!(rows.abs_diff(expected) < 5_000, "{name}: {rows}");
        }
    }
}

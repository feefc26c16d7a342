//! Worlds to act in: a recording to learn from, tasks to be judged by, rollouts of a policy.
//!
//! Everything drawn is keyed by (seed, purpose, step, index), so a recording, a set of tasks and the
//! outcome of an episode are the same on every machine and for every size of a batch.

pub mod antmaze;
mod buckets;
pub mod course;
mod drive;
mod environment;
mod expert;
pub mod maze;
mod mjcf;
pub mod mujoco;
pub mod pinwheel;
pub mod point;
pub mod pointmaze;
pub mod referee;
pub mod roads;
mod rollout;
mod world;

pub use antmaze::AntMaze;
pub use course::{Body, Course};
pub use environment::{Environment, Episodes, ExtraArray, Recording, Task, check_memory};
pub use pinwheel::Pinwheel;
pub use pointmaze::PointMaze;
pub use referee::Referee;
pub use roads::Roads;
pub use rollout::{Controller, Outcome, Paths, rollout, rollout_told};
pub use world::World;

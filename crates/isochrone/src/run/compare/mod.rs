//! A comparison: every combination of world, learner, extraction and seed is a run of its own.
//!
//! ```text
//! OUT/sheet.toml                       the sheet of a benchmark, if one was given
//! OUT/WORLD/NAME-EXTRACTION/seed-N/    a run, with these files in addition to its own:
//!     planner.csv                      success of the final model following the graph planner's waypoints
//!     accuracy.csv                     how accurate the final model's steps are, in a world with a referee
//!     diverged.toml                    where a number stopped being finite
//! ```
//!
//! Reports are a function of this folder. Complete runs are not repeated, stopped ones are resumed,
//! and a folder with runs of another config is refused.

mod agreement;
mod entry;
mod plan;
mod results;
mod sheet;
mod summary;
mod work;

pub use plan::{Choice, Job, Plan, Request};
pub use results::{Ending, Results, RunResult, measures};
pub use sheet::{OfWorld, Published, Sheet};
pub use summary::{Curve, Pooled, Row};
pub use work::{Failure, Watch};

//! The input of the picture of a maze: walls from above, learned steps, the paths of a policy.

use super::DistanceField;
use crate::{Error, Result};

/// A maze from above: one map for each task.
#[derive(Debug, Clone, PartialEq)]
pub struct Routes {
    /// The line above the picture.
    pub title: String,
    /// The text below the picture; empty for none.
    pub caption: String,
    /// The range of the horizontal and of the vertical coordinate.
    pub plane: [[f32; 2]; 2],
    /// The lower left and the upper right corner of every piece of wall.
    pub walls: Vec<[[f32; 2]; 2]>,
    /// One map each.
    pub tasks: Vec<Routed>,
    /// Steps at which a path has its last shade.
    pub longest: usize,
}

/// What was learned of one task, and how episodes went.
#[derive(Debug, Clone, PartialEq)]
pub struct Routed {
    /// What stands above the map.
    pub title: String,
    /// Steps from each point to the goal; `None` if no distance was learned.
    pub distance: Option<DistanceField>,
    /// Where the star stands.
    pub goal: [f32; 2],
    /// The places that episodes passed, one a step.
    pub paths: Vec<Vec<[f32; 2]>>,
}

impl Routes {
    /// Says whether the picture can be drawn.
    ///
    /// # Errors
    /// No maps, a plane without extent, a field that does not fit its grid, or a number that is not
    /// finite.
    pub fn check(&self) -> Result<()> {
        if self.tasks.is_empty() {
            return Err(Error::input("a picture of a maze has `0` maps, expected at least 1"));
        }
        let rising = |range: &[f32; 2]| range[0] < range[1] && range.iter().all(|x| x.is_finite());
        if !self.plane.iter().all(rising) {
            return Err(Error::input(format!(
                "a maze spans `{:?}`, expected finite sides in rising order",
                self.plane
            )));
        }
        for task in &self.tasks {
            task.distance.as_ref().map_or(Ok(()), DistanceField::check)?;
            let points = task.paths.iter().flatten().chain([&task.goal]);
            if points.flatten().any(|number| !number.is_finite()) {
                return Err(Error::input(format!(
                    "a path of `{}` holds a number that is not finite",
                    task.title
                )));
            }
        }
        Ok(())
    }
}

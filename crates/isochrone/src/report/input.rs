//! The inputs of the pictures: plain numbers and words, checked before anything is drawn.

use serde::{Deserialize, Serialize};

use super::{DistanceField, holes};
use crate::{Error, Result};

/// Recorded trajectories in the plane, each of one family.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Families {
    /// The family of each trajectory (an index into `names`) and its points in order of time.
    pub trajectories: Vec<(u8, Vec<[f32; 2]>)>,
    /// What each family is called.
    pub names: Vec<String>,
}

/// One learned distance to the goal, and the path planned with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panel {
    /// What stands above the map, such as the algorithm's name.
    pub title: String,
    /// Steps from each point to the goal; NaN where no data are near.
    pub distance: DistanceField,
    /// The planned path from start to goal; empty where there is none.
    pub path: Vec<[f32; 2]>,
}

/// The data by family, and beside them learned distances to one goal as filled isochrones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Isochrones {
    /// The line above the picture.
    pub title: String,
    /// The text below the picture; empty for none.
    pub caption: String,
    /// What was recorded: the left map.
    pub families: Families,
    /// What was learned: one map each, all with the same colours.
    pub panels: Vec<Panel>,
    /// Where the planned path begins.
    pub start: [f32; 2],
    /// Where the star stands.
    pub goal: [f32; 2],
    /// The exact steps to the goal, drawn as dashed contours over each panel.
    pub exact: Option<DistanceField>,
    /// The steps at which the exact distance is contoured.
    pub levels: Vec<f32>,
    /// Distances beyond this many steps share the last colour; the largest learned one if absent.
    pub farthest: Option<f32>,
}

/// What the band around a mean curve shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// One standard error of the mean to either side: √(Σ (value − mean)² / (n − 1) / n).
    StandardError,
    /// From the smallest to the largest seed.
    Range,
}

/// Curves of several seeds of one thing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// The training steps at which values were taken, rising.
    pub steps: Vec<u64>,
    /// For each seed one value per step; a value that is not finite is left out of the mean.
    #[serde(with = "holes::many_rows")]
    pub seeds: Vec<Vec<f32>>,
}

/// One step of a series: the mean over seeds and the band around it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The training step.
    pub step: u64,
    /// The mean over seeds.
    pub mean: f64,
    /// The lower side of the band.
    pub low: f64,
    /// The upper side of the band.
    pub high: f64,
}

/// A horizontal line to compare curves with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// What stands at the line's end.
    pub name: String,
    /// Its height.
    pub value: f32,
}

/// Learning curves over training steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curves {
    /// The line above the picture.
    pub title: String,
    /// The text below the picture, to which the meaning of line and band is added.
    pub caption: String,
    /// What the horizontal axis counts.
    pub horizontal: String,
    /// What the vertical axis measures.
    pub vertical: String,
    /// One mean curve each.
    pub series: Vec<Series>,
    /// Lines to compare with.
    pub references: Vec<Reference>,
    /// What the bands show.
    pub spread: Spread,
}

/// Learning curves of the same things in several worlds, one panel each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// The line above the picture.
    pub title: String,
    /// The text below the picture, to which the meaning of line and band is added.
    pub caption: String,
    /// What the horizontal axes count.
    pub horizontal: String,
    /// What the vertical axes measure.
    pub vertical: String,
    /// The numbers at the lower and upper side of every panel.
    pub range: [f32; 2],
    /// The name of each panel and its curves; curves of one name look alike in all panels.
    pub panels: Vec<(String, Vec<Series>)>,
}

/// Learned steps of pairs against steps that are known, one panel for each kind of the latter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationChart {
    /// The line above the picture.
    pub title: String,
    /// The text below the picture; empty for none.
    pub caption: String,
    /// Side by side.
    pub panels: Vec<CalibrationPanel>,
}

/// Learned steps against one kind of known steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationPanel {
    /// What the known steps are, such as `exact`.
    pub known: String,
    /// (known, learned) steps of pairs.
    pub pairs: Vec<[f32; 2]>,
    /// What is drawn through them.
    pub trend: Trend,
}

/// What is drawn through the pairs of a calibration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trend {
    /// A fitted line.
    Line {
        /// Learned steps per known step.
        slope: f32,
        /// Learned steps at zero known steps.
        intercept: f32,
    },
    /// Medians by known steps: (known, learned).
    Medians(Vec<[f32; 2]>),
}

impl Families {
    fn check(&self) -> Result<()> {
        if !self.trajectories.iter().any(|(_, points)| points.len() > 1) {
            return Err(Error::input("no trajectory has two points, expected at least one"));
        }
        for (family, points) in &self.trajectories {
            if usize::from(*family) >= self.names.len() {
                return Err(Error::input(format!(
                    "a trajectory is of family `{family}`, expected one of `{}` names",
                    self.names.len()
                )));
            }
            check_points("a trajectory", points)?;
        }
        Ok(())
    }
}

impl Isochrones {
    /// Says whether the picture can be drawn.
    ///
    /// # Errors
    ///
    /// No trajectories, no panels, a field that does not fit its grid or is masked everywhere, a
    /// number that is not finite, or scales without extent.
    pub fn check(&self) -> Result<()> {
        self.families.check()?;
        if self.panels.is_empty() {
            return Err(Error::input(
                "a picture of isochrones has `0` panels, expected at least 1",
            ));
        }
        check_points("the start", &[self.start])?;
        check_points("the goal", &[self.goal])?;
        for panel in &self.panels {
            panel.distance.check()?;
            if panel.distance.range().is_none() {
                return Err(Error::input(format!(
                    "the distance of panel `{}` is masked everywhere, expected a finite value",
                    panel.title
                )));
            }
            check_points("a path", &panel.path)?;
        }
        if let Some(exact) = &self.exact {
            exact.check()?;
        }
        check_numbers("a level", self.levels.iter().copied())?;
        match self.farthest {
            Some(steps) if !(steps > 0.0 && steps.is_finite()) => Err(Error::input(format!(
                "the farthest distance is `{steps}` steps, expected a positive number"
            ))),
            _ => Ok(()),
        }
    }
}

impl Series {
    /// The mean over seeds and the band around it at each step that has a finite value.
    pub fn summary(&self, spread: Spread) -> Vec<Summary> {
        let column = |index: usize| -> Vec<f64> {
            let values = self.seeds.iter().filter_map(|curve| curve.get(index));
            values.filter(|value| value.is_finite()).map(|value| f64::from(*value)).collect()
        };
        let steps = self.steps.iter().enumerate();
        steps.filter_map(|(index, &step)| summarize(step, &column(index), spread)).collect()
    }

    fn check(&self, spread: Spread) -> Result<()> {
        for curve in &self.seeds {
            if curve.len() != self.steps.len() {
                return Err(Error::input(format!(
                    "a curve of `{}` has `{}` values, expected `{}`, one per step",
                    self.name,
                    curve.len(),
                    self.steps.len()
                )));
            }
        }
        if !self.steps.is_sorted_by(|earlier, later| earlier < later) {
            return Err(Error::input(format!("the steps of `{}` do not rise", self.name)));
        }
        if self.summary(spread).is_empty() {
            return Err(Error::input(format!(
                "`{}` has no finite value, expected at least one",
                self.name
            )));
        }
        Ok(())
    }
}

fn summarize(step: u64, values: &[f64], spread: Spread) -> Option<Summary> {
    if values.is_empty() {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let (low, high) = match spread {
        Spread::Range => {
            values.iter().fold((mean, mean), |(low, high), value| (value.min(low), value.max(high)))
        }
        Spread::StandardError => {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let error = (squares / (count - 1.0).max(1.0) / count).sqrt();
            (mean - error, mean + error)
        }
    };
    Some(Summary { step, mean, low, high })
}

impl Curves {
    /// Says whether the picture can be drawn.
    ///
    /// # Errors
    ///
    /// No series, a series without a finite value, curves of another length than the steps, steps
    /// that do not rise, or a reference that is not finite.
    pub fn check(&self) -> Result<()> {
        if self.series.is_empty() {
            return Err(Error::input("a picture of curves has `0` series, expected at least 1"));
        }
        self.series.iter().try_for_each(|series| series.check(self.spread))?;
        check_numbers("a reference", self.references.iter().map(|reference| reference.value))
    }
}

impl Comparison {
    /// The names of the curves, in the order in which panels first show them.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for series in self.panels.iter().flat_map(|(_, series)| series) {
            if !names.contains(&series.name.as_str()) {
                names.push(&series.name);
            }
        }
        names
    }

    /// Says whether the picture can be drawn.
    ///
    /// # Errors
    ///
    /// No panels, a panel without series or with one that [`Curves`] would refuse, or a range
    /// without extent.
    pub fn check(&self) -> Result<()> {
        if self.panels.is_empty() {
            return Err(Error::input("a comparison has `0` panels, expected at least 1"));
        }
        for (name, series) in &self.panels {
            if series.is_empty() {
                return Err(Error::input(format!(
                    "the panel `{name}` has `0` curves, expected at least 1"
                )));
            }
            series.iter().try_for_each(|series| series.check(Spread::StandardError))?;
        }
        check_numbers("a range", self.range)?;
        if self.range[0] < self.range[1] {
            return Ok(());
        }
        let [low, high] = self.range;
        Err(Error::input(format!("a range from `{low}` to `{high}`, expected one that rises")))
    }
}

impl CalibrationChart {
    /// Says whether the picture can be drawn.
    ///
    /// # Errors
    ///
    /// No panels, a panel without pairs, or a number that is not finite.
    pub fn check(&self) -> Result<()> {
        if self.panels.is_empty() {
            return Err(Error::input("a calibration has `0` panels, expected at least 1"));
        }
        for panel in &self.panels {
            if panel.pairs.is_empty() {
                return Err(Error::input("a calibration has `0` pairs, expected at least 1"));
            }
            check_points("a pair", &panel.pairs)?;
            match &panel.trend {
                Trend::Line { slope, intercept } => {
                    check_numbers("the fitted line", [*slope, *intercept])?;
                }
                Trend::Medians(medians) => check_points("a median", medians)?,
            }
        }
        Ok(())
    }
}

fn check_points(what: &str, points: &[[f32; 2]]) -> Result<()> {
    check_numbers(what, points.iter().flatten().copied())
}

fn check_numbers(what: &str, numbers: impl IntoIterator<Item = f32>) -> Result<()> {
    match numbers.into_iter().find(|number| !number.is_finite()) {
        Some(number) => {
            Err(Error::input(format!("{what} holds `{number}`, expected a finite number")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_the_mean_with_its_standard_error_or_its_range() {
        let series = Series {
            name: "success".into(),
            steps: vec![0, 10, 20],
            seeds: vec![
                vec![1.0, 2.0, f32::NAN],
                vec![3.0, 2.0, f32::NAN],
                vec![5.0, f32::NAN, f32::NAN],
            ],
        };
        let range = series.summary(Spread::Range);
        assert_eq!(range[0], Summary { step: 0, mean: 3.0, low: 1.0, high: 5.0 });
        let error = series.summary(Spread::StandardError);
        assert_eq!(error.len(), 2, "a step without a finite value is left out");
        assert_eq!(error[1], Summary { step: 10, mean: 2.0, low: 2.0, high: 2.0 });
        // Standard deviation 2, three seeds.
        let text = serde_json::to_string(&series).unwrap();
        let back: Series = serde_json::from_str(&text).unwrap();
        assert_eq!(back.summary(Spread::Range), range, "holes survive JSON");
        assert!((error[0].high - (3.0 + 2.0 / 3.0_f64.sqrt())).abs() < 1e-12);
    }

    #[test]
    fn curves_of_the_wrong_length_are_refused_by_name() {
        let series = Series { name: "success".into(), steps: vec![0, 10], seeds: vec![vec![1.0]] };
        let error = series.check(Spread::Range).unwrap_err().to_string();
        assert_eq!(error, "a curve of `success` has `1` values, expected `2`, one per step");
        let series = Series { name: "x".into(), steps: vec![10, 10], seeds: vec![vec![1.0, 2.0]] };
        assert!(series.check(Spread::Range).is_err());
    }
}

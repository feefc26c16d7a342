//! Input normalization, z = (x − shift) · scale, fitted on the data and kept in the model, together
//! with the features that networks see.

use serde::{Deserialize, Serialize};

use super::dataset::Dataset;
use super::features::Features;
use super::store::Store;
use crate::error::{Error, Result};

/// How states are brought to a common scale before a network sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scaling {
    /// States enter as they are.
    #[default]
    None,
    /// Mean 0 and deviation 1 in every coordinate.
    Standard,
    /// Every coordinate from −1 (its least value) to 1 (its largest).
    Range,
}

/// What critics see of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CriticGoal {
    /// The whole state.
    #[default]
    State,
    /// What policies see of it.
    Policy,
}

impl CriticGoal {
    /// Whether it is the whole state.
    pub fn is_state(&self) -> bool {
        *self == Self::State
    }
}

/// The fitted shift and scale of every coordinate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Normalization {
    /// Subtracted first.
    pub shift: Vec<f32>,
    /// Multiplied after; 1 where a coordinate is constant.
    pub scale: Vec<f32>,
    /// What networks see in addition to the coordinates, or instead of them.
    #[serde(default)]
    pub features: Features,
    /// The coordinates of a goal that policies see; empty for all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_goal: Vec<usize>,
    /// What critics see of a goal.
    #[serde(default, skip_serializing_if = "CriticGoal::is_state")]
    pub critic_goal: CriticGoal,
    /// The directions of Fourier features; a model's file has them as an array of its own.
    #[serde(skip)]
    directions: Vec<f32>,
    /// The positions of a policy's goal within what networks see of a state; not written either.
    #[serde(skip)]
    goal_places: Vec<usize>,
}

impl Normalization {
    /// Fits the statistics of `dataset`, column by column in the order of the rows.
    ///
    /// # Errors
    /// The file that holds the rows can no longer be read.
    pub fn fit(dataset: &Dataset, scaling: Scaling) -> Result<Self> {
        let size = dataset.state_size();
        let (shift, scale) = match scaling {
            Scaling::None => (vec![0.0; size], vec![1.0; size]),
            Scaling::Standard => {
                let rows = dataset.rows() as f64;
                let mut means = vec![-0.0; size];
                fold(dataset, &mut means, |sum, _, x| *sum += x)?;
                means.iter_mut().for_each(|sum| *sum /= rows);
                let mut squares = vec![-0.0; size];
                fold(dataset, &mut squares, |sum, at, x| *sum += (x - means[at]).powi(2))?;
                let scales = squares.iter().map(|sum| inverse((sum / rows).sqrt()));
                (means.iter().map(|&mean| mean as f32).collect(), scales.collect())
            }
            Scaling::Range => {
                let mut ends = vec![(f64::INFINITY, f64::NEG_INFINITY); size];
                fold(dataset, &mut ends, |(low, high), _, x| {
                    (*low, *high) = (low.min(x), high.max(x))
                })?;
                let middle = |&(low, high): &(f64, f64)| ((low + high) / 2.0) as f32;
                let scale = |&(low, high): &(f64, f64)| inverse((high - low) / 2.0);
                (ends.iter().map(middle).collect(), ends.iter().map(scale).collect())
            }
        };
        Ok(Self::new(shift, scale))
    }

    /// The normalization of this shift and scale, without features.
    pub fn new(shift: Vec<f32>, scale: Vec<f32>) -> Self {
        let goal_places = (0..shift.len()).collect();
        Self {
            shift,
            scale,
            features: Features::None,
            policy_goal: Vec::new(),
            critic_goal: CriticGoal::State,
            directions: Vec::new(),
            goal_places,
        }
    }

    /// The same with features.
    #[must_use]
    pub fn with(self, features: Features) -> Self {
        let goal = self.policy_goal.clone();
        Self { directions: features.directions(), features, ..self }.with_policy_goal(goal)
    }

    /// The directions of Fourier features, one per row; empty if there are none.
    pub fn directions(&self) -> &[f32] {
        &self.directions
    }

    /// The same with these directions of its Fourier features, as a file has them.
    ///
    /// # Errors
    /// Another number of values than the features have.
    pub fn with_directions(self, directions: Vec<f32>) -> Result<Self> {
        if directions.len() == self.directions.len() {
            return Ok(Self { directions, ..self });
        }
        Err(Error::input(format!(
            "the directions of the features have {} values, expected {}",
            directions.len(),
            self.directions.len()
        )))
    }

    /// The same, but policies see only these coordinates of a goal; an empty list means all.
    #[must_use]
    pub fn with_policy_goal(self, axes: Vec<usize>) -> Self {
        let goal_places = match &axes[..] {
            [] => (0..self.width()).collect(),
            axes => self.features.places(axes, self.shift.len()),
        };
        Self { policy_goal: axes, goal_places, ..self }
    }

    /// The same, but critics see this of a goal.
    #[must_use]
    pub fn with_critic_goal(self, critic_goal: CriticGoal) -> Self {
        Self { critic_goal, ..self }
    }

    /// Checks that the coordinates of a policy's goal exist in states of this size.
    ///
    /// # Errors
    /// Names the coordinates and the state size.
    pub fn check_policy_goal(axes: &[usize], state_size: usize) -> Result<()> {
        if axes.iter().all(|&axis| axis < state_size) {
            return Ok(());
        }
        Err(Error::input(format!(
            "`data.policy_goal` is `{axes:?}`, expected coordinates below {state_size}"
        ))
        .hint(
            "`[0, 1]` is the position of a body in a maze; leave it out to show policies whole goals",
        ))
    }

    /// Values that a network sees of a state.
    pub fn width(&self) -> usize {
        self.features.width(self.shift.len())
    }

    /// Values that a policy sees of a goal.
    pub fn goal_width(&self) -> usize {
        self.goal_places.len()
    }

    /// The positions, within what networks see of a state, that a policy sees of a goal.
    pub fn goal_places(&self) -> &[usize] {
        &self.goal_places
    }

    /// Values that a critic sees of a goal.
    pub fn critic_goal_width(&self) -> usize {
        self.critic_goal_places().map_or(self.width(), <[usize]>::len)
    }

    /// The positions, within what networks see of a state, that a critic sees of a goal; none if it
    /// sees all of it.
    pub fn critic_goal_places(&self) -> Option<&[usize]> {
        (!self.critic_goal.is_state()).then_some(&self.goal_places)
    }

    /// What a policy sees of a goal, given what networks see of it.
    pub fn of_goal<'a>(&'a self, seen: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
        self.goal_places.iter().map(|&place| seen[place])
    }

    /// Writes what networks see of one state into `target`. Inlined, so that a loop over many states can
    /// be compiled for the machine's vectors.
    #[inline(always)]
    pub fn apply(&self, state: &[f32], target: &mut [f32]) {
        for (((target, &x), &shift), &scale) in
            target.iter_mut().zip(state).zip(&self.shift).zip(&self.scale)
        {
            *target = (x - shift) * scale;
        }
        self.features.write(&self.directions, state, target);
    }
}

impl Dataset {
    /// Mean and deviation of every coordinate; for data on disk they are computed once.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn standard(&self) -> Result<Normalization> {
        let Store::Disk(disk) = &self.store else {
            return Normalization::fit(self, Scaling::Standard);
        };
        if disk.standard.get().is_none() {
            let fitted = Normalization::fit(self, Scaling::Standard)?;
            disk.standard.get_or_init(|| [fitted.shift, fitted.scale]);
        }
        let [shift, scale] = disk.standard.get().cloned().unwrap_or_default();
        Ok(Normalization::new(shift, scale))
    }
}

/// One pass over all states; `add` adds a value, given its column, to that column's sum.
fn fold<S>(dataset: &Dataset, sums: &mut [S], add: impl Fn(&mut S, usize, f64)) -> Result<()> {
    dataset.each_states(|states| {
        for state in states.chunks_exact(sums.len()) {
            for (at, (sum, &x)) in sums.iter_mut().zip(state).enumerate() {
                add(sum, at, f64::from(x));
            }
        }
        Ok(())
    })
}

/// Coordinates that vary by less than this are constant and keep their scale.
const CONSTANT: f64 = 1e-12;

fn inverse(spread: f64) -> f32 {
    if spread > CONSTANT { (1.0 / spread) as f32 } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_the_data_and_constant_coordinates_stay() {
        let dataset = Dataset::new(vec![0., 5., 2., 5., 4., 5.], 2, None, &[3]).unwrap();
        let standard = Normalization::fit(&dataset, Scaling::Standard).unwrap();
        assert_eq!(standard.shift, [2.0, 5.0]);
        assert!((standard.scale[0] - (3.0f32 / 8.0).sqrt()).abs() < 1e-6);
        assert_eq!(standard.scale[1], 1.0);
        let range = Normalization::fit(&dataset, Scaling::Range).unwrap();
        let mut target = [0.0; 2];
        range.apply(&[4.0, 5.0], &mut target);
        assert_eq!(target, [1.0, 0.0]);
    }

    #[test]
    fn ramps_take_the_place_of_coordinates_and_waves_stand_beside_them() {
        let dataset = Dataset::new(vec![0., 5., 2., 5., 4., 5.], 2, None, &[3]).unwrap();
        let plain = Normalization::fit(&dataset, Scaling::Range).unwrap();
        let ramps = Features::Ramps { count: 3, from: -1.0, to: 1.0, width: 2.0 };
        let ramps = plain.clone().with(ramps);
        let mut target = vec![0.0; ramps.width()];
        ramps.apply(&[1.0, 5.0], &mut target);
        let expected = [1.0, 0.5, 0.0, 3.0, 2.5, 2.0].map(f32::tanh);
        target.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-6));
        let fourier = Features::Fourier { axes: vec![1], count: 4, length: 3.0 };
        let fourier = plain.with(fourier);
        assert_eq!(fourier.width(), 10);
        let see = |state: [f32; 2]| {
            let mut target = vec![0.0; 10];
            fourier.apply(&state, &mut target);
            target
        };
        let (here, there) = (see([4.0, 5.0]), see([0.0, 5.0]));
        assert_eq!(here[..2], [1.0, 0.0]);
        assert_eq!(here[2..], there[2..], "waves of the second coordinate alone");
        for pair in here[2..].chunks(2) {
            assert!((pair[0].hypot(pair[1]) - 1.0).abs() < 1e-6);
        }
        assert_ne!(here[2..], see([4.0, 5.1])[2..]);
    }

    #[test]
    fn policies_see_the_numbers_that_depend_on_their_coordinates_alone() {
        let dataset = Dataset::new(vec![0., 5., 7., 2., 3., 4.], 3, None, &[2]).unwrap();
        let seen = |features: Features, axes: &[usize]| {
            let plain = Normalization::fit(&dataset, Scaling::None).unwrap().with(features);
            let part = plain.with_policy_goal(axes.to_vec());
            let places: Vec<f32> = (0..part.width()).map(|place| place as f32).collect();
            assert_eq!(part.of_goal(&places).count(), part.goal_width());
            part.of_goal(&places).map(|place| place as usize).collect::<Vec<_>>()
        };
        let ramps = || Features::Ramps { count: 2, from: 0.0, to: 1.0, width: 1.0 };
        let fourier = || Features::Fourier { axes: vec![0, 2], count: 2, length: 1.0 };
        assert_eq!(seen(Features::None, &[]), [0, 1, 2]);
        assert_eq!(seen(Features::None, &[2, 0]), [0, 2]);
        assert_eq!(seen(ramps(), &[0, 2]), [0, 1, 4, 5]);
        assert_eq!(seen(fourier(), &[2, 0]), [0, 2, 3, 4, 5, 6]);
        assert_eq!(seen(fourier(), &[0, 1]), [0, 1], "a wave of the third coordinate is hidden");
        assert_eq!(seen(fourier(), &[]), [0, 1, 2, 3, 4, 5, 6]);
        let error = Normalization::check_policy_goal(&[0, 3], 3).unwrap_err().to_string();
        assert!(error.contains("`data.policy_goal` is `[0, 3]`"), "{error}");
    }

    #[test]
    fn features_that_do_not_fit_are_refused_by_their_key() {
        let ramps = |count, from, to, width| Features::Ramps { count, from, to, width };
        let fourier = |axis, length| Features::Fourier { axes: vec![axis], count: 2, length };
        for (wrong, key) in [
            (ramps(1, 0.0, 1.0, 1.0), "count"),
            (ramps(3, 1.0, 1.0, 1.0), "to"),
            (ramps(3, 0.0, f64::NAN, 1.0), "to"),
            (ramps(3, 0.0, 1.0, 0.0), "width"),
            (fourier(2, 1.0), "axes"),
            (fourier(0, -1.0), "length"),
        ] {
            let error = wrong.check(2).unwrap_err().to_string();
            assert!(error.contains(&format!("data.features.{key}")), "{error}");
        }
        assert!(fourier(1, 2.0).check(2).is_ok() && ramps(2, 0.0, 1.0, 1.0).check(2).is_ok());
    }
}

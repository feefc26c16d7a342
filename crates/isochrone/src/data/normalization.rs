//! Input normalization: z = (x − shift) · scale, fitted on the data and kept in the model.

use serde::{Deserialize, Serialize};

use super::Dataset;

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

/// The fitted shift and scale of every coordinate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Normalization {
    /// Subtracted first.
    pub shift: Vec<f32>,
    /// Multiplied after; 1 where a coordinate is constant.
    pub scale: Vec<f32>,
}

impl Normalization {
    /// Fits the statistics of `dataset`.
    pub fn fit(dataset: &Dataset, scaling: Scaling) -> Self {
        let size = dataset.state_size();
        let column =
            |at: usize| dataset.states().iter().skip(at).step_by(size).map(|&x| f64::from(x));
        let rows = dataset.rows() as f64;
        let (shift, scale) = (0..size)
            .map(|at| match scaling {
                Scaling::None => (0.0, 1.0),
                Scaling::Standard => {
                    let mean = column(at).sum::<f64>() / rows;
                    let variance = column(at).map(|x| (x - mean).powi(2)).sum::<f64>() / rows;
                    (mean as f32, inverse(variance.sqrt()))
                }
                Scaling::Range => {
                    let low = column(at).fold(f64::INFINITY, f64::min);
                    let high = column(at).fold(f64::NEG_INFINITY, f64::max);
                    (((low + high) / 2.0) as f32, inverse((high - low) / 2.0))
                }
            })
            .unzip();
        Self { shift, scale }
    }

    /// Normalizes one state into `target`.
    pub fn apply(&self, state: &[f32], target: &mut [f32]) {
        for (((target, &x), &shift), &scale) in
            target.iter_mut().zip(state).zip(&self.shift).zip(&self.scale)
        {
            *target = (x - shift) * scale;
        }
    }
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
        let standard = Normalization::fit(&dataset, Scaling::Standard);
        assert_eq!(standard.shift, [2.0, 5.0]);
        assert!((standard.scale[0] - (3.0f32 / 8.0).sqrt()).abs() < 1e-6);
        assert_eq!(standard.scale[1], 1.0);
        let range = Normalization::fit(&dataset, Scaling::Range);
        let mut target = [0.0; 2];
        range.apply(&[4.0, 5.0], &mut target);
        assert_eq!(target, [1.0, 0.0]);
    }
}

//! A directional policy for the ant: walks where a direction points. It steers recorded episodes.
//!
//! Trained for this project by SAC in 600,000 steps: 0.183 m a step, no falls in 300 steps. Input:
//! qpos[2..15], qvel[0..14], unit direction; two layers of 256 with tanh-approximated GELU; a mean
//! and a log standard deviation held to [−5, 2]; tanh. Data recorded with it are in the style of
//! D4RL and OGBench, whose experts are others.

use crate::data::arrays::Arrays;
use crate::error::{Error, Result};
use crate::random::Draws;

const WEIGHTS: &[u8] = include_bytes!("../../assets/ant-expert.npz");
/// Numbers that the policy sees: the ant without its place, and a direction.
pub(super) const INPUTS: usize = 29;
/// Joints that it drives.
pub(super) const OUTPUTS: usize = 8;
const WIDTH: usize = 256;
const LOG_DEVIATION: (f32, f32) = (-5.0, 2.0);

/// Weights row after row, one row for each input, and biases.
struct Layer {
    weights: Vec<f32>,
    biases: Vec<f32>,
}

/// The policy.
pub(super) struct Expert {
    hidden: [Layer; 2],
    mean: Layer,
    log_deviation: Layer,
}

impl Expert {
    /// Unpacks the policy.
    ///
    /// # Errors
    /// Only where the weights built into the program are not what they must be.
    pub(super) fn open() -> Result<Self> {
        let mut arrays = Arrays::open(WEIGHTS)?;
        let mut layer = |end: &str, shape: [usize; 2]| {
            let mut get = |name: String, shape: &[usize]| {
                let array = arrays.get(&name)?;
                if array.shape != shape {
                    return Err(Error::input(format!("`{name}` of the ant's expert is damaged")));
                }
                Ok(array.values.iter().map(|&value| value as f32).collect())
            };
            let weights = get(format!("w{end}"), &shape)?;
            Ok(Layer { weights, biases: get(format!("b{end}"), &shape[1..])? })
        };
        Ok(Self {
            hidden: [layer("0", [INPUTS, WIDTH])?, layer("1", [WIDTH, WIDTH])?],
            mean: layer("m", [WIDTH, OUTPUTS])?,
            log_deviation: layer("s", [WIDTH, OUTPUTS])?,
        })
    }

    fn features(&self, input: &[f32]) -> Vec<f32> {
        let mut features = input.to_vec();
        for layer in &self.hidden {
            features = layer.apply(&features);
            features.iter_mut().for_each(|value| *value = gelu(*value));
        }
        features
    }

    /// The action it prefers.
    pub(super) fn prefer(&self, input: &[f32]) -> Vec<f32> {
        let mut actions = self.mean.apply(&self.features(input));
        actions.iter_mut().for_each(|value| *value = value.tanh());
        actions
    }

    /// An action drawn as in training.
    pub(super) fn draw(&self, input: &[f32], draws: &mut Draws) -> Vec<f32> {
        let features = self.features(input);
        let (mut actions, logs) = (self.mean.apply(&features), self.log_deviation.apply(&features));
        for (action, log) in actions.iter_mut().zip(logs) {
            let deviation = log.clamp(LOG_DEVIATION.0, LOG_DEVIATION.1).exp();
            *action = (*action + deviation * draws.normal() as f32).tanh();
        }
        actions
    }
}

impl Layer {
    fn apply(&self, input: &[f32]) -> Vec<f32> {
        let mut output = self.biases.clone();
        for (value, row) in input.iter().zip(self.weights.chunks_exact(output.len())) {
            for (sum, weight) in output.iter_mut().zip(row) {
                *sum += value * weight;
            }
        }
        output
    }
}

/// ½ x (1 + tanh(√(2/π) (x + 0.044715 x³))).
fn gelu(x: f32) -> f32 {
    const SCALE: f32 = 0.797_884_6;
    0.5 * x * (1.0 + (SCALE * (x + 0.044_715 * x * x * x)).tanh())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Stream};

    #[test]
    fn the_network_is_that_of_its_weights() {
        let expert = Expert::open().unwrap();
        let input: Vec<f32> = (0..INPUTS).map(|index| (index as f32 * 0.37).sin()).collect();
        let found = expert.prefer(&input);
        // The same sums by numpy.
        let expected =
            [0.775067, -0.690089, 0.042629, -0.612313, -0.949953, -0.287956, -0.985061, -0.856137];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-4, "{found} and {expected}");
        }
        let mut draws = Stream::new(0, Purpose(0)).draws(0, 0);
        let drawn: Vec<Vec<f32>> = (0..400).map(|_| expert.draw(&input, &mut draws)).collect();
        assert!(drawn.iter().flatten().all(|value| value.abs() <= 1.0));
        assert!(drawn[0] != drawn[1]);
    }
}

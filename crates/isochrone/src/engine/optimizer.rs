//! Adam over a whole arena in one pass, with optional clipping, schedule and decay.
//!
//! m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,
//! θ ← θ − α (m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + ε) + decay · θ).
//! Kingma and Ba, "Adam", 2015; decoupled decay as in Loshchilov and Hutter, 2019.

use serde::{Deserialize, Serialize};

use super::{Scalar, Threads, wide_kernel};
use crate::error::{Error, Result};
use crate::pages;

/// How an arena descends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Adam {
    /// The step size α.
    pub learning_rate: f64,
    /// β₁, the memory of the mean gradient.
    pub first_decay: f64,
    /// β₂, the memory of the mean squared gradient.
    pub second_decay: f64,
    /// ε, added to the root.
    pub epsilon: f64,
    /// The largest norm of a gradient; 0 does not clip.
    pub clip: f64,
    /// The decoupled weight decay.
    pub decay: f64,
    /// How the step size changes over a run.
    pub schedule: Schedule,
}

impl Default for Adam {
    fn default() -> Self {
        Self {
            learning_rate: 3e-4,
            first_decay: 0.9,
            second_decay: 0.999,
            epsilon: 1e-8,
            clip: 0.0,
            decay: 0.0,
            schedule: Schedule::Constant,
        }
    }
}

impl Adam {
    /// Checks that every number is one the formula has a meaning for; `key` is where the optimizer
    /// stands in a config.
    ///
    /// # Errors
    /// Names the key, what was expected and what was found.
    pub fn check(&self, key: &str) -> Result<()> {
        let positive = f64::MIN_POSITIVE..f64::INFINITY;
        let memory = 0.0..1.0;
        let allowed = [
            ("learning_rate", self.learning_rate, &positive, "a positive number"),
            ("first_decay", self.first_decay, &memory, "0 up to, not including, 1"),
            ("second_decay", self.second_decay, &memory, "0 up to, not including, 1"),
            ("epsilon", self.epsilon, &positive, "a positive number"),
            ("clip", self.clip, &(0.0..f64::INFINITY), "a number, 0 or more"),
            ("decay", self.decay, &(0.0..f64::INFINITY), "a number, 0 or more"),
        ];
        match allowed.iter().find(|(_, value, range, _)| !range.contains(value)) {
            None => Ok(()),
            Some((name, value, _, expected)) => {
                Err(Error::input(format!("`{key}.{name}` is `{value}`, expected {expected}"))
                    .hint("`isochrone config` prints every key with its default"))
            }
        }
    }
}

/// How the step size changes over the updates of an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// The same throughout.
    Constant,
    /// From zero over the first twentieth, then the same.
    Warmup,
    /// A fifth of the step size over the last fifth of the updates.
    Tail,
    /// Half a cosine from the step size to zero.
    Cosine,
}

impl Schedule {
    /// The factor of the step size at update `count` (from 0) of `total`.
    pub fn factor(self, count: u64, total: u64) -> f64 {
        let share = count as f64 / total.max(1) as f64;
        match self {
            Self::Constant => 1.0,
            Self::Warmup => (20.0 * (count + 1) as f64 / total.max(1) as f64).min(1.0),
            Self::Tail => {
                if share < 0.8 {
                    1.0
                } else {
                    0.2
                }
            }
            Self::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * share.min(1.0)).cos()),
        }
    }
}

/// The numbers of an arena and what Adam remembers of its gradients.
#[derive(Debug, Clone)]
pub(super) struct ArenaState<T> {
    pub values: Vec<T>,
    pub gradient: Vec<T>,
    pub first: Vec<T>,
    pub second: Vec<T>,
}

/// Arenas are cut into parts of this many numbers, so that sums do not depend on threads.
const PART: usize = 16_384;

impl<T: Scalar> ArenaState<T> {
    pub fn new(start: &[T]) -> Self {
        let zeros = || pages::zeros(T::ZERO, start.len());
        let mut values = zeros();
        values.copy_from_slice(start);
        Self { gradient: zeros(), first: zeros(), second: zeros(), values }
    }

    /// The Euclidean norm of the gradient, summed in double precision in a fixed order.
    pub fn gradient_norm(&self) -> f64 {
        self.gradient.iter().map(|g| g.wide() * g.wide()).sum::<f64>().sqrt()
    }

    /// One step; `count` counts the arena's updates from 0, `total` is how many there will be.
    pub fn step(&mut self, threads: &Threads, adam: &Adam, count: u64, total: u64) {
        let rate = adam.learning_rate * adam.schedule.factor(count, total);
        let clip = match adam.clip {
            limit if limit > 0.0 => (limit / self.gradient_norm().max(1e-30)).min(1.0),
            _ => 1.0,
        };
        let time = (count + 1).min(i32::MAX as u64) as i32;
        let constants = Constants {
            clip: T::of(clip),
            first_decay: T::of(adam.first_decay),
            second_decay: T::of(adam.second_decay),
            rate: T::of(rate / (1.0 - adam.first_decay.powi(time))),
            root: T::of(1.0 / (1.0 - adam.second_decay.powi(time)).sqrt()),
            epsilon: T::of(adam.epsilon),
            shrink: T::of(1.0 - rate * adam.decay),
        };
        let gradient = &self.gradient;
        threads.parts3(
            (&mut self.values, PART),
            (&mut self.first, PART),
            (&mut self.second, PART),
            |part, values, first, second| {
                let gradient = &gradient[part * PART..][..values.len()];
                descend(values, first, second, gradient, constants);
            },
        );
    }

    /// Moves these values a share of the way towards `source` (Polyak).
    pub fn follow(&mut self, source: &[T], rate: f64) {
        let rate = T::of(rate);
        for (value, &target) in self.values.iter_mut().zip(source) {
            *value += rate * (target - *value);
        }
    }
}

#[derive(Clone, Copy)]
struct Constants<T> {
    clip: T,
    first_decay: T,
    second_decay: T,
    rate: T,
    root: T,
    epsilon: T,
    shrink: T,
}

wide_kernel! {
    fn descend<T>(
        values: &'k mut [T],
        first: &'k mut [T],
        second: &'k mut [T],
        gradient: &'k [T],
        constants: Constants<T>,
    ) {
        let length = values.len();
        let (first, second, gradient) =
            (&mut first[..length], &mut second[..length], &gradient[..length]);
        for at in 0..length {
            let g = gradient[at] * constants.clip;
            first[at] = constants.first_decay * first[at] + (T::ONE - constants.first_decay) * g;
            second[at] =
                constants.second_decay * second[at] + (T::ONE - constants.second_decay) * g * g;
            let root = second[at].sqrt() * constants.root + constants.epsilon;
            values[at] = values[at] * constants.shrink - constants.rate * first[at] / root;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adam written as in its paper, one number at a time.
    fn reference(gradients: &[f64], adam: &Adam) -> f64 {
        let (mut value, mut m, mut v) = (1.0, 0.0, 0.0);
        for (count, g) in gradients.iter().enumerate() {
            let g =
                if adam.clip > 0.0 && g.abs() > adam.clip { g.signum() * adam.clip } else { *g };
            m = adam.first_decay * m + (1.0 - adam.first_decay) * g;
            v = adam.second_decay * v + (1.0 - adam.second_decay) * g * g;
            let time = count as i32 + 1;
            let (mh, vh) =
                (m / (1.0 - adam.first_decay.powi(time)), v / (1.0 - adam.second_decay.powi(time)));
            value -= adam.learning_rate * (mh / (vh.sqrt() + adam.epsilon) + adam.decay * value);
        }
        value
    }

    #[test]
    fn a_step_is_the_published_step() {
        let gradients = [0.3, -2.0, 0.01, 5.0];
        for adam in [
            Adam { learning_rate: 0.1, ..Adam::default() },
            Adam { learning_rate: 0.1, clip: 1.0, decay: 0.05, ..Adam::default() },
        ] {
            let mut arena = ArenaState::new(&[1.0f64]);
            for (count, g) in gradients.iter().enumerate() {
                arena.gradient[0] = *g;
                arena.step(&Threads::default(), &adam, count as u64, 4);
            }
            assert!((arena.values[0] - reference(&gradients, &adam)).abs() < 1e-12);
        }
    }

    #[test]
    fn schedules_begin_and_end_where_they_say() {
        assert_eq!(Schedule::Constant.factor(7, 10), 1.0);
        assert_eq!(Schedule::Tail.factor(79, 100), 1.0);
        assert_eq!(Schedule::Tail.factor(80, 100), 0.2);
        assert_eq!(Schedule::Cosine.factor(0, 100), 1.0);
        assert!(Schedule::Cosine.factor(100, 100) < 1e-12);
        assert!((Schedule::Warmup.factor(0, 1000) - 0.02).abs() < 1e-12);
        assert_eq!(Schedule::Warmup.factor(60, 1000), 1.0);
    }

    #[test]
    fn a_follower_moves_its_share_of_the_way() {
        let mut arena = ArenaState::new(&[1.0f64, -1.0]);
        arena.follow(&[2.0, 1.0], 0.25);
        assert_eq!(arena.values, [1.25, -0.5]);
    }
}

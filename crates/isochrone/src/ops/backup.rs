//! γᵏ e^{d − d'} − d for all pairs: the divergence whose minimum is e^{−d} = E[γᵏ e^{−d'}].
//!
//! d' is the distance that is left after k steps, held. Where d − d' passes a cutoff the term is
//! d − d' itself, whose slope does not explode. The loss is a mean over all pairs and one over
//! matching pairs, weighed against each other.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
    wide_kernel,
};

/// How a backup is weighed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backup {
    /// What distances are multiplied by before.
    pub scale: f64,
    /// γ.
    pub discount: f64,
    /// Where d − d', so scaled, is above it, the term is linear.
    pub cutoff: f64,
    /// The weight of the mean over matching pairs; the mean over all pairs has the rest.
    pub diagonal: f64,
}

struct BackupLoss {
    shape: Backup,
    size: usize,
}

/// Terms are summed in so many lanes, joined in order.
const SUMS: usize = 16;

wide_kernel! {
    /// The slopes of a row of pairs, times `all`, and the sum of its terms.
    fn row<T>(
        loss: &'k BackupLoss,
        discount: T,
        distance: &'k [T],
        left: &'k [T],
        all: T,
        slopes: &'k mut [T],
        sum: &'k mut T,
    ) {
        let mut sums = [T::ZERO; SUMS];
        let parts = slopes.chunks_mut(SUMS).zip(distance.chunks(SUMS).zip(left.chunks(SUMS)));
        for (slopes, (distance, left)) in parts {
            for (((slope, &d), &left), sum) in slopes.iter_mut().zip(distance).zip(left).zip(&mut sums) {
                let (term, its_slope) = loss.term(discount, d, left);
                *sum += term;
                *slope = its_slope * all;
            }
        }
        *sum = sums.into_iter().fold(T::ZERO, |total, sum| total + sum);
    }
}

impl BackupLoss {
    /// The term of a pair and its slope by d, given γᵏ; both sides of the cutoff are computed, so
    /// that loops have no branch.
    #[inline(always)]
    fn term<T: Scalar>(&self, discount: T, distance: T, left: T) -> (T, T) {
        let scale = T::of(self.shape.scale);
        let gap = (distance - left) * scale;
        let ratio = discount * gap.exp();
        let linear = gap > T::of(self.shape.cutoff);
        let term = if linear { gap } else { ratio - distance * scale };
        let slope = if linear { T::ONE } else { ratio - T::ONE };
        (term, slope * scale)
    }

    fn discount<T: Scalar>(&self, gap: T) -> T {
        T::of(self.shape.discount.powf(gap.wide()))
    }

    /// What a pair weighs: its share of the mean over all, and of that over matching ones.
    fn weights<T: Scalar>(&self) -> (T, T) {
        let (size, diagonal) = (self.size as f64, self.shape.diagonal);
        (T::of((1.0 - diagonal) / (size * size)), T::of(diagonal / size))
    }
}

impl<T: Scalar> Operation<T> for BackupLoss {
    fn name(&self) -> &'static str {
        "backup"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn saved(&self) -> usize {
        self.size * self.size
    }

    fn forward(&self, run: Forward<'_, T>) {
        let (distance, left, gaps) = (run.input(0), run.input(1), run.input(2));
        let (all, matching) = self.weights::<T>();
        let mut total = 0.0;
        for (at, slopes) in run.saved.chunks_exact_mut(self.size).enumerate() {
            let discount = self.discount(gaps[at]);
            let mut sum = T::ZERO;
            let start = at * self.size;
            let (distance, left) = (&distance[start..][..self.size], &left[start..][..self.size]);
            row(self, discount, distance, left, all, slopes, &mut sum);
            let (term, slope) = self.term(discount, distance[at], left[at]);
            slopes[at] += slope * matching;
            total += (sum * all + term * matching).wide();
        }
        run.output[0] = T::of(total);
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let upstream = run.output_gradient[0];
        let slopes = std::mem::take(&mut run.saved);
        if let Some(target) = run.input_gradient(0) {
            target.iter_mut().zip(&*slopes).for_each(|(t, &slope)| *t += upstream * slope);
        }
    }
}

impl Kernels for BackupLoss {
    fn source(&self) -> &'static str {
        include_str!("backup.cu")
    }

    /// The slopes, the sums of rows, and a counter.
    fn kept(&self) -> Vec<usize> {
        vec![self.size * self.size, self.size, 1]
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let (all, matching) = self.weights::<f32>();
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Read(queue.input(2)),
            Argument::Write(queue.output()),
            Argument::Write(queue.kept(0)),
            Argument::Write(queue.kept(1)),
            Argument::Write(queue.kept(2)),
            Argument::size(self.size),
            Argument::Float(self.shape.scale as f32),
            Argument::Wide(self.shape.discount),
            Argument::Float(self.shape.cutoff as f32),
            Argument::Float(all),
            Argument::Float(matching),
        ];
        queue.launch("backup_forward", Grid::blocks(self.size, 1, 256), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let (target, count) = (queue.input_target(0), self.size * self.size);
        let arguments = [
            Argument::Read(queue.output_gradient()),
            Argument::Read(queue.kept(0)),
            Argument::target(target),
            Argument::keep(target),
            Argument::size(count),
        ];
        queue.launch("backup_backward", Grid::fours(count), &arguments);
    }
}

impl<T: Scalar> Program<T> {
    /// The backup of distances of all pairs: `left` is what is left, held, after the steps in `gaps`
    /// (one number a row).
    pub fn backup(&mut self, shape: Backup, distance: Value, left: Value, gaps: Value) -> Value {
        let operation = BackupLoss { shape, size: distance.rows };
        self.add(operation, &[distance, left.stop(), gaps], &[], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    const SHAPE: Backup = Backup { scale: 1.0, discount: 0.8, cutoff: 1.0, diagonal: 0.4 };

    #[test]
    fn the_loss_has_the_gradient_of_its_formula_on_both_sides_of_the_cutoff() {
        for scale in [1.0, 1.7] {
            let shape = Backup { scale, ..SHAPE };
            Bench::new(&[(4, 4)]).holding(&[(4, 4), (4, 1)]).check_from(
                |_, numbers| numbers.iter_mut().for_each(|x| *x *= 3.0),
                |program, values| program.backup(shape, values[0], values[1], values[2]),
            );
        }
    }

    #[test]
    fn no_gradient_flows_into_what_is_left() {
        let gradients = Bench::new(&[(4, 4), (4, 4)]).holding(&[(4, 1)]);
        let gradients = gradients
            .gradients(|program, values| program.backup(SHAPE, values[0], values[1], values[2]));
        assert!(gradients[0].iter().any(|&g| g != 0.0));
        assert_eq!(gradients[1], [0.0; 16]);
    }

    #[test]
    fn the_minimum_is_the_certainty_equivalent_of_what_is_left() {
        // Two successors, 1 and 3 nats from the goal with equal chance, one and two steps away.
        let cases: [(f64, f64); 2] = [(1.0, 1.0), (3.0, 2.0)];
        let minimum =
            -cases.iter().map(|(left, k)| 0.5 * 0.8f64.powf(*k) * (-left).exp()).sum::<f64>().ln();
        // In nats, of which a distance is one part in `scale`.
        for scale in [1.0, 4.0] {
            let loss = BackupLoss { shape: Backup { scale, cutoff: 50.0, ..SHAPE }, size: 1 };
            let slope = |d: f64| {
                let slopes =
                    cases.map(|(left, k)| loss.term(loss.discount(k), d / scale, left / scale).1);
                slopes.iter().sum::<f64>()
            };
            assert!(slope(minimum).abs() < 1e-12);
            assert!(slope(minimum - 0.1) < 0.0 && slope(minimum + 0.1) > 0.0);
        }
    }

    #[test]
    fn past_the_cutoff_the_term_is_the_gap_itself_with_slope_one() {
        let loss = BackupLoss { shape: SHAPE, size: 1 };
        assert_eq!(loss.term(0.8, 3.5, 2.0), (1.5, 1.0));
        let (term, slope) = loss.term(0.8, 2.5, 2.0);
        let ratio = 0.8 * 0.5f64.exp();
        assert!((term - (ratio - 2.5)).abs() < 1e-12 && (slope - (ratio - 1.0)).abs() < 1e-12);
    }

    #[test]
    fn the_cutoff_is_one_of_scaled_distances() {
        let loss = BackupLoss { shape: Backup { scale: 2.0, ..SHAPE }, size: 1 };
        assert_eq!(loss.term(0.8, 2.75, 2.0), (1.5, 2.0));
        let (term, slope) = loss.term(0.8, 2.25, 2.0);
        let ratio = 0.8 * 0.5f64.exp();
        assert!((term - (ratio - 4.5)).abs() < 1e-12);
        assert!((slope - 2.0 * (ratio - 1.0)).abs() < 1e-12);
    }

    #[test]
    fn matching_pairs_weigh_as_told() {
        // One term everywhere: whatever the weight, the loss is that term.
        let loss = BackupLoss { shape: SHAPE, size: 5 };
        let (all, matching) = loss.weights::<f64>();
        assert!((25.0 * all + 5.0 * matching - 1.0).abs() < 1e-12);
        assert!((5.0 * matching - 0.4).abs() < 1e-12);
    }
}

//! Linear systems of Markov chains, solved without a single subtraction.
//!
//! x_i (l_i + Σ_j n_ij) − Σ_j n_ij x_j = r_i with n, l, r ≥ 0 and j ≠ i. Eliminating a state sends
//! what flowed into it on to where it leads, so only sums, products and quotients of numbers that
//! are not negative occur and every answer is relatively accurate, however small (Grassmann,
//! Taksar, Heyman: "Regenerative analysis and steady state distributions for Markov chains", 1985).

use rayon::prelude::*;

/// Rows at which spreading them over threads pays.
const PARALLEL_ROWS: usize = 128;

/// Solves for all right-hand sides at once.
///
/// # Shapes
/// `flow` is n × n (its diagonal is not read), `leak` n, `right` n × m; the answer is n × m. Every
/// state must leak or lead to one that does.
pub(super) fn solve(mut flow: Vec<f64>, mut leak: Vec<f64>, mut right: Vec<f64>) -> Vec<f64> {
    let size = leak.len();
    if size == 0 {
        return right;
    }
    let sides = right.len() / size;
    let mut pivots = vec![0.0; size];
    for last in (0..size).rev() {
        let pivot = leak[last] + flow[last * size..last * size + last].iter().sum::<f64>();
        pivots[last] = pivot;
        let (flow_above, flow_last) = flow.split_at_mut(last * size);
        let (right_above, right_last) = right.split_at_mut(last * sides);
        let last_leak = leak[last];
        let remove = |((row, side), leak): ((&mut [f64], &mut [f64]), &mut f64)| {
            let share = row[last] / pivot;
            if share > 0.0 {
                add_scaled(&mut row[..last], share, &flow_last[..last]);
                add_scaled(side, share, &right_last[..sides]);
                *leak += share * last_leak;
            }
        };
        if last >= PARALLEL_ROWS {
            let sides = right_above.par_chunks_mut(sides);
            let rows = flow_above.par_chunks_mut(size).zip(sides).zip(leak[..last].par_iter_mut());
            rows.for_each(remove);
        } else {
            let sides = right_above.chunks_mut(sides);
            flow_above.chunks_mut(size).zip(sides).zip(&mut leak[..last]).for_each(remove);
        }
    }
    substitute(&flow, &pivots, right, sides)
}

/// From the first state on: x_i = (r_i + Σ_{j < i} n_ij x_j) / pivot_i.
fn substitute(flow: &[f64], pivots: &[f64], mut right: Vec<f64>, sides: usize) -> Vec<f64> {
    let size = pivots.len();
    for state in 0..size {
        let (solved, rest) = right.split_at_mut(state * sides);
        let row = &mut rest[..sides];
        for (earlier, solution) in solved.chunks_exact(sides).enumerate() {
            let share = flow[state * size + earlier];
            if share > 0.0 {
                add_scaled(row, share, solution);
            }
        }
        row.iter_mut().for_each(|value| *value /= pivots[state]);
    }
    right
}

fn add_scaled(sum: &mut [f64], factor: f64, row: &[f64]) {
    for (sum, value) in sum.iter_mut().zip(row) {
        *sum += factor * value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_system_has_its_hand_solution() {
        // 3x − 2y = 1 and 5y − 4x = 1: x = 1, y = 1.
        let answer = solve(vec![9.0, 2.0, 4.0, 9.0], vec![1.0, 1.0], vec![1.0, 1.0]);
        assert!(answer.iter().all(|x| (x - 1.0).abs() < 1e-15), "{answer:?}");
    }

    #[test]
    fn a_leak_far_below_rounding_still_decides_the_answer() {
        // Both states lead to each other and leak 1e-30: x = y = 1e30 / 2 for r = (1, 0).
        let answer = solve(vec![0.0, 1.0, 1.0, 0.0], vec![1e-30; 2], vec![1.0, 0.0]);
        assert!(answer.iter().all(|x| (x / 5e29 - 1.0).abs() < 1e-14), "{answer:?}");
    }
}

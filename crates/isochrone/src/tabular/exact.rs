//! The exact distance to a set of goals, by value iteration from both sides.
//!
//! V = 1 in the set, V(s) = max_a γ Σ P(s'|s,a) V(s') elsewhere, d = −ln V. The iteration is
//! monotone, so a start below the answer (0) and one above it (γ^hops) close an interval around
//! it; it ends when the interval is narrower than the promised error or no bit changes any more.
//! Sweeps go outward from the goals and use new values at once (Gauss and Seidel); staying put is
//! solved in closed form. Where plain numbers would vanish, 10⁵ steps away from a goal, values carry
//! their own exponent.

use super::process::DecisionProcess;

/// Half of the promised relative error of a distance goes to the interval, the rest to rounding.
const INTERVAL: f64 = 1e-13;

/// Sweeps over the states whose intervals are still too wide, after each over all: a place that is
/// hard to leave takes a thousand, all others take twenty.
const NARROWER: usize = 32;

/// How far an action must be below the best one before it is dropped, relative to the value.
const SURELY: f64 = 1e-9;

/// One unit of a [`Scaled`] exponent in powers of two.
const UNIT: i32 = 64;

/// Plain numbers serve if all values are above this: whatever vanished in a sum cannot matter then.
const PLAIN: f64 = 1e-280;

/// A number between 0 and 1 that bounds E γ^H.
trait Value: Copy {
    const ZERO: Self;
    const ONE: Self;

    fn times(self, factor: f64) -> Self;

    /// The sum of this and `probability` · `value`; [`times`](Self::times) brings it into range.
    fn plus(self, probability: f64, value: Self) -> Self;

    fn exceeds(self, other: Self) -> bool;

    /// Whether `other` is more than the relative `width` above this value.
    fn is_below(self, other: Self, width: f64) -> bool;

    fn distance(self) -> f64;
}

impl Value for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    fn times(self, factor: f64) -> Self {
        self * factor
    }

    fn plus(self, probability: f64, value: Self) -> Self {
        self + probability * value
    }

    fn exceeds(self, other: Self) -> bool {
        self > other
    }

    fn is_below(self, other: Self, width: f64) -> bool {
        self * (1.0 + width) < other
    }

    fn distance(self) -> f64 {
        Scaled::new(self, 0).distance()
    }
}

/// mantissa · 2^(64 · exponent), with the mantissa in (2⁻⁶⁴, 1] or zero.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scaled {
    mantissa: f64,
    exponent: i32,
}

impl Scaled {
    /// Brings a mantissa of at most about one into range.
    fn new(mut mantissa: f64, mut exponent: i32) -> Self {
        if mantissa == 0.0 {
            return Self::ZERO;
        }
        while mantissa <= power_of_two(-UNIT) {
            mantissa *= power_of_two(UNIT);
            exponent -= 1;
        }
        Self { mantissa, exponent }
    }

    /// The mantissa this value has at another exponent, which must not be smaller.
    fn mantissa_at(self, exponent: i32) -> f64 {
        let units = self.exponent.saturating_sub(exponent);
        if units == 0 {
            self.mantissa
        } else if units < -15 {
            0.0
        } else {
            self.mantissa * power_of_two(UNIT * units)
        }
    }
}

impl Value for Scaled {
    const ZERO: Self = Self { mantissa: 0.0, exponent: i32::MIN };
    const ONE: Self = Self { mantissa: 1.0, exponent: 0 };

    fn times(self, factor: f64) -> Self {
        Self::new(self.mantissa * factor, self.exponent)
    }

    fn plus(self, probability: f64, value: Self) -> Self {
        let exponent = self.exponent.max(value.exponent);
        let mantissa = self.mantissa_at(exponent) + probability * value.mantissa_at(exponent);
        Self { mantissa, exponent }
    }

    fn exceeds(self, other: Self) -> bool {
        (self.exponent, self.mantissa) > (other.exponent, other.mantissa)
    }

    fn is_below(self, other: Self, width: f64) -> bool {
        self.exponent <= other.exponent
            && self.mantissa_at(other.exponent) * (1.0 + width) < other.mantissa
    }

    fn distance(self) -> f64 {
        if self == Self::ZERO {
            return f64::INFINITY;
        }
        // Adding 0 makes the steps from a state to itself 0, not -0.
        0.0 - self.mantissa.ln()
            - f64::from(self.exponent) * f64::from(UNIT) * std::f64::consts::LN_2
    }
}

/// 2^`exponent` for a normal result.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// A process prepared for solving: who leads to whom, and what staying put costs.
pub(super) struct Solver<'a> {
    process: &'a DecisionProcess,
    /// γ / (1 − γ P(s|s,a)) of each (state, action): staying solved in closed form.
    factors: Vec<f64>,
    predecessor_ends: Vec<usize>,
    predecessors: Vec<u32>,
}

impl<'a> Solver<'a> {
    pub(super) fn new(process: &'a DecisionProcess) -> Self {
        let (states, actions) = (process.states(), process.actions());
        let discount = process.discount();
        let mut factors = Vec::with_capacity(states * actions);
        let mut counts = vec![0usize; states + 1];
        for state in 0..states {
            for action in 0..actions {
                let (mut stays, mut leaves) = (false, 0.0);
                for (to, probability) in process.next(state, action) {
                    if to == state {
                        stays = true;
                    } else {
                        leaves += probability;
                        counts[to] += 1;
                    }
                }
                // 1 − γ P(s|s,a) without a difference of nearly equal numbers.
                let closed = discount / ((1.0 - discount) + discount * leaves);
                factors.push(if stays { closed } else { discount });
            }
        }
        let mut total = 0;
        for count in &mut counts {
            total += std::mem::replace(count, total);
        }
        let mut predecessors = vec![0; total];
        for state in 0..states {
            for action in 0..actions {
                for (to, _) in process.next(state, action).filter(|&(to, _)| to != state) {
                    predecessors[counts[to]] = state as u32;
                    counts[to] += 1;
                }
            }
        }
        counts.pop();
        Self { process, factors, predecessor_ends: counts, predecessors }
    }

    /// The distances in nats from every state to the set `goals`.
    pub(super) fn distances_to(&self, goals: &[usize]) -> Vec<f64> {
        let (reached, hops) = self.outward_from(goals);
        let cost = -self.process.discount().ln();
        let farthest = reached.last().map_or(0.0, |&state| hops[state] as f64 * cost);
        let near = farthest < -PLAIN.ln();
        let plainly = near.then(|| self.bounds::<f64>(goals, &reached, &hops));
        let precise =
            |bounds: &Bounds<f64>| reached.iter().all(|&at| bounds.values[at].low > PLAIN);
        match plainly.filter(precise) {
            Some(bounds) => bounds.distances(),
            None => self.bounds::<Scaled>(goals, &reached, &hops).distances(),
        }
    }

    /// Both bounds of all values, as narrow as promised.
    fn bounds<V: Value>(&self, goals: &[usize], reached: &[usize], hops: &[usize]) -> Bounds<V> {
        let cost = -self.process.discount().ln();
        let stop =
            |&state: &usize| Stop { state, width: INTERVAL * (hops[state] as f64 * cost).max(1.0) };
        let order: Vec<Stop> = reached.iter().filter(|&&state| hops[state] > 0).map(stop).collect();
        let mut bounds = self.first_bounds(goals, reached, hops);
        while self.sweep(&order, &mut bounds) {
            let open: Vec<Stop> =
                order.iter().filter(|stop| bounds.is_open(stop)).copied().collect();
            for _ in 0..NARROWER {
                if !self.sweep(&open, &mut bounds) {
                    break;
                }
            }
        }
        bounds
    }

    /// 0 ≤ V ≤ γ^hops, and 0 where the goals cannot be reached.
    fn first_bounds<V: Value>(
        &self,
        goals: &[usize],
        reached: &[usize],
        hops: &[usize],
    ) -> Bounds<V> {
        let states = self.process.states();
        let mut bounds = Bounds {
            values: vec![Interval { low: V::ZERO, high: V::ZERO }; states],
            beaten: vec![false; states * self.process.actions()],
        };
        let mut power = (0, V::ONE);
        for &state in reached {
            if hops[state] > power.0 {
                power = (hops[state], power.1.times(self.process.discount()));
            }
            bounds.values[state].high = power.1;
        }
        for &goal in goals {
            bounds.values[goal].low = V::ONE;
        }
        bounds
    }

    /// The states that can reach the goals, nearest first, and their fewest steps to do so.
    pub(super) fn outward_from(&self, goals: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let mut hops = vec![usize::MAX; self.process.states()];
        let mut reached = Vec::new();
        for &goal in goals {
            if hops[goal] != 0 {
                hops[goal] = 0;
                reached.push(goal);
            }
        }
        let mut done = 0;
        while done < reached.len() {
            let state = reached[done];
            let start = if state == 0 { 0 } else { self.predecessor_ends[state - 1] };
            for &before in &self.predecessors[start..self.predecessor_ends[state]] {
                let before = before as usize;
                if hops[before] == usize::MAX {
                    hops[before] = hops[state] + 1;
                    reached.push(before);
                }
            }
            done += 1;
        }
        (reached, hops)
    }

    /// Tightens both bounds once; whether a further sweep is needed and can help.
    fn sweep<V: Value>(&self, order: &[Stop], bounds: &mut Bounds<V>) -> bool {
        let (mut changed, mut open) = (false, false);
        for stop in order {
            let found = self.best(stop.state, bounds);
            let known = &mut bounds.values[stop.state];
            if found.low.exceeds(known.low) {
                known.low = found.low;
                changed = true;
            }
            if known.high.exceeds(found.high) {
                known.high = found.high;
                changed = true;
            }
            open |= bounds.is_open(stop);
        }
        changed && open
    }

    /// Both bounds of max_a γ Σ_{s' ≠ s} P(s'|s,a) V(s') / (1 − γ P(s|s,a)).
    ///
    /// An action whose upper bound is below the state's lower bound is never looked at again.
    fn best<V: Value>(&self, state: usize, bounds: &mut Bounds<V>) -> Interval<V> {
        let mut best = Interval { low: V::ZERO, high: V::ZERO };
        for action in 0..self.process.actions() {
            let pair = state * self.process.actions() + action;
            if bounds.beaten[pair] {
                continue;
            }
            let found = self.backup(state, action, &bounds.values);
            if found.high.is_below(bounds.values[state].low, SURELY) {
                bounds.beaten[pair] = true;
                continue;
            }
            best.low = if found.low.exceeds(best.low) { found.low } else { best.low };
            best.high = if found.high.exceeds(best.high) { found.high } else { best.high };
        }
        best
    }

    fn backup<V: Value>(&self, state: usize, action: usize, values: &[Interval<V>]) -> Interval<V> {
        let (mut low, mut high) = (V::ZERO, V::ZERO);
        for (to, probability) in self.process.next(state, action) {
            if to != state {
                low = low.plus(probability, values[to].low);
                high = high.plus(probability, values[to].high);
            }
        }
        let factor = self.factors[state * self.process.actions() + action];
        Interval { low: low.times(factor), high: high.times(factor) }
    }
}

/// What is known of a value.
#[derive(Debug, Clone, Copy)]
struct Interval<V> {
    low: V,
    high: V,
}

/// What is known so far of all values; beaten actions do not matter.
struct Bounds<V> {
    values: Vec<Interval<V>>,
    beaten: Vec<bool>,
}

impl<V: Value> Bounds<V> {
    /// Whether what is known of a value is not narrow enough.
    fn is_open(&self, stop: &Stop) -> bool {
        let known = self.values[stop.state];
        known.low.is_below(known.high, stop.width)
    }

    fn distances(&self) -> Vec<f64> {
        let middle = |it: &Interval<V>| 0.5 * (it.low.distance() + it.high.distance());
        self.values.iter().map(middle).collect()
    }
}

/// One state of a sweep and how narrow its interval must become, relative to its value.
#[derive(Clone, Copy)]
struct Stop {
    state: usize,
    width: f64,
}

#[cfg(test)]
mod tests {
    use super::super::{DecisionProcess, Transition, steps};
    use super::{Scaled, Solver};

    /// A grid where the four moves succeed with 0.7, else drift to a side or back, walls hold.
    fn noisy_grid(side: usize, discount: f64) -> DecisionProcess {
        let moves = [(0i64, 1i64), (1, 0), (0, -1), (-1, 0)];
        DecisionProcess::from_rows(side * side, 4, discount, |state, action, next| {
            for (turn, chance) in [0.7, 0.1, 0.1, 0.1].into_iter().enumerate() {
                let (down, right) = moves[(action + turn) % 4];
                let row = (state / side) as i64 + down;
                let column = (state % side) as i64 + right;
                let inside = 0..side as i64;
                let to = if inside.contains(&row) && inside.contains(&column) {
                    row as usize * side + column as usize
                } else {
                    state
                };
                next.push((to, chance));
            }
        })
        .unwrap()
    }

    #[test]
    fn a_noisy_grid_of_ten_thousand_states_is_solved_exactly() {
        for discount in [0.95, 0.99, 0.999] {
            let grid = noisy_grid(100, discount);
            let goal = 30 * 100 + 60;
            let distances = grid.distances_to(&[goal]);
            assert_eq!(distances[goal], 0.0);
            for state in (0..10_000).filter(|&state| state != goal) {
                let backup = (0..4)
                    .map(|action| grid.action_distance(state, action, &distances))
                    .fold(f64::INFINITY, f64::min);
                let error = (backup - distances[state]).abs();
                assert!(error < 1e-12 * distances[state].max(1.0), "{state}: {error:e}");
                let hops = (state / 100).abs_diff(30) + (state % 100).abs_diff(60);
                assert!(steps(distances[state], discount) >= hops as f64 * (1.0 - 1e-12));
            }
        }
    }

    #[test]
    fn a_chain_far_beyond_the_smallest_number_keeps_its_digits() {
        let length = 20_000;
        for discount in [0.9, 0.5, 0.999] {
            let transitions: Vec<Transition> = (0..length)
                .map(|from| Transition {
                    from,
                    action: 0,
                    to: (from + 1).min(length - 1),
                    probability: 1.0,
                })
                .collect();
            let process =
                DecisionProcess::from_transitions(length, 1, discount, &transitions).unwrap();
            let distances = process.distances_to(&[length - 1]);
            for (state, &distance) in distances.iter().enumerate() {
                let exact = (length - 1 - state) as f64 * -discount.ln();
                assert!((distance - exact).abs() <= 1e-12 * exact, "{state}: {distance} {exact}");
            }
        }
    }

    #[test]
    fn plain_numbers_and_those_with_an_exponent_of_their_own_give_the_same_bits() {
        let grid = noisy_grid(30, 0.95);
        let solver = Solver::new(&grid);
        let (reached, hops) = solver.outward_from(&[17]);
        let plain = solver.bounds::<f64>(&[17], &reached, &hops).distances();
        let scaled = solver.bounds::<Scaled>(&[17], &reached, &hops).distances();
        assert!(plain == scaled && plain == solver.distances_to(&[17]));
    }

    #[test]
    fn a_pair_of_states_that_is_hard_to_leave_is_as_exact_as_the_way_to_it() {
        let way = 300;
        for (discount, chance) in [(0.9999, 1e-4), (0.95, 0.02), (0.5, 1e-245)] {
            // States up to `way` lead one to the next, the last one alternates with another that
            // leaves for the goal by chance.
            let (last, other, goal) = (way - 1, way, way + 1);
            let process = DecisionProcess::from_rows(way + 2, 1, discount, |state, _, next| {
                if state == other {
                    next.extend([(last, 1.0 - chance), (goal, chance)]);
                } else {
                    next.push(((state + 1).min(goal), 1.0));
                }
            })
            .unwrap();
            let distances = process.distances_to(&[goal]);
            let twice = discount * discount;
            let leaving = -(discount * chance / ((1.0 - twice) + twice * chance)).ln();
            for (state, &distance) in distances.iter().enumerate().take(way + 1) {
                let exact = leaving + (other - state) as f64 * -discount.ln();
                assert!((distance - exact).abs() <= 1e-12 * exact, "{state}: {distance} {exact}");
            }
        }
    }
}

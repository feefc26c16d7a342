//! One operation, one file named after its formula: forward, backward, a check by differences.
//!
//! Operations are named after formulas, never after algorithms. Each adds a method to
//! [`Program`](crate::engine::Program) that declares it.

mod advantage;
mod backup;
mod bootstrap;
mod categorical;
mod clip;
mod closeness;
mod combine;
mod deep_norm;
mod difference;
mod distillation;
mod expectile;
mod extremum;
mod fit;
mod gaussian;
mod hinge;
mod info_nce;
mod inner_product;
mod iqe;
mod join;
#[cfg(test)]
#[cfg(feature = "cuda")]
pub(crate) mod kernels;
mod linear;
mod log_mean_exp;
mod mean;
mod mrn;
mod multiplier;
mod pqe;
mod push;
mod recursive_classification;
mod scores;
mod sphere;
mod tanh_gaussian;
mod weighted_sum;
mod wide_norm;

pub use advantage::{AdvantageWeights, Standardize};
pub use backup::Backup;
pub use bootstrap::Bootstrap;
pub(crate) use categorical::write_one_hot;
pub use combine::Term;
pub use deep_norm::DeepNorm;
pub use difference::{DifferenceHead, HeadWeights};
pub use distillation::Targets;
pub use extremum::Extremum;
pub use fit::Fit;
pub use info_nce::{Directions, LSE_PENALTY};
pub use iqe::Iqe;
pub use linear::{Activation, Linear, Norm, Weights};
pub use mean::Scale;
pub use mrn::Mrn;
pub use multiplier::{MULTIPLIER_CAP, MULTIPLIER_FLOOR, Multiplier};
pub use pqe::PqeLh;
pub use push::Push;
pub(crate) use sphere::to_sphere;
pub use wide_norm::WideNorm;

use crate::engine::{Scalar, Threads};

/// Lanes that head kernels work on at once: pairs of one row side by side.
pub(crate) const LANES: usize = 64;

/// Rounds up to a whole number of lanes.
pub(crate) fn lanes(columns: usize) -> usize {
    columns.div_ceil(LANES) * LANES
}

/// Rows and columns that are transposed together, while they are in the first cache.
const SQUARE: usize = 16;

/// Writes the transpose of rows × columns `numbers` into `across`, whose rows are `stride` long.
pub(crate) fn transpose<T: Scalar>(
    threads: &Threads,
    numbers: &[T],
    columns: usize,
    across: &mut [T],
    stride: usize,
) {
    threads.parts(across, SQUARE * stride, |part, lines| {
        for (square, rows) in numbers.chunks(SQUARE * columns).enumerate() {
            for (at, line) in lines.chunks_mut(stride).enumerate() {
                let column = rows.iter().skip(part * SQUARE + at).step_by(columns);
                line[square * SQUARE..].iter_mut().zip(column).for_each(|(to, &from)| *to = from);
            }
        }
    });
}

#[cfg(test)]
pub(crate) mod differences {
    //! Checks a gradient by central differences in double precision.

    use crate::data::sampler::{Batch, Column, Layout, Sampler};
    use crate::data::{Dataset, Normalization, Scaling};
    use crate::engine::{
        Adam, ArenaId, Executor, Initial, Parameter, Parameters, Program, Threads, Value, Window,
    };
    use crate::ops::Term;
    use crate::random::{Purpose, Stream};

    const ALWAYS: Window = Window { from: 0, until: u64::MAX };

    /// Parameters to differentiate by, as values: an identity layer over a free parameter.
    pub struct Bench {
        pub parameters: Parameters,
        arena: ArenaId,
        held: Option<ArenaId>,
        free: Vec<Parameter>,
        /// How many of `free` are differentiated by; the rest is held.
        own: usize,
    }

    impl Bench {
        pub fn new(shapes: &[(usize, usize)]) -> Self {
            let mut parameters = Parameters::default();
            let arena = parameters.arena("free");
            let free: Vec<Parameter> = shapes
                .iter()
                .map(|&shape| parameters.add(arena, "free", shape, Initial::Uniform(1.0)))
                .collect();
            Self { parameters, arena, held: None, free, own: shapes.len() }
        }

        /// Adds matrices that are read but not differentiated by.
        pub fn holding(mut self, shapes: &[(usize, usize)]) -> Self {
            let arena = self.parameters.arena("held");
            self.held = Some(arena);
            for &shape in shapes {
                self.free.push(self.parameters.add(arena, "held", shape, Initial::Uniform(1.0)));
            }
            self
        }

        /// Declares with `declare` (which gets the free matrices as values), sums its output with
        /// fixed random weights, and compares every derivative with a central difference.
        pub fn check(self, declare: impl Fn(&mut Program<f64>, &[Value]) -> Value) {
            self.check_from(|_, _| {}, declare);
        }

        /// As `check`, after `prepare` has changed the free numbers.
        pub fn check_from(
            self,
            prepare: impl Fn(usize, &mut [f64]),
            declare: impl Fn(&mut Program<f64>, &[Value]) -> Value,
        ) {
            let Differentiated { mut executor, batch, loss, arenas } =
                self.differentiate(prepare, declare);
            for arena in arenas {
                let gradient = executor.gradient(arena).to_vec();
                let largest = gradient.iter().fold(1e-3, |a: f64, b| a.max(b.abs()));
                for (at, &expected) in gradient.iter().enumerate() {
                    let mut sides = [0.0; 2];
                    let step = 1e-5;
                    for (side, sign) in sides.iter_mut().zip([1.0, -1.0]) {
                        executor.arena_mut(arena)[at] += sign * step;
                        executor.evaluate(&batch, 0);
                        *side = executor.value(loss)[0];
                        executor.arena_mut(arena)[at] -= sign * step;
                    }
                    let found = (sides[0] - sides[1]) / (2.0 * step);
                    assert!(
                        (found - expected).abs() <= 1e-6 * largest,
                        "derivative {at}: difference {found}, gradient {expected}"
                    );
                }
            }
        }

        /// The gradient by each free matrix.
        pub fn gradients(
            self,
            declare: impl Fn(&mut Program<f64>, &[Value]) -> Value,
        ) -> Vec<Vec<f64>> {
            let (arena, mut free) = (self.arena, self.free.clone());
            free.truncate(self.own);
            let done = self.differentiate(|_, _| {}, declare);
            let gradient = done.executor.gradient(arena);
            free.iter().map(|parameter| parameter.of(gradient).to_vec()).collect()
        }

        fn differentiate(
            self,
            prepare: impl Fn(usize, &mut [f64]),
            declare: impl Fn(&mut Program<f64>, &[Value]) -> Value,
        ) -> Differentiated {
            let arenas: Vec<ArenaId> =
                self.parameters.arenas().filter(|&arena| Some(arena) != self.held).collect();
            let mut program = Program::new(self.parameters, 1, 1, 0);
            program.column(Column::State(Layout::START));
            let values: Vec<Value> =
                self.free.iter().map(|&parameter| program.free(parameter)).collect();
            let output = declare(&mut program, &values);
            let loss = program.weigh(output);
            let moves: Vec<(ArenaId, Adam)> =
                arenas.iter().map(|&arena| (arena, Adam::default())).collect();
            program.descend("check", loss, &moves, ALWAYS);
            let dataset = Dataset::new(vec![0.0, 1.0], 1, None, &[2]).unwrap();
            let plain = Normalization::fit(&dataset, Scaling::None).unwrap();
            let sampler = Sampler::new(&dataset, &plain, program.layout().clone(), 0.9);
            let mut batch = sampler.batch(1);
            sampler.fill(&mut batch, 0, 0).unwrap();
            let mut executor = Executor::new(program, Threads::default(), 11);
            let mut rest = executor.arena_mut(self.arena);
            for (at, parameter) in self.free.iter().enumerate() {
                let length = (parameter.rows * parameter.columns).min(rest.len());
                let (numbers, after) = rest.split_at_mut(length);
                prepare(at, numbers);
                rest = after;
            }
            executor.differentiate(&batch, 0);
            Differentiated { executor, batch, loss, arenas }
        }
    }

    /// A program after one backward.
    struct Differentiated {
        executor: Executor<f64>,
        batch: Batch,
        loss: Value,
        arenas: Vec<ArenaId>,
    }

    /// A parameter as a value.
    struct Free;

    impl crate::engine::Operation<f64> for Free {
        fn name(&self) -> &'static str {
            "free"
        }
        fn forward(&self, run: crate::engine::Forward<'_, f64>) {
            run.output.copy_from_slice(run.parameter(0));
        }
        fn backward(&self, mut run: crate::engine::Backward<'_, f64>) {
            let gradient = run.output_gradient.to_vec();
            if let Some(target) = run.parameter_gradient(0) {
                target.iter_mut().zip(gradient).for_each(|(t, g)| *t += g);
            }
        }
    }

    /// The sum of all numbers with fixed random weights.
    struct Weigh;

    fn weight(at: usize) -> f64 {
        Stream::new(5, Purpose(2)).draws(0, at as u32).normal()
    }

    impl crate::engine::Operation<f64> for Weigh {
        fn name(&self) -> &'static str {
            "weigh"
        }
        fn forward(&self, run: crate::engine::Forward<'_, f64>) {
            run.output[0] = run.input(0).iter().enumerate().map(|(at, x)| x * weight(at)).sum();
        }
        fn backward(&self, mut run: crate::engine::Backward<'_, f64>) {
            let upstream = run.output_gradient[0];
            if let Some(target) = run.input_gradient(0) {
                target.iter_mut().enumerate().for_each(|(at, t)| *t += upstream * weight(at));
            }
        }
    }

    impl Program<f64> {
        fn free(&mut self, parameter: Parameter) -> Value {
            self.add(Free, &[], &[parameter], (parameter.rows, parameter.columns))
        }
        fn weigh(&mut self, value: Value) -> Value {
            self.add(Weigh, &[value], &[], (1, 1))
        }
    }

    #[test]
    fn a_wrong_gradient_is_caught() {
        let wrong = std::panic::catch_unwind(|| {
            // The factor is read but its own derivative is left out, as a forgotten term would be.
            Bench::new(&[(1, 1), (1, 1)]).check(|program, values| {
                program.combine(&[Term {
                    constant: 1.0,
                    factor: Some((values[1], 1.0)),
                    of: values[0],
                }])
            });
        });
        assert!(wrong.is_err());
    }
}

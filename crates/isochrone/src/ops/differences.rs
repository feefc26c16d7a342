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

//! The launches of a program without a GPU, for tests: what would run, and with which arguments.

use super::layout::DeviceLayout;
use super::memory::Places;
use super::optimizer::OptimizerPlaces;
use super::tiles::{self, Rules};
use crate::engine::launches::{Argument, Grid};
use crate::engine::launches::{Launch, Precision, Work};
use crate::engine::plan::UpdatePlan;
use crate::engine::{Operation, Program};
use crate::error::Result;

/// A kernel's name, grid and arguments.
pub(crate) type ListedLaunch = (&'static str, Grid, Vec<Argument>);

/// One forward and the backward of every pass at the first step.
pub(super) struct Listing {
    pub places: Places,
    pub optimizer: OptimizerPlaces,
    pub layout: DeviceLayout,
    pub plan: UpdatePlan,
    pub launches: Vec<Launch>,
}

impl Listing {
    /// Of `program` under these rules.
    pub fn new(program: &Program<f32>, rules: &Rules) -> Result<Self> {
        let mut places = Places::default();
        let optimizer = OptimizerPlaces::new(&mut places, program);
        let layout = DeviceLayout::new(&mut places, program, rules.replicas)?;
        let (plan, mut launches) = (UpdatePlan::new(program, 0, |_| false), Vec::new());
        layout.forward(program, &optimizer.arenas, &plan, &mut launches)?;
        layout.active_backward(program, &optimizer.arenas, &plan, &mut launches)?;
        tiles::replace(&mut launches, rules);
        Ok(Self { places, optimizer, layout, plan, launches })
    }
}

/// The kernels that one forward and the backward of every pass launch at the first step, small
/// products among them.
pub(crate) fn listing(program: &Program<f32>) -> Result<Vec<ListedLaunch>> {
    let rules = Rules { precision: Precision::Tf32, replicas: 1 };
    let launches = Listing::new(program, &rules)?.launches;
    let kernel = |launch: Launch| match launch.work {
        Work::Kernel { name, grid, arguments } => Some((name, grid, arguments)),
        Work::Product(_) => None,
    };
    Ok(launches.into_iter().filter_map(kernel).collect())
}

/// The kernels that a source declares: name and arguments.
pub(crate) fn declared(source: &str) -> impl Iterator<Item = (&str, &str)> {
    source.split("extern \"C\" __global__ void").skip(1).map(|text| {
        let bounded = text.trim_start().strip_prefix("__launch_bounds__(");
        let text = bounded.map_or(text, |rest| rest.split_once(')').unwrap().1);
        let (name, rest) = text.split_once('(').unwrap();
        (name.trim(), rest.split_once(')').unwrap().0)
    })
}

/// The CUDA sources of a program's operations.
pub(crate) fn sources(program: &Program<f32>) -> Vec<&'static str> {
    let source =
        |operation: &dyn Operation<f32>| operation.kernels().map(|kernels| kernels.source());
    program.nodes.iter().filter_map(|node| source(&*node.operation)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::sampler::{Column, Layout as Columns};
    use crate::engine::{Adam, Backward, Forward, Initial, Parameters, Window};

    struct Plain;

    impl Operation<f32> for Plain {
        fn name(&self) -> &'static str {
            "plain"
        }
        fn forward(&self, _run: Forward<'_, f32>) {}
        fn backward(&self, _run: Backward<'_, f32>) {}
    }

    #[test]
    fn a_program_with_an_operation_without_kernels_is_refused_by_its_name() {
        let mut parameters = Parameters::default();
        let arena = parameters.arena("any");
        let parameter = parameters.add(arena, "any", (1, 1), Initial::Constant(0.0));
        let mut program: Program<f32> = Program::new(parameters, 1, 1, 0);
        let state = program.column(Column::State(Columns::START));
        let loss = program.add(Plain, &[state], &[parameter], (1, 1));
        let window = Window { from: 0, until: 1 };
        program.descend("any", loss, &[(arena, Adam::default())], window);
        let text = listing(&program).unwrap_err().to_string();
        assert!(text.contains("`plain`") && text.contains("--device cpu"), "{text}");
        assert!(sources(&program).is_empty());
    }
}

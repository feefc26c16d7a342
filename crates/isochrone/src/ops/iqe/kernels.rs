//! The IQE distance on the GPU: one thread per coordinate sorts, one warp per pair measures and then gathers.

use super::Pairwise;
use crate::engine::{Argument, Grid, Kernels, Queue};

/// Blocks whose sums the gradient of the mix is added from.
const BLOCKS: usize = 64;

impl Pairwise {
    fn arguments(&self) -> [Argument; 5] {
        let diagonal = usize::from(self.diagonal);
        [self.rows, self.columns, self.shape.groups, self.shape.size, diagonal].map(Argument::size)
    }
}

impl Kernels for Pairwise {
    fn source(&self) -> &'static str {
        include_str!("../iqe.cu")
    }

    /// The order of every start, mean − max and the group of the maximum of every pair; the sums
    /// of blocks and their counter.
    fn kept(&self) -> Vec<usize> {
        vec![self.rows * self.shape.width(), self.pairs(), self.pairs(), BLOCKS, 1]
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let numbers = self.rows * self.shape.width();
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Write(queue.kept(0)),
            Argument::size(numbers),
            Argument::size(self.shape.size),
        ];
        queue.launch("iqe_sort", Grid::over(numbers), &arguments);
        let mut arguments = vec![
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Read(queue.parameter(0)),
            Argument::Read(queue.kept(0)),
            Argument::Write(queue.output()),
            Argument::Write(queue.kept(1)),
            Argument::Write(queue.kept(2)),
        ];
        arguments.extend(self.arguments());
        queue.launch("iqe_forward", Grid::over(32 * self.pairs()), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let gradient = queue.output_gradient();
        if let Some(target) = queue.parameter_target(0) {
            let arguments = [
                Argument::Read(queue.parameter(0)),
                Argument::Read(gradient),
                Argument::Read(queue.kept(1)),
                Argument::Write(queue.kept(3)),
                Argument::Write(queue.kept(4)),
                Argument::Write(target.buffer),
                Argument::keep(Some(target)),
                Argument::size(self.pairs()),
            ];
            queue.launch("iqe_mix", Grid::blocks(BLOCKS, 1, 256), &arguments);
        }
        for (at, count) in [self.rows, self.columns].into_iter().enumerate() {
            if let Some(target) = queue.input_target(at) {
                let mut arguments = vec![
                    Argument::Read(queue.input(0)),
                    Argument::Read(queue.input(1)),
                    Argument::Read(queue.parameter(0)),
                    Argument::Read(queue.kept(0)),
                    Argument::Read(gradient),
                    Argument::Read(queue.kept(2)),
                    Argument::Write(target.buffer),
                    Argument::keep(Some(target)),
                    Argument::size(1 - at),
                ];
                arguments.extend(self.arguments());
                let grid = Grid::blocks((count * self.shape.groups).div_ceil(64), 1, 64);
                queue.launch("iqe_backward", grid, &arguments);
            }
        }
    }
}

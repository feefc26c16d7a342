//! What goes in and out of an executor between updates: batches, parameters, metrics, broken losses.

use super::executor::CudaExecutor;
use crate::data::sampler::Batch;
use crate::engine::launches::{Buffer, Launch};
use crate::engine::{ArenaId, BrokenLoss, Value};
use crate::error::Result;

impl CudaExecutor {
    /// Copies a batch drawn on the CPU to a replica.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn load(&mut self, replica: usize, batch: &Batch) -> Result<()> {
        self.machine.bind()?;
        for (&buffer, numbers) in self.batches.columns.iter().zip(&batch.columns) {
            self.machine.write(self.block.address(buffer, replica), numbers)?;
        }
        Ok(())
    }

    /// The columns of the batch drawn last, in the order of the layout.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn columns(&self, replica: usize) -> Result<Vec<Vec<f32>>> {
        self.batches.columns.iter().map(|&column| self.numbers(column, replica)).collect()
    }

    /// The rows drawn last, choice after choice.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn rows(&self, replica: usize) -> Result<Vec<u32>> {
        self.words(self.batches.rows, replica)
    }

    /// The numbers of a value after an update.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn value(&self, replica: usize, value: Value) -> Result<Vec<f32>> {
        self.numbers(self.layout.values[value.id], replica)
    }

    /// The gradient of an arena after an update.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn gradient(&self, replica: usize, arena: ArenaId) -> Result<Vec<f32>> {
        let places = &self.places.arenas[arena.0];
        Ok(places.gathered(&self.numbers(places.gradient, replica)?))
    }

    /// Values, first and second moments of an arena: everything a checkpoint keeps of it.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn state(&self, replica: usize, arena: ArenaId) -> Result<[Vec<f32>; 3]> {
        let places = &self.places.arenas[arena.0];
        let kept = |buffer: Buffer| Ok(places.gathered(&self.numbers(buffer, replica)?));
        Ok([kept(places.values)?, kept(places.first)?, kept(places.second)?])
    }

    /// Sets what [`CudaExecutor::state`] gives.
    ///
    /// # Errors
    /// The GPU does not work.
    ///
    /// # Panics
    /// Where a slice is not as long as the arena.
    pub fn set_state(&mut self, replica: usize, arena: ArenaId, state: [&[f32]; 3]) -> Result<()> {
        self.machine.bind()?;
        let places = &self.places.arenas[arena.0];
        for (buffer, numbers) in [places.values, places.first, places.second].into_iter().zip(state)
        {
            let length = self.program.parameters.length(arena);
            assert_eq!(length, numbers.len(), "the numbers of an arena");
            self.machine.write(self.block.address(buffer, replica), &places.scattered(numbers))?;
        }
        Ok(())
    }

    /// The metrics of the last update, in the order of `Program::metrics`; NaN where inactive.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn metrics(&mut self, replica: usize, step: u64, out: &mut Vec<f64>) -> Result<()> {
        self.machine.bind()?;
        out.clear();
        let (plan, _) = self.plan(step, 1);
        let plan = &self.plans[plan];
        for (_, value) in &self.program.reports {
            let computed =
                plan.forward.iter().any(|&node| self.program.nodes[node].output.id == value.id);
            let number = match computed {
                true => self.numbers(self.layout.values[value.id], replica)?[0].into(),
                false => f64::NAN,
            };
            out.push(number);
        }
        let arenas = &self.places.arenas;
        let norms: Vec<Launch> = arenas.iter().map(|arena| arena.norm_launch()).collect();
        for launch in &norms {
            self.issue(launch)?;
        }
        for pass in &self.program.passes {
            let mut squares = 0.0;
            for (arena, _) in &pass.arenas {
                let mut norm = [0.0f64];
                let place = self.block.address(arenas[arena.0].norm, replica);
                self.machine.read(place, &mut norm)?;
                squares += norm[0] * norm[0];
            }
            out.push(if pass.window.contains(step) { squares.sqrt() } else { f64::NAN });
        }
        Ok(())
    }

    /// The first loss of a replica that was not a finite number, since the executor was made.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn broken_loss(&self, replica: usize) -> Result<Option<BrokenLoss>> {
        let words = self.words(self.places.broken, replica)?;
        let pass = (words[2] as usize).checked_sub(1);
        Ok(pass.map(|pass| BrokenLoss {
            step: u64::from(words[1]) << 32 | u64::from(words[0]),
            pass: self.program.passes[pass].name.clone(),
            value: f32::from_bits(words[3]).into(),
        }))
    }

    /// The first loss of a replica, of the passes active at `step`, that is not a finite number now.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn broken_now(&self, replica: usize, step: u64) -> Result<Option<BrokenLoss>> {
        for pass in self.program.passes.iter().filter(|pass| pass.window.contains(step)) {
            let value = f64::from(self.value(replica, pass.loss)?[0]);
            if !value.is_finite() {
                return Ok(Some(BrokenLoss { step, pass: pass.name.clone(), value }));
            }
        }
        Ok(None)
    }

    fn numbers(&self, buffer: Buffer, replica: usize) -> Result<Vec<f32>> {
        self.machine.bind()?;
        let mut numbers = vec![0.0; buffer.length()];
        self.machine.read(self.block.address(buffer, replica), &mut numbers)?;
        Ok(numbers)
    }

    fn words(&self, buffer: Buffer, replica: usize) -> Result<Vec<u32>> {
        self.machine.bind()?;
        let mut words = vec![0; buffer.length()];
        self.machine.read(self.block.address(buffer, replica), &mut words)?;
        Ok(words)
    }
}

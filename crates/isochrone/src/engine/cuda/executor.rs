//! Runs a program on a GPU: the face of the CPU's executor, with draws and all replicas inside.

use std::collections::HashMap;

use super::device::Gpu;
use super::graph::{Graph, issue};
use super::layout::{Layout, kernels};
use super::machine::Machine;
use super::memory::{Block, Buffer, Places};
use super::optimizer::{self, Optimizer, OptimizerPlaces};
use super::products::{Precision, Products};
use super::queue::{Launch, Work};
use super::sampler::{self, Batches, Drawing};
use crate::data::sampler::{Batch, Sampler};
use crate::engine::plan::Plan;
use crate::engine::{ArenaId, Program, Value};
use crate::error::Result;

/// Updates of one graph where many are asked for.
const TOGETHER: u64 = 8;

/// Runs a program on a GPU, once for every seed.
pub struct CudaExecutor {
    program: Program<f32>,
    plans: Vec<Plan>,
    /// By plan and number of updates.
    graphs: HashMap<(usize, u64), Graph>,
    products: Products,
    layout: Layout,
    places: OptimizerPlaces,
    optimizer: Optimizer,
    batches: Batches,
    drawing: Drawing,
    held_out: Option<Drawing>,
    block: Block,
    note: Option<String>,
    /// The step on the GPU's clock.
    step: u64,
    machine: Machine,
}

// SAFETY: the raw handles of CUDA and cuBLASLt may be used from any thread, one at a time, once the
// context is bound to it, which every public method does first.
unsafe impl Send for CudaExecutor {}

/// A loss that stopped being a finite number.
#[derive(Debug, Clone, PartialEq)]
pub struct BrokenLoss {
    /// The update at which it was first seen.
    pub step: u64,
    /// The pass.
    pub pass: String,
    /// Its value.
    pub value: f64,
}

impl CudaExecutor {
    /// Compiles the kernels of `program`, copies the data of `training` and `held_out` to `gpu` and
    /// sets the first values of every seed.
    ///
    /// # Errors
    /// An operation has no kernel; the GPU has no room or does not work.
    pub fn new(
        program: Program<f32>,
        (gpu, precision): (&Gpu, Precision),
        (training, held_out): (&Sampler<'_>, Option<&Sampler<'_>>),
        seeds: &[u64],
    ) -> Result<Self> {
        let mut places = Places::default();
        let optimizer_places = OptimizerPlaces::new(&mut places, &program);
        let layout = Layout::new(&mut places, &program)?;
        let columns = (0..program.layout().columns().len())
            .map(|at| program.column_of(at).map_or(Buffer::NONE, |value| layout.values[value.id]));
        let batches = Batches::new(&mut places, training, columns.collect(), program.batch_size());
        let (machine, note) = Machine::new(gpu, &sources(&program)?)?;
        let block = Block::new(&machine, &places, seeds.len())?;
        let loss = |pass: &crate::engine::program::Pass| layout.values[pass.loss.id];
        let mut executor = Self {
            plans: Vec::new(),
            graphs: HashMap::new(),
            products: Products::new(precision)?,
            optimizer: Optimizer::new(&machine, &program, loss)?,
            drawing: Drawing::new(&machine, training, &batches)?,
            held_out: held_out
                .map(|sampler| Drawing::new(&machine, sampler, &batches))
                .transpose()?,
            layout,
            places: optimizer_places,
            batches,
            block,
            note,
            step: 0,
            machine,
            program,
        };
        executor.begin(seeds)?;
        Ok(executor)
    }

    /// Sets the first values of every replica.
    fn begin(&mut self, seeds: &[u64]) -> Result<()> {
        for (replica, &seed) in seeds.iter().enumerate() {
            let clock = [seed as u32, (seed >> 32) as u32, 0, 0];
            self.machine.write(self.block.address(self.places.clock, replica), &clock)?;
            let initial = |arena: ArenaId| self.program.parameters.initial::<f32>(arena, seed);
            let mut arenas: Vec<Vec<f32>> = self.program.parameters.arenas().map(initial).collect();
            for &(target, source, _) in &self.program.followers {
                arenas[target.0] = arenas[source.0].clone();
            }
            for (places, values) in self.places.arenas.iter().zip(&arenas) {
                self.machine.write(self.block.address(places.values, replica), values)?;
            }
            for pass in 0..self.program.passes.len() {
                let one = self.layout.seed_gradient(&self.program, pass);
                self.machine.write(self.block.address(one, replica), &[1.0f32])?;
            }
        }
        Ok(())
    }

    /// The program that runs.
    pub fn program(&self) -> &Program<f32> {
        &self.program
    }

    /// How many seeds run side by side.
    pub fn replicas(&self) -> usize {
        self.block.replicas
    }

    /// What a user should know, in one line: that compiled kernels could not be kept.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Bytes of the GPU's memory held by buffers and data.
    pub fn bytes(&self) -> usize {
        let held_out = self.held_out.as_ref().map_or(0, Drawing::bytes);
        self.block.bytes() + self.drawing.bytes() + held_out
    }

    /// One update of every replica: draws the batch of `step`, runs every active pass, steps its
    /// arenas. Returns before it is done.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn update(&mut self, step: u64) -> Result<()> {
        self.updates(step, 1)
    }

    /// As [`CudaExecutor::update`], for `count` updates from `step` on.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn updates(&mut self, step: u64, count: u64) -> Result<()> {
        self.set_step(step)?;
        let mut left = count;
        while left > 0 {
            let (plan, same) = self.plan(self.step, left.min(TOGETHER));
            let together = if same >= TOGETHER { TOGETHER } else { 1 };
            if !self.graphs.contains_key(&(plan, together)) {
                let graph = self.capture(plan, together)?;
                self.graphs.insert((plan, together), graph);
            }
            self.graphs[&(plan, together)].launch(&self.machine)?;
            self.step += together;
            left -= together;
        }
        Ok(())
    }

    /// The forward half of the passes active at `step`, on a batch of the held-out data; moves
    /// nothing.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn evaluate(&mut self, step: u64) -> Result<()> {
        self.set_step(step)?;
        let (plan, _) = self.plan(step, 1);
        let Some(drawing) = &self.held_out else { return Ok(()) };
        let mut launches = drawing.launches(&self.batches, self.places.clock, 0, self.origin());
        let plan = &self.plans[plan];
        self.layout.forward(&self.program, &self.places.arenas, plan, &mut launches)?;
        self.run(&launches)
    }

    /// Losses and gradients of the passes active at `step` on the batch that was loaded last; moves
    /// nothing.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn differentiate(&mut self, step: u64) -> Result<()> {
        self.machine.bind()?;
        let (plan, _) = self.plan(step, 1);
        let (mut launches, plan) = (Vec::new(), &self.plans[plan]);
        self.layout.forward(&self.program, &self.places.arenas, plan, &mut launches)?;
        self.backward(plan, &mut launches)?;
        self.run(&launches)
    }

    /// Draws the batch of `step` and nothing else.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn draw(&mut self, step: u64) -> Result<()> {
        self.set_step(step)?;
        let launches = self.drawing.launches(&self.batches, self.places.clock, 0, self.origin());
        self.run(&launches)
    }

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
        self.numbers(self.places.arenas[arena.0].gradient, replica)
    }

    /// Values, first and second moments of an arena: everything a checkpoint keeps of it.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn state(&self, replica: usize, arena: ArenaId) -> Result<[Vec<f32>; 3]> {
        let places = &self.places.arenas[arena.0];
        Ok([
            self.numbers(places.values, replica)?,
            self.numbers(places.first, replica)?,
            self.numbers(places.second, replica)?,
        ])
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
            assert_eq!(buffer.length(), numbers.len(), "the numbers of an arena");
            self.machine.write(self.block.address(buffer, replica), numbers)?;
        }
        Ok(())
    }

    /// The metrics of the last update, in the order of [`Program::metrics`]; NaN where inactive.
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
            issue(&self.machine, &self.block, &self.products, launch)?;
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

    /// Waits until everything asked for is done.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn wait(&self) -> Result<()> {
        self.machine.bind()?;
        self.machine.wait()
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

    fn origin(&self) -> u64 {
        self.block.address(Buffer::NONE, 0)
    }

    fn set_step(&mut self, step: u64) -> Result<()> {
        self.machine.bind()?;
        if self.step != step {
            for replica in 0..self.block.replicas {
                let place = self.block.address(self.places.clock.part(2, 2), replica);
                self.machine.write(place, &[step as u32, (step >> 32) as u32])?;
            }
            self.step = step;
        }
        Ok(())
    }

    /// The plan of `step`, made when first needed, and for how many of the next `most` updates it
    /// serves.
    fn plan(&mut self, step: u64, most: u64) -> (usize, u64) {
        let known = self.plans.iter().position(|plan| plan.serves(&self.program, step));
        let plan = known.unwrap_or_else(|| {
            self.plans.push(Plan::new(&self.program, step));
            self.plans.len() - 1
        });
        let serves = |ahead: &u64| self.plans[plan].serves(&self.program, step + ahead);
        (plan, (0..most).take_while(serves).count() as u64)
    }

    fn backward(&self, plan: &Plan, launches: &mut Vec<Launch>) -> Result<()> {
        let active = (0..self.program.passes.len()).filter(|&pass| plan.active[pass]);
        active.into_iter().try_for_each(|pass| {
            self.layout.backward(&self.program, &self.places.arenas, (plan, pass), launches)
        })
    }

    /// One graph of `count` updates by one plan.
    fn capture(&mut self, plan: usize, count: u64) -> Result<Graph> {
        let plan = &self.plans[plan];
        let (places, arenas) = (&self.places, &self.places.arenas);
        let losses: Vec<Buffer> =
            self.program.passes.iter().map(|pass| self.layout.values[pass.loss.id]).collect();
        let mut launches = Vec::new();
        for ahead in 0..count {
            let origin = self.origin();
            launches.extend(self.drawing.launches(&self.batches, places.clock, ahead, origin));
            launches.push(self.optimizer.begin(places, ahead));
            self.layout.forward(&self.program, arenas, plan, &mut launches)?;
            self.backward(plan, &mut launches)?;
            launches.push(self.optimizer.check(places, &plan.active, &losses, (ahead, origin)));
            self.optimizer.descend(places, &plan.active, &mut launches);
            for &(target, source, rate) in &self.program.followers {
                launches.push(optimizer::follow(&arenas[target.0], &arenas[source.0], rate));
            }
        }
        launches.push(optimizer::advance(places, count));
        prepare(&mut self.products, &self.machine, &self.block, &launches)?;
        self.machine.wait()?;
        Graph::capture(&self.machine, &self.block, &self.products, &launches)
    }

    /// Runs a list once, one launch after the other.
    fn run(&mut self, launches: &[Launch]) -> Result<()> {
        prepare(&mut self.products, &self.machine, &self.block, launches)?;
        launches
            .iter()
            .try_for_each(|launch| issue(&self.machine, &self.block, &self.products, launch))
    }
}

impl Drop for CudaExecutor {
    fn drop(&mut self) {
        // What is still queued reads what is about to be given back; a GPU that has stopped reads
        // nothing.
        let _ = self.wait();
    }
}

/// Makes the plans of all products of a list; their outputs are overwritten, but by then all of
/// them are to be computed anew.
fn prepare(
    products: &mut Products,
    machine: &Machine,
    block: &Block,
    launches: &[Launch],
) -> Result<()> {
    launches.iter().try_for_each(|launch| match &launch.work {
        Work::Product(product) => products.prepare(machine, block, product),
        Work::Kernel { .. } => Ok(()),
    })
}

/// The sources of all kernels of a program, each once.
fn sources(program: &Program<f32>) -> Result<Vec<&'static str>> {
    let mut sources = vec![sampler::SOURCE, optimizer::SOURCE];
    for node in 0..program.nodes.len() {
        let source = kernels(program, node)?.source();
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    Ok(sources)
}

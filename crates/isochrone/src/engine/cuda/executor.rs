//! Runs a program on a GPU: the face of the CPU's executor, with draws and all replicas inside.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::graph::{CudaGraph, issue};
use super::layout::{DeviceLayout, kernels};
use super::machine::{DeviceMemory, Machine, Marker};
use super::memory::{HeldThere, Places, ReplicaMemory, Share};
use super::optimizer::{self, Optimizer, OptimizerPlaces};
use super::products::Products;
use super::sampler::{self, Batches, DeviceSampler};
use super::tiles::{self, Rules};
use super::update::{UpdateParts, first_words};
use crate::data::sampler::Sampler;
use crate::engine::Gpu;
use crate::engine::Program;
use crate::engine::launches::{Launch, Precision, Work};
use crate::engine::plan::UpdatePlan;
use crate::error::Result;

/// Updates between two marks in the queue, and how many marks may lie ahead of the GPU: a caller that
/// asks for more waits, but not until the queue is empty.
const MARKED: u64 = 64;
const MOST_MARKS: usize = 2;

/// Runs a program on a GPU, once for every seed.
pub struct CudaExecutor {
    pub(super) program: Arc<Program<f32>>,
    pub(super) plans: Vec<UpdatePlan>,
    /// By plan and number of updates.
    graphs: HashMap<(usize, u64), CudaGraph>,
    pub(super) products: Products,
    pub(super) layout: DeviceLayout,
    pub(super) places: OptimizerPlaces,
    optimizer: Optimizer,
    pub(super) batches: Batches,
    drawing: DeviceSampler,
    held_out: Option<DeviceSampler>,
    /// What all replicas share: data, tables and rules.
    held: Vec<DeviceMemory>,
    pub(super) block: ReplicaMemory,
    /// The memory of all replicas, as much of it as one launch reaches over.
    shares: Vec<Share>,
    note: Option<String>,
    /// The step on the GPU's clock, once the queue is done.
    step: u64,
    /// Places in the queue that the GPU has perhaps not reached, and updates after the last of them.
    marks: VecDeque<Marker>,
    unmarked: u64,
    pub(super) machine: Machine,
}

// SAFETY: the raw handles of CUDA and cuBLASLt may be used from any thread, one at a time, once the
// context is bound to it, which every public method does first.
unsafe impl Send for CudaExecutor {}

impl CudaExecutor {
    /// Updates of one graph where many are asked for.
    pub const TOGETHER: u64 = 8;

    /// Compiles the kernels of `program`, copies the data of `training` and `held_out` to `gpu` and
    /// sets the first values of every seed.
    ///
    /// # Errors
    /// An operation has no kernel; a matrix is too large for it; the GPU has no room or does not work.
    pub fn new(
        program: Arc<Program<f32>>,
        (gpu, precision): (&Gpu, Precision),
        (training, held_out): (&Sampler<'_>, Option<&Sampler<'_>>),
        seeds: &[u64],
    ) -> Result<Self> {
        let mut places = Places::default();
        let optimizer_places = OptimizerPlaces::new(&mut places, &program);
        let layout = DeviceLayout::new(&mut places, &program, seeds.len())?;
        let columns = layout.columns(&program);
        let batches = Batches::new(&mut places, training, columns, program.batch_size());
        places.countable()?;
        let (machine, note) = Machine::new(gpu, &sources(&program)?)?;
        let block = ReplicaMemory::new(&machine, &places, seeds.len())?;
        let mut held = Vec::new();
        let mut shared = HeldThere { machine: &machine, held: &mut held };
        let mut executor = Self {
            plans: Vec::new(),
            graphs: HashMap::new(),
            products: Products::new(precision)?,
            optimizer: Optimizer::new(&mut shared, &program, &layout.losses(&program))?,
            drawing: DeviceSampler::new(&mut shared, training, &batches, seeds.len())?,
            held_out: held_out
                .map(|sampler| DeviceSampler::new(&mut shared, sampler, &batches, seeds.len()))
                .transpose()?,
            held,
            layout,
            places: optimizer_places,
            batches,
            shares: block.shares(ReplicaMemory::at_once(&places, seeds.len())),
            block,
            note,
            step: 0,
            marks: VecDeque::new(),
            unmarked: 0,
            machine,
            program,
        };
        executor.begin(seeds)?;
        Ok(executor)
    }

    /// Sets the first values of every replica.
    fn begin(&mut self, seeds: &[u64]) -> Result<()> {
        for (replica, &seed) in seeds.iter().enumerate() {
            for (place, words) in first_words(&self.program, &self.layout, &self.places, seed) {
                self.machine.write(self.block.address(place, replica), &words)?;
            }
        }
        Ok(())
    }

    /// Copies the data of another recording to the GPU; its number.
    ///
    /// # Errors
    /// The GPU has no room.
    pub fn add_recording(
        &mut self,
        (training, held_out): (&Sampler<'_>, Option<&Sampler<'_>>),
    ) -> Result<u32> {
        self.machine.bind()?;
        let mut shared = HeldThere { machine: &self.machine, held: &mut self.held };
        if let Some(sampler) = held_out
            && let Some(drawing) = &mut self.held_out
        {
            drawing.add(&mut shared, sampler)?;
        }
        self.drawing.add(&mut shared, training)
    }

    /// Lets a replica learn from a recording.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn set_recording(&mut self, replica: usize, recording: u32) -> Result<()> {
        self.machine.bind()?;
        let place = self.block.address(self.places.clock.part(4, 1), replica);
        self.machine.write(place, &[recording])
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
        self.block.bytes() + self.held.iter().map(|memory| memory.bytes).sum::<usize>()
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
            let (plan, same) = self.plan(self.step, left.min(Self::TOGETHER));
            let together = if same >= Self::TOGETHER { Self::TOGETHER } else { 1 };
            if !self.graphs.contains_key(&(plan, together)) {
                let graph = self.capture(plan, together)?;
                self.graphs.insert((plan, together), graph);
            }
            self.graphs[&(plan, together)].launch(&self.machine)?;
            self.step += together;
            left -= together;
            self.keep_pace(together)?;
        }
        Ok(())
    }

    /// Notes that so many updates were queued, and waits where too many are.
    fn keep_pace(&mut self, queued: u64) -> Result<()> {
        self.unmarked += queued;
        if self.unmarked >= MARKED {
            self.unmarked = 0;
            self.marks.push_back(self.machine.mark()?);
        }
        if self.marks.len() > MOST_MARKS {
            self.marks.pop_front().map_or(Ok(()), |mark| mark.wait())?;
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
        let mut launches = drawing.launches(&self.batches, self.places.clock, 0);
        let plan = &self.plans[plan];
        self.layout.forward(&self.program, &self.places.arenas, plan, &mut launches)?;
        self.run(launches)
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
        self.layout.active_backward(&self.program, &self.places.arenas, plan, &mut launches)?;
        self.run(launches)
    }

    /// Draws the batch of `step` and nothing else.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn draw(&mut self, step: u64) -> Result<()> {
        self.set_step(step)?;
        let launches = self.drawing.launches(&self.batches, self.places.clock, 0);
        self.run(launches)
    }

    /// Waits until everything asked for is done.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn wait(&self) -> Result<()> {
        self.machine.bind()?;
        self.machine.wait()
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
    pub(super) fn plan(&mut self, step: u64, most: u64) -> (usize, u64) {
        let known = self.plans.iter().position(|plan| plan.serves(&self.program, step));
        let plan = known.unwrap_or_else(|| {
            self.plans.push(UpdatePlan::new(&self.program, step, |_| false));
            self.plans.len() - 1
        });
        let serves = |ahead: &u64| self.plans[plan].serves(&self.program, step + ahead);
        (plan, (0..most).take_while(serves).count() as u64)
    }

    /// The launches of `count` updates by one plan, their products prepared.
    pub(super) fn launches(&mut self, plan: usize, count: u64) -> Result<Vec<Launch>> {
        let parts = UpdateParts {
            program: &self.program,
            layout: &self.layout,
            places: &self.places,
            optimizer: &self.optimizer,
            batches: &self.batches,
            drawing: &self.drawing,
        };
        let mut launches = parts.launches(&self.plans[plan], count)?;
        tiles::replace(&mut launches, &self.rules());
        prepare(&mut self.products, &self.machine, &self.shares, &launches)?;
        self.machine.wait()?;
        Ok(launches)
    }

    /// One graph of `count` updates by one plan.
    fn capture(&mut self, plan: usize, count: u64) -> Result<CudaGraph> {
        let launches = self.launches(plan, count)?;
        self.graph(&launches)
    }

    /// A list whose products were prepared, as one graph.
    pub(super) fn graph(&self, launches: &[Launch]) -> Result<CudaGraph> {
        let moves = self.places.moves();
        CudaGraph::capture(&self.machine, &self.shares, &self.products, (launches, &moves))
    }

    fn rules(&self) -> Rules {
        Rules { precision: self.products.precision, replicas: self.shares[0].replicas }
    }

    /// Runs a list once, one launch after the other.
    fn run(&mut self, mut launches: Vec<Launch>) -> Result<()> {
        tiles::replace(&mut launches, &self.rules());
        prepare(&mut self.products, &self.machine, &self.shares, &launches)?;
        launches.iter().try_for_each(|launch| self.issue(launch))
    }

    /// Queues one launch for all replicas.
    pub(super) fn issue(&self, launch: &Launch) -> Result<()> {
        self.shares.iter().try_for_each(|share| issue(&self.machine, share, &self.products, launch))
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
    shares: &[Share],
    launches: &[Launch],
) -> Result<()> {
    for launch in launches {
        if let Work::Product(product) = &launch.work {
            shares.iter().try_for_each(|share| products.prepare(machine, share, product))?;
        }
    }
    Ok(())
}

/// The sources of all kernels of a program, each once.
fn sources(program: &Program<f32>) -> Result<Vec<&'static str>> {
    let mut sources = vec![sampler::SOURCE, optimizer::SOURCE, tiles::SOURCE];
    for node in 0..program.nodes.len() {
        let source = kernels(program, node)?.source();
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    Ok(sources)
}

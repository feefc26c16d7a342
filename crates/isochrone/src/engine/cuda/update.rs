//! The launches of whole updates: the batch is drawn, every active pass runs, its arenas move.

use super::layout::DeviceLayout;
use super::optimizer::{self, Optimizer, OptimizerPlaces};
use super::sampler::{Batches, DeviceSampler};
use crate::engine::launches::{Buffer, Launch, Of};
use crate::engine::plan::UpdatePlan;
use crate::engine::{ArenaId, Program};
use crate::error::Result;

/// What belongs to the draw of a batch, and to the steps of the parameters.
const DRAW: Of = ("sample and load", "");
const ADAM: Of = ("adam", "");

/// What updates are made of.
pub(super) struct UpdateParts<'a> {
    pub program: &'a Program<f32>,
    pub layout: &'a DeviceLayout,
    pub places: &'a OptimizerPlaces,
    pub optimizer: &'a Optimizer,
    pub batches: &'a Batches,
    pub drawing: &'a DeviceSampler,
}

impl UpdateParts<'_> {
    /// The launches of `count` updates by one plan.
    ///
    /// # Errors
    /// A matrix is too large for its kernel.
    pub fn launches(&self, plan: &UpdatePlan, count: u64) -> Result<Vec<Launch>> {
        let (program, layout, places) = (self.program, self.layout, self.places);
        let arenas = &places.arenas;
        let losses = layout.losses(program);
        let mut launches = Vec::new();
        for ahead in 0..count {
            let first = launches.len();
            launches.extend(self.drawing.launches(self.batches, places.clock, ahead));
            Launch::belong(&mut launches[first..], DRAW);
            launches.push(Launch { of: ADAM, ..self.optimizer.begin(places, ahead) });
            layout.forward(program, arenas, plan, &mut launches)?;
            layout.active_backward(program, arenas, plan, &mut launches)?;
            let first = launches.len();
            launches.push(self.optimizer.check(places, &plan.active, &losses, ahead));
            self.optimizer.descend(places, &plan.active, &mut launches);
            for &(target, source, rate) in &program.followers {
                launches.push(optimizer::follow(&arenas[target.0], &arenas[source.0], rate));
            }
            Launch::belong(&mut launches[first..], ADAM);
        }
        launches.push(Launch { of: ADAM, ..optimizer::advance(places, count) });
        Ok(launches)
    }
}

/// What stands in a replica's memory before its first update: places and words.
pub(super) fn first_words(
    program: &Program<f32>,
    layout: &DeviceLayout,
    places: &OptimizerPlaces,
    seed: u64,
) -> Vec<(Buffer, Vec<u32>)> {
    // The seed, the step and the recording.
    let mut words = vec![(places.clock, vec![seed as u32, (seed >> 32) as u32, 0, 0, 0])];
    let initial = |arena: ArenaId| program.parameters.initial::<f32>(arena, seed);
    let mut arenas: Vec<Vec<f32>> = program.parameters.arenas().map(initial).collect();
    for &(target, source, _) in &program.followers {
        arenas[target.0] = arenas[source.0].clone();
    }
    for (places, values) in places.arenas.iter().zip(&arenas) {
        let bits = places.scattered(values).iter().map(|x| x.to_bits()).collect();
        words.push((places.values, bits));
    }
    for pass in 0..program.passes.len() {
        words.push((layout.seed_gradient(program, pass), vec![1.0f32.to_bits()]));
    }
    words
}

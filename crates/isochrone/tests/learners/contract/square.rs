//! A small world whose runs take no time.

use isochrone::Result;
use isochrone::data::Dataset;
use isochrone::random::{Draws, Purpose, Stream};
use isochrone::simulate::{Environment, Recording, Task};

/// A square in which a step moves by a tenth of the action.
pub struct Square;

impl Square {
    pub fn record(lengths: &[usize], scale: f32) -> Dataset {
        let (mut states, mut actions) = (Vec::new(), Vec::new());
        for (index, &length) in lengths.iter().enumerate() {
            let mut draws = Stream::new(7, Purpose(900)).draws(0, index as u32);
            let mut state = [draws.between(-1.0, 1.0), draws.between(-1.0, 1.0)];
            for _ in 0..length {
                let action = [draws.between(-1.0, 1.0) as f32, draws.between(-1.0, 1.0) as f32];
                states.extend(state.map(|x| scale * x as f32));
                actions.extend(action);
                Self.step(&mut state, &action, &mut draws);
            }
        }
        Dataset::new(states, 2, Some((actions, 2)), lengths).unwrap()
    }
}

impl Environment for Square {
    fn state_size(&self) -> usize {
        2
    }
    fn action_size(&self) -> usize {
        2
    }
    fn discount(&self) -> f64 {
        0.9
    }
    fn horizon(&self) -> usize {
        6
    }
    fn radius(&self) -> f64 {
        0.3
    }
    fn step(&self, state: &mut [f64], action: &[f32], _: &mut Draws) {
        for (x, a) in state.iter_mut().zip(action) {
            *x = (*x + 0.1 * f64::from(*a)).clamp(-1.0, 1.0);
        }
    }
    fn observe(&self, state: &[f64], _: &mut Draws) -> Vec<f32> {
        state.iter().map(|&x| x as f32).collect()
    }
    fn generate(&self, _: u64) -> Result<Recording> {
        let dataset = Self::record(&[12; 24], 1.0);
        Ok(Recording { dataset, families: vec![0; 24], family_names: vec!["all".into()] })
    }
    fn tasks(&self, _: u64, count: usize, data: &Dataset) -> Result<Vec<Task>> {
        let task = |at: usize| Task {
            start: data.state(at).iter().map(|&x| f64::from(x)).collect(),
            goal: data.state(at + 5).to_vec(),
            switches: Some(0),
        };
        Ok((0..count).map(task).collect())
    }
}

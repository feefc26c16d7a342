//! Heads that cannot hold the exact distances of a world are told apart from those that can.
#![allow(dead_code)]

use std::sync::Arc;

use isochrone::Dataset;
use isochrone::data::{Lessons, Normalization, Scaling};
use isochrone::evaluate::spearman;
use isochrone::nn::{HeadShape, Network};

#[path = "../../examples/capacity.rs"]
mod example;

/// States of a ring that is walked one way: from i to j it takes j − i steps, modulo their number.
const STATES: usize = 12;

fn ring() -> (Dataset, Lessons) {
    // Twice round, so that every state is a start.
    let one_hot = |row: usize| (0..STATES).map(move |at| f32::from(u8::from(at == row % STATES)));
    let states = (0..2 * STATES).flat_map(one_hot).collect();
    let dataset = Dataset::new(states, STATES, None, &[2 * STATES]).unwrap();
    let owners = (0..2 * STATES as u32).map(|row| row % STATES as u32).collect();
    let steps = |at: usize| (STATES + at / STATES - at % STATES) % STATES;
    let nats = (0..STATES * STATES).map(|at| steps(at) as f32).collect();
    let columns = (0..STATES as u32).collect();
    (dataset, Lessons::new(owners, Arc::new(columns), Arc::new(nats)))
}

/// Spearman's ρ and the mean error in steps over all pairs, after a direct fit.
fn held(head: HeadShape) -> (f64, f64) {
    let (dataset, lessons) = ring();
    let plain = Normalization::fit(&dataset, Scaling::None).unwrap();
    let network = Network { hidden: vec![32], ..Network::default() };
    let fit = example::Fitted::new((&network, head), (&dataset, &plain), lessons.clone(), 2_000);
    let fitted = fit.unwrap();
    let states = &dataset.states()[..STATES * STATES];
    let (mut exact, mut learned) = (Vec::new(), Vec::new());
    for goal in 0..STATES {
        let nats = fitted.nats(states, dataset.state(goal));
        for (from, &nats) in nats.iter().enumerate() {
            exact.push(f64::from(lessons.nats(from as u32, goal as u32)));
            learned.push(f64::from(nats));
        }
    }
    let errors = exact.iter().zip(&learned).map(|(exact, learned)| (exact - learned).abs());
    (spearman(&exact, &learned).unwrap(), errors.sum::<f64>() / exact.len() as f64)
}

#[test]
fn a_head_that_cannot_hold_a_one_way_ring_is_told_from_one_that_can() {
    // At least as many maxima as there are points hold every quasimetric.
    let (order, error) = held(HeadShape::Max { latent: 64 });
    assert!(order > 0.95 && error < 0.5, "{order}, {error}");
    // One maximum per component climbs as much round the ring as it falls, so that a step back, which
    // should take all steps but one, costs no more than a step ahead on average. A few do little better.
    for components in [4, 8] {
        let (order, error) = held(HeadShape::Mrn { latent: 32, components });
        assert!(order < 0.75 && error > 1.5, "{components}: {order}, {error}");
    }
}

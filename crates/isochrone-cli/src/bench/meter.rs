//! Measures cases on one device, and gathers the answer.

use isochrone::Result;
use isochrone::engine::Hardware;
use serde::Serialize;

use super::case::{BenchData, Case};
use super::episodes::Acting;
use super::machine::{Machine, peak_memory};
use super::measure::{Found, Limits, Products, on_cpu, on_gpu};
use super::planner::Planning;
use super::solver::Solver;
use crate::progress::Counter;

/// Everything that is reported.
#[derive(Debug, Serialize)]
pub struct BenchReport {
    pub version: &'static str,
    pub machine: Machine,
    pub device: String,
    pub threads: usize,
    /// The rate of a 1024 × 1024 × 1024 product, before or after all cases; none on a GPU.
    pub peak_gflop_per_second: Option<f64>,
    pub cases: Vec<Found>,
    /// The exact solver; left out where learners are chosen.
    pub solver: Option<Solver>,
    /// The graph planner; left out where learners are chosen.
    pub planner: Option<Planning>,
    /// Episodes in worlds; left out where learners are chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub episodes: Vec<Acting>,
    /// The most memory the process held.
    pub peak_memory_bytes: Option<u64>,
}

/// A device with what is needed to measure on it.
pub struct Meter {
    pub hardware: Hardware,
    pub machine: Machine,
    pub products: Products,
    pub peak: Option<f64>,
    pub limits: Limits,
}

impl Meter {
    /// A meter of this device; the CPU's rate of products is measured first.
    pub fn new(hardware: Hardware, limits: Limits) -> Self {
        let machine = Machine::here(hardware.gpu.as_ref());
        let products = Products::new(hardware.threads.clone());
        let peak = hardware.gpu.is_none().then(|| products.peak_gflop_per_second());
        Self { hardware, machine, products, peak, limits }
    }

    pub fn measure(&mut self, case: &Case, data: &BenchData, counter: &Counter) -> Result<Found> {
        counter.note(case.title());
        let found = match &self.hardware.gpu {
            Some(gpu) => on_gpu(case, data, gpu, self.limits),
            None => on_cpu(case, data, &self.products, self.limits),
        };
        counter.advance(1);
        found
    }

    /// What was found of updates; the rest is left out.
    pub fn report(self, cases: Vec<Found>) -> BenchReport {
        let gpu = self.hardware.gpu.as_ref();
        let peak = self.peak.map(|before| before.max(self.products.peak_gflop_per_second()));
        BenchReport {
            version: env!("CARGO_PKG_VERSION"),
            device: gpu.map_or("cpu".to_owned(), |gpu| format!("cuda:{}", gpu.number)),
            threads: self.hardware.threads.count(),
            peak_gflop_per_second: peak,
            machine: self.machine,
            cases,
            solver: None,
            planner: None,
            episodes: Vec::new(),
            peak_memory_bytes: peak_memory(),
        }
    }
}

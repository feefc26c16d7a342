//! One case on one device: milliseconds of an update, where they go, and its matrix products alone.
//!
//! The products are the floor of an update: each is timed alone, warm, best of 20, with the same
//! split over threads, and the update is set against their sum.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use isochrone::algorithms::Config;
use isochrone::engine::{
    BrokenLoss, Clock, CudaExecutor, Executor, Gpu, Precision, Product, Threads,
};
use isochrone::{Error, Result};
use serde::Serialize;

use super::case::{BenchData, Case, Subject};

/// How long a case is measured.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Measured updates, or portions of updates, at most.
    pub most: usize,
    /// Seconds after which no further one begins.
    pub seconds: f64,
}

/// Measured updates, or portions of updates, at least.
const LEAST: usize = 3;
/// Updates that warm caches and buffers before any is measured.
const WARM_UP: u64 = 2;
/// Seconds of a portion of updates where single ones are not timed.
const PORTION: f64 = 0.1;
/// How often each product is timed.
const REPEATS: usize = 20;

/// What was found for one case.
#[derive(Debug, Clone, Serialize)]
pub struct Found {
    #[serde(flatten)]
    pub case: Case,
    /// Every choice of the learner.
    pub config: Config,
    /// Updates measured.
    pub updates: usize,
    /// Milliseconds of one update of all seeds.
    pub update_median_ms: f64,
    pub update_best_ms: f64,
    pub updates_per_second_per_seed: f64,
    /// Operation by operation, longest first: on the CPU the best update, empty with several seeds; on
    /// a GPU every launch alone, while in an update they run side by side.
    pub split: Vec<Share>,
    /// Milliseconds of the longest chain of launches that wait for each other, on a GPU.
    pub chain_ms: Option<f64>,
    /// Launches of one update, on a GPU.
    pub launches: Option<usize>,
    pub products: Floor,
    /// The best update over its products alone, of one seed on the CPU.
    pub ratio: Option<f64>,
    /// Bytes of all buffers, moments and gradients; on a GPU with the data.
    pub memory_bytes: usize,
}

/// Time of one operation in an update.
#[derive(Debug, Clone, Serialize)]
pub struct Share {
    pub operation: String,
    pub ms: f64,
}

/// The matrix products of one update of one seed.
#[derive(Debug, Clone, Serialize)]
pub struct Floor {
    pub count: usize,
    pub gflop: f64,
    /// Rows, summed over, columns, and how many there are.
    pub shapes: Vec<[usize; 4]>,
    /// All of them one after the other, each timed alone; none on a GPU.
    pub ms: Option<f64>,
    pub gflop_per_second: Option<f64>,
}

/// Times products alone.
pub struct Products {
    threads: Threads,
}

impl Products {
    pub fn new(threads: Threads) -> Self {
        Self { threads }
    }

    /// The rate of a 1024 × 1024 × 1024 product.
    pub fn peak_gflop_per_second(&self) -> f64 {
        let cube = Product { m: 1024, k: 1024, n: 1024 };
        flop(&cube) / self.seconds(&[cube]) / 1e9
    }

    /// The sum of the best times, each shape timed once. Nothing is kept for the next case: where the
    /// machine's speed changes, an update stands beside products of the same seconds.
    fn seconds(&self, products: &[Product]) -> f64 {
        let mut known: HashMap<[usize; 3], f64> = HashMap::new();
        let mut one = |product: &Product| {
            let key = [product.m, product.k, product.n];
            let time = || self.threads.enter(|| product.best_seconds(&self.threads, REPEATS));
            *known.entry(key).or_insert_with(time)
        };
        products.iter().map(&mut one).sum()
    }
}

fn flop(&Product { m, k, n }: &Product) -> f64 {
    2.0 * (m * k * n) as f64
}

impl Floor {
    fn new(products: &[Product], alone: Option<&Products>) -> Self {
        let gflop = products.iter().map(flop).sum::<f64>() / 1e9;
        let mut shapes: Vec<[usize; 4]> = Vec::new();
        for &Product { m, k, n } in products {
            match shapes.iter_mut().find(|shape| shape[..3] == [m, k, n]) {
                Some(shape) => shape[3] += 1,
                None => shapes.push([m, k, n, 1]),
            }
        }
        let seconds = alone.map(|alone| alone.seconds(products));
        Self {
            count: products.len(),
            gflop,
            shapes,
            ms: seconds.map(|seconds| 1e3 * seconds),
            gflop_per_second: seconds.map(|seconds| gflop / seconds),
        }
    }
}

/// Milliseconds of updates.
struct Times {
    median: f64,
    best: f64,
    updates: usize,
}

impl Times {
    fn new(mut all: Vec<f64>, updates: usize) -> Self {
        all.sort_unstable_by(f64::total_cmp);
        Self { median: all[all.len() / 2], best: all[0], updates }
    }
}

fn found(subject: Subject<'_>, case: &Case, times: &Times, products: Floor) -> Found {
    let ratio = products.ms.filter(|_| case.seeds == 1).map(|ms| times.best / ms);
    Found {
        case: case.clone(),
        config: subject.config,
        updates: times.updates,
        update_median_ms: times.median,
        update_best_ms: times.best,
        updates_per_second_per_seed: 1e3 / times.median,
        split: Vec::new(),
        chain_ms: None,
        launches: None,
        products,
        ratio,
        memory_bytes: 0,
    }
}

/// Measures a case on the CPU.
///
/// # Errors
/// Sizes that do not fit, threads that cannot be started, a loss that is not finite.
pub fn on_cpu(case: &Case, data: &BenchData, alone: &Products, limits: Limits) -> Result<Found> {
    let (subject, threads) = (Subject::new(case, data)?, alone.threads.clone());
    let mut replicas = Replica::all(&subject, &threads, case)?;
    let (times, split) = match &mut replicas[..] {
        [one] => threads.enter(|| singly(one, limits))?,
        several => (portions(limits, |count| together(several, &threads, count))?, Vec::new()),
    };
    let memory_bytes = replicas.iter().map(|replica| replica.executor.bytes()).sum();
    let products = replicas[0].executor.products(0);
    let floor = Floor::new(&products, Some(alone));
    Ok(Found { split, memory_bytes, ..found(subject, case, &times, floor) })
}

/// One seed in training on the CPU.
struct Replica<'d> {
    executor: Executor<f32>,
    sampler: isochrone::data::sampler::Sampler<'d>,
    batch: isochrone::data::sampler::Batch,
    seed: u64,
    step: u64,
}

impl<'d> Replica<'d> {
    /// As `isochrone train --seeds` places them: a pool for each that runs at the same time.
    fn all(subject: &Subject<'d>, threads: &Threads, case: &Case) -> Result<Vec<Self>> {
        let at_once = case.seeds.min(threads.count());
        let pools = match at_once {
            1 => vec![threads.clone()],
            _ => (0..at_once)
                .map(|_| Threads::new(threads.count() / at_once))
                .collect::<Result<_>>()?,
        };
        let one = |seed: usize| {
            let sampler = subject.sampler();
            Self {
                executor: Executor::new(
                    subject.program(),
                    pools[seed % at_once].clone(),
                    seed as u64,
                ),
                batch: sampler.batch(case.batch),
                sampler,
                seed: seed as u64,
                step: 0,
            }
        };
        Ok((0..case.seeds).map(one).collect())
    }

    fn update(&mut self) -> Result<()> {
        self.executor.update_on(&self.sampler, &mut self.batch, (self.seed, self.step))?;
        if let Some((pass, value)) = self.executor.broken_loss(self.step) {
            let pass = pass.to_owned();
            return Err(diverged(BrokenLoss { step: self.step, pass, value }));
        }
        self.step += 1;
        Ok(())
    }
}

fn diverged(BrokenLoss { step, pass, value }: BrokenLoss) -> Error {
    Error::Diverged { step, metric: format!("training/{pass}/loss"), value }
}

/// Updates of one seed, each timed, and the split of the best.
fn singly(replica: &mut Replica<'_>, limits: Limits) -> Result<(Times, Vec<Share>)> {
    for _ in 0..WARM_UP {
        replica.update()?;
    }
    let (mut times, mut split) = (Vec::new(), Vec::new());
    let begin = Instant::now();
    while goes_on(times.len(), begin, limits) {
        replica.executor.start_clock();
        let since = Instant::now();
        replica.update()?;
        let time = milliseconds(since.elapsed());
        if times.iter().all(|&other| time < other) {
            split = shares(replica.executor.clock(), Some(time));
        }
        times.push(time);
    }
    let updates = times.len();
    Ok((Times::new(times, updates), split))
}

/// So many updates of every seed, those of one pool one after the other.
fn together(replicas: &mut [Replica<'_>], threads: &Threads, count: u64) -> Result<Duration> {
    let at_once = replicas.len().min(threads.count());
    let mut places: Vec<Vec<&mut Replica<'_>>> = (0..at_once).map(|_| Vec::new()).collect();
    for (seed, replica) in replicas.iter_mut().enumerate() {
        places[seed % at_once].push(replica);
    }
    let work = |place: Vec<&mut Replica<'_>>| {
        let pool = place[0].executor.threads().clone();
        pool.enter(move || {
            place.into_iter().try_for_each(|replica| (0..count).try_for_each(|_| replica.update()))
        })
    };
    let since = Instant::now();
    let ended: Vec<Result<()>> = std::thread::scope(|scope| {
        let running: Vec<_> = places.into_iter().map(|place| scope.spawn(|| work(place))).collect();
        running
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    ended.into_iter().collect::<Result<()>>()?;
    Ok(since.elapsed())
}

/// Measures a case on a GPU.
///
/// # Errors
/// The GPU does not work or has no room, or a loss that is not finite.
pub fn on_gpu(case: &Case, data: &BenchData, gpu: &Gpu, limits: Limits) -> Result<Found> {
    let subject = Subject::new(case, data)?;
    let seeds: Vec<u64> = (0..case.seeds as u64).collect();
    let (device, sampler) = ((gpu, Precision::Tf32), subject.sampler());
    let mut executor =
        CudaExecutor::new(subject.program().into(), device, (&sampler, None), &seeds)?;
    let mut step = 0;
    let times = portions(limits, |count| {
        let since = Instant::now();
        executor.updates(step, count)?;
        executor.wait()?;
        step += count;
        Ok(since.elapsed())
    })?;
    for replica in 0..case.seeds {
        executor.broken_loss(replica)?.map_or(Ok(()), |broken| Err(diverged(broken)))?;
    }
    let products = Executor::new(subject.program(), Threads::default(), 0).products(0);
    let (floor, memory_bytes) = (Floor::new(&products, None), executor.bytes());
    let parts = executor.dissect(step)?;
    Ok(Found {
        split: shares(Some(&parts.clock), None),
        chain_ms: Some(milliseconds(parts.chain)),
        launches: Some(parts.launches),
        memory_bytes,
        ..found(subject, case, &times, floor)
    })
}

/// Times portions of updates that are long enough for the clock.
fn portions(limits: Limits, mut portion: impl FnMut(u64) -> Result<Duration>) -> Result<Times> {
    let together = CudaExecutor::TOGETHER;
    // The first of each kind makes a graph.
    portion(WARM_UP)?;
    portion(together)?;
    let one = portion(together)?.as_secs_f64() / together as f64;
    let count = ((PORTION / one) as u64).next_multiple_of(together).max(together);
    let (mut times, begin) = (Vec::new(), Instant::now());
    while goes_on(times.len(), begin, limits) {
        times.push(milliseconds(portion(count)?) / count as f64);
    }
    let updates = times.len() * count as usize;
    Ok(Times::new(times, updates))
}

fn goes_on(done: usize, begin: Instant, limits: Limits) -> bool {
    done < LEAST || (done < limits.most && begin.elapsed().as_secs_f64() < limits.seconds)
}

/// Operations with their times, longest first. Of an update that took `total` milliseconds, what is
/// not timed is its input.
fn shares(clock: Option<&Clock>, total: Option<f64>) -> Vec<Share> {
    let share = |(name, half, time): &(&str, &str, Duration)| Share {
        operation: format!("{name} {half}").trim_end().to_owned(),
        ms: milliseconds(*time),
    };
    let entries = clock.iter().flat_map(|clock| &clock.entries);
    let mut shares: Vec<Share> = entries.map(share).collect();
    if let Some(total) = total {
        let timed: f64 = shares.iter().map(|share| share.ms).sum();
        shares.push(Share { operation: "sample and load".into(), ms: total - timed });
    }
    shares.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    shares
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
pub mod tests {
    use super::*;

    const BRIEF: Limits = Limits { most: 4, seconds: 1.0 };

    /// A small case, measured on the CPU.
    pub fn measured(learner: &str, seeds: usize) -> Found {
        let case = Case {
            learner: learner.to_owned(),
            shape: "2x16".to_owned(),
            state: 3,
            action: 2,
            hidden: vec![16, 16],
            norm: false,
            latent: 8,
            batch: 32,
            rows: 500,
            seeds,
        };
        let data = BenchData::new(&case).unwrap();
        let threads = Threads::new(seeds).unwrap();
        on_cpu(&case, &data, &Products::new(threads), BRIEF).unwrap()
    }

    #[test]
    fn the_split_sums_to_the_best_update_and_products_are_those_of_the_layers() {
        let found = measured("cmd1", 1);
        let sum: f64 = found.split.iter().map(|share| share.ms).sum();
        assert!((sum - found.update_best_ms).abs() < 1e-9, "{found:?}");
        assert!(found.update_best_ms <= found.update_median_ms);
        let alone = found.products.ms.unwrap();
        assert!((found.ratio.unwrap() * alone - found.update_best_ms).abs() < 1e-9);
        // Layers forward: encoder of starts, ends, policy ends and policy starts, potential, policy.
        let encoder = 5 * 16 + 16 * 16 + 16 * 8;
        let (potential, policy) = (3 * 16 + 16 * 16 + 16, 6 * 16 + 16 * 16 + 16 * 2);
        // Backward: weights of every layer, inputs of all but the first; the policy's gradient also
        // passes through the encoder down to the action.
        let twice = 2 * (2 * encoder + potential + policy) - (2 * 5 + 3 + 6) * 16;
        let flop = 2.0 * 32.0 * (4 * encoder + potential + policy + twice + encoder) as f64;
        assert!((found.products.gflop * 1e9 - flop).abs() < 1.0, "{:?} {flop}", found.products);
        let listed: usize =
            found.products.shapes.iter().map(|[m, k, n, count]| 2 * m * k * n * count).sum();
        assert_eq!(listed as f64, flop);
    }

    #[test]
    fn several_seeds_are_measured_at_once_and_hold_as_much_memory_each() {
        let (one, three) = (measured("gcbc", 1), measured("gcbc", 3));
        assert_eq!(three.memory_bytes, 3 * one.memory_bytes);
        assert!(three.split.is_empty() && three.ratio.is_none() && three.updates >= 3 * 8);
        let expected = 1e3 / three.update_median_ms;
        assert!((three.updates_per_second_per_seed - expected).abs() < 1e-9);
    }
}

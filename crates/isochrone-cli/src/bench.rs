//! `isochrone bench`: how long one update takes on this machine, and what its time goes to.
//!
//! The matrix products of an update are the floor: each is timed alone, warm, best of 20, with the
//! same split over threads, and the update is set against their sum.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use isochrone::Result;
use isochrone::algorithms::Config;
use isochrone::data::{Dataset, Normalization, Scaling};
use isochrone::engine::{Product, Side, Threads, multiply};
use isochrone::random::{Purpose, Stream};
use isochrone::run::RunConfig;
use isochrone::train::{Prepared, Settings, Trainer};
use serde::Serialize;

use crate::output::{Bars, say, say_json};
use crate::train::thread_count;

/// Measure how long an update takes on this machine, beside its matrix products alone
#[derive(Debug, clap::Args)]
pub struct Bench {
    /// Threads to use [default: all cores]
    #[arg(long, short)]
    threads: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Measure fewer updates: a rough answer in seconds
    #[arg(long)]
    quick: bool,
}

/// What is measured: an algorithm at one size of data and networks.
#[derive(Debug, Clone, Serialize)]
struct Case {
    algorithm: &'static str,
    state: usize,
    action: usize,
    hidden: Vec<usize>,
    latent: usize,
    batch: usize,
    /// Updates measured.
    updates: usize,
}

/// Time of one operation in an update.
#[derive(Debug, Clone, Serialize)]
struct Share {
    operation: String,
    ms: f64,
}

/// What was found for one case.
#[derive(Debug, Clone, Serialize)]
struct Found {
    #[serde(flatten)]
    case: Case,
    update_median_ms: f64,
    update_best_ms: f64,
    updates_per_second: f64,
    /// The best update, operation by operation, longest first.
    split: Vec<Share>,
    products: usize,
    products_gflop: f64,
    products_ms: f64,
    products_gflop_per_second: f64,
    /// The best update over its products.
    ratio: f64,
    /// What the operations that call the products add to them: biases, activations, sums, cleared
    /// gradients, cold caches.
    around_products_ms: f64,
    executor_bytes: usize,
}

/// The whole answer.
#[derive(Debug, Serialize)]
struct Report {
    cpu: String,
    threads: usize,
    /// Tasks that ran or waited on this machine in the minute before; none where it is not told.
    /// Where they outnumber the cores, long updates are interrupted and ratios come out too large.
    load: Option<f64>,
    /// The rate of a 1024 × 1024 × 1024 product.
    peak_gflop_per_second: f64,
    cases: Vec<Found>,
    /// The most memory the process held; none where the system does not tell.
    peak_memory_bytes: Option<u64>,
}

/// The learners measured: each form of an update once.
const MEASURED: [&str; 5] = ["cmd1", "cmd2", "tmd", "qrl", "gciql"];
/// How often each product is timed.
const REPEATS: usize = 20;
/// Updates that warm caches and buffers before any is measured.
const WARM_UP: usize = 3;
const DISCOUNT: f64 = 0.99;

/// Measures and prints.
///
/// # Errors
/// No threads asked for, or an output that cannot be written.
pub fn run(arguments: &Bench) -> Result<()> {
    let threads = Threads::new(thread_count(arguments.threads)?)?;
    let load = load();
    let (large, small) = if arguments.quick { (3, 30) } else { (20, 300) };
    let cases = cases(large, small);
    let updates: usize = cases.iter().map(|case| case.updates).sum();
    let bar = Bars::new().bar("bench", updates as u64);
    let cube = Product { m: 1024, k: 1024, n: 1024 };
    let peak = threads.enter(|| flop(&cube) / alone(&threads, &cube));
    let found: Result<Vec<Found>> =
        cases.into_iter().map(|case| measure(case, &threads, &bar)).collect();
    bar.finish_and_clear();
    let report = Report {
        cpu: cpu(),
        threads: threads.count(),
        load,
        peak_gflop_per_second: peak / 1e9,
        cases: found?,
        peak_memory_bytes: peak_memory(),
    };
    if arguments.json { say_json(&report) } else { say(&table(&report)) }
}

fn cases(large: usize, small: usize) -> Vec<Case> {
    let shape = |algorithm, (state, action), hidden: &[usize], latent, updates| Case {
        algorithm,
        state,
        action,
        hidden: hidden.to_vec(),
        latent,
        batch: 256,
        updates,
    };
    let of = |algorithm| {
        [
            shape(algorithm, (29, 8), &[512; 4], 512, large),
            shape(algorithm, (2, 2), &[128; 2], 32, small),
        ]
    };
    MEASURED.into_iter().flat_map(of).collect()
}

impl Case {
    /// DDPG+BC with one set of goals in both policy terms; everything else as configured.
    fn config(&self) -> Result<Config> {
        let Self { algorithm, latent, hidden, .. } = self;
        let mut settings = vec![
            format!("algorithm.name={algorithm}"),
            format!("algorithm.network.hidden={hidden:?}"),
            format!("algorithm.policy.network.hidden={hidden:?}"),
            "algorithm.extraction.name=ddpg-bc".to_owned(),
        ];
        match *algorithm {
            "cmd2" => settings.push(format!("algorithm.latent={latent}")),
            "qrl" => settings.push(format!("algorithm.head.latent={latent}")),
            _ => {}
        }
        if algorithm.starts_with("cmd") {
            settings.push(format!("algorithm.head={{kind='mrn',latent={latent}}}"));
        }
        if *algorithm == "tmd" {
            settings.push(format!("algorithm.head={{kind='mrn',latent={latent},components=8}}"));
        }
        Ok(RunConfig::parse("", &settings)?.algorithm)
    }

    /// Random trajectories of a hundred rows.
    fn data(&self) -> Result<Prepared> {
        const ROWS: usize = 10_000;
        let mut draws = Stream::new(0, Purpose(0)).draws(0, 0);
        let mut numbers = |width: usize| -> Vec<f32> {
            (0..ROWS * width).map(|_| draws.normal().clamp(-1.0, 1.0) as f32).collect()
        };
        let (states, actions) = (numbers(self.state), numbers(self.action));
        let lengths = [100; ROWS / 100];
        let training = Dataset::new(states, self.state, Some((actions, self.action)), &lengths)?;
        let normalization = Normalization::fit(&training, Scaling::None)?;
        Ok(Prepared { training, validation: None, normalization, radius: None })
    }

    fn title(&self) -> String {
        format!("{} {}", self.algorithm, self.layers())
    }

    fn layers(&self) -> String {
        format!("{} × {}", self.hidden.len(), self.hidden.first().unwrap_or(&0))
    }
}

fn measure(case: Case, threads: &Threads, bar: &ProgressBar) -> Result<Found> {
    bar.set_message(case.title());
    let (config, data) = (case.config()?, case.data()?);
    let settings = Settings { batch_size: case.batch, ..Settings::default() };
    let mut trainer = Trainer::new(&config, &settings, &data, DISCOUNT, 0, threads.clone())?;
    threads.enter(move || {
        let (mut times, mut split) = (Vec::with_capacity(case.updates), Vec::new());
        for count in 0..WARM_UP + case.updates {
            if let Some(executor) = trainer.executor() {
                executor.start_clock();
            }
            let since = Instant::now();
            trainer.update()?;
            let time = since.elapsed();
            if count >= WARM_UP {
                if times.iter().all(|&other| time < other) {
                    split = shares(&mut trainer, time);
                }
                times.push(time);
                bar.inc(1);
            }
        }
        let executor = trainer.executor();
        let (products, executor_bytes) =
            executor.map_or_else(Default::default, |cpu| (cpu.products(0), cpu.bytes()));
        let seconds: f64 = products.iter().map(|product| alone(threads, product)).sum();
        let work: f64 = products.iter().map(flop).sum();
        times.sort_unstable();
        let (median, best) = (ms(times[times.len() / 2]), ms(times[0]));
        Ok(Found {
            update_median_ms: median,
            update_best_ms: best,
            updates_per_second: 1e3 / median,
            products: products.len(),
            products_gflop: work / 1e9,
            products_ms: seconds * 1e3,
            products_gflop_per_second: work / seconds / 1e9,
            ratio: best / (seconds * 1e3),
            around_products_ms: multiplying(&split) - seconds * 1e3,
            split,
            executor_bytes,
            case,
        })
    })
}

/// Where an update that took `total` went, longest first; what the executor does not time is the
/// update's input.
fn shares(trainer: &mut Trainer<'_>, total: Duration) -> Vec<Share> {
    let clock = trainer.executor().and_then(|cpu| cpu.clock().cloned()).unwrap_or_default();
    let mut shares: Vec<Share> = clock
        .entries
        .iter()
        .map(|(name, half, time)| Share {
            operation: if *half == "descend" { (*name).into() } else { format!("{name} {half}") },
            ms: ms(*time),
        })
        .collect();
    let timed: f64 = shares.iter().map(|share| share.ms).sum();
    shares.push(Share { operation: "sample and load".into(), ms: ms(total) - timed });
    shares.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    shares
}

/// Milliseconds of the operations that call matrix products.
fn multiplying(split: &[Share]) -> f64 {
    let calls = |share: &&Share| {
        ["linear ", "inner_products "].iter().any(|name| share.operation.starts_with(name))
    };
    split.iter().filter(calls).map(|share| share.ms).sum()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn flop(&Product { m, k, n }: &Product) -> f64 {
    2.0 * (m * k * n) as f64
}

/// The best time in seconds of one product, warm.
fn alone(threads: &Threads, shape: &Product) -> f64 {
    let (left, right) = (vec![0.5f32; shape.m * shape.k], vec![0.5f32; shape.k * shape.n]);
    let mut out = vec![0.0; shape.m * shape.n];
    let once = |_| {
        let since = Instant::now();
        let (left, right) = (Side::Plain(&left[..]), Side::Plain(&right[..]));
        multiply(threads, *shape, left, right, 0.0, &mut out, |_, _| {});
        since.elapsed().as_secs_f64()
    };
    (0..REPEATS).map(once).fold(f64::INFINITY, f64::min)
}

/// The processor's name, where the system tells it.
fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    field(&text, "model name").unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH))
}

/// The load of the last minute, where the system tells it.
fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The most memory this process has held, where the system tells it.
fn peak_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let kibibytes: u64 = field(&text, "VmHWM")?.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// What stands after `name` and a colon.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// One column a case, one line a number; operations below a hundredth of every update are left out.
fn table(report: &Report) -> String {
    let cases = &report.cases;
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    let mut line = |name: &str, cell: &dyn Fn(&Found) -> String| {
        lines.push((name.to_owned(), cases.iter().map(cell).collect()));
    };
    line("", &|found| found.case.title());
    line("state + action", &|found| format!("{} + {}", found.case.state, found.case.action));
    line("head (maximum + norm)", &|found| {
        format!("{} + {}", found.case.latent / 2, found.case.latent / 2)
    });
    line("batch", &|found| found.case.batch.to_string());
    line("update, median, ms", &|found| format!("{:.3}", found.update_median_ms));
    line("update, best, ms", &|found| format!("{:.3}", found.update_best_ms));
    line("updates per second", &|found| format!("{:.1}", found.updates_per_second));
    for operation in operations(cases) {
        line(&format!("  {operation}, ms"), &|found| {
            let share = found.split.iter().find(|share| share.operation == operation);
            share.map_or_else(|| "–".to_owned(), |share| format!("{:.3}", share.ms))
        });
    }
    line("products alone", &|found| found.products.to_string());
    line("products alone, GFLOP", &|found| format!("{:.3}", found.products_gflop));
    line("products alone, ms", &|found| format!("{:.3}", found.products_ms));
    line("products alone, GFLOP/s", &|found| format!("{:.1}", found.products_gflop_per_second));
    line("as a share of 1024³", &|found| {
        format!("{:.0} %", 100.0 * found.products_gflop_per_second / report.peak_gflop_per_second)
    });
    line("best update / products", &|found| format!("{:.2}", found.ratio));
    line("the rest, ms", &|found| format!("{:.3}", found.update_best_ms - found.products_ms));
    line("  of it around products, ms", &|found| format!("{:.3}", found.around_products_ms));
    line("  of it other operations, ms", &|found| {
        format!("{:.3}", found.update_best_ms - found.products_ms - found.around_products_ms)
    });
    line("executor's memory", &|found| mebibytes(found.executor_bytes as u64));
    let memory = report.peak_memory_bytes.map_or_else(|| "not told".to_owned(), mebibytes);
    let load = report.load.map_or_else(|| "not told".to_owned(), |load| format!("{load:.1}"));
    format!(
        "{}, threads: {}; load before: {load}; a 1024³ product: {:.1} GFLOP/s; peak memory: \
         {memory}\n{}",
        report.cpu,
        report.threads,
        report.peak_gflop_per_second,
        aligned(&lines)
    )
}

/// The operations that take a hundredth of an update somewhere, the longest of the first case first.
fn operations(cases: &[Found]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for found in cases {
        for share in &found.split {
            let matters = share.ms >= 0.01 * found.update_median_ms;
            if matters && !names.contains(&share.operation) {
                names.push(share.operation.clone());
            }
        }
    }
    names
}

fn aligned(lines: &[(String, Vec<String>)]) -> String {
    let width = |text: &str| text.chars().count();
    let first = lines.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
    let cells = lines.iter().flat_map(|(_, cells)| cells);
    let each = cells.map(|cell| width(cell)).max().unwrap_or(0);
    let text = |(name, cells): &(String, Vec<String>)| {
        let cells: String = cells.iter().map(|cell| format!("  {cell:>each$}")).collect();
        format!("{name:first$}{cells}")
    };
    lines.iter().map(text).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(algorithm: &'static str) -> Found {
        let case = Case {
            algorithm,
            state: 3,
            action: 2,
            hidden: vec![16, 16],
            latent: 8,
            batch: 32,
            updates: 4,
        };
        measure(case, &Threads::default(), &ProgressBar::hidden()).unwrap()
    }

    #[test]
    fn the_split_sums_to_the_best_update_and_products_are_those_of_the_layers() {
        let found = measured("cmd1");
        let sum: f64 = found.split.iter().map(|share| share.ms).sum();
        assert!((sum - found.update_best_ms).abs() < 1e-9, "{found:?}");
        assert!(found.update_best_ms <= found.update_median_ms);
        assert!((found.ratio * found.products_ms - found.update_best_ms).abs() < 1e-9);
        // Layers forward: encoder of starts, ends, policy ends and policy starts, potential, policy.
        let encoder = 5 * 16 + 16 * 16 + 16 * 8;
        let (potential, policy) = (3 * 16 + 16 * 16 + 16, 6 * 16 + 16 * 16 + 16 * 2);
        // Backward: weights of every layer, inputs of all but the first; the policy's gradient also
        // passes through the encoder down to the action.
        let twice = 2 * (2 * encoder + potential + policy) - (2 * 5 + 3 + 6) * 16;
        let flop = 2.0 * 32.0 * (4 * encoder + potential + policy + twice + encoder) as f64;
        assert!((found.products_gflop * 1e9 - flop).abs() < 1.0, "{} {flop}", found.products_gflop);
    }

    #[test]
    fn the_table_and_the_json_have_the_same_numbers() {
        let report = Report {
            cpu: "a processor".into(),
            threads: 1,
            load: Some(0.2),
            peak_gflop_per_second: 50.0,
            cases: vec![measured("cmd1"), measured("cmd2")],
            peak_memory_bytes: Some(3 << 20),
        };
        let text = table(&report);
        assert!(
            text.starts_with("a processor, threads: 1; load before: 0.2; a 1024³ product: 50.0")
        );
        assert!(text.contains("peak memory: 3.0 MiB"), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        for case in json["cases"].as_array().unwrap() {
            for key in ["update_median_ms", "update_best_ms", "products_ms"] {
                let number = format!("{:.3}", case[key].as_f64().unwrap());
                assert!(text.contains(&number), "{key} {number}\n{text}");
            }
            assert_eq!(case["hidden"][1], 16);
        }
    }

    #[test]
    fn fields_of_the_system_are_found_by_name() {
        let text = "processor\t: 0\nmodel name\t: One: Two\nVmHWM:\t  120 kB\n";
        assert_eq!(field(text, "model name").as_deref(), Some("One: Two"));
        assert_eq!(field(text, "VmHWM").as_deref(), Some("120 kB"));
        assert_eq!(field(text, "model"), None);
    }
}
